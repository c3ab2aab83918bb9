"""Charts as inline SVG. Colours come from the style sheet, values under the pointer from `data-t`
and the script.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..weights import Array
from .text import escaped, number, raised

WIDTH, HEIGHT = 360, 225
LEFT, RIGHT, TOP, BOTTOM = 50, 10, 12, 40  # margins
NAMED = 25  # the least height of a line with a name above it
COLOURS = 6  # that the style sheet has; more series begin again
MOST_POINTS = 600  # of a series: more would not be seen
FAR_BELOW = 1e-8  # of the largest value: a level there is not shown
SMALLEST, LARGEST = 1e-290, 1e290  # that are drawn: room is left for the margins


class Series(NamedTuple):
    """A line: y against x. What is not finite (or not positive, on a logarithmic axis) is left
    out.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Axis(NamedTuple):
    """A scale from data to pixels. If it is logarithmic, its ends are powers of ten: 2 for 100."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, value: Array | float) -> Array:
        """Where a value is."""
        x = np.log10(value) if self.log else np.asarray(value, float)
        return np.asarray(
            self.start
            + (x - self.low) / (self.high - self.low) * (self.end - self.start)
        )

    def ticks(self) -> list[float]:
        """Round values within."""
        if not self.log:
            return _round_values(self.low, self.high)
        first, last = math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9)
        step = max(1, math.ceil((last - first) / 5))
        ticks = [10.0**e for e in range(first, last + 1, step)]
        return ticks if len(ticks) > 1 else _round_values(10**self.low, 10**self.high)

    def label(self, value: float) -> str:
        """A tick in words: on a long logarithmic axis, all as powers of ten."""
        exponent = math.log10(value) if self.log and value > 0 else math.nan
        long = self.log and (self.low < -3 or self.high > 4)
        return (
            f"10{raised(round(exponent))}"
            if long and abs(exponent - round(exponent)) < 1e-9
            else number(value)
        )


def lines_svg(
    series: Sequence[Series],
    *,
    log: bool,
    x_name: str,
    y_name: str,
    marks: dict[str, float],
    bounds: tuple[float, ...],
) -> str:
    """A line chart. `marks` are values with a name, drawn as dashed horizontal lines; `bounds` are
    in sight.
    """
    kept = [_visible(s, log) for s in series]
    marks = {name: value for name, value in marks.items() if _drawable(value, log)}
    x = np.concatenate([np.zeros(0), *(s.x for s in kept)])
    y = np.concatenate([s.y for s in kept] + [list(marks.values()), list(bounds)])
    if not len(x):
        return '<p class="none">No values to draw.</p>'
    across = _axis(x, False, LEFT, WIDTH - RIGHT, pad=0)
    up = _axis(y, log, HEIGHT - BOTTOM, TOP, pad=0 if bounds else 0.06)
    parts = [_grid(across, up)]
    for i, s in enumerate(kept):
        px, py = across.at(s.x), up.at(s.y)
        parts.append(
            f'<path class="line s{i % COLOURS}" d="{_path(px, py, s.breaks)}"/>'
        )
        parts.append(_points(px, py, s, i, x_name))
    parts += [_mark(name, value, up, "start") for name, value in marks.items()]
    what = f"{y_name or ', '.join(s.name for s in series)} against {x_name}"
    return _svg(parts, x_name, what)


def values_svg(
    values: Sequence[float],
    level: float | None,
    *,
    name: str,
    x_name: str,
    level_name: str,
) -> str:
    """Dots on stems, on a logarithmic axis, against a level below which the paper is shaded."""
    shown = {k: float(v) for k, v in enumerate(values, 1) if _drawable(v, True)}
    if not shown:
        return '<p class="none">No values to draw.</p>'
    n = len(values)
    line = level if level is not None and _drawable(level, True) else -math.inf
    in_sight = line > FAR_BELOW * max(shown.values())
    heights = [*shown.values(), line] if in_sight else [*shown.values()]
    up = _axis(np.array(heights), True, HEIGHT - BOTTOM, TOP, pad=0.12)
    across = Axis(0.5, n + 0.5, False, LEFT, WIDTH - RIGHT)
    parts = [_grid(across, up, _whole_numbers(n))]
    if in_sight:
        parts.append(_shade(float(up.at(line))))
    for k, v in shown.items():
        px, py = float(across.at(k)), float(up.at(v))
        kind = "s0" if v > line else "faint"
        parts.append(
            f'<path class="stem {kind}" d="M{px:.1f} {HEIGHT - BOTTOM}V{py:.1f}"/>'
        )
        parts.append(_point(px, py, f"{x_name} {k}: {number(v)}", kind, 4.5))
    if in_sight:
        parts.append(_mark(level_name, line, up, "end"))
    return _svg(parts, x_name, f"{name}, {n} values")


def bars_svg(
    names: Sequence[str],
    values: Sequence[float],
    deviations: Sequence[float],
    what: str,
) -> str:
    """Named values from 0 on, one below the other, each with its standard error; the first stands
    out.
    """
    lines = [
        (name, float(v), float(d) if math.isfinite(d) else 0.0)
        for name, v, d in zip(names, values, deviations)
        if _drawable(v, False)
    ]
    if not lines:
        return '<p class="none">No values to draw.</p>'
    most = max(v + d for _, v, d in lines) or 1.0
    across = Axis(0.0, 1.05 * most, False, LEFT, WIDTH - RIGHT)
    step = max((HEIGHT - BOTTOM - TOP) / len(lines), NAMED)
    height = TOP + BOTTOM + step * len(lines)
    parts = [_foot(across, height)]
    for k, (name, v, d) in enumerate(lines):
        y, kind = TOP + (k + 0.7) * step, "faint" if k else "s0"
        left, right = (float(across.at(max(0.0, x))) for x in (v - d, v + d))
        parts += [
            f'<text class="marked" x="{LEFT}" y="{y - 7:.1f}">{escaped(name)}</text>',
            f'<path class="stem {kind}" d="M{LEFT} {y:.1f}H{float(across.at(v)):.1f}"/>',
            f'<path class="axis" d="M{left:.1f} {y:.1f}H{right:.1f}"/>',
            _point(float(across.at(v)), y, f"{name}: {number(v, 3)}", kind, 4.5),
        ]
    return _svg(parts, "", f"{what}, {len(lines)} values", height=height)


def _foot(across: Axis, height: float) -> str:
    """Ticks of a chart whose lines have names instead of heights."""
    foot = height - BOTTOM
    parts = [f'<path class="axis" d="M{LEFT} {foot:g}H{WIDTH - RIGHT}"/>']
    for value in across.ticks():
        x = float(across.at(value))
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{foot + 17:g}" text-anchor="middle">{number(value)}</text>'
        )
    return "".join(parts)


def _whole_numbers(n: int) -> list[float]:
    """Some of 1 to n."""
    return [t for t in _round_values(1, max(2, n)) if t == int(t) and 1 <= t <= n]


def _shade(top: float) -> str:
    """All below a height."""
    height = max(0.0, HEIGHT - BOTTOM - top)
    return f'<rect class="shade" x="{LEFT}" y="{top:.1f}" width="{WIDTH - RIGHT - LEFT}" height="{height:.1f}"/>'


# ---- parts


class _Visible(NamedTuple):
    name: str
    x: Array
    y: Array
    breaks: Array  # True where a value before this one was left out


def _visible(series: Series, log: bool) -> _Visible:
    x, y = (np.asarray(v, float) for v in (series.x, series.y))
    if len(x) > MOST_POINTS:
        chosen = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int))
        x, y = x[chosen], y[chosen]
    good = np.array(
        [_drawable(a, False) and _drawable(b, log) for a, b in zip(x, y)], bool
    )
    before = np.concatenate([[True], good[:-1]])[: len(good)]
    return _Visible(series.name, x[good], y[good], ~before[good])


def _drawable(value: float, log: bool) -> bool:
    return abs(value) < LARGEST and (value > SMALLEST or not log)


def _axis(values: Array, log: bool, start: float, end: float, *, pad: float) -> Axis:
    values = np.log10(values) if log else values
    low, high = float(np.min(values)), float(np.max(values))
    least = 1.0 if log else 1e-9 * max(abs(low), abs(high)) or 1.0  # one power of ten
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    return Axis(low - pad * (high - low), high + pad * (high - low), log, start, end)


def _round_values(low: float, high: float) -> list[float]:
    """About five multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 5
    if not rough > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= 0.999 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _grid(across: Axis, up: Axis, ticks: list[float] | None = None) -> str:
    parts = []
    for value in up.ticks():
        y = float(up.at(value))
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{up.label(value)}</text>'
        )
    for value in across.ticks() if ticks is None else ticks:
        x = float(across.at(value))
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">'
        )
        parts.append(f"{number(value)}</text>")
    parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    return "".join(parts)


