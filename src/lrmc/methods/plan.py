"""What noisy data are fitted by: plain data, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ..evidence.simple import LOW_RANK
from ..observations.base import Sample
from .blends import Blend, Standing
from .learn import Trial
from .likeness import Kind
from .noisy import Loss
from .noisy_layers import Layers

Score = Literal["auto", "mae", "rmse"]
Aim = Literal["fill", "separate"]
# medians of the error: up to here its square counts, beyond its size
BENDS: Mapping[Score, float] = {"mae": 0.3, "auto": 3.0, "rmse": 10.0}


@dataclass(frozen=True)
class Plan:
    """All that a fit to noisy data needs to know: plain data."""

    layers: Layers
    rank: int  # that the layers begin with
    powers: tuple[float, float] = (0.0, 0.0)  # of the noise of rows and columns
    polish: bool = False  # whether the mixture of noise and outliers comes last
    closed_loop: bool = False  # whether that, and no layers, come before the mixture
    # into the low-rank fit: one simple model, or second opinions
    blends: tuple[Blend, ...] = ()
    fixed: bool = False  # whether the rank was given: nothing is cut
    aim: Aim = "fill"
    times: int = 2  # as many components at once, while they are added
    kind: Kind | None = None  # what data it was learned on look like, if others

    def plain(self) -> dict[str, Any]:
        """As it goes to JSON."""
        return {
            "layers": self.layers.plain(),
            "rank": self.rank,
            "powers": list(self.powers),
            "polish": self.polish,
            "closed_loop": self.closed_loop,
            "blends": [list(blend) for blend in self.blends],
            "fixed": self.fixed,
            "aim": self.aim,
            "times": self.times,
        } | ({} if self.kind is None else {"kind": self.kind.plain()})

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Plan:
        """From what `plain` gave."""
        # files that were written before opinions were mixed have one of them
        blends = plain["blends"] if "blends" in plain else [plain["blend"]]
        rows, cols = map(float, plain["powers"])
        return cls(
            layers=Layers.from_plain(plain["layers"]),
            rank=int(plain["rank"]),
            powers=(rows, cols),
            polish=bool(plain["polish"]),
            closed_loop=bool(plain["closed_loop"]),
            blends=tuple(
                Blend(str(name), float(weight), float(reach))
                for name, weight, reach in blends
                if weight
            ),
            fixed=bool(plain["fixed"]),
            aim="separate" if plain["aim"] == "separate" else "fill",
            times=int(plain.get("times", 2)),
            kind=Kind.from_plain(plain["kind"]) if "kind" in plain else None,
        )


class Wanted(NamedTuple):
    """What was said of the data, and what they allow."""

    rank: int | None = None
    loss: Loss | None = None
    score: Score = "auto"
    aim: Aim = "fill"
    rested: int | None = None  # see `decide`
    opinions: tuple[str, ...] = ()  # that can be asked beside low rank
    learns: bool = True  # numbers of the layers; else those that ship


@dataclass(frozen=True)
class Decided:
    """A plan, and what it rests on."""

    plan: Plan
    table: tuple[Standing, ...] = ()
    opinions: tuple[Standing, ...] = ()  # second ones, each alone
    trials: tuple[Trial, ...] = ()  # of the numbers
    typical: float = np.nan  # a quarter of the hidden entries is missed by less
    error: float = np.nan  # the mean by which they are missed
    simple: float = np.nan  # and that of the best simple model
    # errors at them, by their places in all data
    missed: Sample | None = None

    @property
    def missed_part(self) -> float:
        """What is left of the errors of simple models, absolute and squared alike: what was decided on
        other hidden entries is comparable by it.
        """
        own = [x for x in self.table if x.chosen]
        simple = [x for x in self.table if not x.chosen and x.name != LOW_RANK]
        absolute = min(x.mae for x in own) / min(x.mae for x in simple)
        squared = min(x.rmse for x in own) / min(x.rmse for x in simple)
        return math.sqrt(absolute * squared)
