"""Cines in files: npy, npz, mat, HDF5, zarr, NIfTI, DICOM, films and pictures. Nothing in a file is
executed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ..._extras import optional
from ..._scipy import io as scipy_io
from ...formats.arrays import read_npy
from ...formats.matlab import NewerFormatError
from ...formats.variables import Unusable, chosen_name, read_variables, reading
from ...weights import Array
from ..pictures import LUMA, pictures_in
from .films import FILMS, STACKS, read_film, read_pictures, read_stack
from .volumes import HDF5, NIFTI, read_hdf5, read_nifti, read_zarr

Dataset: TypeAlias = Any  # of pydicom, which need not be installed
ARRAYS = (".npy", ".npz", ".mat", *HDF5, ".zarr")
DICOM = (".dcm", ".dicom", ".ima")

Time = Literal["auto", "first", "last"]


@dataclass(frozen=True, eq=False)
class Cine:
    """Frames (time, height, width) from a file, and how others like them are written."""

    frames: Array
    # Of what is written: that of npy, npz and mat files; .npz for others.
    suffix: str
    name: str = "frames"  # of the variable, in npz and mat files
    time_last: bool = False

    def write(self, folder: Path, stem: str, frames: Array) -> Path:
        """Frames, or one, in single precision under the same name, with the axes in the same order."""
        kind = np.complex64 if np.iscomplexobj(frames) else np.float32
        path = folder / f"{stem}{self.suffix}"
        last = self.time_last and frames.ndim == 3
        values = np.moveaxis(frames, 0, -1) if last else frames
        values = np.ascontiguousarray(values, kind)
        if self.suffix == ".npy":
            np.save(path, values, allow_pickle=False)
        elif self.suffix == ".mat":
            scipy_io.savemat(path, {self.name: values}, do_compression=True)
        else:
            name = self.name.rpartition("/")[2]  # of a name in groups
            content: dict[str, Any] = {"frames" if name == "file" else name: values}
            np.savez_compressed(path, **content)
        return path


def read_cine(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    time: Time = "auto",
) -> Cine:
    """The cine in a file, or in a folder of DICOM files or pictures with one frame each.

    `name` is the variable in npz and mat files that hold several. `time` is the axis of the frames:
    "auto" is the last in mat files, as MATLAB has it, and the first in others. Colours become
    their luma. Complex numbers (IQ) stay so.
    """
    path = Path(path)
    if time not in ("auto", "first", "last"):
        raise ValueError(f"time={time!r}; one of auto, first, last is wanted")
    if not path.exists():
        raise FileNotFoundError(2, "there is no such file", str(path))
    if not path.is_dir() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    with reading(f"{path} could not be read, it may be damaged"):
        if path.suffix.lower() in ARRAYS:
            return _from_arrays(path, name, time)
        if path.is_dir():
            return Cine(_read_folder(path), ".npz")
        if path.name.lower().endswith(NIFTI):
            return Cine(read_nifti(path), ".npz")
        if path.suffix.lower() in DICOM or _is_dicom(path):
            return Cine(_read_dicom(path), ".npz")
        if path.suffix.lower() in FILMS:
            return Cine(read_film(path), ".npz")
        if path.suffix.lower() in STACKS:
            return Cine(read_stack(path), ".npz")
    raise ValueError(
        f"{path}: a cine in one of {' '.join(ARRAYS + NIFTI + DICOM + FILMS + STACKS)} is wanted"
    )


# ---- arrays


def _from_arrays(path: Path, name: str | None, time: Time) -> Cine:
    suffix = path.suffix.lower()
    content = _arrays(path, suffix)
    words = ("cines", "no array of frames x height x width")
    chosen = chosen_name(content, name, path, fitting=_cines(content), words=words)
    last = suffix == ".mat" if time == "auto" else time == "last"
    values = content[chosen]
    if values.ndim != 3:
        raise Unusable(
            f"{path}: {chosen} has shape {values.shape}; frames x height x width are"
            " wanted"
        )
    written = suffix if suffix in (".npy", ".npz", ".mat") else ".npz"
    return Cine(np.moveaxis(values, -1, 0) if last else values, written, chosen, last)


def _arrays(path: Path, suffix: str) -> dict[str, Array]:
    if suffix == ".npy":
        return {"frames": read_npy(path)}
    if suffix == ".zarr":
        return read_zarr(path)
    if suffix in HDF5:
        return read_hdf5(path)
    try:
        return _variables(path)
    except NewerFormatError:  # MATLAB 7.3
        return read_hdf5(path, by_columns=True)


def _variables(path: Path) -> dict[str, Array]:
    return {
        key: value
        for key, value in read_variables(path).items()
        if isinstance(value, np.ndarray)
    }


def _cines(content: Mapping[str, Array]) -> list[str]:
    """Arrays with three axes; or the only one there is, whatever it has."""
    if len(content) == 1:
        return list(content)
    return [
        key
        for key, value in content.items()
        if value.ndim == 3 and value.dtype.kind in "fiubc"
    ]


# ---- DICOM


def _is_dicom(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(132)[128:] == b"DICM"


def _read_folder(path: Path) -> Array:
    files = sorted(
        file
        for file in path.iterdir()
        if file.is_file() and not file.name.startswith(".")
    )
    files = [file for file in files if file.suffix.lower() in DICOM or _is_dicom(file)]
    if not files and (pictures := pictures_in(path)):
        return read_pictures(pictures)
    if not files:
        raise Unusable(
            f"{path} holds no DICOM files or pictures; a file, or a folder with one for"
            " each frame is wanted"
        )
    cines = [_read_dicom(file) for file in files]
    for file, cine in zip(files, cines):
        if cine.shape[1:] != cines[0].shape[1:]:
            sizes = [f"{c.shape[1]} x {c.shape[2]}" for c in (cines[0], cine)]
            raise Unusable(
                f"{files[0]} has frames of {sizes[0]} pixels and {file.name} of"
                f" {sizes[1]}: one size is wanted"
            )
    return np.concatenate(cines)


def _read_dicom(path: Path) -> Array:
    pydicom = optional("pydicom", "ultrasound")
    with warnings.catch_warnings():
        # Files that break a rule of the standard here and there are common.
        warnings.simplefilter("ignore")
        content = pydicom.dcmread(path)
        if "PixelData" not in content:
            raise Unusable(f"{path} has no pixels")
        try:
            # YBR becomes RGB.
            pixels = optional("pydicom.pixels", "ultrasound").pixel_array(content)
        except (RuntimeError, NotImplementedError, ImportError) as error:
            syntax = content.file_meta.TransferSyntaxUID
            if not syntax.is_compressed:
                raise
            text = (
                f"{path} is compressed ({syntax.name}), and no decoder for that is"
                " installed"
            )
            raise Unusable(
                f"{text}: pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg"
            ) from error
    return _grey(pixels, content, path)


def _grey(pixels: Array, content: Dataset, path: Path) -> Array:
    """Frames x height x width: brighter is more."""
    kind = str(content.get("PhotometricInterpretation", "MONOCHROME2"))
    if int(content.get("SamplesPerPixel", 1)) > 1:
        frames = pixels if pixels.ndim == 4 else pixels[None]
        # Whole grey levels, as the colours are: their rounding would look like noise.
        return np.rint(frames @ LUMA)
    frames = pixels if pixels.ndim == 3 else pixels[None]
    if kind == "MONOCHROME1":  # the smallest value is white
        return frames.max() - frames
    if not kind.startswith("MONOCHROME"):
        raise Unusable(
            f"{path} has {kind} pixels; grey (MONOCHROME), RGB or YBR ones are wanted"
        )
    return frames
