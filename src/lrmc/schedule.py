"""Learned thresholds and steps as plain data, with a card that says where they come from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ._arguments import finite, one_of, shown, yes_or_no
from ._files import Format, from_json, to_json, write_whole

# version 2 may have a plan
FORMAT = Format("lrmc-schedule", "a schedule", version=2, oldest=1)
MOST_LAYERS = 1000  # a tail goes on for as long as is needed


class Layer(NamedTuple):
    """The numbers of one iteration, in the units of the data."""

    zeta: float
    eta: float
    momentum: float


@dataclass(frozen=True)
class Schedule:
    """Thresholds and step sizes of the paper's Algorithm 1 (LRMC), as plain data.

    Made by `lrmc.train`, read from files, or one of those that come with lrmc (`Schedule.named`).
    A schedule with a `plan` is for noisy data instead, as `Result.schedule` has it: it has no
    thresholds and steps.

    Parameters
    ----------
    zeta : sequence of float
        Thresholds zeta_0 (of the start), zeta_1, ..., zeta_K: one more than there are layers.
    eta : sequence of float
        Step sizes eta_1, ..., eta_K.
    tail : (float, float), optional
        (phi, beta): after layer K, zeta_k = phi zeta_{k-1} and eta_k = beta eta_{k-1}. Without it
        the run ends after layer K. With K = 0 it is the paper's recurrent network.
    tangent : bool, default False
        Remove the part of the residual that both factors would take up.
    momentum : sequence of float, optional
        Heavy-ball momentum of each layer; none if empty.
    start_gain : float, optional
        What the start is multiplied by; 1/p, as in the paper, if not given.
    eta_0 : float, default 1.0
        The step size that the tail begins with where K = 0.
    units : {"relative", "absolute"}, default "relative"
        Relative: zeta in multiples of the median observed `|y|`, eta and `start_gain` in multiples
        of 1/p, so that a schedule serves any size and scale. Absolute: as published, tied to the
        size and scale of the training problems.
    card : mapping, optional
        Where the numbers come from, for people.
    plan : mapping, optional
        What was learned and decided for noisy data of one kind.

    Raises
    ------
    ValueError
        If the numbers do not make a schedule.

    Examples
    --------
    >>> import lrmc
    >>> schedule = lrmc.Schedule(zeta=(2.0, 1.0), eta=(0.8,), tail=(0.7, 1.0))
    >>> len(schedule)
    1
    >>> "geometric" in lrmc.Schedule.names()
    True
    >>> problem = lrmc.synthetic.problem(n=300, rank=3, alpha=0.1, p=0.5)
    >>> result = lrmc.solve(problem.Y, rank=3, schedule="geometric", method="lrmc")
    >>> bool(lrmc.relative_error(result, problem) < 1e-4)
    True
    """

    zeta: tuple[float, ...] = ()
    eta: tuple[float, ...] = ()
    tail: tuple[float, float] | None = None
    tangent: bool = False
    momentum: tuple[float, ...] = ()
    start_gain: float | None = None
    eta_0: float = 1.0
    units: Literal["relative", "absolute"] = "relative"
    card: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.card, Mapping):
            raise ValueError(
                f"the card is a {type(self.card).__name__}; a mapping is wanted"
            )
        if self.plan is not None:
            _check_plan(self)
            return
        for name in ("zeta", "eta", "momentum"):
            object.__setattr__(self, name, _tuple(getattr(self, name), name))
        if len(self.zeta) != len(self.eta) + 1:
            raise ValueError(
                f"K layers have K + 1 thresholds and K steps; here are {len(self.zeta)} and {len(self.eta)}"
            )
        if len(self.momentum) not in (0, len(self.eta)):
            raise ValueError(
                f"momentum has {len(self.momentum)} numbers for {len(self.eta)} layers; give one each or none"
            )
        one_of("units", self.units, ("relative", "absolute"))
        if self.tail is not None:
            tail = _tuple(self.tail, "tail")
            if len(tail) != 2:
                raise ValueError(f"tail={self.tail!r}; a pair (phi, beta) is wanted")
            object.__setattr__(self, "tail", tail)
        if self.start_gain is not None:
            object.__setattr__(
                self, "start_gain", _number(self.start_gain, "start_gain")
            )
        object.__setattr__(self, "eta_0", _number(self.eta_0, "eta_0"))
        object.__setattr__(self, "tangent", yes_or_no("tangent", self.tangent))

    def __len__(self) -> int:
        """The number K of layers before the tail."""
        return len(self.eta)

    def __bool__(self) -> bool:
        """A schedule of layers for noisy data has no others, and is one."""
        return True

    def start(self, scale: float, p: float) -> tuple[float, float]:
        """zeta_0 and the gain of the start (the paper's is 1/p), for data with this scale (the
        median observed `|y|`) and observed fraction p.
        """
        zeta_unit, eta_unit = self._units(scale, p)
        return self.zeta[
            0
        ] * zeta_unit, 1 / p if self.start_gain is None else self.start_gain * eta_unit

    def layers(self, scale: float, p: float) -> Iterator[Layer]:
        """The numbers of layer 1, 2, ... for data with this scale and observed fraction."""
        zeta_unit, eta_unit = self._units(scale, p)
        momentum = self.momentum or (0.0,) * len(self)
        zeta, eta, gamma = self.zeta[0], self.eta_0, 0.0
        for zeta, eta, gamma in zip(self.zeta[1:], self.eta, momentum, strict=True):
            yield Layer(zeta * zeta_unit, eta * eta_unit, gamma)
        if self.tail is not None:
            phi, beta = self.tail
            for k in count(1):
                yield Layer(zeta * phi**k * zeta_unit, eta * beta**k * eta_unit, gamma)

    def _units(self, scale: float, p: float) -> tuple[float, float]:
        return (scale, 1 / p) if self.units == "relative" else (1.0, 1.0)

    # ---- to and from files

    def to_json(self) -> str:
        """As `save` writes it."""
        content = {**asdict(self), "card": dict(self.card)}
        if self.plan is None:
            del content["plan"]
        else:
            content = {"plan": dict(self.plan), "card": dict(self.card)}
        return to_json(FORMAT, content, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Schedule:
        """Read what `to_json` gave."""
        return cls._parse(
            text if isinstance(text, bytes) else text.encode(), "the text"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule as JSON."""
        write_whole(path, (self.to_json() + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schedule:
        """Read what `save` wrote."""
        return cls._parse(Path(path).read_bytes(), str(path))

    @classmethod
    def named(cls, name: str) -> Schedule:
        """A schedule that comes with lrmc; `Schedule.names()` lists them."""
        if name not in cls.names():
            raise ValueError(
                f"there is no schedule named {name!r}; there are: {', '.join(cls.names())}"
            )
        from importlib import resources

        return cls._parse(
            (resources.files("lrmc") / "schedules" / f"{name}.json").read_bytes(), name
        )

    @staticmethod
    def names() -> list[str]:
        """The names of the schedules that come with lrmc."""
        from importlib import resources

        files = (resources.files("lrmc") / "schedules").iterdir()
        return sorted(
            file.name.removesuffix(".json")
            for file in files
            if file.name.endswith(".json")
        )

    @classmethod
    def from_mat(cls, path: str | os.PathLike[str]) -> Schedule:
        """The published parameters, exactly as published: a .mat file with `zeta` and `eta` (or
        `ths` and `step`).

        They are absolute numbers, for the size, scale and sampling that they were trained on. Entry
        0 of the steps is the gain of the start when p < 1; at p = 1 it holds the initial 0.5, which
        is not used."""
        from .formats.matlab import read_mat

        try:
            content = read_mat(path)
        except FileNotFoundError:
            raise
        except Exception as error:  # scipy lets many kinds through
            raise ValueError(
                f"{path} could not be read as a MATLAB file: {error}"
            ) from error
        pairs = [
            pair
            for pair in (("zeta", "eta"), ("ths", "step"))
            if all(name in content for name in pair)
        ]
        if not pairs:
            names = sorted(name for name in content if not name.startswith("_"))
            raise ValueError(
                f"{path} holds {names}; 'zeta' and 'eta' (or 'ths' and 'step') are wanted"
            )
        zeta, eta = (
            _numbers(content[name], f"{name!r} in {path}") for name in pairs[0]
        )
        card = {"source": "published parameters", "file": Path(path).name}
        return cls(
            zeta,
            eta[1:],
            start_gain=eta[0] if eta[0] > 1 else None,
            units="absolute",
            card=card,
        )

    @classmethod
    def _parse(cls, text: bytes, where: str) -> Schedule:
        with FORMAT.reading(where):
            content = from_json(FORMAT, text)
            known = {field.name for field in fields(cls)}
            for name in sorted(content.keys() - known):
                raise ValueError(
                    f"it has a field {name!r}; those of a schedule are {', '.join(sorted(known))}"
                )
            wanted = set() if "plan" in content else {"zeta", "eta"}
            for name in sorted(wanted - content.keys()):
                raise ValueError(
                    f"it has no {name}; lists of numbers zeta and eta are wanted"
                )
            return cls(**content)


@dataclass(frozen=True)
class Tuning:
    """Parameters of the baselines ScaledGD and GD, for `lrmc.solve(..., schedule=Tuning(...))`.

    The defaults of gamma and eta are those of ScaledGD's authors.

    Parameters
    ----------
    alpha : float
        Fraction of outliers, which these methods have to know: 0 <= alpha < 1.
    gamma : float, default 2.0
        The largest gamma * alpha of each row and column are treated as outliers (alpha at the
        start).
    eta : float, default 0.5
        Step size, in units of 1/p for ScaledGD, of 1/(p sigma_1) for GD.

    Raises
    ------
    ValueError
        If a number is negative or not finite, or alpha is not below 1.

    Examples
    --------
    >>> import lrmc
    >>> from lrmc.schedule import Tuning
    >>> problem = lrmc.synthetic.problem(n=300, rank=3, alpha=0.1, p=0.5)
    >>> tuning = Tuning(alpha=0.1)
    >>> result = lrmc.solve(problem.Y, rank=3, method="scaled_gd", schedule=tuning)
    >>> bool(lrmc.relative_error(result, problem) < 1e-4)
    True
    """

    alpha: float
    gamma: float = 2.0
    eta: float = 0.5

    def __post_init__(self) -> None:
        for name in ("alpha", "gamma", "eta"):
            object.__setattr__(self, name, _number(getattr(self, name), name))
        if self.alpha >= 1:
            raise ValueError(
                f"alpha={self.alpha}; the share of outliers is wanted, 0 <= alpha < 1"
            )

    @property
    def share(self) -> float:
        """The share of each row and column that is treated as outliers, at most 1."""
        return min(self.gamma * self.alpha, 1.0)


def _check_plan(schedule: Schedule) -> None:
    """A plan stands alone."""
    if not isinstance(schedule.plan, Mapping):
        raise ValueError(
            f"the plan is a {type(schedule.plan).__name__}; a mapping is wanted"
        )
    if schedule.zeta or schedule.eta or schedule.tail:
        raise ValueError(
            "a schedule has thresholds and steps, or a plan for noisy data; not both"
        )


def _number(x: Any, name: str) -> float:
    number = finite(x)
    if number is None or number < 0:
        raise ValueError(
            f"{name} holds {shown(x)}; finite numbers that are not negative are wanted"
        )
    return number


def _tuple(x: Any, name: str) -> tuple[float, ...]:
    """Numbers, one for each layer."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise ValueError(f"{name}={shown(x)}; a list of numbers is wanted")
    numbers = list(islice(x, MOST_LAYERS + 2))  # thresholds are one more than layers
    if len(numbers) > MOST_LAYERS + 1:
        raise ValueError(
            f"{name} has more than {MOST_LAYERS + 1} numbers; at most {MOST_LAYERS} layers are wanted"
        )
    return tuple(_number(number, name) for number in numbers)


def _numbers(x: Any, name: str) -> tuple[float, ...]:
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiu" or x.size == 0:
        raise ValueError(f"{name} is not an array of real numbers")
    return tuple(x.ravel().tolist())
