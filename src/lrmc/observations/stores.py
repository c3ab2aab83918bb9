"""Matrices in .npy, .zarr and HDF5 files, opened without reading them. Files may be damaged, or
made to do harm.

Nothing but the file itself is read: no file that it points to, and nothing in it is executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._extras import MissingPackage, optional
from .ondisk import in_npy


def opened(source: str | os.PathLike[str], name: str | None = None) -> Any:
    """The array in a file, of which nothing is read yet. `name` chooses one where there
    are several.
    """
    source = Path(source)
    if source.suffix.lower() == ".npy":
        return in_npy(source)
    with readable(source):
        arrays = (
            zarr_arrays(source)
            if source.suffix.lower() == ".zarr"
            else _of_hdf5(source)
        )
    if name is not None and name in arrays:
        return arrays[name]
    if name is not None or len(arrays) != 1:
        told = ", ".join(sorted(arrays)) or "none"
        raise ValueError(f"{source} holds the arrays {told}; choose one with --name")
    return next(iter(arrays.values()))


class _Refused(ValueError):
    """What is told as it is."""


@contextmanager
def readable(source: Path) -> Iterator[None]:
    """What a damaged file or store makes others raise, whatever it is, in a sentence."""
    try:
        yield
    except (_Refused, MissingPackage, MemoryError, PermissionError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{source} could not be opened; is it damaged, or of another kind? ({reason})"
        ) from error


def zarr_arrays(source: Path) -> dict[str, Any]:
    """The arrays of a zarr store by name; of a store that is one array, by the empty name."""
    zarr = optional("zarr", "scale")
    found = zarr.open(source, mode="r")
    arrays = dict(found.arrays()) if hasattr(found, "arrays") else {"": found}
    for array in arrays.values():
        if "pickle" in str(_codecs(array.metadata)).lower():
            raise _Refused(
                f"{source} is stored with pickle, which can execute anything; it is not read"
            )
    return arrays


def _codecs(metadata: Any) -> list[Any]:
    """How chunks are decoded, by the second and the third version of the format."""
    return [
        getattr(metadata, name, None) for name in ("codecs", "compressor", "filters")
    ]


def _of_hdf5(source: Path) -> dict[str, Any]:
    with optional("h5py", "scale").File(source, "r") as file:
        check_links(source, file)
    dataset = optional("xarray", "scale").open_dataset(
        source, engine="h5netcdf", phony_dims="access"
    )
    return {
        str(key): value for key, value in dataset.data_vars.items() if value.ndim == 2
    }


def check_links(source: Path, file: Any) -> None:
    """Refuse a file that would have us read others."""
    h5py = optional("h5py", "scale")

    def linked(name: str, found: Any) -> tuple[str, str] | None:
        return (name, found.filename) if isinstance(found, h5py.ExternalLink) else None

    def held(name: str, found: Any) -> tuple[str, str] | None:
        if not isinstance(found, h5py.Dataset):
            return None
        others = [place[0] for place in found.external or ()]
        others += (
            [place.file_name for place in found.virtual_sources()]
            if found.is_virtual
            else []
        )
        # "." is this file
        return next(((name, other) for other in others if other != "."), None)

    # the first that is found
    elsewhere = file.visititems_links(linked) or file.visititems(held)
    if elsewhere is not None:
        name, other = elsewhere
        raise _Refused(
            f"{source}: {name!r} lies in another file, {other!r}, which is not read; copy it into this one"
        )
