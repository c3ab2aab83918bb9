"""scikit-learn's face of lrmc: rows are samples, columns are features.

`lrmc.RobustPCA` and `lrmc.RobustImputer` come from here when they are first asked for, and with
them scikit-learn."""

from __future__ import annotations

import warnings
from hashlib import blake2b
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_n_features,
    check_array,
    check_is_fitted,
    validate_data,
)

from ._arguments import one_of, real_number, whole_number, yes_or_no
from ._job import checked_max_iter, checked_tol
from ._scipy import sparse as sp
from .evidence.alarms import Listing, listing, standing_out
from .evidence.calibration import (
    Calibration,
    NotCalibrated,
    calibrate,
    fitted_again,
)
from .evidence.row_alarms import row_limit
from .evidence.scales import lines_of
from .fit import Fit, block_of
from .linalg import Factors
from .methods.in_time.improve import AskedTime, checked_time
from .methods.in_time.part import InTime
from .methods.in_time.stream import Stream, stream_of
from .methods.neighbors import Neighbors
from .methods.noisy import AskedLoss
from .methods.regression import Regression
from .observations._checks import check_finite, check_numbers, checked_threads
from .observations._door import as_observations, check_columns, elsewhere
from .observations.base import Observations, row_blocks
from .observations.heldout import part_in_memory
from .outofcore import FILLS, Fill
from .result import Result
from .solve import solve
from .subspace import Learned, Rows, fit_rows, follow, learn_factors
from .weights import Array, Sides

if TYPE_CHECKING:
    from typing_extensions import Self

OUTLYING = 6.0  # |residual| over what is left of it in exact data: an outlier
HELD_OUT = 0.2  # the part of the entries that `score` hides


class Given(NamedTuple):
    """Data as they came: an array or a CSR matrix, and True where entries are observed
    if that is told apart.
    """

    X: Any
    mask: Any = None

    def observations(self, threads: int | None) -> Observations | None:
        """What the kernels read; None if no entry is observed."""
        X, mask = self
        if isinstance(X, Observations):
            return X
        if sp.issparse(X):
            nothing = X.nnz == 0 or (X.dtype.kind == "f" and np.isnan(X.data).all())
        elif mask is not None:
            nothing = not mask.any()
        else:
            nothing = X.dtype.kind == "f" and np.isnan(X[0]).all() and np.isnan(X).all()
        return None if nothing else as_observations(X, mask, threads=threads)

    def dense(self) -> Array:
        """Floats, NaN where nothing is observed: always a copy. Infinite entries are refused."""
        if isinstance(self.X, Observations):
            return self.X.grid(*map(np.arange, self.X.shape))
        out = self._copied()
        check_finite(int(np.isinf(out).sum()))
        return out

    def _copied(self) -> Array:
        if sp.issparse(self.X):
            csr = self.X.copy()
            csr.sum_duplicates()
            out = np.full(csr.shape, np.nan, _floats(csr.dtype))
            out[
                np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)), csr.indices
            ] = csr.data
            return out
        out = np.array(self.X, _floats(self.X.dtype), order="C")
        if self.mask is not None:
            out[~self.mask] = np.nan
        return out


def _floats(dtype: Any) -> Any:
    return np.float32 if dtype == np.float32 else np.float64


def _read(estimator: Any, X: Any, *, reset: bool, fewest: int = 1) -> Given:
    """Check X at the door. Infinite entries are noticed when all entries are looked at:
    scikit-learn sees no masks.

    Data that are elsewhere (Dask, large arrays on disk, observations that are already made) stay
    there."""
    there = (
        X if isinstance(X, Observations) else elsewhere(X, None, estimator.threads or 0)
    )
    if there is not None:
        _check_n_features(estimator, there, reset=reset)
        return Given(there)
    mask = None
    if isinstance(X, np.ma.MaskedArray):
        mask, X = ~np.ma.getmaskarray(X), X.data
    _check_numbers(X)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=fewest,
    )
    return Given(X, mask)


