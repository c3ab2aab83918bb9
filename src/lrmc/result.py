"""What a run gives: iterates on its way, and a result that says how it ended."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ._arguments import one_of, real_number, whole_number
from ._files import Format, opened_arrays, save_arrays
from .evidence.alarms import Alarms, Listing, listing, standing_out
from .evidence.calibration import (
    TARGETS,
    Calibration,
    NotCalibrated,
    Refit,
    Target,
    calibrate,
    fitted_again,
)
from .evidence.simple import Fitted
from .fit import Filling, Fit, Kept, Part, block_of
from .frames import Labels
from .linalg import Factors
from .observations._door import as_observations
from .observations.base import Observations, Sample
from .schedule import Schedule
from .weights import Array

FORMAT = Format("lrmc-result", "a result")
INTERVALS = "interval_"  # how arrays of a file begin that intervals are made of
# what becomes of rows and columns that are not determined
Undetermined = Literal["nan", "keep"]
UNDETERMINED = ("nan", "keep")


class Status(str, Enum):
    """How a run ended; `status.meaning` says it in words.

    Attributes
    ----------
    CONVERGED
        The iterates changed by less than `tol`, or stopped at the noise level.
    MAX_ITER
        They were still changing after `max_iter` iterations.
    SCHEDULE_ENDED
        A schedule without a tail ran out of layers.
    STALLED
        The thresholds fell below the residual.
    DIVERGED
        The iterates grew without bound; the last sound one is kept.
    UNDETERMINED
        There are fewer good entries than unknowns.

    Examples
    --------
    >>> import lrmc
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=100, rank=2, p=0.8).Y)
    >>> result.status is lrmc.Status.CONVERGED
    True
    >>> str(result.status)
    'converged'
    """

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    SCHEDULE_ENDED = "schedule_ended"
    STALLED = "stalled"
    DIVERGED = "diverged"
    UNDETERMINED = "undetermined"

    def __str__(self) -> str:
        return self.value

    @property
    def meaning(self) -> str:
        """The status in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Status.CONVERGED: "the iterates changed by less than tol, or stopped at the noise level",
    Status.MAX_ITER: "max_iter iterations were made, and the iterates still changed by more than tol",
    Status.SCHEDULE_ENDED: "the schedule has no more layers and no tail; the iterates still changed by more than tol",
    Status.STALLED: "the thresholds fell below the residual, so the steps became small although the fit is not there:"
    " noise, or a schedule made for other data",
    Status.DIVERGED: "the iterates grew without bound, and the last sound one is kept: a schedule made for other data",
    Status.UNDETERMINED: "fewer good entries than unknowns are left: another matrix of this rank may fit them as well",
}


@dataclass(frozen=True)
class Iterate:
    """The factors after k passes over the data, in the units of the data; k = 0 is the start.

    Attributes
    ----------
    k : int
        Number of passes.
    L, R : arrays of shape (n1, rank) and (n2, rank)
        The factors.
    change : float
        `|X_k - X_{k-1}|_F / |X_{k-1}|_F`; NaN at the start.
    zeta : float
        The threshold of this pass.
    inliers : float
        Fraction of the observed entries within it; NaN at the start.
    stage : str
        What the method is doing.
    norm : float
        `|X_k|_F`.

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.8)
    >>> first, *_, last = lrmc.iterates(problem.Y, rank=2)
    >>> first.k, last.L.shape
    (0, (100, 2))
    """

    k: int
    L: Array = field(repr=False)
    R: Array = field(repr=False)
    change: float  # |X_k - X_{k-1}|_F / |X_{k-1}|_F; NaN at the start
    zeta: float  # the threshold of this pass
    inliers: float  # the fraction of observed entries within it; NaN at the start
    stage: str = "start"
    norm: float = math.nan  # |X_k|_F


