"""How far off completed entries may be: intervals, deviations, draws, forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._arguments import one_of, real_number, whole_number
from ..evidence.calibration import (
    TARGETS,
    Calibration,
    NotCalibrated,
    Target,
    calibrate,
    check_converged,
    fitted_again,
)
from ..evidence.simple import Fitted
from ..fit import Filling, Forecast
from ..weights import Array
from .completion import Completion


@dataclass(frozen=True, eq=False, repr=False)
class Calibrated(Completion):
    """A completion whose errors are told by entries that were set aside."""

    @cached_property
    def fitted_again(self) -> tuple[Fitted, ...]:
        """Five runs without some of the entries (of some rows, where data are large), which intervals
        are learned from. Made when first asked for.
        """
        if self.observations is None or self.refit is None:
            raise NotCalibrated(
                "this result was loaded from a file that holds no intervals: ask for one before the result is saved"
            )
        check_converged(self.converged, self.status.meaning)
        return fitted_again(self.observations, self.refit, self.rank)

    @cached_property
    def calibration(self) -> Calibration:
        """Errors at the entries that `fitted_again` did without, and what they say of others. `save`
        keeps them if they were asked for by then.
        """
        if self.calibrated is not None:
            return self.calibrated
        sets = self.fitted_again
        assert self.observations is not None  # else there would be no sets
        return calibrate(self.observations, self.fit, sets)

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

    def forecast(self, steps: int, level: float = 0.9) -> Forecast:
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
        Forecast
            A named tuple of `values`, `lower` and `upper`; time goes along the axis that it has in
            the data.

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
