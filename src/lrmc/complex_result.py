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
from .observations.complex_parts import (
    RealParts,
    blocks,
    complex_factors,
    in_real_parts,
)
from .observations.grouped import Grouped
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

    Attributes
    ----------
    turn : complex
        What the data were multiplied with before they became real numbers.
    L, R, status, history, method, tol, undetermined_rows, undetermined_cols
        As in `Result`.
    noise_level, outlier_fraction, regime, evidence, certificate, warnings
        As in `Result`.
    observations, refit, beyond, calibrated, labels, missed
        As in `Result`.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.exp(1j * rng.uniform(0, 6, (90, 1))) * np.exp(1j * rng.uniform(0, 6, 60))
    >>> Y = X + 5 * (rng.random(X.shape) < 0.1)
    >>> result = lrmc.solve(Y)
    >>> result.rank, bool(abs(result.low_rank() - X).max() < 1e-5)
    (1, True)
    """

    turn: complex = 1.0  # what the data were multiplied with before they were solved

    @classmethod
    def of(cls, parts: Result, turn: complex) -> ComplexResult:
        """From the result in real numbers, times `turn`."""
        fields = _fields(parts)
        L, R = complex_factors(parts.L, parts.R, turn)
        lines = {
            name: np.unique(fields[name] // 2)
            for name in ("undetermined_rows", "undetermined_cols")
        }
        said = {
            "noise_level": ROOT_2 * parts.noise_level,
            "warnings": tuple(IN_PARTS + text for text in parts.warnings),
        }
        return cls(**(fields | {"L": L, "R": R, "turn": turn} | lines | said))

    def in_parts(self, data: RealParts) -> Result:
        """The same in real numbers, for these data."""
        fields = _fields(self)
        twice = {
            name: np.concatenate([2 * fields[name], 2 * fields[name] + 1])
            for name in ("undetermined_rows", "undetermined_cols")
        }
        turned = self.L * self.L.dtype.type(data.turn)
        fields |= {"L": blocks(turned), "R": blocks(self.R.T).T} | twice
        fields |= {
            "noise_level": self.noise_level / ROOT_2,
            "observations": data.obs,
        }
        return Result(**fields)

    @cached_property
    def _own_parts(self) -> Result:
        if self.observations is None:
            raise ValueError(
                "this result was loaded from a file, which does not hold the data; give them as Y"
            )
        assert isinstance(self.observations, Grouped)
        return self.in_parts(RealParts(self.observations, self.turn))

    def _parts_of(self, Y: Any, mask: Any) -> tuple[Result, complex]:
        """In real numbers, for the data of the run or for what is given in their place."""
        if Y is None:
            return self._own_parts, self.turn
        data = in_real_parts(Y, mask)
        shape = data.obs.shape[0] // 2, data.obs.shape[1] // 2
        if shape != self.shape:
            raise ValueError(f"the data have shape {shape}, this result {self.shape}")
        return self.in_parts(data), data.turn

    @override
    def outliers(
        self,
        Y: Any = None,
        *,
        mask: Any = None,
        threshold: float | None = None,
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
        parts, turn = self._parts_of(Y, mask)
        assert parts.observations is not None
        values = parts.observations.grid(*map(np.arange, parts.observations.shape))
        turned = values[::2, ::2] + 1j * values[1::2, ::2]
        X = self.low_rank(undetermined="keep")
        rest = turned / turned.dtype.type(turn) - X
        if threshold is None:
            listed = parts.outliers() != 0
            found = (listed[::2] | listed[1::2])[:, ::2]
        else:
            found = np.abs(rest) > threshold
        missing = np.isnan(rest)
        return np.where(found | missing, rest, rest.dtype.type(0))

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
        self,
        rows: Any,
        cols: Any,
        Y: Any = None,
        *,
        mask: Any = None,
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
        parts, _ = self._parts_of(Y, mask)
        of_parts = (
            parts.outlier_probability(2 * rows + part, 2 * cols) for part in (0, 1)
        )
        return np.maximum(*of_parts)

    @override
    def interval(
        self,
        rows: Any,
        cols: Any,
        level: float = 0.9,
        of: Target = "value",
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
        return (real + 1j * imaginary) / self.turn

    @override
    def false_alarms(
        self,
        Y: Any = None,
        *,
        mask: Any = None,
        threshold: float | None = None,
    ) -> Alarms:
        """Number of real and imaginary parts that `outliers` lists, and how many of these are
        expected to be good: as `Result.false_alarms`.
        """
        found = self._parts_of(Y, mask)[0].false_alarms(threshold=threshold)
        # each part is there twice
        return Alarms(found.found // 2, *(x / 2 for x in found[1:]))


def _fields(result: Result) -> dict[str, Any]:
    return {
        field.name: getattr(result, field.name) for field in dataclasses.fields(Result)
    }
