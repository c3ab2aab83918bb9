"""Text and numbers as HTML shows them. Everything that comes from a file or a user goes through
here.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

# What no HTML page may hold (control characters) or no UTF-8 (halves of surrogate pairs, from odd
# file names).
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
)


def escaped(text: object) -> str:
    """Text that a browser shows as it is, in an element or in a quoted attribute."""
    return html.escape(
        _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text)), quote=True
    )


def number(x: float, digits: int = 4) -> str:
    """A number to so many digits, with a real minus and powers of ten as people write them."""
    x = float(x)
    if not math.isfinite(x):
        return "–" if math.isnan(x) else ("∞" if x > 0 else "−∞")
    if (x == int(x) and abs(x) < 10**digits) or 10**digits <= abs(x) < 1e6:
        return count(round(x)).replace("-", "−")
    shown = f"{x:.{digits}g}"
    mantissa, _, exponent = shown.partition("e")
    if exponent:
        shown = f"{mantissa}·10{raised(int(exponent))}".replace(
            "1·", "", mantissa in ("1", "-1")
        )
    return shown.replace("-", "−")


def count(n: int) -> str:
    """A whole number, its thousands set apart by narrow spaces."""
    return f"{int(n):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def column(values: Sequence[float]) -> list[str]:
    """Numbers below each other, with as many decimals each, so that they can be compared at a
    glance.

    Where that would leave many of them with hardly a digit (several units in one column), each as
    it is best read.
    """
    sizes = [abs(float(v)) for v in values if math.isfinite(v)]
    if all(isinstance(v, int) for v in values) or not sizes:
        return [count(v) if isinstance(v, int) else number(v) for v in values]
    digits = _decimals(sizes)
    if digits is None:
        return [number(v) for v in values]
    return [
        f"{v:.{digits}f}".replace("-", "−") if math.isfinite(v) else number(v)
        for v in values
    ]


def _decimals(sizes: Sequence[float]) -> int | None:
    """How many suit all of these; None if none do."""
    largest = max(sizes)
    if not (largest == 0 or 1e-4 <= largest < 1e7):
        return None
    broken = [size for size in sizes if size != int(size)]
    if not broken:
        return 0
    digits = max(0, 3 - math.floor(math.log10(largest)))
    small = sum(size < 10 ** (1 - digits) for size in broken)
    return None if 4 * small > len(sizes) else digits


def percent(share: float) -> str:
    """A share to about two digits; never 0 % or 100 % for what is only nearly so."""
    if not math.isfinite(share):
        return "–"
    if 0 < share < 1e-4:
        return "below 0.01 %"
    if 0.9999 < share < 1:
        return "more than 99.99 %"
    edge = min(share, 1 - share)
    digits = (
        0 if edge == 0 else 2 if edge < 0.001 else 1 if edge < 0.1 or share > 0.9 else 0
    )
    return f"{100 * share:.{digits}f} %"


def plural(n: int, one: str, many: str | None = None) -> str:
    """`3 rows`, `1 row`."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def raised(n: int) -> str:
    """An exponent."""
    return str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
