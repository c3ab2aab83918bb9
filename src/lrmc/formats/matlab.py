"""MATLAB files that may be damaged, or made to do harm: scipy trusts the types of elements, and
crashes at others.

A file of version 5 to 7 is a row of elements, each with its type and its size; matrices are
elements of elements.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from .._scipy import io as scipy_io

BEGIN = 128  # bytes of text and version before the first element
MATRIX, COMPRESSED = 14, 15
# Types of elements, with text.
NUMBERS = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18})
# Classes of matrices that hold matrices: cells, structures, objects.
CONTAINERS = frozenset({1, 2, 3, 16, 17})
SPARSE, COMPLEX = 5, 0x800


class NewerFormatError(ValueError):
    """A file of MATLAB 7.3, which is HDF5."""


def read_mat(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The variables of a file by name, without what scipy says of the file itself. Nothing in it is
    executed.
    """
    with open(path, "rb") as file:
        _check(file)
        file.seek(0)
        try:
            content = scipy_io.loadmat(file)
        except NotImplementedError:
            what = (
                "is a MATLAB 7.3 file (HDF5), which is not read; in MATLAB, save it"
                " with -v7"
            )
            raise NewerFormatError(f"{path} {what}") from None
    return {name: value for name, value in content.items() if not name.startswith("__")}


def _check(file: BinaryIO) -> None:
    head = file.read(BEGIN)
    if (
        len(head) < BEGIN
        or 0 in head[:4]
        or head[125 if head[126:127] == b"I" else 124] != 1
    ):
        return  # of version 4, of 7.3, or none at all, as scipy tells them apart
    order = "<" if head[126:] == b"IM" else ">"
    whole = np.memmap(file, np.uint8, mode="r").data
    for kind, data in _elements(whole[BEGIN:], order, padded=False):
        found = (
            _elements(memoryview(zlib.decompress(data)), order)
            if kind == COMPRESSED
            else [(kind, data)]
        )
        for element in found:
            _check_matrix(*element, order)


def _elements(
    data: memoryview,
    order: str,
    padded: bool = True,
) -> Iterator[tuple[int, memoryview]]:
    """Type and content, one after another."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:  # a small one, within its tag
            kind, size, begin, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            begin, end = at + 8, at + 8 + size + (-size % 8 if padded else 0)
        if begin + size > len(data) or (begin == at + 4 and size > 4):
            raise ValueError(f"an element of {size} bytes ends beyond what holds it")
        yield kind, data[begin : begin + size]
        at = end


def _check_matrix(kind: int, data: memoryview, order: str) -> None:
    """Refuse a matrix whose elements are of no type, or too few."""
    if kind != MATRIX:
        raise ValueError(f"an element has type {kind}, where a matrix is wanted")
    if not len(data):  # an empty one is written so
        return
    about, *parts = list(_elements(data, order))
    if len(about[1]) < 4 or len(parts) < 2:
        raise ValueError("a matrix has no flags, dimensions or name")
    flags = struct.unpack_from(f"{order}I", about[1])[0]
    held = parts[2:]  # after dimensions and name
    if flags & 0xFF in CONTAINERS:
        for part in held:
            if part[0] not in NUMBERS:
                _check_matrix(*part, order)
        return
    wanted = (3 if flags & 0xFF == SPARSE else 1) + bool(flags & COMPLEX)
    unknown = [kind for kind, _ in held if kind not in NUMBERS]
    if unknown or len(held) < wanted:
        what = (
            f"an element of type {unknown[0]}" if unknown else f"{len(held)} elements"
        )
        raise ValueError(f"a matrix has {what}, where {wanted} of numbers are wanted")