class Record(NamedTuple):
    """One line of `Result.history`."""

    k: int
    change: float
    zeta: float
    inliers: float
    seconds: float  # since the run began


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Result of `lrmc.solve`: the low-rank matrix X = L R', and how the run went.

    Attributes
    ----------
    L, R : arrays of shape (n1, rank) and (n2, rank)
        The factors.
    status : Status
        How the run ended; `converged` is True if well.
    history : tuple of Record
        One record per iteration: k, change, zeta (the threshold), inliers, seconds.
    method : str
        The method that was used.
    tol : float
        The tolerance that was asked for.
    undetermined_rows, undetermined_cols : arrays of int
        Rows and columns that the data do not determine: NaN in the completion.
    noise_level : float
        Estimated standard deviation of the noise.
    outlier_fraction : float
        Estimated fraction of outliers among the observed entries.
    regime : {"exact", "noisy", "unknown"}
        Low rank plus outliers, proven; with noise; or the run did not get that far.
    evidence : dict
        Why this rank and loss: tests, and errors on entries that were set aside.
    certificate : dict or None
        What proves an exact answer.
    warnings : tuple of str
        What speaks against the answer, in sentences.
    observations : Observations or None
        The data; None for a loaded result.
    refit, beyond, calibrated, labels
        Used by `interval`, `completed` and `frame`.

    Examples
    --------
    >>> import lrmc
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=100, rank=2, p=0.8).Y)
    >>> result.completed().shape
    (100, 100)
    """

    L: Array
    R: Array
    status: Status
    history: tuple[Record, ...]
    method: str
    tol: float
    undetermined_rows: Array
    undetermined_cols: Array
    noise_level: float = math.nan  # the standard deviation of the noise
    outlier_fraction: float = math.nan  # of the observed entries
    # "exact", "noisy", or "unknown" if the run did not get that far
    regime: str = "unknown"
    evidence: Mapping[str, Any] = field(default_factory=dict)  # why this rank and loss
    observations: Observations | None = None
    # what proves that data are exact; None where nothing was to prove
    certificate: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()  # what was said about the answer, besides its status
    refit: Refit | None = None  # the same run, on the data without some entries
    beyond: tuple[Part, ...] = ()  # what is added to L R' in `completed`
    calibrated: Calibration | None = None  # of a result from a file
    labels: Labels | None = None  # of a DataFrame that was solved
    # by dtype.kind of the factors: how files with such factors are read
    kinds: ClassVar[dict[str, type[Result]]] = {}

    def __init_subclass__(cls, *, kind: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        Result.kinds[kind] = cls

    def __repr__(self) -> str:
        n1, n2 = self.shape
        name = type(self).__name__
        found = f"{100 * self.outlier_fraction:.3g} % outliers, noise {self.noise_level:.2g}"
        return f"{name}({n1} x {n2}, rank {self.rank}, {self.status.name} after {self.n_iter}, {self.regime}: {found})"

    def _repr_html_(self) -> str:
        from .card import card

        return card(self)

    @property
    def rank(self) -> int:
        """The rank of the model."""
        return int(self.L.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of the matrix."""
        return len(self.L), len(self.R)

    @property
    def n_iter(self) -> int:
        """Number of iterations after the start."""
        return self.history[-1].k

    @property
    def converged(self) -> bool:
        """Whether the run converged."""
        return self.status is Status.CONVERGED

    def low_rank(
        self,
        rows: Any = slice(None),
        cols: Any = slice(None),
        *,
        undetermined: Undetermined = "nan",
    ) -> Array:
        """A block of L R'.

        Parameters
        ----------
        rows, cols : slice, int or array of int, default all
            The block. All of it takes n1 * n2 numbers of memory; of Dask data, when computed.
        undetermined : {"nan", "keep"}, default "nan"
            Rows and columns that are not determined (without an observation, or not vouched for)
            are NaN, or what L R' has there, which may be anything.

        Returns
        -------
        array of shape (len(rows), len(cols))

        Examples
        --------
        >>> import lrmc
        >>> result = lrmc.solve(lrmc.synthetic.problem(n=100, rank=2, p=0.8).Y)
        >>> result.low_rank(slice(10), [3, 4]).shape
        (10, 2)
        """
        one_of("undetermined", undetermined, UNDETERMINED)
        X = np.atleast_2d(self.L[rows]) @ np.atleast_2d(self.R[cols]).T
        return self._determined(X, rows, cols, undetermined)

    def completed(
        self,
        rows: Any = slice(None),
        cols: Any = slice(None),
        *,
        undetermined: Undetermined = "nan",
    ) -> Array:
        """The best estimate of a block of entries: the low-rank part and what lies beyond it.

        `beyond` says what that is: nothing, unless entries that were set aside are found better
        with it.

        Parameters
        ----------
        rows, cols, undetermined
            As for `low_rank`.

        Returns
        -------
        array of shape (len(rows), len(cols))

        Examples
        --------
        >>> import lrmc
        >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.8)
        >>> error = abs(lrmc.solve(problem.Y).completed() - problem.X)
        >>> bool(error.max() < 1e-4 * abs(problem.X).max())
        True
        """
        if not self.beyond:
            return self.low_rank(rows, cols, undetermined=undetermined)
        X = self.low_rank(rows, cols, undetermined="keep")
        places = (
            np.atleast_1d(np.arange(n)[chosen])
            for n, chosen in zip(self.shape, (rows, cols), strict=True)
        )
        X = (X + block_of(self.beyond, *places)).astype(X.dtype)
        return self._determined(X, rows, cols, undetermined, self._open_lines())

    def _open_lines(self) -> tuple[Array, Array]:
        """Rows and columns that are not determined: of those that are times, none."""
        filled = {part.fills for part in self.beyond if isinstance(part, Filling)}
        none = np.array([], np.int64)
        return (
            none if "rows" in filled else self.undetermined_rows,
            none if "columns" in filled else self.undetermined_cols,
        )

    def frame(self) -> Any:
        """The data as a DataFrame of the same kind and with the same labels, where missing entries
        are filled in.

        Observed entries stay, outliers too (`outliers()` lists these); `completed()` is the
        estimate of every entry.

        Returns
        -------
        DataFrame
            Of pandas or polars, as the one that was solved.

        Raises
        ------
        ValueError
            If what was solved is no DataFrame.
        """
        if self.labels is None or self.observations is None:
            raise ValueError(
                "this result has no labels: frame() is for a DataFrame that was given to lrmc.solve"
                " in this session; completed() gives an array"
            )
        n1, n2 = self.shape
        seen = self.observations.grid(np.arange(n1), np.arange(n2))
        return self.labels.frame(np.where(np.isnan(seen), self.completed(), seen))

    def _determined(
        self,
        X: Array,
        rows: Any,
        cols: Any,
        undetermined: Undetermined,
        lines: tuple[Array, Array] | None = None,
    ) -> Array:
        """A block, NaN where it is not determined unless that is kept."""
        if undetermined == "keep":
            return X
        open_rows, open_cols = lines or (self.undetermined_rows, self.undetermined_cols)
        if len(open_cols):
            X = np.where(
                _among(open_cols, len(self.R), cols),
                X.dtype.type(np.nan),
                X,
            )
        if len(open_rows):
            X = np.where(
                _among(open_rows, len(self.L), rows)[:, None],
                X.dtype.type(np.nan),
                X,
            )
        return X

    def outliers(
        self,
        Y: Any = None,
        *,
        mask: Any = None,
        threshold: float | None = None,
    ) -> Any:
        """The outliers: S = Y - X where an observed entry stands out, 0 for other entries.

        Parameters
        ----------
        Y, mask : optional
            The data, which a result loaded from a file needs again.
        threshold : float, optional
            An entry stands out if `|Y - X|` is larger. If not given, so much that few of the listed
            entries are expected to be good: `false_alarms` says how many.

        Returns
        -------
        array or sparse matrix
            In the form of the data.

        Raises
        ------
        ValueError
            If the data are needed and not given, or have another shape.

        Examples
        --------
        >>> import lrmc
        >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=1, outlier_scale=9)
        >>> S = lrmc.solve(problem.Y).outliers()
        >>> bool(abs(S - problem.outliers).max() < 1e-4 * abs(S).max())
        True
        """
        obs = self._data(Y, mask)
        fit = Fit(self.factors(), self.beyond)
        if threshold is None:
            return standing_out(obs, fit, self.listing(obs))
        return standing_out(obs, fit, Listing.even(float(threshold), self.shape))

    def _data(self, Y: Any, mask: Any) -> Observations:
        """The data of the run, or what is given in their place."""
        obs = self.observations if Y is None else as_observations(Y, mask)
        if obs is None:
            raise ValueError(
                "this result was loaded from a file, which does not hold the data; call outliers(Y)"
            )
        if obs.shape != self.shape:
            raise ValueError(
                f"the data have shape {obs.shape}, this result {self.shape}"
            )
        return obs

    def listing(self, obs: Observations | None = None) -> Listing:
        """From where on observed entries are listed as outliers. Of noisy data it takes a few
        passes, once.
        """
        if obs is None or obs is self.observations:
            return self._own_listing
        return self._listed(obs)

    @cached_property
    def _own_listing(self) -> Listing:
        return self._listed(self._data(None, None))

    def _listed(self, obs: Observations) -> Listing:
        if self.regime == "noisy":
            return listing(obs, self.fit)
        residual = self.fit.residual(obs.sample)
        deviations = (1.4826 * float(np.median(np.abs(residual))), self.noise_level)
        known = (6 * x for x in deviations if math.isfinite(x))
        return Listing.even(max(self.history[-1].zeta, *known), self.shape)

    # ---- how far off it may be

    @cached_property
    def fitted_again(self) -> tuple[Fitted, ...]:
        """Five runs on the data without some entries (of some rows, where data are large). Made when
        first asked for.
        """
        if self.observations is None or self.refit is None:
            raise NotCalibrated(
                "this result was loaded from a file that holds no intervals: ask for one before the result is saved"
            )
        if not self.converged:
            raise NotCalibrated(
                f"the run did not converge ({self.status.meaning}): there is nothing to calibrate"
            )
        return fitted_again(self.observations, self.refit, self.rank)

    @cached_property
    def calibration(self) -> Calibration:
        """What intervals are made of, from `fitted_again`. `save` keeps it, if it was
        made by then.
        """
        if self.calibrated is not None:
            return self.calibrated
        sets = self.fitted_again
        assert self.observations is not None  # else there would be no sets
        return calibrate(self.observations, self.fit, sets)

    @property
    def schedule(self) -> Schedule | None:
        """What was learned and decided for noisy data, with a card: `solve(Y, schedule=...)` takes
        it for more data of the same kind. None for other data.
        """
        plan = self.evidence.get("plan")
        if plan is None:
            return None
        card = {
            "source": "learned on hidden entries",
            "shape": list(self.shape),
            "rank": self.rank,
            "held_out": dict(self.evidence.get("held_out", {})),
        }
        return Schedule(plan=plan, card=card)

    def interval(
        self,
        rows: Any,
        cols: Any,
        level: float = 0.9,
        of: Target = "value",
    ) -> tuple[Array, Array]:
        """Intervals around completed entries, calibrated on entries that were set aside.

        The first call takes five more runs of the solver.

        Parameters
        ----------
        rows, cols : int or array of int
            Indices of the entries, broadcast: `rows[:, None]` and `cols` are a block.
        level : float, default 0.9
            Probability with which an interval holds what is missing.
        of : {"value", "observation"}, default "value"
            What would be observed there without a gross error (the low-rank value and noise), or
            with one, if that happens.

        Returns
        -------
        lower, upper : arrays
            NaN where an entry is not determined.

        Raises
        ------
        NotCalibrated
            If no interval could be vouched for, as where gaps are unlike anything that was
            observed.

        Examples
        --------
        >>> import lrmc
        >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.8, noise=0.1)
        >>> lower, upper = lrmc.solve(problem.Y, rank=2).interval([0, 1], [2, 3])
        >>> bool((lower < upper).all())
        True
        """
        one_of("of", of, TARGETS)
        level = real_number(
            "level", level, lambda x: 0 < x < 1, "a number between 0 and 1, such as 0.9"
        )
        rows, cols = self._places(rows, cols)
        half = self.calibration.half_width(rows, cols, level, of)
        middle = self._at(rows, cols)
        return middle - half, middle + half

    def forecast(self, steps: int, level: float = 0.9) -> Any:
        """Forecast the next steps in time after the end of the table.

        It takes a result with a model of time (see `time` of `lrmc.solve`). Intervals are learned
        from forecasts of the table's own last steps, which takes up to five more fits.

        Parameters
        ----------
        steps : int
            How many steps.
        level : float, default 0.9
            Probability with which an interval holds the value.

        Returns
        -------
        named tuple
            Values, lower and upper ends; time goes along the axis that it has in the data.

        Raises
        ------
        ValueError
            If the result has no model of time.
        """
        steps = whole_number("steps", steps, 1)
        level = real_number(
            "level", level, lambda x: 0 < x < 1, "a number between 0 and 1, such as 0.9"
        )
        part = next((x for x in self.beyond if isinstance(x, Filling)), None)
        if part is None or self.observations is None:
            raise ValueError(
                'this result has no model of time to forecast with: solve(Y, time="columns") or'
                ' "rows" makes one, where it is of use'
            )
        return part.forecast(self.observations, steps, level)

    def standard_error(self, rows: Any, cols: Any) -> Array:
        """Standard deviation of what is missing around completed entries, noise included.

        Parameters
        ----------
        rows, cols
            As for `interval`.

        Returns
        -------
        array
        """
        rows, cols = self._places(rows, cols)
        return self.calibration.deviation(rows, cols) + 0 * self._at(rows, cols)

    def sample(self, rows: Any, cols: Any, n: int = 1, seed: int = 0) -> Array:
        """Draw values that missing entries may have (multiple imputation).

        Each is drawn on its own, as if errors of neighbouring entries were independent.

        Parameters
        ----------
        rows, cols
            As for `interval`.
        n : int, default 1
            Number of draws.
        seed : int, default 0
            Seed of the random numbers.

        Returns
        -------
        array of shape (n, ...)
        """
        n, seed = whole_number("n", n, 1), whole_number("seed", seed, 0)
        rows, cols = self._places(rows, cols)
        rng = np.random.default_rng(seed)
        return self._at(rows, cols) + self.calibration.drawn(rows, cols, n, rng)

    def outlier_probability(
        self,
        rows: Any,
        cols: Any,
        Y: Any = None,
        *,
        mask: Any = None,
    ) -> Array:
        """Probability that observed entries are gross errors.

        Parameters
        ----------
        rows, cols
            As for `interval`.
        Y, mask
            As for `outliers`.

        Returns
        -------
        array
            NaN where nothing was observed, and in rows and columns of mostly one value, where
            errors cannot be told from events.
        """
        rows, cols = self._places(rows, cols)
        obs, flat = self._data(Y, mask), (rows.ravel(), cols.ravel())
        residual = obs.lookup(*flat) - self._at(*flat)
        chance = self.listing(obs).outlying(Sample(*flat, residual))
        return chance.reshape(rows.shape)

    def false_alarms(
        self,
        Y: Any = None,
        *,
        mask: Any = None,
        threshold: float | None = None,
    ) -> Alarms:
        """Number of entries that `outliers` lists, and how many of these are expected to be good.

        One pass over the data.

        Parameters
        ----------
        Y, mask, threshold
            As for `outliers`.

        Returns
        -------
        Alarms
            A named tuple.
        """
        obs = self._data(Y, mask)
        listed, limit = (
            self.listing(obs),
            None if threshold is None else float(threshold),
        )
        parts = self.fit.residuals(obs)
        found = sum(int(listed.beyond(some, limit).sum()) for some in parts)
        return listed.alarms(found, obs.n_observed, limit)

    def _at(self, rows: Array, cols: Array) -> Array:
        """The estimate at these places, NaN where it is not determined."""
        flat = rows.ravel(), cols.ravel()
        X = self.fit.at(*flat)
        open_rows, open_cols = self._open_lines()
        undetermined = np.isin(flat[0], open_rows) | np.isin(flat[1], open_cols)
        return np.where(undetermined, X.dtype.type(np.nan), X).reshape(rows.shape)

    def _places(self, rows: Any, cols: Any) -> tuple[Array, Array]:
        """Indices of entries, looked at and broadcast."""
        found = []
        for name, given, n in zip(
            ("rows", "cols"), (rows, cols), self.shape, strict=True
        ):
            at = np.asarray(given)
            if at.dtype.kind not in "iu" or np.any((at < -n) | (at >= n)):
                raise ValueError(
                    f"{name} holds what is no index of {n}; integers from 0 to {n - 1} are wanted"
                )
            found.append(np.where(at < 0, at + n, at).astype(np.int64))
        return np.broadcast_arrays(*found)  # type: ignore[return-value]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Plot change, threshold, inliers and singular values.

        Parameters
        ----------
        path : path, optional
            Where the figure is saved.

        Returns
        -------
        matplotlib.figure.Figure
            A notebook shows it.
        """
        from .plot import plot_result

        return plot_result(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the data to an .npz file."""
        names = (
            "method",
            "tol",
            "noise_level",
            "outlier_fraction",
            "regime",
            "certificate",
            "warnings",
        )
        about = {name: getattr(self, name) for name in names}
        about |= {"status": str(self.status), "evidence": _plain(self.evidence)}
        arrays = {
            "L": np.asarray(self.L),
            "R": np.asarray(self.R),
            "history": np.array(self.history, np.float64),
            "undetermined_rows": self.undetermined_rows,
            "undetermined_cols": self.undetermined_cols,
        }
        for part in self.beyond:
            if isinstance(part, Filling):
                arrays["time_values"] = part.values
                about["time"] = part.fills
        made = self.calibrated or vars(self).get("calibration")
        intervals = (
            {}
            if made is None
            else {f"{INTERVALS}{name}": x for name, x in made.plain().items()}
        )
        save_arrays(path, FORMAT, arrays | intervals, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read what `save` wrote. Nothing in the file is executed."""
        with opened_arrays(path, FORMAT) as (about, content):
            L, R, lines = content["L"], content["R"], content["history"]
            check_factors(L, R)
            history = tuple(Record(int(k), *map(float, rest)) for k, *rest in lines)
            if not history:
                raise ValueError("its history is empty")
            rows, cols = content["undetermined_rows"], content["undetermined_cols"]
            for indices, n in ((rows, len(L)), (cols, len(R))):
                if (
                    indices.ndim != 1
                    or indices.dtype.kind not in "iu"
                    or np.any((indices < 0) | (indices >= n))
                ):
                    raise ValueError("it names rows or columns that are not there")
            certificate = about.get("certificate")
            beyond = _kept_part(Factors(L, R), about.get("time"), content)
            stored = {
                name.removeprefix(INTERVALS): content[name]
                for name in content
                if name.startswith(INTERVALS)
            }
            return Result.kinds.get(L.dtype.kind, Result)(
                L,
                R,
                Status(about["status"]),
                history,
                method=str(about["method"]),
                tol=float(about["tol"]),
                undetermined_rows=rows,
                undetermined_cols=cols,
                noise_level=float(about["noise_level"]),
                outlier_fraction=float(about["outlier_fraction"]),
                regime=str(about["regime"]),
                evidence=dict(about["evidence"]),
                certificate=None if certificate is None else dict(certificate),
                warnings=tuple(map(str, about.get("warnings", ()))),
                beyond=beyond,
                calibrated=Calibration.from_plain(stored, (len(L), len(R)))
                if stored
                else None,
            )

    def factors(self) -> Factors:
        """L and R as a pair."""
        return Factors(self.L, self.R)

    @cached_property
    def fit(self) -> Fit:
        """All that is said of entries, in this process: where rows are elsewhere, n1 x rank numbers
        are brought.
        """
        return Fit(Factors(np.asarray(self.L), np.asarray(self.R)), self.beyond)


def _kept_part(X: Factors, axis: Any, content: Mapping[str, Array]) -> tuple[Part, ...]:
    """The part in time that a file holds, looked at before it is believed."""
    if axis is None:
        return ()
    one_of("the axis of time", axis, ("rows", "columns"))
    x = content["time_values"]
    if x.shape != (len(X.L), len(X.R)) or x.dtype.kind != "f":
        raise ValueError(
            f"its part in time has shape {x.shape} and type {x.dtype}, its factors {len(X.L)} and {len(X.R)} rows"
        )
    return (Kept(X, x, axis),)


def _among(lines: Array, n: int, chosen: Any) -> Array:
    """Which of the chosen lines, of n in all, are among these."""
    return np.isin(np.atleast_1d(np.arange(n)[chosen]), lines)


def _plain(x: Any) -> Any:
    """As JSON can hold it: named tuples become dictionaries."""
    if hasattr(x, "_asdict"):
        return _plain(x._asdict())
    if isinstance(x, Mapping):
        return {str(key): _plain(value) for key, value in x.items()}
    return [_plain(value) for value in x] if isinstance(x, list | tuple) else x


def check_factors(L: Array, R: Array) -> None:
    """Refuse factors from a file that are none."""
    if (
        any(X.ndim != 2 or X.dtype.kind not in "fc" for X in (L, R))
        or L.dtype != R.dtype
        or L.shape[1] != R.shape[1]
    ):
        raise ValueError(
            f"its factors have shapes {L.shape} and {R.shape}, types {L.dtype} and {R.dtype}"
        )
    if not (np.isfinite(L).all() and np.isfinite(R).all()):
        raise ValueError("its factors are not finite")
