"""What a fitted model says of rows and entries: which are usual, which stand out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..evidence.alarms import Listing, listing, standing_out
from ..fit import Fit
from ..linalg import Factors, entries_at
from ..observations.base import Observations
from ..subspace import Rows, fit_rows
from ..weights import Array
from .reading import Given, TakesGaps, floats, read

OUTLYING = 6.0  # |residual| over what is left of it in exact data: an outlier
HELD_OUT = 0.2  # the part of the entries that `score` hides


class Anomalies(TakesGaps):
    """The part of `RobustPCA` that judges rows and entries by its components."""

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
        Y = read(self, X, reset=False).dense()
        rng = np.random.default_rng(0)
        rows, cols = np.nonzero(~np.isnan(Y))
        hidden = rng.random(len(rows)) < HELD_OUT
        rows, cols = rows[hidden], cols[hidden]
        truth = Y[rows, cols]
        Y[rows, cols] = np.nan
        model = self._model.factors(self._rows(Y)[0].T)
        error = np.abs(truth - entries_at(model, rows, cols))
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

    def _rows(self, X: Any) -> tuple[Rows, Observations | None, Given]:
        """Fit new rows."""
        check_is_fitted(self)
        given = read(self, X, reset=False)
        obs = given.observations(self.threads)
        if obs is not None:
            return fit_rows(obs, self._model), obs, given
        n, dtype = given.X.shape[0], floats(given.X.dtype)
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
        X = self._fit_to(rows).X
        return abs(obs.outliers(X.L, X.R, 0.0)) / max(self.noise_level_, 1e-300)

    def _last_fitted(self) -> tuple[Observations, Rows]:
        check_is_fitted(self)
        if not hasattr(self, "_last"):
            raise AttributeError(
                "the data are not pickled with the model; call transform(X) or outlier_scores(X)"
            )
        return self._last
