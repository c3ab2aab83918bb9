"""The completed matrix: low rank, and what lies beyond it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from .._arguments import one_of
from ..evidence.calibration import Calibration, Refit
from ..fit import Filling, Fit, Part, block_of
from ..frames import Labels
from ..linalg import Factors
from ..observations.base import Observations, Sample
from ..weights import Array
from .status import Record, Status

# what becomes of rows and columns that are not determined
Undetermined = Literal["nan", "keep"]
UNDETERMINED = ("nan", "keep")
SomeCompletion = TypeVar("SomeCompletion", bound="Completion")


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """The fields of a result, explained at `lrmc.Result`, and the matrix that they make."""

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
    missed: Sample | None = None  # errors at entries that were hidden to decide by

    @property
    def rank(self) -> int:
        """The rank of the model: how many columns L and R have. On noisy data it may be up to 2 more
        than was asked for, as offsets of rows and columns are components too.
        """
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

    def factors(self) -> Factors:
        """L and R as a pair."""
        return Factors(self.L, self.R)

    @cached_property
    def fit(self) -> Fit:
        """The low-rank part and what lies beyond it, as one object in this process. Where rows are
        on a cluster, this brings n1 x rank numbers.
        """
        return Fit(Factors(np.asarray(self.L), np.asarray(self.R)), self.beyond)

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


def left_out(result: SomeCompletion) -> SomeCompletion:
    """The same, but each entry that was seen is completed as the others tell it."""
    if not result.beyond:
        return result
    return replace(result, beyond=result.fit.left_out.beyond)


def _among(lines: Array, n: int, chosen: Any) -> Array:
    """Which of the chosen lines, of n in all, are among these."""
    return np.isin(np.atleast_1d(np.arange(n)[chosen]), lines)
