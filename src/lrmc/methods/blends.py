"""What others say beside low rank, blended into it as far as hidden entries gain.

Simple models, neighbors and regressions are fitted to the same data as the low-rank fit. No single
one of them is right for every table, and few hidden entries cannot tell which is: second opinions
are mixed, beginning with equal weights, and what is mixed must have lost less on entries that its
weights were not found on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from .. import _kernels
from ..evidence.simple import LOW_RANK, simple_models
from ..linalg import Factors, median_of
from ..observations.base import Observations, Sample
from ..weights import Array
from .cleaned import Lines
from .lessons import SAME, Lesson, Losses, Tried, is_better, mean_gain, unit_of
from .regression import can_regress
from .second_opinions import OPINIONS

WORTH = 0.01  # a part of the loss: what gains less is not worth another model
# hidden entries that equal weights count as: 1 to 100 gave the same on 108 tables, but 30 keep nearly
# exact relations from the weight that they deserve
EQUAL = 3
REWEIGHTED = 10  # rounds of least squares: weights change by less than 1 % after 5
LEAST = 0.05  # of an opinion: with a smaller weight it is not worth its cost
NARROWEST = 1e-3  # of the usual column: the deviation of one that hardly varies


class Blend(NamedTuple):
    """What is blended into the low-rank fit."""

    name: str = LOW_RANK  # or the name of a simple model, or of a second opinion
    weight: float = 0.0  # of that model
    reach: float = 0.0  # of second opinions: see there

    @property
    def unweighed(self) -> Blend:
        """What it is, without its weight."""
        return self._replace(weight=0.0)


NOTHING = Blend()


class Standing(NamedTuple):
    """How a model does on hidden entries: a line of `result.evidence["table"]`."""

    name: str
    mae: float
    rmse: float
    chosen: bool
    # of the difference between its mean absolute error and that of what was chosen
    standard_error: float = 0.0

    def times(self, unit: float) -> Standing:
        """The same for data that are so many times larger."""
        mae, rmse, uncertain = (
            unit * x for x in (self.mae, self.rmse, self.standard_error)
        )
        return self._replace(mae=mae, rmse=rmse, standard_error=uncertain)


class Hearing(NamedTuple):
    """What the fit and others say of the same hidden entries."""

    truth: Array
    fit: Array
    others: dict[Blend, Array]  # of weight 0
    tells: Array  # of them, those that say how large errors are

    def errors(self, blends: Sequence[Blend] = ()) -> Array:
        """Of the fit with these blended into it."""
        toward = [x.weight * (self.others[x.unweighed] - self.fit) for x in blends]
        return np.asarray(self.truth - sum(toward, start=self.fit))

    def simple(self) -> dict[Blend, Array]:
        """What models say that know nothing of low rank."""
        return {x: said for x, said in self.others.items() if x.name not in OPINIONS}

    def over(self, units: Array) -> Hearing:
        """The same in these units, one for each entry."""
        others = {other: said / units for other, said in self.others.items()}
        return Hearing(self.truth / units, self.fit / units, others, self.tells)

    def halves(self) -> list[Hearing]:
        """Of every other entry."""
        return [
            Hearing(
                self.truth[k::2],
                self.fit[k::2],
                {other: said[k::2] for other, said in self.others.items()},
                self.tells[k::2],
            )
            for k in (0, 1)
        ]


def missed_by(
    tried: Tried,
    heard: Sequence[Hearing],
    blends: Sequence[Blend],
) -> Sample:
    """Errors at all that was hidden, by their places in all data."""
    found = []
    for lesson, said in zip(tried.lessons, heard, strict=True):
        rows, cols, _ = lesson.hidden
        if lesson.lines is not None:
            rows, cols = lesson.lines[0][rows], lesson.lines[1][cols]
        found.append((rows, cols, said.errors(blends)))
    return Sample(*(np.concatenate(x) for x in zip(*found, strict=True)))


def hearing(
    obs: Observations,
    hidden: Sample,
    X: Factors,
    opinions: Sequence[str],
    known: Hearing | None = None,
) -> Hearing:
    """What all models say that are fitted to the same data. Simple ones say what they said beside
    another fit, if that is known.
    """
    places = hidden.rows, hidden.cols
    truth = hidden.values.astype(np.float64)
    others = known.simple() if known else _said_by_simple(obs, hidden)
    fit = truth - hidden.residual(X).astype(np.float64)
    if opinions:
        lines, unit = Lines.of(obs, X, places), residual_unit(obs, X)
        said = _asked(lines, opinions, unit, places)
        others = others | {x: fit + moved for x, moved in said.items()}
    return Hearing(truth, fit, others, known.tells if known else hidden.tells())


def _asked(
    table: Lines,
    opinions: Sequence[str],
    unit: float,
    places: tuple[Array, Array],
) -> dict[Blend, Array]:
    """By how much second opinions move the fit at these places. Of the same lines, an opinion is the
    same.
    """
    moved: dict[tuple[str, Lines], Array] = {}
    said = {}
    for name in opinions:
        for reach in OPINIONS[name].reaches:
            asked = name, table.cleaned(reach * unit)
            if asked not in moved:
                part = OPINIONS[name].of(asked[1], reach * unit, 1.0)
                moved[asked] = part.at(*places)
            said[Blend(name, 0.0, reach)] = moved[asked]
    return said


def _said_by_simple(obs: Observations, hidden: Sample) -> dict[Blend, Array]:
    models = simple_models(obs).items()
    return {Blend(name): hidden.values - hidden.residual(X) for name, X in models}


def residual_unit(obs: Observations, X: Factors) -> float:
    """The typical residual of the data."""
    return unit_of([obs.telling.residual(X)])


def all_heard(
    tried: Tried,
    opinions: Sequence[str],
    known: Sequence[Hearing] = (),
) -> list[Hearing]:
    """What all models say, and these second opinions; `known` as for `hearing`."""
    before: Sequence[Hearing | None] = known or [None] * len(tried.fits)
    triples = zip(tried.lessons, tried.fits, before, strict=True)
    return [hearing(x.rest, x.hidden, X, opinions, k) for x, X, k in triples]


# weights that some hearings ask for
Rule: TypeAlias = Callable[[Sequence[Hearing]], tuple[Blend, ...]]


def blends_for(
    tried: Tried,
    heard: Sequence[Hearing],
    bend: float,
    typically: bool = False,
) -> tuple[Blend, ...]:
    """As `best_blends`; each column of a table counts alike, whatever its unit is.

    A code with a few huge values (deviations of 59 quartiles were met) would otherwise decide for all
    columns."""
    if not can_regress(tried.lessons[0].rest):
        return best_blends(heard, bend, typically)
    pairs = zip(tried.lessons, heard, strict=True)
    alike = [said.over(_column_units(lesson)) for lesson, said in pairs]
    before, after = (
        unit_of([x.errors()[x.tells] for x in some]) for some in (heard, alike)
    )
    return best_blends(alike, bend * after / before, typically)


def _column_units(lesson: Lesson) -> Array:
    """Of hidden entries of a table: standard deviations of their columns, beside the usual one."""
    Y = lesson.rest.grid(*map(np.arange, lesson.rest.shape)).astype(np.float64)
    Y[lesson.hidden.rows, lesson.hidden.cols] = lesson.hidden.values
    wide = Y.shape[1] > Y.shape[0]
    Y = Y.T if wide else Y
    seen = ~np.isnan(Y)
    count = np.maximum(seen.sum(0), 1)
    away = np.where(seen, Y - np.nansum(Y, 0) / count, 0.0)
    size = np.sqrt((away**2).sum(0) / count)
    usual = median_of(size[size > 0]) if size.any() else 1.0
    size = np.maximum(size / usual, NARROWEST)
    return size[lesson.hidden.rows if wide else lesson.hidden.cols]


def best_blends(
    heard: Sequence[Hearing], bend: float, typically: bool = False
) -> tuple[Blend, ...]:
    """Second opinions, or a simple model, whichever adds more to the fit; nothing if neither does.
    What opinions gain is half that of `typically` missed entries, if asked.
    """
    found: tuple[Blend, ...] = ()
    simple = best_simple(heard, bend)
    if simple.weight:
        found = (simple,)
    if opinions := [x for x in heard[0].others if x.name in OPINIONS]:
        plain = crossed(heard, lambda _: found, bend)  # in the order of the others
        mixed = crossed(heard, partial(mixture, names=opinions, bend=bend), bend)
        less = mixed.mean() < (1 - SAME) * plain.mean()
        if less and (not typically or mean_gain(plain, mixed) > SAME):
            found = mixture(heard, opinions, bend)
    return found


def losses(heard: Sequence[Hearing], blends: Sequence[Blend], bend: float) -> Losses:
    """Of all hidden entries."""
    return Losses.joined([Losses.of(x.errors(blends), x.tells, bend) for x in heard])


def crossed(heard: Sequence[Hearing], rule: Rule, bend: float) -> Losses:
    """Losses where the weights by which a set is judged were found on the other sets; a single one
    is halved.
    """
    sets = heard if len(heard) > 1 else heard[0].halves()
    rests = [[y for y in sets if y is not x] for x in sets]
    pairs = zip(sets, rests, strict=True)
    return Losses.joined([losses([x], rule(rest), bend) for x, rest in pairs])


def mixture(
    heard: Sequence[Hearing],
    names: Sequence[Blend],
    bend: float,
) -> tuple[Blend, ...]:
    """Second opinions with the weights of least loss; those that hardly count are left out."""
    weights = mixing_weights(heard, names, bend)
    kept = [x for x, weight in zip(names, weights, strict=True) if weight >= LEAST]
    if len(kept) < len(names):
        weights = mixing_weights(heard, kept, bend)
    pairs = zip(kept, weights, strict=True)
    return tuple(x._replace(weight=float(weight)) for x, weight in pairs)


def mixing_weights(
    heard: Sequence[Hearing],
    names: Sequence[Blend],
    bend: float,
) -> Array:
    """Weights of others beside the fit with the least loss: not negative, at most 1 together, by
    reweighted least squares. Equal ones are where they begin, and what few entries leave them at.
    """
    return reweighted(heard, names, bend, equal=EQUAL)


def reweighted(
    heard: Sequence[Hearing],
    names: Sequence[Blend],
    bend: float,
    equal: float,
) -> Array:
    """The same, where equal weights count as so many entries."""
    error = np.concatenate([x.truth - x.fit for x in heard])
    columns = [np.concatenate([x.others[y] - x.fit for x in heard]) for y in names]
    toward = np.array(columns, np.float64).reshape(len(names), len(error)).T.copy()
    weights = np.empty(1 + len(names))
    _kernels.mixture(
        error, toward, weights=weights, bend=bend, equal=equal, rounds=REWEIGHTED
    )
    return weights[1:]


def best_simple(heard: Sequence[Hearing], bend: float) -> Blend:
    """The simple model that adds most to the fit, with its weight; if no gain is clear, the one
    that does better on average, and nothing if the fit is as good: what is simple needs no proof.
    """
    simple = list(heard[0].simple())
    plain = crossed(heard, lambda _: (), bend)  # in the order of the others
    best, least = NOTHING, plain
    for other in simple:
        after = crossed(heard, partial(_weighed, other=other, bend=bend), bend)
        if is_better(plain, after, WORTH) and after.mean() < least.mean():
            best, least = best_weight(heard, other, bend), after
    if best.weight:
        return best
    means = {x: losses(heard, (x._replace(weight=1.0),), bend).mean() for x in simple}
    best = min(means, key=lambda x: means[x], default=NOTHING)
    if not means.get(best, np.inf) < (1 - SAME) * plain.mean():
        return NOTHING
    return best_weight(heard, best, bend)


def _weighed(heard: Sequence[Hearing], other: Blend, bend: float) -> tuple[Blend, ...]:
    return (best_weight(heard, other, bend),)


def best_weight(heard: Sequence[Hearing], other: Blend, bend: float) -> Blend:
    """The other with the weight from 0 to 1 of least loss."""
    weight = reweighted(heard, [other], bend, equal=0.0)
    return other._replace(weight=float(weight[0]))


def simple_names(heard: Sequence[Hearing]) -> list[str]:
    """The models that know nothing of low rank."""
    return [x.name for x in heard[0].simple()]


def standings(
    heard: Sequence[Hearing], chosen: Sequence[Blend]
) -> tuple[Standing, ...]:
    """Errors of all models on the same entries, and which of them is the answer."""
    low_rank = _standing(heard, LOW_RANK, (), chosen)
    simple = [
        _standing(heard, x.name, (x._replace(weight=1.0),), chosen)
        for x in heard[0].simple()
    ]
    if not chosen:
        return (low_rank._replace(chosen=True), *simple)
    taken = _standing(heard, _said_of(chosen), chosen, chosen)
    return (low_rank, *simple, taken._replace(chosen=True))


def opinion_standings(
    heard: Sequence[Hearing], chosen: Sequence[Blend]
) -> tuple[Standing, ...]:
    """The same of second opinions, each alone: a line of `result.evidence["opinions"]`. Of several
    reaches, the one with the least errors.
    """
    best: dict[str, Standing] = {}
    for other in heard[0].others:
        if other.name in OPINIONS:
            alone = (other._replace(weight=1.0),)
            line = _standing(heard, other.name, alone, chosen)
            best[line.name] = min(best.get(line.name, line), line, key=_rmse)
    return tuple(best.values())


def _standing(
    heard: Sequence[Hearing],
    name: str,
    blends: Sequence[Blend],
    chosen: Sequence[Blend],
) -> Standing:
    """Of a model that was not chosen."""
    errors, usual = (
        np.concatenate([x.errors(some) for x in heard]) for some in (blends, chosen)
    )
    rmse, size = float(np.sqrt((errors**2).mean())), np.abs(errors)
    uncertain = float((size - np.abs(usual)).std() / np.sqrt(len(size)))
    return Standing(name, float(size.mean()), rmse, False, uncertain)


def _rmse(line: Standing) -> float:
    return line.rmse


def _said_of(blends: Sequence[Blend]) -> str:
    """What is blended, in a few words."""
    shares = {LOW_RANK: 1 - sum(x.weight for x in blends)}
    for x in blends:
        shares[x.name] = shares.get(x.name, 0.0) + x.weight
    return ", ".join(f"{100 * share:.0f} % {name}" for name, share in shares.items())
