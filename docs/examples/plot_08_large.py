"""
Larger than memory
==================

A matrix on disk is read block by block; the result is written the same way.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import zarr

import lrmc

folder = Path(tempfile.mkdtemp())
problem = lrmc.synthetic.problem(n=800, rank=4, alpha=0.1, p=0.6, form="dense")
store = zarr.create_array(
    folder / "Y.zarr", shape=(800, 800), chunks=(100, 800), dtype="float64"
)
store[:] = problem.Y

# %%
# Arrays of more than a quarter of the memory are read in blocks by themselves; here it is asked for.
from lrmc.complete import process

done = process(folder / "Y.zarr", folder / "X.zarr", rank=4, memory="8MB")
print(done.result)
print(f"{done.passes:.0f} passes over the data")

# %%
X = zarr.open_array(folder / "X.zarr", mode="r")
figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for ax, (title, part) in zip(
    axes,
    {"on disk": store[:150, :150], "completed": X[:150, :150]}.items(),
    strict=True,
):
    ax.imshow(part, vmin=-0.008, vmax=0.008, cmap="RdBu")
    ax.set(title=title, xticks=[], yticks=[])
