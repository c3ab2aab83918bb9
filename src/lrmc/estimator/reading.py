"""What estimators take: data as they come, looked at as scikit-learn looks at them."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_n_features, validate_data

from .._arguments import one_of, whole_number, yes_or_no
from .._job import checked_max_iter, checked_tol
from .._scipy import sparse as sp
from ..methods.noisy import AskedLoss
from ..observations._checks import check_finite, check_numbers, checked_threads
from ..observations._door import as_observations, check_columns, elsewhere
from ..observations.base import Observations
from ..weights import Array, Sides


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
            out = np.full(csr.shape, np.nan, floats(csr.dtype))
            out[
                np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)), csr.indices
            ] = csr.data
            return out
        out = np.array(self.X, floats(self.X.dtype), order="C")
        if self.mask is not None:
            out[~self.mask] = np.nan
        return out


def floats(dtype: Any) -> Any:
    """The type in which numbers of this one are fitted."""
    return np.float32 if dtype == np.float32 else np.float64


def read(estimator: Any, X: Any, *, reset: bool, fewest: int = 1) -> Given:
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


def check_shared(estimator: Any) -> None:
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


class TakesGaps(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators tell scikit-learn of themselves."""

    if TYPE_CHECKING:  # scikit-learn, which has it, has no types

        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
            """What `transform` gives of the rows that are fitted."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def without(state: dict[str, Any], *names: str) -> dict[str, Any]:
    """What is pickled: all but these."""
    return {name: value for name, value in state.items() if name not in names}


def spread_of(Y: Array) -> Array:
    """What columns are divided by: the interquartile range of each, or what else there
    is of a spread; never 0.
    """
    low, high = np.nanquantile(Y, [0.25, 0.75], axis=0)
    spread = (high - low).astype(np.float64) / 1.349
    rest = np.nanstd(Y.astype(np.float64), axis=0)
    spread = np.where(spread > 1e-9 * rest, spread, rest)
    largest = np.nanmax(np.abs(Y), axis=0) if Y.size else 1.0
    return np.where(spread > 0, spread, np.maximum(largest, 1e-300))
