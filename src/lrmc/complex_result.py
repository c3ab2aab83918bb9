"""What a run on complex data gives."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from ._typing import override
from .evidence.alarms import Alarms
from .evidence.calibration import NotCalibrated, Target
from .observations.base import Observations
from .observations.complex_parts import blocks, complex_factors, in_real_parts
from .result import Result
from .weights import Array

ROOT_2 = float(np.sqrt(2.0))
# How sentences begin that count rows, columns and components of real numbers.
IN_PARTS = "in real and imaginary parts, where rows, columns and rank count twice: "


@dataclass(frozen=True, eq=False, repr=False)
class ComplexResult(Result, kind="c"):
    """Result of `lrmc.solve` on complex data: the low-rank matrix X = L R', and how the run went.

    As `Result`, with complex factors; R' is transposed, not conjugated. `noise_level` is the root
    mean square modulus of the noise. `observations` and `evidence` are those of the data in real
    numbers, where an entry a + bi is the block [a, -b; b, a]: rows, columns and ranks count twice.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(np.exp(1j * rng.uniform(0, 6, 90)), np.exp(1j * rng.uniform(0, 6, 60)))
    >>> Y = X + 5 * (rng.random(X.shape) < 0.1)
    >>> result = lrmc.solve(Y)
    >>> result.rank, bool(abs(result.low_rank() - X).max() < 1e-5)
    (1, True)
    """

    @classmethod
    def of(cls, parts: Result) -> ComplexResult:
        """From the result in real numbers."""
        fields = _fields(parts)
        L, R = complex_factors(parts.L, parts.R)
        lines = {
            name: np.unique(fields[name] // 2)
            for name in ("undetermined_rows", "undetermined_cols")
        }
        said = {
            "noise_level": ROOT_2 * parts.noise_level,
            "warnings": tuple(IN_PARTS + text for text in parts.warnings),
        }
        return cls(**(fields | {"L": L, "R": R} | lines | said))

    def in_parts(self, obs: Observations | None = None) -> Result:
        """The same in real numbers."""
        fields = _fields(self)
        twice = {
            name: np.concatenate([2 * fields[name], 2 * fields[name] + 1])
            for name in ("undetermined_rows", "undetermined_cols")
        }
        fields |= {"L": blocks(self.L), "R": blocks(self.R.T).T} | twice
        fields["noise_level"] = self.noise_level / ROOT_2
        fields["observations"] = self.observations if obs is None else obs
        return Result(**fields)

    @cached_property
    def _own_parts(self) -> Result:
        return self.in_parts()

    @override
    def _data(self, Y: Any, mask: Any) -> Observations:
        obs = self.observations if Y is None else in_real_parts(Y, mask)
        if obs is None:
            raise ValueError(
                "this result was loaded from a file, which does not hold the data; call outliers(Y)"
            )
        n1, n2 = obs.shape
        if (n1 // 2, n2 // 2) != self.shape:
            raise ValueError(
                f"the data have shape {(n1 // 2, n2 // 2)}, this result {self.shape}"
            )
        return obs

    @override
    def outliers(
        self, Y: Any = None, *, mask: Any = None, threshold: float | None = None
    ) -> Array:
        """The outliers: S = Y - X where an observed entry stands out, 0 for other entries, NaN where
        nothing was observed.

        Parameters
        ----------
        Y, mask : optional
            The data, which a result loaded from a file needs again.
        threshold : float, optional
            An entry stands out if `|Y - X|` is larger. If not given, if its real or its imaginary
            part does, as in `Result.outliers`.

        Returns
        -------
        complex array
        """
        obs = self._data(Y, mask)
        values = obs.grid(*map(np.arange, obs.shape))
        rest = (
            values[::2, ::2]
            + 1j * values[1::2, ::2]
            - self.low_rank(undetermined="keep")
        )
        if threshold is None:
            listed = self._parts_for(obs).outliers() != 0
            found = (listed[::2] | listed[1::2])[:, ::2]
        else:
            found = np.abs(rest) > threshold
        missing = np.isnan(rest)
        return np.where(found | missing, rest, rest.dtype.type(0))

    def _parts_for(self, obs: Observations) -> Result:
        return self._own_parts if obs is self.observations else self.in_parts(obs)

    @override
    def standard_error(self, rows: Any, cols: Any) -> Array:
        """Root mean square modulus of what is missing around completed entries, noise included.

        Parameters
        ----------
        rows, cols
            As for `Result.interval`.

        Returns
        -------
        array
        """
        rows, cols = self._places(rows, cols)
        real, imaginary = (
            self._own_parts.standard_error(2 * rows + part, 2 * cols) for part in (0, 1)
        )
        return np.hypot(real, imaginary)

    @override
    def outlier_probability(
        self, rows: Any, cols: Any, Y: Any = None, *, mask: Any = None
    ) -> Array:
        """Probability that the real or the imaginary part of observed entries is a gross error: the
        larger of the two.

        Parameters
        ----------
        rows, cols, Y, mask
            As for `Result.outlier_probability`.

        Returns
        -------
        array
        """
        rows, cols = self._places(rows, cols)
        parts = self._parts_for(self._data(Y, mask))
        of_parts = (
            parts.outlier_probability(2 * rows + part, 2 * cols) for part in (0, 1)
        )
        return np.maximum(*of_parts)

    @override
    def interval(
        self, rows: Any, cols: Any, level: float = 0.9, of: Target = "value"
    ) -> NoReturn:
        """Not of complex entries, which have no order."""
        raise NotCalibrated(
            "complex entries have no order, and so no interval: standard_error(rows, cols) says how"
            " far off they may be"
        )

    @override
    def sample(self, rows: Any, cols: Any, n: int = 1, seed: int = 0) -> Array:
        """Draw values that missing entries may have, as `Result.sample`."""
        rows, cols = self._places(rows, cols)
        real, imaginary = (
            self._own_parts.sample(2 * rows + part, 2 * cols, n, 2 * seed + part)
            for part in (0, 1)
        )
        return real + 1j * imaginary

    @override
    def false_alarms(
        self, Y: Any = None, *, mask: Any = None, threshold: float | None = None
    ) -> Alarms:
        """Number of real and imaginary parts that `outliers` lists, and how many of these are
        expected to be good: as `Result.false_alarms`.
        """
        found = self._parts_for(self._data(Y, mask)).false_alarms(threshold=threshold)
        # each part is there twice
        return Alarms(found.found // 2, found.false / 2, found.missed / 2)


def _fields(result: Result) -> dict[str, Any]:
    return {
        field.name: getattr(result, field.name) for field in dataclasses.fields(Result)
    }
