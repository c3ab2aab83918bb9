"""Robust principal components."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from .._arguments import real_number, yes_or_no
from ..evidence.row_alarms import row_limit
from ..linalg import Factors
from ..methods.noisy import AskedLoss
from ..observations.base import Observations
from ..result import Result
from ..solve import solve
from ..subspace import Learned, follow, learn_factors
from ..weights import Array, Sides
from .anomalies import Anomalies
from .reading import check_shared, read, without

if TYPE_CHECKING:
    from typing_extensions import Self


class RobustPCA(ClassNamePrefixFeaturesOutMixin, Anomalies):  # type: ignore[misc]
    """Robust principal component analysis of data with missing entries and gross outliers.

    X may contain NaN, be a masked array, or a sparse matrix (what it stores is observed, also
    zeros; what it does not store is missing, not zero). `transform` fits each new row robustly:
    outliers and gaps in it do no harm. `predict` flags anomalous rows.

    Parameters
    ----------
    n_components : int, optional
        Number of components; found if not given.
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

    def _fitted(self, X: Any, **asked: Any) -> Self:
        """The same; `asked` is what else `lrmc.solve` is told: time, and what is minimized."""
        self._check()
        given = read(self, X, reset=True, fewest=2)
        obs = given.observations(self.threads)
        if obs is None:
            raise ValueError(
                f"nothing is observed: all entries of the {given.X.shape[0]} x {given.X.shape[1]} X are NaN"
            )
        result = self._solve(obs, **asked)
        self._keep(self._learned(obs, result, result.factors()), obs)
        self._result = result
        self.n_iter_, self.history_ = result.n_iter, result.history
        self.status_, self.regime_ = result.status, result.regime
        self.outlier_fraction_ = result.outlier_fraction
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
        obs = read(self, X, reset=False).observations(self.threads)
        if obs is not None:
            forgetting, center = float(self.forgetting), bool(self.center)
            learned = follow(obs, self._model, self._memory, forgetting, center)
            self._keep(learned, obs)
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

    # ---- inside

    def _check(self) -> None:
        check_shared(self)
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

    def _solve(self, obs: Observations, **asked: Any) -> Result:
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
            **asked,
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
        self._model, self._memory = model, learned.memory
        self._last = obs, learned.rows
        self.components_, self.mean_ = np.ascontiguousarray(model.V.T), model.offset
        self.n_components_ = self.rank_ = self._n_features_out = model.rank
        self.noise_level_ = model.noise
        self.singular_values_ = np.sqrt(np.maximum(np.diag(moments)[:-1], 0))
        variances = np.maximum(np.diag(model.covariance), 0)
        self.explained_variance_ = variances * n / max(n - 1, 1)
        total = float(self.explained_variance_.sum()) + len(model.V) * model.noise**2
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.row_scores_ = learned.rows.distance
        self._limit = row_limit(learned.rows.distance, np.asarray(obs.row_observed))

    def __getstate__(self) -> dict[str, Any]:
        return without(super().__getstate__(), "_last", "_result")
