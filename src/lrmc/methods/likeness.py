"""What matrices of a family look like to simple models, and whether other data look like them.

A plan that kept the numbers that ship is compared with itself on new data: nothing there could tell
that numbers learned on these would be better. What it was learned on can."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .blends import Standing

Range = tuple[float, float]


class Look(NamedTuple):
    """Errors at hidden entries in terms of each other, and how much is observed."""

    low_rank: float  # over those of row medians, means
    tails: float  # of low rank: root mean square over mean
    row_tails: float  # of row medians
    observed: float  # share of the entries

    @classmethod
    def of(cls, table: Sequence[Standing], observed: float) -> Look | None:
        """None where there is nothing to be compared."""
        mae = {line.name: line.mae for line in table}
        rmse = {line.name: line.rmse for line in table}
        if not (mae.get("low rank", 0) > 0 and mae.get("row median", 0) > 0):
            return None
        found = cls(
            mae["low rank"] / mae["row median"],
            rmse["low rank"] / mae["low rank"],
            rmse["row median"] / mae["row median"],
            observed,
        )
        return found if all(map(math.isfinite, found)) else None


# times as much or as little as what was learned on, or half of the way from the least to the most of
# that: new matrices of one kind (other days, users, persons, clips) were within 1.16
ALIKE = Look(1.2, 1.2, 1.2, 1.5)
# whether more of it does no harm: of 154 pairs of data and another family's schedule two were told by
# the observed share alone, both with more of it, and the schedule was ahead of the default in both
HARMLESS = Look(False, False, False, True)
SAID = (
    "low rank missed hidden entries {} times as much as row medians",
    "the root mean square of what low rank missed was {} times its mean",
    "the root mean square of what row medians missed was {} times its mean",
    "the observed share was {}",
)
UNLIKE = (
    "the schedule was learned on data of another kind: there {}, here {}; the default decides anew for"
    " each matrix: leave out schedule="
)


class Kind(NamedTuple):
    """What a family looks like."""

    grouped: bool  # whether rows are weighed together
    ranges: tuple[Range, ...]  # of each number of a `Look`

    @classmethod
    def of(cls, looks: Sequence[Look], grouped: bool) -> Kind | None:
        """Of matrices of a family."""
        if not looks:
            return None
        return cls(grouped, tuple((min(x), max(x)) for x in zip(*looks, strict=True)))

    def unlike(self, look: Look | None, grouped: bool) -> str:
        """A sentence where data do not look like the family."""
        if grouped != self.grouped:
            ways = ("rows were in groups", "in none")
            return UNLIKE.format(
                *ways if self.grouped else ("rows were in no groups", "in some")
            )
        for value, (low, high), least, harmless, said in zip(
            look or (), self.ranges, ALIKE, HARMLESS, SAID
        ):
            margin = max(least, math.sqrt(high / low))
            more = value > margin * high and not harmless
            if more or not value >= low / margin:
                there = f"{low:.2f} to {high:.2f}"
                return UNLIKE.format(said.format(there), f"{value:.2f}")
        return ""

    def plain(self) -> dict[str, Any]:
        """As it goes to JSON."""
        found: dict[str, Any] = {"grouped": self.grouped}
        for name, (low, high) in zip(Look._fields, self.ranges, strict=True):
            found[name] = [float(f"{low:.4g}"), float(f"{high:.4g}")]
        return found

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Kind:
        """From what `plain` gave."""
        ranges = (
            (float(plain[name][0]), float(plain[name][1])) for name in Look._fields
        )
        return cls(bool(plain["grouped"]), tuple(ranges))