def _check_numbers(X: Any) -> None:
    """Refuse what scikit-learn would turn into numbers: dates, and numbers that are
    written as text.
    """
    check_columns(X)
    dtype = getattr(X, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return
    if dtype.kind in "mM":
        check_numbers(dtype)
    if dtype.kind == "O" and any(isinstance(x, str) for x in np.ravel(X)):
        raise ValueError(
            "X holds text; numbers are wanted: convert those that are written as text with astype(float)"
        )


def _check_shared(estimator: Any) -> None:
    """The arguments that both estimators have."""
    k = estimator.n_components
    if k is not None:
        whole_number("n_components", k, 1, hint=", or None to have it found")
    one_of("loss", estimator.loss, get_args(AskedLoss))
    one_of("outliers", estimator.outliers, get_args(Sides))
    checked_tol(estimator.tol)
    checked_max_iter(estimator.max_iter)
    checked_threads(estimator.threads)
    yes_or_no("verbose", estimator.verbose)
    seed = estimator.random_state
    if isinstance(seed, Real):  # what else it may be, scikit-learn looks at
        whole_number(
            "random_state", seed, 0, 2**32 - 1, hint=", or a RandomState, or None"
        )


class RobustPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Robust principal component analysis of data with missing entries and gross outliers.

    X may contain NaN, be a masked array, or a sparse matrix (what it stores is observed, also
    zeros; what it does not store is missing, not zero). `transform` fits each new row robustly:
    outliers and gaps in it do no harm. `predict` flags anomalous rows.

    Parameters
    ----------
    n_components : int, optional
        Number of components; found (at most 15) if not given.
    center : bool, default True
        Whether components describe deviations from the mean row `mean_`, as in PCA. If not, the
        mean is a component like any other.
    loss : {"auto", "mixture", "cauchy", "huber", "squares"}, default "auto"
        How residuals are weighed; see `lrmc.solve`.
    outliers : {"both", "positive", "negative"}, default "both"
        On which side of the truth outliers lie.
    forgetting : float, default 0.9
        Weight of earlier batches each time that `partial_fit` sees a new one; in (0, 1].
    false_alarms : float, default 0.01
        The rate of ordinary rows that `predict` may flag.
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
    components_ : array of shape (`n_components_`, n_features)
        Orthonormal rows, the largest variance first.
    mean_ : array of shape (n_features,)
        Mean of the low-rank rows; 0 if not `center`.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays
        Of the low-rank part; the ratio is to its variance and that of the noise together.
    noise_level_ : float
        Standard deviation of the noise.
    n_components_, rank_ : int
        Number of components.
    row_scores_ : array of shape (n_samples,)
        Distances of the training rows, minus `score_samples`.
    status_, n_iter_, history_, regime_, outlier_fraction_
        Of the run; see `lrmc.Result`.
    low_rank_, outliers_, outlier_scores_, outlier_mask_ : arrays
        As large as the last data fitted, computed when asked for. The data are kept by reference
        and not pickled.

    Examples
    --------
    >>> import lrmc
    >>> X = lrmc.synthetic.problem(n=100, rank=2, p=0.8, n2=20, form="dense").Y
    >>> lrmc.RobustPCA(n_components=2).fit(X).transform(X).shape
    (100, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        center: bool = True,
        loss: AskedLoss = "auto",
        outliers: Sides = "both",
        forgetting: float = 0.9,
        false_alarms: float = 0.01,
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = 0,
        threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.loss = loss
        self.outliers = outliers
        self.forgetting = forgetting
        self.false_alarms = false_alarms
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
        return self._fitted(X)

    def _fitted(self, X: Any, **in_time: Any) -> Self:
        """The same; `in_time` is what `lrmc.solve` is told about time."""
        self._check()
        given = _read(self, X, reset=True, fewest=2)
        obs = given.observations(self.threads)
        if obs is None:
            raise ValueError(
                f"nothing is observed: all entries of the {given.X.shape[0]} x {given.X.shape[1]} X are NaN"
            )
        result = self._solve(obs, **in_time)
        self._keep(self._learned(obs, result, result.factors()), obs)
        self._result = result
        self.n_iter_, self.status_, self.history_ = (
            result.n_iter,
            result.status,
            result.history,
        )
        self.outlier_fraction_, self.regime_ = result.outlier_fraction, result.regime
        self.n_samples_seen_ = obs.shape[0]
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Follow a stream: the first batch of rows is fitted, later ones move the components.
        Memory does not grow.

        Statistics of r^2 numbers per feature are kept; with each batch, what they hold from before
        counts `forgetting` times, and less where the batch shows that the subspace has moved."""
        if not hasattr(self, "components_"):
            return self.fit(X)
        self._check()
        obs = _read(self, X, reset=False).observations(self.threads)
        if obs is not None:
            self._keep(
                follow(
                    obs,
                    self._model,
                    self._memory,
                    float(self.forgetting),
                    bool(self.center),
                ),
                obs,
            )
            self.n_samples_seen_ += obs.shape[0]
        return self

    def transform(self, X: Any) -> Array:
        """Scores of rows; gaps and outliers do no harm.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, which may be new.

        Returns
        -------
        array of shape (n_samples, n_components)
            A row without any observation gets the scores of the mean row, with a warning.
        """
        rows, obs, _ = self._rows(X)
        empty = len(rows.T) if obs is None else int(np.sum(obs.row_observed == 0))
        if empty:
            warnings.warn(
                f"{empty} row(s) have no observation: they get the scores of the mean row",
                stacklevel=2,
            )
        return rows.T

    def inverse_transform(self, X: Any) -> Array:
        """The low-rank rows with these scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as `transform` gives them.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        T = check_array(X, dtype=[np.float64, np.float32])
        if T.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {T.shape[1]} columns; {self.n_components_} are wanted, one for each component"
            )
        return T @ self.components_.astype(T.dtype) + self.mean_.astype(T.dtype)

    def score_samples(self, X: Any) -> Array:
        """How well each row fits, higher is better: about -1 for a usual row, at worst -6.

        Minus the root mean square of the row's residuals in units of the noise, each counted as at
        most 6; outliers count.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, which may be new.

        Returns
        -------
        array of shape (n_samples,)
            0 for a row without observations.
        """
        return -self._rows(X)[0].distance

    def decision_function(self, X: Any) -> Array:
        """How far each row is inside the limit for anomalies.

        The limit is the distance (minus `score_samples`) that ordinary rows with as many
        observations exceed with probability `false_alarms`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, which may be new.

        Returns
        -------
        array of shape (n_samples,)
            Negative for anomalous rows; rows without observations are inside.
        """
        rows, obs, _ = self._rows(X)
        if obs is None:
            return self._limit.at(np.zeros(len(rows.T)), self.false_alarms)
        observed = np.asarray(obs.row_observed)
        return self._limit.at(observed, self.false_alarms) - rows.distance

    def predict(self, X: Any) -> Array:
        """Label anomalous rows, as scikit-learn's outlier detectors do.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, which may be new.

        Returns
        -------
        array of shape (n_samples,)
            -1 for anomalous rows, 1 for ordinary ones.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean absolute error on a fifth of the entries, hidden while rows are fitted.

        What a search over n_components can go by: unlike residuals, it does not fall with every
        component.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, which may be new.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        Y = _read(self, X, reset=False).dense()
        rng = np.random.default_rng(0)
        rows, cols = np.nonzero(~np.isnan(Y))
        hidden = rng.random(len(rows)) < HELD_OUT
        rows, cols = rows[hidden], cols[hidden]
        truth = Y[rows, cols]
        Y[rows, cols] = np.nan
        model = self._model.factors(self._rows(Y)[0].T)
        error = np.abs(truth - np.einsum("ij,ij->i", model.L[rows], model.R[cols]))
        return -float(error.mean()) if len(error) else 0.0

    def outlier_scores(self, X: Any) -> Any:
        """`|residual|` over the noise for each observed entry.

        See `outlier_mask_` for those that count as outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, which may be new.

        Returns
        -------
        array or sparse matrix
            In the form of X: NaN, masked or not stored where missing.
        """
        rows, obs, given = self._rows(X)
        return given.X * np.nan if obs is None else self._entry_scores(obs, rows)

    # ---- of the last data fitted, when asked for

    @property
    def low_rank_(self) -> Array:
        """The low-rank matrix (n_samples, n_features) of the last data fitted."""
        return self.inverse_transform(self._last_fitted()[1].T)

    @property
    def outliers_(self) -> Any:
        """The residual of the last data fitted where it stands out, else 0; in the form of the
        data.

        An entry stands out so far from the model, for the noise of its row and column, that few of
        these entries (about 3 %) are expected to be good.
        """
        obs, rows = self._last_fitted()
        return standing_out(obs, self._fit_to(rows), self._listed(obs, rows))

    @property
    def outlier_mask_(self) -> Array:
        """True where `outliers_` has an entry: (n_samples, n_features)."""
        obs, rows = self._last_fitted()
        listed = self._listed(obs, rows)
        mask = np.zeros(obs.shape, bool)
        for some in obs.residuals(*self._model.factors(rows.T)):
            mask[some.rows, some.cols] = listed.beyond(some)
        return mask

    @property
    def outlier_scores_(self) -> Any:
        """`outlier_scores` of the last data fitted."""
        return self._entry_scores(*self._last_fitted())

    # ---- inside

    def _check(self) -> None:
        _check_shared(self)
        yes_or_no("center", self.center)
        real_number(
            "forgetting",
            self.forgetting,
            lambda x: 0 < x <= 1,
            "a number above 0 and up to 1",
        )
        real_number(
            "false_alarms",
            self.false_alarms,
            lambda x: 0 < x < 1,
            "a probability between 0 and 1, such as 0.01",
        )

    def _solve(self, obs: Observations, **in_time: Any) -> Result:
        """A low-rank fit with n_components, and one more if the mean needs it."""
        rank, most = self.n_components, min(obs.shape)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        if rank is not None and rank > most:
            raise ValueError(
                f"n_components={rank} for {obs.shape[0]} samples and {obs.shape[1]} features; up to {most} is wanted"
            )
        if rank is not None and self.center and rank < most:
            # the mean may lie within the components; of exact data, `solve` drops one that is too
            # many
            rank += 1
        return solve(
            obs,
            rank,
            loss=self.loss,
            outliers=self.outliers,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=seed,
            verbose=self.verbose,
            **in_time,
        )

    def _learned(self, obs: Observations, result: Result, X: Factors) -> Learned:
        """The components of factors that were found as those of a result were."""
        loss = result.evidence.get("loss", "mixture")
        shrink = float(result.evidence.get("shrink", 1.0))
        return learn_factors(
            obs,
            X,
            loss,
            shrink,
            center=self.center,
            most=self.n_components,
            outliers=self.outliers,
        )

    def _keep(self, learned: Learned, obs: Observations) -> None:
        """The attributes of a model."""
        model, moments = learned.model, learned.memory.rows
        n = moments[-1, -1]
        self._model, self._memory, self._last = (
            model,
            learned.memory,
            (obs, learned.rows),
        )
        self.components_, self.mean_ = np.ascontiguousarray(model.V.T), model.offset
        self.n_components_ = self.rank_ = self._n_features_out = model.rank
        self.noise_level_ = model.noise
        self.singular_values_ = np.sqrt(np.maximum(np.diag(moments)[:-1], 0))
        self.explained_variance_ = (
            np.maximum(np.diag(model.covariance), 0) * n / max(n - 1, 1)
        )
        total = float(self.explained_variance_.sum()) + len(model.V) * model.noise**2
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.row_scores_ = learned.rows.distance
        self._limit = row_limit(learned.rows.distance, np.asarray(obs.row_observed))

    def _rows(self, X: Any) -> tuple[Rows, Observations | None, Given]:
        """Fit new rows."""
        check_is_fitted(self)
        given = _read(self, X, reset=False)
        obs = given.observations(self.threads)
        if obs is not None:
            return fit_rows(obs, self._model), obs, given
        n, dtype = given.X.shape[0], _floats(given.X.dtype)
        T = np.tile(self._model.mean.astype(dtype), (n, 1))
        return (
            Rows(T, np.full(n, self.noise_level_, dtype), np.zeros(n, dtype)),
            None,
            given,
        )

    def _fit_to(self, rows: Rows) -> Fit:
        """The low-rank rows that were found."""
        return Fit(self._model.factors(rows.T))

    def _listed(self, obs: Observations, rows: Rows) -> Listing:
        """From where on entries count as outliers."""
        if self.regime_ == "exact":
            return Listing.even(OUTLYING * self.noise_level_, obs.shape)
        return listing(obs, self._fit_to(rows))

    def _factors(self, obs: Observations) -> Factors:
        """The low-rank rows of these data, as factors."""
        return self._model.factors(fit_rows(obs, self._model).T)

    def _entry_scores(self, obs: Observations, rows: Rows) -> Any:
        return abs(obs.outliers(*self._model.factors(rows.T), 0.0)) / max(
            self.noise_level_, 1e-300
        )

    def _last_fitted(self) -> tuple[Observations, Rows]:
        check_is_fitted(self)
        if not hasattr(self, "_last"):
            raise AttributeError(
                "the data are not pickled with the model; call transform(X) or outlier_scores(X)"
            )
        return self._last

    def __getstate__(self) -> dict[str, Any]:
        return _without(super().__getstate__(), "_last", "_result")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class RobustImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in missing values of a table by robust principal components of its columns.

    `fit_transform` gives the completed table, `transform` completes new rows. A row without
    observations becomes the mean row. To mark what was missing, put it beside
    `sklearn.impute.MissingIndicator` in a FeatureUnion.

    With time="rows", rows are even steps in time, and each column's own process in time counts where
    it is of use (see `lrmc.solve`). Rows given to `transform` are then a stretch of those that were
    fitted, or else the steps after the last; `partial_fit` takes in the next steps without solving
    again.

    Parameters
    ----------
    n_components : int, optional
        Number of components beside the mean; found if not given.
    fill : {"missing", "missing+outliers", "all"}, default "missing"
        Which entries the model replaces: missing ones; also observed ones that stand out as
        outliers; or all.
    scale : bool, default True
        Whether columns are divided by their interquartile range first: columns of a table have
        different units.
    keep_empty_features : bool, default False
        Whether columns without any observation are kept, and filled with 0, or dropped.
    time : {"auto", "rows", "columns"}, optional
        Which side of the table is time; see `lrmc.solve`. None forbids it.
    period : int or "auto", optional
        Steps in a period; "auto" reads it from the DatetimeIndex of a DataFrame or from the data.
    forgetting : float, default 0.9
        Weight of earlier rows each time that `partial_fit` sees new ones; in (0, 1].
    loss : {"auto", "mixture", "cauchy", "huber", "squares"}, default "auto"
        How residuals are weighed; see `lrmc.solve`.
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
    scale_ : array of shape (n_features,)
        What columns are divided by.
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
        in_time = self._in_time(X)
        Y = _read(self, X, reset=True, fewest=2).dense()
        self._seen = ~np.isnan(Y).all(0)
        if not self._seen.any():
            raise ValueError(
                f"nothing is observed: all entries of the {Y.shape[0]} x {Y.shape[1]} X are NaN"
            )
        self.scale_ = np.ones(Y.shape[1])
        if self.scale:
            self.scale_[self._seen] = _spread(Y[:, self._seen])
        names = (
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
        self.pca_ = RobustPCA(**{name: getattr(self, name) for name in names})
        self.pca_._fitted(self._scaled(Y), **in_time)
        # the only copies of the data, some rows of which tell how far off new ones are
        self._training = part_in_memory(self.pca_._last[0])
        result = self.pca_._result
        self._refit = result.refit
        self._calibration: Calibration | None = None
        self._fit = Fit(result.factors(), result.beyond)
        self._untold = result.undetermined_rows
        # a list of outliers costs about half as much as a small fit
        self._border: Array | None = None
        if self.fill == "missing+outliers":
            listed = self.pca_._listed(*self.pca_._last)
            self._border = listed.threshold * listed.cols
        keys = _keys(self._scaled(Y))
        self._known = {key: row for row, key in enumerate(keys)}
        self._steps = _steps_of(result, keys)
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
        part = self._scaled(_read(self, X, reset=False).dense())
        self.pca_.partial_fit(part)
        if hasattr(self.pca_, "_last"):
            del self.pca_._last
        self._known = {}  # rows of before are seen through other components now
        if self._steps is not None:
            self._steps = self._steps.followed(part, self._by_rows(part))
        return self

    def _check(self) -> None:
        _check_shared(self)
        one_of("fill", self.fill, FILLS)
        yes_or_no("scale", self.scale)
        yes_or_no("keep_empty_features", self.keep_empty_features)
        checked_time(self.time, self.period, None)

    def _in_time(self, X: Any) -> dict[str, Any]:
        """What `lrmc.solve` is told about time."""
        index = getattr(X, "index", None)
        dates = self.time == "rows" and type(index).__name__ == "DatetimeIndex"
        times = index if dates else None
        return {"time": self.time, "period": self.period, "times": times}

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
        Y = _read(self, X, reset=False).dense()
        # what is said of a step in time hangs on those before and after it
        alone = row_blocks(*Y.shape) if self._steps is None else [slice(0, len(Y))]
        for rows in alone:
            part = self._scaled(Y[rows])
            model = self._completed(part)
            replaced = np.isnan(part) | (self.fill == "all")
            if self.fill == "missing+outliers":
                replaced |= np.abs(part - model) > self._beyond_which()
            here = np.full((len(part), Y.shape[1]), False)
            here[:, self._seen] = replaced
            Y[rows][here] = (model * self.scale_[self._seen].astype(model.dtype))[
                replaced
            ]
        Y[:, ~self._seen] = 0
        return Y if self.keep_empty_features else Y[:, self._seen]

    def _completed(self, part: Array) -> Array:
        """The estimate of rows: of those that were fitted, what they were found to be; of others,
        their fit to the components, and what neighbors, other columns or times before say.
        """
        model = self._by_rows(part)
        if self._steps is not None:
            return self._steps.completed(part, model).astype(model.dtype)
        found = np.array([self._known.get(key, -1) for key in _keys(part)])
        # where an exact fit does not tell a row, the prior of the others does
        here = np.flatnonzero((found >= 0) & ~np.isin(found, self._untold))
        if len(here):
            X = self._fit.X
            block = X.L[found[here]] @ X.R.T
            across = np.arange(part.shape[1])
            block = block + block_of(self._fit.beyond, found[here], across)
            model[here] = block
        return model

    def _beyond_which(self) -> Array:
        """Where outliers begin, column by column."""
        if self._border is None:
            raise ValueError(
                "outliers were not looked for: fit again with fill='missing+outliers'"
            )
        return self._border

    def _by_rows(self, part: Array) -> Array:
        """The estimate of rows one by one: their fit to the components, and second opinions."""
        with warnings.catch_warnings():
            # the mean row is what is wanted
            warnings.filterwarnings("ignore", message=".*have no observation.*")
            model = self.pca_.inverse_transform(self.pca_.transform(part))
        opinions = [
            x for x in self._fit.beyond if isinstance(x, Neighbors | Regression)
        ]
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
        Y = _read(self, X, reset=False).dense()
        rows, cols = np.nonzero(np.isnan(Y) & self._seen)
        inner = (np.cumsum(self._seen) - 1)[cols]  # which of the columns that were seen
        middle, scale = self._expected(self._scaled(Y), rows, inner)
        half = self._calibrated().quantile(level) * scale
        ends = Y.copy(), Y.copy()
        for end, sign in zip(ends, (-1, 1), strict=True):
            end[rows, cols] = (middle + sign * half) * self.scale_[cols]
            end[:, ~self._seen] = 0
        if self.keep_empty_features:
            return ends
        return ends[0][:, self._seen], ends[1][:, self._seen]

    def _calibrated(self) -> Calibration:
        """What intervals are made of: learned once, from the rows that were fitted."""
        if self._calibration is None:
            if not hasattr(self, "_refit"):
                raise NotCalibrated(
                    "intervals are learned from the data that were fitted, which are not"
                    " pickled: ask for one before, or fit again"
                )
            obs = self._training.obs
            assert self._refit is not None  # of a run that was just made
            sets = fitted_again(obs, self._refit, self.rank_)
            self._calibration = calibrate(obs, self._training_fit(), sets)
        return self._calibration

    def _expected(self, part: Array, rows: Array, cols: Array) -> tuple[Array, Array]:
        """What the model has at these places of some rows, and the scale of its errors there: the
        rows are looked at beside those that were fitted.
        """
        scales, fitted = self._calibrated().scales, self._training.obs
        beside = fitted.grid(*map(np.arange, fitted.shape))
        obs = Given(np.vstack([beside, part])).observations(self.threads)
        assert obs is not None  # something was fitted
        fit = Fit(self.pca_._factors(obs))
        own = scales._replace(lines=lines_of(obs, fit))
        return self._completed(part)[rows, cols], own.at(rows + len(beside), cols)

    def _training_fit(self) -> Fit:
        """The fit to the rows that intervals are learned from."""
        return self._fit.part(self._training.rows, self._training.cols)

    def __getstate__(self) -> dict[str, Any]:
        """Rows that were fitted go with the model only if intervals were made of them."""
        state = _without(super().__getstate__(), "_refit")
        unmade = state.get("_calibration") is None
        return _without(state, "_training") if unmade else state

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the columns that `transform` gives."""
        names = super().get_feature_names_out(input_features)
        return names if self.keep_empty_features else names[self._seen]

    def _scaled(self, Y: Array) -> Array:
        return Y[:, self._seen] / self.scale_[self._seen].astype(Y.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _keys(rows: Array) -> list[bytes]:
    """What a row is known by."""
    return [blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


class Steps(NamedTuple):
    """Rows that are steps in time, as far as they are kept."""

    keys: list[bytes]
    values: Array  # the estimates of these rows
    end: Stream | None  # None if times are not even

    def completed(self, rows: Array, by_rows: Array) -> Array:
        """What rows are estimated to be: a stretch of those that are known, or the next steps."""
        at = self._place(_keys(rows))
        if at is not None:
            return self.values[at : at + len(rows)]
        return self._end().followed(rows.T, by_rows.T)[1].T

    def followed(self, rows: Array, by_rows: Array) -> Steps:
        """After the next steps."""
        end, _ = self._end().followed(rows.T, by_rows.T)
        kept = end.values.T
        return Steps((self.keys + _keys(rows))[-len(kept) :], kept, end)

    def _place(self, keys: list[bytes]) -> int | None:
        """Where a stretch of rows begins that has these keys."""
        n = len(keys)
        for at in range(len(self.keys) - n + 1):
            if self.keys[at] == keys[0] and self.keys[at : at + n] == keys:
                return at
        return None

    def _end(self) -> Stream:
        if self.end is None:
            raise ValueError(
                "the times of the rows that were fitted are not even steps, so that it is not known"
                " when new rows are; call lrmc.solve(Y, time='rows', times=...) with all of them"
            )
        return self.end


def _steps_of(result: Result, keys: list[bytes]) -> Steps | None:
    """The rows of a result as steps in time; None if they are none."""
    part = next((x for x in result.beyond if isinstance(x, InTime)), None)
    if part is None or part.fills != "rows":
        return None
    assert result.observations is not None
    end = stream_of(part, result.observations, result.factors())
    return Steps(keys, part.values, end)


def _without(state: dict[str, Any], *names: str) -> dict[str, Any]:
    """What is pickled: all but these."""
    return {name: value for name, value in state.items() if name not in names}


def _spread(Y: Array) -> Array:
    """What columns are divided by: the interquartile range of each, or what else there
    is of a spread; never 0.
    """
    low, high = np.nanquantile(Y, [0.25, 0.75], axis=0)
    spread = (high - low).astype(np.float64) / 1.349
    rest = np.nanstd(Y.astype(np.float64), axis=0)
    spread = np.where(spread > 1e-9 * rest, spread, rest)
    return np.where(
        spread > 0,
        spread,
        np.maximum(np.nanmax(np.abs(Y), axis=0), 1e-300) if Y.size else 1.0,
    )
