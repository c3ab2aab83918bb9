"""Arguments at the door: a check says what came and what is wanted. Numbers of numpy are
numbers, booleans are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

LONGEST = 60  # characters of a value that a message shows


def whole_number(
    name: str,
    x: Any,
    least: int,
    most: int | None = None,
    *,
    hint: str = "",
) -> int:
    """An integer within bounds."""
    sound = isinstance(x, Integral) and not isinstance(x, bool)
    if sound and least <= x and (most is None or x <= most):
        return int(x)
    bound = (
        f"most {most}" if sound and most is not None and x > most else f"least {least}"
    )
    raise ValueError(f"{name}={shown(x)}; a whole number of at {bound} is wanted{hint}")


def checked_rank(rank: int, shape: tuple[int, int]) -> int:
    """The rank, or an error that says which are possible."""
    try:
        return whole_number("rank", rank, 1, min(shape))
    except ValueError:
        given = f"rank={shown(rank)} for a {shape[0]} x {shape[1]} matrix"
        raise ValueError(f"{given}; 1 to {min(shape)} is wanted") from None


def real_number(
    name: str,
    x: Any,
    within: Callable[[float], bool],
    wanted: str,
) -> float:
    """A finite number for which `within` holds; `wanted` says that in words."""
    number = finite(x)
    if number is None or not within(number):
        raise ValueError(f"{name}={shown(x)}; {wanted} is wanted")
    return number


def yes_or_no(name: str, x: Any) -> bool:
    """True or False: not a word, which would always be true."""
    if not isinstance(x, bool | np.bool_):
        raise ValueError(f"{name}={shown(x)}; True or False is wanted")
    return bool(x)


def one_of(name: str, x: Any, known: tuple[str, ...]) -> str:
    """One of some words."""
    if not isinstance(x, str) or x not in known:
        raise ValueError(f"{name}={shown(x)}; one of {', '.join(known)} is wanted")
    return x


def function_or_none(name: str, x: Any) -> None:
    """Something to call now and then, or nothing."""
    if x is not None and not callable(x):
        raise ValueError(f"{name}={shown(x)}; a function is wanted, or None")


def finite(x: Any) -> float | None:
    """The number as a float; None if it is no real number, not finite, or too large for a float."""
    if not isinstance(x, Real) or isinstance(x, bool):
        return None
    try:
        number = float(x)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def shown(x: Any) -> str:
    """A value for a message, cut off where it is long."""
    try:
        text = repr(x)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return (
            f"a whole number of {x.bit_length()} bits"
            if isinstance(x, int)
            else f"a {type(x).__name__}"
        )
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