def _mark(name: str, value: float, up: Axis, side: str) -> str:
    """A dashed line; its name at the side where curves (which fall) and stems (the last are short)
    are seldom.
    """
    y = float(up.at(value))
    x, over = (
        LEFT + 4 if side == "start" else WIDTH - RIGHT - 3,
        y - 5 if y > TOP + 14 else y + 13,
    )
    return (
        f'<path class="mark" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        f'<text class="marked" x="{x}" y="{over:.1f}" text-anchor="{side}">'
        f"{escaped(name)} {number(value, 3)}</text>"
    )


def _path(x: Array, y: Array, breaks: Array) -> str:
    return "".join(
        f"{'M' if k == 0 or apart else 'L'}{a:.1f} {b:.1f}"
        for k, (a, b, apart) in enumerate(zip(x, y, breaks))
    )


def _points(px: Array, py: Array, s: _Visible, i: int, x_name: str) -> str:
    radius = 2.6 if len(px) <= 60 else 0.8
    return "".join(
        _point(
            a,
            b,
            f"{x_name} {number(x)}, {s.name}: {number(y)}",
            f"s{i % COLOURS}",
            radius,
        )
        for a, b, x, y in zip(px, py, s.x, s.y)
    )


def _point(x: float, y: float, text: str, look: str, radius: float) -> str:
    return f'<circle class="point {look}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}" data-t="{escaped(text)}"/>'


def _svg(
    parts: Sequence[str],
    x_name: str,
    what: str,
    *,
    height: float = HEIGHT,
) -> str:
    middle = (LEFT + WIDTH - RIGHT) / 2
    name = f'<text class="name" x="{middle}" y="{height - 5:g}" text-anchor="middle">{escaped(x_name)}</text>'
    return (
        f'<div class="chart" tabindex="0" role="group" aria-label="{escaped(what)}; arrow keys read the values">'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escaped(what)}">'
        f"{''.join(parts)}{name}"
        '<circle class="ring" r="6" cx="-20" cy="-20"/></svg>'
        '<p class="reading" aria-live="polite"></p></div>'
    )
