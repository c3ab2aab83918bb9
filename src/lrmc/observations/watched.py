"""Data that are read again in every pass must stay what they are: a file or store is looked at, and
looked at again.

zarr reads a chunk that is gone as zeros, and a file may be written anew while it is read: neither
is an error to those who read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

METADATA = ("zarr.json", ".zarray")  # of a zarr array, in its folder


class ChangedError(OSError):
    """Data that did not stay what they were."""


@dataclass(frozen=True, eq=False)
class Watched:
    """A file or store, and how it looked when it was opened."""

    name: str
    look: Callable[[bool], Any]
    first: tuple[Any, Any]  # at a glance, and closely

    def check(self, closely: bool = False) -> None:
        """Raise an error unless it still looks the same. Closely: with every chunk, but
        without reading any.
        """
        try:
            same = self.look(closely) == self.first[closely]
        # what cannot be looked at any more: each kind of store has its own errors
        except Exception:
            same = False
        if not same:
            raise ChangedError(
                f"{self.name} changed or vanished while it was read; leave it as it is until the run has ended"
            )


def watched(Y: Any) -> Watched | None:
    """What an array is read from, as it is now; None for arrays of which that cannot be told."""
    found = _place(Y)
    if found is None:
        return None
    name, look = found
    return Watched(name, look, (look(False), look(True)))


def _place(Y: Any) -> tuple[str, Callable[[bool], Any]] | None:
    """The name of what an array is read from, and how that is looked at."""
    kind = type(Y).__module__.partition(".")[0]
    if kind == "zarr":
        return _of_zarr(Y)
    if kind == "h5py":
        return _of_path(Path(Y.file.filename))
    if kind == "xarray":
        source, within = Y.encoding.get("source"), _wrapped(Y.variable)
        return _place(within) if source is None else _of_path(Path(source), str(Y.name))
    name = getattr(Y, "filename" if isinstance(Y, np.memmap) else "path", None)
    return _of_path(Path(name)) if isinstance(name, str | os.PathLike) else None


def _wrapped(variable: Any) -> Any:
    """The array of zarr that xarray reads, which it does not tell otherwise; None if
    there is none.
    """
    inner = getattr(variable, "_data", None)
    while inner is not None and type(inner).__module__.startswith("xarray"):
        inner = (
            getattr(inner, "array", None)
            if hasattr(inner, "array")
            else getattr(inner, "_array", None)
        )
    return inner


def _of_path(path: Path, within: str = "") -> tuple[str, Callable[[bool], Any]] | None:
    if path.is_dir():
        folder = path / within if (path / within).is_dir() else path
        return str(path), lambda closely: _folder(folder, closely)
    return (str(path), lambda closely: _file(path)) if path.exists() else None


def _of_zarr(Y: Any) -> tuple[str, Callable[[bool], Any]] | None:
    store = Y.store
    # a folder, or a zip file
    root = getattr(store, "root", None) or getattr(store, "path", None)
    if isinstance(root, Path):
        return _of_path(root, Y.path)
    return str(Y.store_path), lambda closely: _array(Y, closely)


# ---- how it looks


def _file(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _folder(path: Path, closely: bool) -> Any:
    """Of a zarr array its metadata; closely, all of its files: one digest, since there
    may be millions.
    """
    if not closely:
        return [
            _file(path / name) for name in METADATA if (path / name).exists()
        ] or _file(path)[:2]
    from hashlib import blake2b

    digest = blake2b()
    for file in _files(path):
        found = file.stat()
        digest.update(
            f"{file.path} {found.st_ino} {found.st_size} {found.st_mtime_ns}\n".encode(
                errors="replace"
            )
        )
    return digest.digest()


def _files(path: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    """All files of a folder and of those within, in order."""
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        else:
            yield entry


def _array(Y: Any, closely: bool) -> Any:
    """Of a zarr array in some other store: what opening it anew tells, and how many
    chunks there are.
    """
    import zarr

    now = zarr.open_array(Y.store, path=Y.path, mode="r")
    return repr(
        now.metadata
        # a fill value of NaN is not equal to itself
    ), now.nchunks_initialized if closely else None
