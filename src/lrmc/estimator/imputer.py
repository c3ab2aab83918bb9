"""Completed tables."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from .._arguments import one_of, real_number, yes_or_no
from .._job import SCORES
from ..evidence.alarms import LEFT
from ..evidence.calibration import (
    Calibration,
    NotCalibrated,
    calibrate,
    check_converged,
    fitted_again,
)
from ..evidence.scales import Scales, lines_of
from ..fit import Fit, Moved, block_of
from ..methods.in_time.doors import dates_of
from ..methods.in_time.improve import Asked, AskedTime, checked_time
from ..methods.in_time.part import InTime
from ..methods.local import Local
from ..methods.neighbors import Neighbors
from ..methods.noisy import AskedLoss
from ..methods.plan import Score
from ..methods.regression import Regression
from ..observations.base import row_blocks
from ..observations.heldout import part_in_memory
from ..outofcore import FILLS, Fill
from ..result import Status
from ..weights import Array, Sides
from .columns import Columns
from .pca import RobustPCA
from .reading import Given, TakesGaps, check_shared, read, without
from .steps import keys_of, steps_of

if TYPE_CHECKING:
    from typing_extensions import Self

# what the components of the scaled columns are asked for as the table is
SHARED = (
    "n_components",
    "forgetting",
    "loss",
    "outliers",
    "tol",
    "max_iter",
    "random_state",
    "threads",
    "verbose",
)


class RobustImputer(OneToOneFeatureMixin, TakesGaps):  # type: ignore[misc]
    """Fill in missing values of a table by robust principal components of its columns.

    `fit_transform` gives the completed table, `transform` completes new rows. A row without
    observations becomes the mean row. To mark what was missing, put it beside
    `sklearn.impute.MissingIndicator` in a FeatureUnion.

    With time="rows", rows are even steps in time, and each column's own process in time counts where
    it is of use (see `lrmc.solve`). Rows given to `transform` are then a stretch of those that were
    fitted, or else the steps after the last; `partial_fit` takes in the next steps without solving
    again. The dates of a DataFrame's index say that rows are times as well; new rows are the next
    steps then if their dates are, and are otherwise told by themselves.

    Parameters
    ----------
    n_components : int, optional
        Number of components beside the mean; found if not given.
    fill : {"missing", "missing+outliers", "all"}, default "missing"
        Which entries the model replaces: missing ones; also observed ones that stand out as
        outliers; or all.
    scale : bool, default True
        Whether columns are divided by their interquartile range first: columns of a table have
        different units. The median of columns that are far from 0 (years, latitudes) is taken away
        as well.
    keep_empty_features : bool, default False
        Whether columns without any observation are kept, and filled with 0, or dropped.
    time : {"auto", "rows", "columns"}, optional
        Which side of the table is time; "auto" takes it from the index of a DataFrame or looks whether
        columns or rows have an order; see `lrmc.solve`. None forbids it.
    period : int or "auto", optional
        Steps in a period; "auto" reads it from the DatetimeIndex of a DataFrame or from the data.
    forgetting : float, default 0.9
        Weight of earlier rows each time that `partial_fit` sees new ones; in (0, 1].
    loss : {"auto", "mixture", "cauchy", "huber", "squares"}, default "auto"
        How residuals are weighed; see `lrmc.solve`.
    scoring : {"auto", "mae", "rmse"}, default "auto"
        What decisions minimize on hidden entries, in units of `scale_`; see `lrmc.solve`.
    outliers : {"both", "positive", "negative"}, default "both"
        On which side of the truth outliers lie.
    tol : float, default 1e-6
        Stopping tolerance.
    max_iter : int, default 100
        Maximum number of iterations.
    random_state : int, RandomState or None, default 0
        Seed of all that is random.
    threads : int, optional
        Number of threads; all cores if not given.
    verbose : bool, default False
        Print a line per second while fitting.

    Attributes
    ----------
    pca_ : RobustPCA
        Fitted to the scaled columns.
    rank_, status_, n_iter_, history_
        Those of `pca_`.
    scale_, center_ : arrays of shape (n_features,)
        What columns are divided by, after this was taken away from them.
    noise_level_ : array of shape (n_features,)
        Standard deviation of the noise, in the units of each column.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> X = lrmc.synthetic.problem(n=100, rank=2, p=0.8, n2=20, form="dense").Y
    >>> bool(np.isnan(lrmc.RobustImputer(2).fit_transform(X)).any())
    False
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        fill: Fill = "missing",
        scale: bool = True,
        keep_empty_features: bool = False,
        time: AskedTime | None = "auto",
        period: int | Literal["auto"] | None = "auto",
        forgetting: float = 0.9,
        loss: AskedLoss = "auto",
        scoring: Score = "auto",
        outliers: Sides = "both",
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = 0,
        threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.fill = fill
        self.scale = scale
        self.keep_empty_features = keep_empty_features
        self.time = time
        self.period = period
        self.forgetting = forgetting
        self.loss = loss
        self.scoring = scoring
        self.outliers = outliers
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.threads = threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows to learn from; NaN, masked and not stored entries are missing.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        self._check()
        asked = self._in_time(X)
        Y = read(self, X, reset=True, fewest=2).dense()
        self._columns = Columns.of(Y, scaled=self.scale)
        self.scale_, self.center_ = self._columns.scale, self._columns.center
        part = self._columns.removed(Y)
        self.pca_ = RobustPCA(**{name: getattr(self, name) for name in SHARED})
        self.pca_._fitted(part, score=self.scoring, time=asked)
        # the only copies of the data, some rows of which tell how far off new ones are
        self._training = part_in_memory(self.pca_._last[0])
        result = self.pca_._result
        self._refit = result.refit
        self._calibration: Calibration | None = None
        self._fit = Fit(result.factors(), result.beyond)
        self._untold = result.undetermined_rows
        # a list of outliers costs about half as much as a small fit
        self._border: tuple[Array, Array] | None = None
        if self.fill == "missing+outliers":
            listed = result.listing()
            if listed.is_doubtful:
                warnings.warn(LEFT, stacklevel=2)
            listed = listed.to_replace()
            self._border = listed.rows, listed.threshold * listed.cols
        keys = keys_of(part)
        self._known = {key: row for row, key in enumerate(keys)}
        self._steps = steps_of(result, keys, asked)
        del self.pca_._last
        self.rank_, self.status_ = self.pca_.rank_, self.pca_.status_
        self.n_iter_, self.history_ = self.pca_.n_iter_, self.pca_.history_
        self.noise_level_ = self.pca_.noise_level_ * self.scale_
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Follow a stream: the first batch of rows is fitted, later ones move the components.

        With time="rows" these are the next steps in time. Columns keep the scale that the first
        batch had; see `RobustPCA.partial_fit` for the rest.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New rows; NaN, masked and not stored entries are missing.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        if not hasattr(self, "pca_"):
            return self.fit(X)
        self._check()
        part = self._columns.removed(read(self, X, reset=False).dense())
        part = self._columns.reach.kept(part)
        self.pca_.partial_fit(part)
        if hasattr(self.pca_, "_last"):
            del self.pca_._last
        self._known = {}  # rows of before are seen through other components now
        if self._steps is not None:
            by_rows = self._by_rows(part)
            self._steps = self._steps.followed(part, by_rows, _dates(X))
        return self

    def _check(self) -> None:
        check_shared(self)
        one_of("fill", self.fill, FILLS)
        one_of("scoring", self.scoring, SCORES)
        yes_or_no("scale", self.scale)
        yes_or_no("keep_empty_features", self.keep_empty_features)
        checked_time(self.time, self.period, None)

    def _in_time(self, X: Any) -> Asked:
        """What `lrmc.solve` is told about time."""
        asked = checked_time(self.time, self.period, None)
        times = _dates(X)
        if times is None or self.time not in ("auto", "rows"):
            return asked
        return asked._replace(time="rows", times=times)

    def transform(self, X: Any) -> Array:
        """Fill in missing entries; see `fill` for the others.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The table that was fitted, or new rows like its own.

        Returns
        -------
        array of shape (n_samples, n_features)
            Without columns that held nothing, unless `keep_empty_features` is set.
        """
        check_is_fitted(self)
        Y = read(self, X, reset=False).dense()
        # what is said of a step in time hangs on those before and after it
        alone = row_blocks(*Y.shape) if self._steps is None else [slice(0, len(Y))]
        times = _dates(X)
        for rows in alone:
            part = self._columns.removed(Y[rows])
            model = self._completed(part, times)
            replaced = np.isnan(part) | (self.fill == "all")
            if self.fill == "missing+outliers":
                replaced |= np.abs(part - model) > self._beyond_which(part)
            here = np.full((len(part), Y.shape[1]), False)
            here[:, self._columns.seen] = replaced
            Y[rows][here] = self._columns.put_back(model)[replaced]
        return self._kept(Y)

    def _completed(self, part: Array, times: Any = None) -> Array:
        """The estimate of rows: of those that were fitted, what they were found to be; of others,
        their fit to the components, and what neighbors, other columns or times before say.
        """
        # what an entry says of itself does not show whether it is an outlier
        alone = self.fill == "missing+outliers"
        if self._steps is not None:
            in_time = self._steps.completed(part, self._by_rows(part), times)
            if in_time is not None:
                told = in_time.others if alone else in_time.values
                return told.astype(part.dtype)
        found = self._places(part)
        # where an exact fit does not tell a row, the prior of the others does
        here = (found >= 0) & ~np.isin(found, self._untold)
        model = np.empty_like(part)
        if here.any():
            model[here] = _rows_of(
                self._fit.left_out if alone else self._fit, found[here]
            )
        if not here.all():
            model[~here] = self._by_rows(part[~here])
        return model

    def _places(self, part: Array) -> Array:
        """Which of the rows that were fitted these are; -1 for others."""
        return np.array([self._known.get(key, -1) for key in keys_of(part)])

    def _beyond_which(self, part: Array) -> Array:
        """Where outliers of these rows begin; those of rows that were not fitted as of typical ones."""
        if self._border is None:
            raise ValueError(
                "outliers were not looked for: fit again with fill='missing+outliers'"
            )
        rows, cols = self._border
        return np.outer(np.append(rows, np.median(rows))[self._places(part)], cols)

    def _by_rows(self, part: Array) -> Array:
        """The estimate of rows one by one: their fit to the components, and second opinions."""
        part = self._columns.reach.kept(part)
        with warnings.catch_warnings():
            # the mean row is what is wanted
            warnings.filterwarnings("ignore", message=".*have no observation.*")
            model = self.pca_.inverse_transform(self.pca_.transform(part))
        beyond = self._fit.beyond
        if beyond and isinstance(beyond[0], InTime):
            beyond = beyond[0].without_time
        opinions = [x for x in beyond if isinstance(x, Neighbors | Regression | Local)]
        return model + sum(x.for_new(part, model) - model for x in opinions)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Intervals around what `transform` fills in.

        When first asked for, the components are found again without some entries of the table that
        was fitted (of some of its rows, if it is large), five times; the intervals hold as many of
        those as `level` says.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The table that was fitted, or new rows like its own.
        level : float, default 0.9
            Probability with which an interval holds what is missing.

        Returns
        -------
        lower, upper : arrays
            In the shape that `transform` gives; what was observed is both its ends.

        Raises
        ------
        lrmc.evidence.NotCalibrated
            If no interval could be vouched for; the message says why.
        """
        check_is_fitted(self)
        level = real_number(
            "level", level, lambda x: 0 < x < 1, "a number between 0 and 1, such as 0.9"
        )
        Y = read(self, X, reset=False).dense()
        seen = self._columns.seen
        rows, cols = np.nonzero(np.isnan(Y) & seen)
        inner = (np.cumsum(seen) - 1)[cols]  # which of the columns that were seen
        middle, scale = self._expected(self._columns.removed(Y), rows, inner, _dates(X))
        half = self._calibrated().in_columns(inner, level) * scale
        ends = Y.copy(), Y.copy()
        for end, sign in zip(ends, (-1, 1), strict=True):
            end[rows, cols] = self._columns.entries(middle + sign * half, cols)
        return self._kept(ends[0]), self._kept(ends[1])

    def _kept(self, Y: Array) -> Array:
        """The columns that are given back, of which those that held nothing are 0."""
        seen = self._columns.seen
        Y[:, ~seen] = 0
        return Y if self.keep_empty_features else Y[:, seen]

    def _calibrated(self) -> Calibration:
        """What intervals are made of: learned once, from the rows that were fitted."""
        if self._calibration is None:
            if not hasattr(self, "_refit"):
                raise NotCalibrated(
                    "intervals are learned from the data that were fitted, which are not"
                    " pickled: ask for one before, or fit again"
                )
            check_converged(self.status_ is Status.CONVERGED, self.status_.meaning)
            obs = self._training.obs
            assert self._refit is not None  # of a run that was just made
            sets = fitted_again(obs, self._refit, self.rank_)
            self._calibration = calibrate(obs, self._training_fit(), sets)
        return self._calibration

    def _expected(
        self, part: Array, rows: Array, cols: Array, times: Any
    ) -> tuple[Array, Array]:
        """What the model has at these places of some rows, and the scale of its errors there: known
        of rows that were fitted, beside which others are looked at.
        """
        scales, model = self._calibrated().scales, self._completed(part, times)
        place = np.full(len(self._fit.X.L) + 1, -1)  # the last is that of new rows
        place[self._training.rows] = np.arange(len(self._training.rows))
        known = place[[self._known.get(key, -1) for key in keys_of(part)]][rows]
        scale = scales.at(known, cols)
        new = known < 0
        if new.any():
            scale[new] = self._scales_beside(part, model).at(rows[new], cols[new])
        return model[rows, cols], scale

    def _scales_beside(self, part: Array, model: Array) -> Scales:
        """Of the errors of rows that were not fitted, of which the model is known."""
        fitted = self._training.obs
        beside = fitted.grid(*map(np.arange, fitted.shape))
        obs = Given(np.vstack([part, beside])).observations(self.threads)
        assert obs is not None  # something was fitted
        X = self.pca_._factors(obs)
        # components alone leave residuals that say nothing of what second opinions miss
        known = np.vstack([model, _rows_of(self._fit, self._training.rows)])
        lines = lines_of(obs, Fit(X, (Moved(known - X.L @ X.R.T),)))
        scales = self._calibrated().scales
        own = scales.own.of_new_rows(len(known))
        return scales._replace(lines=lines, kinds=None, own=own)

    def _training_fit(self) -> Fit:
        """The fit to the rows that intervals are learned from."""
        return self._fit.part(self._training.rows, self._training.cols)

    def __getstate__(self) -> dict[str, Any]:
        """Rows that were fitted go with the model only if intervals were made of them."""
        state = without(super().__getstate__(), "_refit")
        unmade = state.get("_calibration") is None
        return without(state, "_training") if unmade else state

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns that `transform` gives."""
        names = super().get_feature_names_out(input_features)
        return names if self.keep_empty_features else names[self._columns.seen]


def _rows_of(fit: Fit, rows: Array) -> Array:
    """What a fit says of these rows."""
    X, across = fit.X, np.arange(len(fit.X.R))
    return np.asarray(X.L[rows] @ X.R.T + block_of(fit.beyond, rows, across))


def _dates(X: Any) -> Any:
    return dates_of(getattr(X, "index", None))
