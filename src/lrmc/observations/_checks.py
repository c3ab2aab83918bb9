"""What every door asks of a matrix and its mask, and in which words: here, on disk, on workers and
on devices.

Checks take shapes, types and counts, which arrays that are not in memory have too. What a mask
holds is looked at where it is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _kernels
from .._arguments import whole_number
from .._scipy import sparse as sp
from ..formats.sparse import sound
from ..weights import Array

# types that the kernels read
AS_IS = (np.float32, np.float64, np.uint8, np.int16, np.uint16)
# by dtype.char; other numbers become float64
CONVERTED = {"?": np.uint8, "b": np.int16, "e": np.float32}
WORTH_A_THREAD = 30_000  # entries: with fewer, starting it takes longer than it helps
MASK_WANTED = (
    "booleans are wanted, True where an entry is observed, or the numbers 0 and 1"
)
NO_NUMBERS = {  # by dtype.kind: what it is, and what to do
    "O": (
        "Python objects",
        "choose the numeric columns, or convert with astype(float), which makes None a gap",
    ),
    "c": (
        "complex numbers",
        "give real numbers, such as their absolute values; lrmc.solve takes complex ones in memory",
    ),
    "M": (
        "dates (datetime64)",
        "leave them out, or give numbers, such as days since a date",
    ),
    "m": (
        "durations (timedelta64)",
        "give numbers, such as seconds: Y / numpy.timedelta64(1, 's')",
    ),
    "S": ("text", "choose the numeric columns, or convert with astype(float)"),
    "U": ("text", "choose the numeric columns, or convert with astype(float)"),
    "T": ("text", "choose the numeric columns, or convert with astype(float)"),
    "V": (
        "records of several fields",
        "give one field, or put them side by side as columns",
    ),
}


# ---- the matrix


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse what is no matrix, or has no entries."""
    if len(shape) != 2:
        raise ValueError(
            f"a 2-D matrix is wanted, but the input has {len(shape)} dimension(s), shape {shape}; reshape it"
        )
    if 0 in shape:
        raise ValueError(f"the matrix is empty: shape {shape}")


def check_numbers(dtype: Any) -> None:
    """Refuse a type, of numpy or of torch, that is not of real numbers."""
    kind = _kind(dtype)
    if kind not in "fiub":
        what, hint = NO_NUMBERS.get(kind, (f"type {dtype}", "give numbers"))
        raise ValueError(
            f"the matrix holds {what}; floats, integers or booleans are wanted: {hint}"
        )


def storable(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that the kernels read, nearest to this one."""
    check_numbers(dtype)
    native = dtype.newbyteorder("=")
    if native.type in AS_IS:
        return native
    return np.dtype(CONVERTED.get(native.char, np.float64))


def precision(stored: np.dtype[Any]) -> np.dtype[Any]:
    """In which precision data of this type are computed."""
    return np.dtype(np.float64 if stored == np.float64 else np.float32)


def check_finite(infinite: int) -> None:
    """Refuse a matrix with so many observed entries that are infinite, if there are any."""
    if infinite:
        raise ValueError(
            f"{infinite} observed entries are infinite; set them to NaN (missing) or to finite values"
        )


def check_observed(observed: int, shape: tuple[int, ...], which: str = "") -> None:
    """Refuse a matrix without any entry. `which` names it, if it is one of several."""
    if observed == 0:
        size = " x ".join(str(n) for n in shape)
        raise ValueError(
            f"nothing is observed{which}: all entries of the {size} matrix are missing"
        )


# ---- the mask


def check_mask(mask: Any, shape: tuple[int, ...]) -> None:
    """Refuse a mask (an array, a tensor, or one that is not in memory) of another shape,
    or not of numbers.
    """
    got = tuple(mask.shape)
    if got != shape:
        turned = (*shape[:-2], shape[-1], shape[-2])
        hint = "; transpose one of them?" if got == turned else ""
        raise ValueError(f"mask has shape {got}, the matrix {shape}{hint}")
    if _kind(mask.dtype) not in "biuf":
        raise ValueError(f"mask has type {mask.dtype}; {MASK_WANTED}")


def seen_by(mask: Any) -> Any:
    """True where a mask (an array or a tensor) says that an entry is observed; it holds
    0 and 1, or is refused.
    """
    if str(mask.dtype).endswith("bool"):  # also of torch
        return mask
    seen = mask != 0
    other = seen != mask
    if other.any():
        raise ValueError(
            f"mask holds {mask[other][0]}; {MASK_WANTED}: give mask != 0, if that is meant"
        )
    return seen


def as_mask(mask: Any, shape: tuple[int, ...]) -> Array:
    """True where an entry is observed: of booleans, or of numbers that are 0 or 1."""
    mask = _dense_mask(mask)
    check_mask(mask, shape)
    return seen_by(mask)


def _dense_mask(mask: Any) -> Array:
    if sp.issparse(mask):
        return sound(mask).toarray()
    try:
        return np.asarray(mask)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"mask could not be read as an array: {error}") from None


def _kind(dtype: Any) -> str:
    """As numpy has it. Types of torch are of real numbers, or complex."""
    if getattr(dtype, "is_complex", False):
        return "c"
    return getattr(dtype, "kind", "f")


# ---- threads


def worth(threads: int, observed: int) -> int:
    """How many threads: as asked for, or up to all cores while each has enough to do
    that starting it pays.
    """
    return threads or max(1, min(_kernels.max_threads(), observed // WORTH_A_THREAD))


def checked_threads(threads: int | None) -> int:
    """The number of threads that was asked for, 0 if none was; of very many, as many as
    the machine bears.
    """
    if threads is None:
        return 0  # as many as the data are worth
    asked = whole_number("threads", threads, 1, hint=", or None for all cores")
    return min(asked, _kernels.most_threads())
