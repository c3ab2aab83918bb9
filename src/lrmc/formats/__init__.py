"""What others made, looked at before it is used: npy, npz and mat files, SciPy's sparse
matrices.
"""
