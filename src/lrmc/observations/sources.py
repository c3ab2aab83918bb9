"""Where blocks of rows come from: arrays and files that give rows when asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._scipy import sparse as sp
from ..units import Units
from ..weights import Array, DType


@dataclass(frozen=True, eq=False)
class Stored:
    """An array that gives rows when asked for: zarr, HDF5, xarray."""

    array: Any
    by_columns: bool = False

    def read(self, rows: slice, into: dict[str, Any]) -> Any:
        """Some rows, in memory; of an array by columns, some columns, transposed."""
        part = self.array[:, rows] if self.by_columns else self.array[rows]
        if not (sp.issparse(part) or isinstance(part, np.ma.MaskedArray)):
            part = np.asarray(part)
        return part.T if self.by_columns else part


@dataclass(frozen=True, eq=False)
class Rescaled:
    """Rows of another source in the units of their columns."""

    source: Any
    units: Units
    by_columns: bool = False
    fill: Any = None  # the number that stands for missing

    def read(self, rows: slice, into: dict[str, Any]) -> Any:
        """See `Stored.read`."""
        part = self.source.read(rows, into)
        if self.fill is not None:
            part = np.where(np.equal(part, self.fill), np.nan, part)
        if not self.by_columns:
            return self.units.removed(part)
        some = Units(self.units.centre[rows], self.units.spread[rows])
        return some.removed(part.T).T


@dataclass(frozen=True, eq=False)
class InFile:
    """Rows one after another in a file, read without mapping it: mapped pages would
    count as memory.
    """

    path: str
    offset: int
    shape: tuple[int, int]
    dtype: DType
    by_columns: bool = False  # one column after another
    ndim: ClassVar[int] = 2

    @property
    def chunks(self) -> tuple[int, int]:
        """What is stored together."""
        return (self.shape[0], 1) if self.by_columns else (1, self.shape[1])

    def read(self, rows: slice, into: dict[str, Any]) -> Array:
        """Some rows (columns, where these are stored), in a buffer that is used again."""
        length = self.shape[0] if self.by_columns else self.shape[1]
        size = length * self.dtype.itemsize
        wanted = (rows.stop - rows.start) * size
        room = into.get("room")
        if room is None or len(room) < wanted:
            room = into["room"] = np.empty(wanted, np.uint8)
        with open(self.path, "rb", buffering=0) as file:
            done = 0
            file.seek(self.offset + rows.start * size)
            while done < wanted:
                got = file.readinto(room[done:wanted].data)
                if not got:
                    raise OSError(
                        f"{self.path} ends too early: {self.offset + rows.start * size + done} bytes"
                    )
                done += got
            # the system fetches what comes next while this is computed with
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(
                    file.fileno(),
                    self.offset + rows.stop * size,
                    2 * wanted,
                    os.POSIX_FADV_WILLNEED,
                )
        return room[:wanted].view(self.dtype).reshape(-1, length)
