"""Cines in HDF5 (MATLAB 7.3 too), zarr and NIfTI. Nothing in a file is executed, and no other file
is read."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._extras import optional
from ..._memory import memory_there_is
from ...formats.variables import Unusable
from ...observations.stores import check_links, zarr_arrays
from ...weights import Array

HDF5 = (".h5", ".hdf5")
NIFTI = (".nii", ".nii.gz")
HEADER = 348  # bytes of NIfTI-1
TYPES = {  # of NIfTI-1, by their codes
    2: "u1",
    4: "i2",
    8: "i4",
    16: "f4",
    32: "c8",
    64: "f8",
    256: "i1",
    512: "u2",
    768: "u4",
    1792: "c16",
}
PARTS = (("real", "imag"), ("r", "i"))  # fields of complex numbers: MATLAB's, h5py's


def read_hdf5(
    path: Path,
    *,
    by_columns: bool = False,
) -> dict[str, Array]:
    """The numeric arrays of a file by name; MATLAB stores them `by_columns`, axes turned round."""
    found: dict[str, Array] = {}
    h5py = optional("h5py", "scale")

    def kept(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim >= 2 and "#refs#" not in name:
            _check_size(path, name, item.size * item.dtype.itemsize)
            values = _as_complex(item[()])
            if values.dtype.kind in "fiubc":
                found[name] = values.T if by_columns else values

    with h5py.File(path, "r") as file:
        check_links(path, file)
        file.visititems(kept)
    return found


def read_zarr(path: Path) -> dict[str, Array]:
    """The arrays of a store by name."""
    arrays = zarr_arrays(path)
    for name, array in arrays.items():
        size = math.prod(array.shape) * np.dtype(array.dtype).itemsize
        _check_size(path, name, size)
    return {name or "frames": np.asarray(array[...]) for name, array in arrays.items()}


def _as_complex(values: Array) -> Array:
    """Records of real and imaginary parts as complex numbers."""
    for real, imaginary in PARTS:
        if values.dtype.names == (real, imaginary):
            parts = values[real], values[imaginary]
            single = parts[0].dtype == np.float32
            out = np.empty(values.shape, np.complex64 if single else np.complex128)
            out.real, out.imag = parts
            return out
    return values


def _check_size(
    path: Path,
    name: str,
    size: float,
) -> None:
    if size > memory_there_is():
        raise Unusable(
            f"{path}: {name} takes {size:.0f} bytes, and this machine has {memory_there_is()}"
        )


# ---- NIfTI


def read_nifti(path: Path) -> Array:
    """The frames of a NIfTI-1 file, (time, height, width): width is its first axis."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
        return _nifti(path, file)  # type: ignore[arg-type]


def _nifti(path: Path, file: BinaryIO) -> Array:
    head = file.read(HEADER)
    if len(head) < HEADER or head[344:347] != b"n+1":
        raise Unusable(f"{path} is no NIfTI-1 file in one piece (.nii, .nii.gz)")
    order = "<" if struct.unpack("<i", head[:4])[0] == HEADER else ">"
    dimensions = struct.unpack(f"{order}8h", head[40:56])
    code = struct.unpack(f"{order}h", head[70:72])[0]
    offset, slope, intercept = struct.unpack(f"{order}3f", head[108:120])
    shape = [n for n in dimensions[1 : dimensions[0] + 1] if n != 1]
    if code not in TYPES or len(shape) != 3 or min(shape) < 1:
        raise Unusable(
            f"{path} has axes {dimensions[1 : dimensions[0] + 1]} and type {code}; numbers of"
            " width x height x time are wanted"
        )
    dtype = np.dtype(order + TYPES[code])
    size = math.prod(shape) * dtype.itemsize
    _check_size(path, "the image", size)
    file.read(max(0, int(offset) - HEADER))
    content = file.read(size)
    if len(content) < size:
        raise Unusable(f"{path} ends too early: copy it anew")
    values = np.frombuffer(content, dtype).reshape(shape[::-1])
    values = values.astype(dtype.newbyteorder("="))
    unscaled = slope == 0 or (slope == 1 and intercept == 0)
    return values if unscaled else values * np.float32(slope) + np.float32(intercept)
