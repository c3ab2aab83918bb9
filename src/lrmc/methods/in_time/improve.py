"""A low-rank result, with a model of time where entries set aside speak for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from ..._arguments import one_of, whole_number
from ...evidence.calibration import Refit, SetAside
from ...fit import Fit
from ...observations._door import as_observations
from ...observations.base import Observations, Sample
from ...observations.heldout import Submatrix, without
from ...result import Result, Status
from ...weights import Array
from ..plan import Score
from .check import Check, checked
from .clock import Clock, NoClock, even_clock, read_clock, without_nights
from .gaps import beside_gaps, beyond_ends, gaps_elsewhere, gaps_of
from .part import Axis, Timing, filled, lying, whole, without_gross
from .periods import find_period, is_ordered, is_smooth
from .plan import IDLE_IN_WINDOWS, for_all_sensors, learn_plan, weighed_by_all
from .simple import slot_medians
from .sound import left_without, many_faults, without_faults
from .windows import WHOLE, middle_window, width_of

AskedTime = Literal["auto", "columns", "rows"]
TIMES = ("auto", "columns", "rows")
FEWEST = 8  # times that a model of time is made of
# two standard errors of a mean over fewer are half of their deviation, and more
FEW_SERIES = 16
# of what is missing: from there on beginnings and ends are what is filled in
AT_ENDS = 0.25
# times what low rank typically misses: where entries beside gaps are so far off, gaps hide more of
# the same. Sensors have 0.9 to 1.8, clouds that a mask leaves 2.6 to 30
UNLIKE = 2.0
# what is said of low rank alone, in warnings
OF_LOW_RANK = (
    "unknowns: not determined",
    "do not determine this",
    "are far from this fit",
    "low rank is no good model",
    "are called outliers",
)
# entries and gaps that a run is made without to tell how wide intervals are, five times. Without a
# tenth of all, what is left knows less of each gap than all of it does of those of the table, and
# widths were too large (single entries of Birmingham: 95 % for 90)
TOLD_BY, GAPS = 1_200, 40
MOVED = 1000  # seeds of gaps that intervals are learned from, beyond those of the plan


class Asked(NamedTuple):
    """What a user said about time."""

    time: AskedTime | None = "auto"
    period: int | Literal["auto"] | None = "auto"
    times: Any = None
    in_words: bool = False  # said as an argument, not by labels of the data
    score: Score = "auto"  # what an order that nobody named must gain in
    one_sided: bool = False  # all outliers lie above the truth, or all below

    @property
    def is_given(self) -> bool:
        """Whether there is time, as the user says."""
        return self.time in ("columns", "rows")


def checked_time(time: Any, period: Any, times: Any) -> Asked:
    """Look at what was said, before any work."""
    if isinstance(time, Asked):  # it was looked at
        return time
    if time is not None:
        one_of("time", time, TIMES)
    if period is not None and period != "auto":
        whole_number("period", period, 2, hint=', or "auto", or None for none')
    if time is None and times is not None:
        raise ValueError(
            'times= was given with time=None; say time="columns" or "rows"'
        )
    if times is not None and time == "auto":
        time = "columns"
    return Asked(time, period, times, in_words=time in ("columns", "rows"))


def with_time(result: Result, asked: Asked, seed: int) -> Result:
    """The same result, or one with a part in time.

    What was not asked for in words does no harm: where a model of time cannot be made, low rank is
    left alone.
    """
    try:
        with np.errstate(all="ignore"):
            return _with_time(result, asked, seed)
    except (np.linalg.LinAlgError, FloatingPointError) as error:
        return _without(result, asked, str(error).lower())
    except NoClock as error:
        if asked.in_words:
            raise
        text = f"the dates of the table are left out of account: {error}"
        return replace(result, warnings=(*result.warnings, text))


def _without(result: Result, asked: Asked, why: str) -> Result:
    """Low rank alone, with a word to those who asked for more."""
    if not asked.in_words:
        return result
    text = f"time={asked.time!r} is left out of account: {why}"
    return replace(result, warnings=(*result.warnings, text))


def _with_time(result: Result, asked: Asked, seed: int) -> Result:
    """The same, without precautions.

    Where nothing was said, columns or rows are taken for times if neighbors are alike beyond chance,
    and if the model of time is clearly better than low rank on entries set aside, in the shape of the
    gaps. Where time was given, it counts as far as it is of use."""
    obs = result.observations
    assert obs is not None  # a run has its data
    why_not = _not_for(result, obs)
    long = obs.shape[0] * obs.shape[1] > WHOLE  # too long to try it unasked
    asked_for = asked.is_given and (asked.in_words or not why_not)
    # a model of time knows no sides: it follows what stays on one for a while, and fills nothing here
    idle = why_not or long or (asked.one_sided and obs.fraction == 1)
    if asked.time is None or (idle and not asked_for):
        return result
    if why_not == _too_small(obs):
        return _without(result, asked, why_not)
    if why_not:
        raise ValueError(f"time={asked.time!r}: {why_not}")
    table = whole(obs)
    axis = _axis(table, asked)
    if axis is None:
        return result
    optional = _is_optional(result, asked, axis)
    if optional and _hide_what_is_unlike(result, axis):
        return replace(result, warnings=(*result.warnings, _not_in_order(axis)))
    sensors = lying(table, axis)
    T = sensors.shape[1]
    clock = clock_of(asked, T)
    Y = clock.on_grid(sensors)
    clock.check_shared(sensors, Y, result.noise_level)
    sound, Y, wrong = without_faults(result, Y, clock, axis, seed, again=not long)
    timing = _planned(sound, Y, clock, axis, asked, seed)._replace(faulty=wrong)
    check = checked(Y, timing.plan, timing.width, seed)
    evidence = _evidence(result, timing, check)
    sound = replace(sound, observations=obs, evidence=evidence)
    of_faults = tuple(many_faults(wrong, axis, obs.n_observed))
    fills = obs.fraction < 1
    if not timing.plan.is_worth_it(clearly=optional, fills=fills):
        return _low_rank_alone(result, sound, of_faults, optional=optional)
    part = filled(obs, Fit(sound.factors(), sound.beyond), timing)
    cleaned = without_gross(part, obs)
    assert result.refit is not None
    return replace(
        sound,
        beyond=(cleaned.part,),
        noise_level=cleaned.noise,
        outlier_fraction=cleaned.gross,
        status=_status(result.status),
        regime="noisy",
        warnings=(
            *_still_true(result.warnings, obs, axis),
            *_said(check),
            *of_faults,
            *_few_begin_late(Y),
        ),
        refit=Again(result.refit, timing),
    )


def _low_rank_alone(
    result: Result,
    sound: Result,
    of_faults: tuple[str, ...],
    *,
    optional: bool,
) -> Result:
    """Without what sensors said while they failed, if anybody said that there are sensors."""
    if optional:
        return replace(result, evidence=sound.evidence)
    return replace(sound, warnings=(*result.warnings, *of_faults))


def clock_of(asked: Asked, T: int) -> Clock:
    """When so many times were, as the user says."""
    if asked.times is None:
        return even_clock(T)
    clock = read_clock(asked.times, T)
    return without_nights(clock) if asked.period == "auto" else clock


def _axis(Y: Array, asked: Asked) -> Axis | None:
    """As the user says, or as entries beside each other do; None where these say nothing.

    What is smooth along both sides is a picture, or a stack of them. Where neither is, lines that are
    alike beyond chance have an order all the same: people of one household, days of a week."""
    if asked.is_given:
        return "rows" if asked.time == "rows" else "columns"
    by_columns, by_rows = _some(Y), _some(Y.T)
    if is_ordered(by_columns):
        return "columns"
    along, across = is_smooth(by_columns), is_smooth(by_rows)
    if along != across:
        return "columns" if along else "rows"
    return "rows" if not along and is_ordered(by_rows) else None


def _hide_what_is_unlike(result: Result, axis: Axis) -> bool:
    """Whether most entries beside gaps are twice as far from low rank as others typically are, beyond
    chance: gaps are where a mask found most of a cloud or of what moves. Lines between such entries
    would fill in more of it, and entries set aside, which are mostly elsewhere, do not tell."""
    obs = result.observations
    assert obs is not None
    size = np.full(obs.shape, np.nan)
    for some in Fit(result.factors(), result.beyond).residuals(obs):
        size[some.rows, some.cols] = np.abs(some.values)
    if axis == "rows":
        size = size.T
    seen = ~np.isnan(size)
    beside = beside_gaps(seen)
    there, others = size[beside], size[seen & ~beside]
    if not (len(there) and len(others)):
        return False
    # two standard errors of a half
    return float(np.mean(there > UNLIKE * np.median(others))) > 0.5 + len(there) ** -0.5


def _not_in_order(axis: Axis) -> str:
    return (
        f"{axis} beside each other are alike, but entries beside gaps are unlike all others, as at the"
        f" edges of clouds: gaps are filled in by low rank alone. Say time={axis!r} if {axis} are"
        " times, or time=None"
    )


def _evidence(result: Result, timing: Timing, check: Check | None) -> dict[str, Any]:
    in_time = {"axis": timing.axis, **timing.plan.plain()}
    in_time["faults"] = 0 if timing.faulty is None else int(timing.faulty.sum())
    if check is not None:
        in_time["checked"] = check.plain()
    return {**result.evidence, "time": in_time}


def _said(check: Check | None) -> tuple[str, ...]:
    return (check.warning,) if check is not None and check.warning else ()


def _few_begin_late(Y: Array) -> Iterator[str]:
    """A word where few series say how well late beginnings and early ends are filled in."""
    seen = ~np.isnan(Y)
    beyond = int(beyond_ends(seen).sum())
    if len(Y) < FEW_SERIES and beyond > AT_ENDS * int((~seen).sum()):
        yield (
            f"time: {beyond} entries before the first or after the last of a series are filled in;"
            f" {len(Y)} series are too few to tell how well, and the nearest known value may be"
            " better"
        )


def _is_optional(result: Result, asked: Asked, axis: Axis) -> bool:
    """Whether nobody said that there is time, and low rank alone has something to say of all
    times."""
    rows, cols = result.undetermined_rows, result.undetermined_cols
    return not asked.is_given and not len(cols if axis == "columns" else rows)


def _status(before: Status) -> Status:
    """Too few entries for a low rank may be enough with time: entries set aside say so."""
    return Status.CONVERGED if before is Status.UNDETERMINED else before


def _still_true(told: tuple[str, ...], obs: Observations, axis: Axis) -> Iterator[str]:
    """Warnings, without that of times that have no entry: they are filled in."""
    seen = obs.row_observed if axis == "columns" else obs.col_observed
    empty = int((np.asarray(seen) == 0).sum())
    for text in told:
        if any(words in text for words in OF_LOW_RANK):
            continue
        if "have no observation" not in text:
            yield text
        elif empty:
            lines = "row(s)" if axis == "columns" else "column(s)"
            yield f"{empty} {lines} have no observation: their values are not determined, and NaN in the completion"


def _not_for(result: Result, obs: Observations) -> str:
    """Why a model of time is not for this result; empty if it is."""
    if not obs.is_here or obs.in_blocks:
        return "a model of time is for data in memory; these are elsewhere"
    if obs.groups is not None:
        return "rows in groups have no model of time"
    if max(obs.shape) < FEWEST:
        return _too_small(obs)
    if not all(isinstance(F, np.ndarray) for F in result.factors()):
        return "a model of time is for data in memory; these are elsewhere"
    return ""


def _too_small(obs: Observations) -> str:
    n1, n2 = obs.shape
    return f"a table of {n1} x {n2} is too small for a model of time"


def _some(Y: Array) -> Array:
    """Enough columns, one after another, to see whether they have an order."""
    S, T = Y.shape
    return np.asarray(Y[:, : width_of(S, T, None)])


def _planned(
    result: Result,
    Y: Array,
    clock: Clock,
    axis: Axis,
    asked: Asked,
    seed: int,
) -> Timing:
    """The plan for a table on its grid, learned in a window of it."""
    S, T = Y.shape
    period = _period(Y, clock, asked)
    width = width_of(S, T, period)
    part = np.ascontiguousarray(Y[:, middle_window(T, width, period)])
    # the fit of a long table is not made again: it was asked for with time
    other = partial(_without_time, result, part, clock, axis, seed)
    if width == T:
        plan = learn_plan(part, period, other, seed, score=asked.score)
        plan = weighed_by_all(plan, part, other, seed, asked.score)
    else:
        usual = None if period is None else slot_medians(Y, period)
        plan = learn_plan(part, period, None, seed, IDLE_IN_WINDOWS, usual)
        plan = for_all_sensors(plan, part)
    return Timing(axis, clock, plan, width)


def _without_time(
    result: Result | Again,
    Y: Array,
    clock: Clock,
    axis: Axis,
    seed: int,
    held: Array,
    judged: Array,
) -> Array:
    """What a fit says of held-out cells of these sensors that knows neither time nor any cell that
    is held out."""
    rest = np.where(held, np.nan, Y)[:, clock.cells]
    obs = as_observations(lying(rest, axis))
    assert result.refit is not None
    fit = result.refit(Submatrix(obs, *map(np.arange, obs.shape)), seed)
    column = np.zeros(clock.n, np.int64)
    column[clock.cells] = np.arange(len(clock.cells))
    sensors, cells = np.nonzero(held[judged])
    places = judged[sensors], column[cells]
    return fit.at(*(places if axis == "columns" else places[::-1]))


def _period(Y: Array, clock: Clock, asked: Asked) -> int | None:
    """As given, or as the calendar has it, or as the data show it."""
    if asked.period != "auto":
        period = asked.period
        if period is not None and 2 * period > clock.n:
            raise ValueError(
                f"period={period}: the table has {clock.n} steps in time; at least two periods are wanted"
            )
        return period
    return clock.period or find_period(_some(Y))


@dataclass(frozen=True)
class Again:
    """The same fit to a part of the data without some entries (`Result.refit`)."""

    refit: Refit
    timing: Timing

    def __call__(self, part: Submatrix, seed: int) -> Fit:
        """The fit. Where few entries told the weights of its plan, these are learned again: a plan
        that knows what is set aside misses less of it than of what is missing."""
        timing = self._there(part)
        part = part._replace(obs=left_without(part.obs, timing.faulty))
        fit = self.refit(part, seed)
        timing = timing._replace(plan=timing.plan.without_values())
        if timing.plan.is_of_few:
            timing = self._learned_again(timing, part, seed)
        return Fit(fit.X, (filled(part.obs, fit, timing),))

    def _learned_again(self, timing: Timing, part: Submatrix, seed: int) -> Timing:
        """With a plan of this part; the same where so few entries have none."""
        Y = timing.grid_of(part.obs)
        other = partial(_without_time, self, Y, timing.clock, timing.axis, seed)
        try:
            plan = learn_plan(Y, timing.plan.told_by, other, seed)
        except np.linalg.LinAlgError:
            return timing
        return timing._replace(plan=plan)

    def part(self, obs: Observations) -> Submatrix | None:
        """Of a long table, two windows."""
        timing = self.timing
        n = timing.clock.n
        width = 2 * timing.width
        if width >= n or not timing.clock.is_plain:
            return None
        span = middle_window(n, width, timing.plan.period)
        rows, cols = (np.arange(m) for m in obs.shape)
        if timing.axis == "columns":
            cols = cols[span]
        else:
            rows = rows[span]
        return Submatrix(as_observations(obs.grid(rows, cols)), rows, cols)

    def set_aside(self, part: Submatrix, seed: int) -> SetAside | None:
        """Gaps like those of the data, moved in time, so that intervals know how far off their
        middle is. None where times between others are not there: gaps are others then."""
        every = self.timing.clock.cells
        cells = self._cells(part)
        between = (every >= cells.min()) & (every <= cells.max())
        if len(cells) < between.sum():
            return None
        timing = self._there(part)
        Y = timing.grid_of(part.obs)
        missing = np.isnan(Y)
        in_one = missing.sum() / max(len(np.unique(gaps_of(missing))), 1)
        most = int(max(TOLD_BY, GAPS * in_one))
        # other gaps than the plan was learned from
        held = gaps_elsewhere(~missing, MOVED + seed, timing.plan.period, most)
        places = np.nonzero(timing.sensors(timing.clock.off_grid(held)))
        values = part.obs.lookup(*places)
        seen = ~np.isnan(values)
        some = Sample(*(x[seen] for x in (*places, values)))
        return without(part.obs, some), some

    def _there(self, part: Submatrix) -> Timing:
        """Where the times of a part are: on cells from the period that they begin in."""
        cells = self._cells(part)
        period = self.timing.plan.period or 1
        cells = cells - int(cells.min()) // period * period
        clock = Clock(cells, int(cells.max()) + 1, self.timing.clock.period)
        faulty = self.timing.faulty
        if faulty is not None:
            faulty = faulty[np.ix_(part.rows, part.cols)]
        return self.timing._replace(clock=clock, faulty=faulty)

    def _cells(self, part: Submatrix) -> Array:
        timing = self.timing
        times = part.cols if timing.axis == "columns" else part.rows
        return timing.clock.cells[times]
