"""Arrays in .npy and .npz files that may be damaged, or made to do harm: a header is checked before
it is believed.

Nothing in a file is executed and nothing is unpacked to disk, and no more memory is asked for than
is there to fill.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from .. import _memory
from ..weights import Array, DType

if TYPE_CHECKING:  # imported when it is used
    import zipfile


class Header(NamedTuple):
    """What a .npy file says of the numbers that follow."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: DType
    offset: int  # bytes before the numbers


_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    # The same but for the names of fields, of which there are none.
    (3, 0): np.lib.format.read_array_header_2_0,
}


def read_header(file: IO[bytes], size: int, name: str = "it") -> Header:
    """The header of an open .npy file of so many bytes, which is called `name` in errors."""
    try:
        shape, by_columns, dtype = _READERS[np.lib.format.read_magic(file)](file)
    # The header is Python code to numpy, with any error that this may have.
    except Exception as error:
        raise ValueError(f"{name} is no .npy file, or damaged: {error}") from None
    if any(isinstance(n, bool) or n < 0 for n in shape):
        raise ValueError(f"{name} is damaged: its shape is {shape}")
    if dtype.hasobject:
        raise ValueError(
            f"{name} holds Python objects; floats, integers or booleans are wanted"
        )
    wanted = file.tell() + math.prod(shape) * dtype.itemsize
    if size < wanted:
        raise ValueError(
            f"{name} ends too early: it has {size} bytes, {wanted} are wanted; copy it"
            " anew"
        )
    return Header(shape, by_columns, dtype, file.tell())


def read_npy(path: str | os.PathLike[str]) -> Array:
    """The array of a .npy file."""
    with open(path, "rb") as file:
        return _read(file, os.fstat(file.fileno()).st_size)


def _read(file: IO[bytes], size: int) -> Array:
    read_header(file, size)
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


class Npz(Mapping[str, Array]):
    """The arrays of a .npz file by name, each read when it is asked for."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        members = (
            info for info in archive.infolist() if info.filename.endswith(".npy")
        )
        self._members = {info.filename.removesuffix(".npy"): info for info in members}

    def __getitem__(self, name: str) -> Array:
        with self._archive.open(self._checked(name)) as file:
            return _read(file, self._members[name].file_size)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def check(self) -> None:
        """Look at all headers, for those who read the file otherwise."""
        for name in self:
            with self._archive.open(self._checked(name)) as file:
                read_header(file, self._members[name].file_size, name)

    def _checked(self, name: str) -> zipfile.ZipInfo:
        """An array that fits into memory: a few bytes of an archive may stand for very many."""
        if name not in self._members:
            raise KeyError(f"there is no {name} in it")
        size, most = self._members[name].file_size, _memory.memory_there_is()
        if size > most:
            raise ValueError(
                f"{name} in it takes {size} bytes, and this machine has {most} in all"
            )
        return self._members[name]


@contextmanager
def opened_npz(path: str | os.PathLike[str]) -> Iterator[Npz]:
    """The arrays of a .npz file, for as long as the block goes on."""
    import zipfile

    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        yield Npz(archive)
