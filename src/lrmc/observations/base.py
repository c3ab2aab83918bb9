"""What every method asks of observed entries, however they are stored.

A new kind of storage is a new class with the methods of `Observations`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from .._rows import Work, is_here, take
from .._scipy import sparse as sp
from ..linalg import median_of
from ..weights import Array, Weight, as_weight
from .passes import (
    OWN,
    Adjoint,
    Counts,
    Levels,
    Multipliers,
    Part,
    PowerAdjoint,
    Pull,
    Refit,
    Refitted,
    Regression,
    Settle,
    Settled,
    Stripes,
)
from .places import random_places
from .sample import A_QUARTER, DOMINANT, OFTEN, Sample, most_frequent, step_of

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [  # what a pass and a sample are comes with what is asked of data
    "ALL_UP_TO",
    "DOMINANT",
    "DRAW_FROM_STORED_BELOW",
    "OFTEN",
    "OWN",
    "Adjoint",
    "Counts",
    "Form",
    "Levels",
    "Multipliers",
    "Observations",
    "Part",
    "PowerAdjoint",
    "Pull",
    "Refit",
    "Refitted",
    "Regression",
    "Sample",
    "Settle",
    "Settled",
    "Stripes",
    "common",
    "how_many",
    "in_form",
    "most_frequent",
    "row_blocks",
    "row_stripes",
    "standing_out",
]

DRAW_FROM_STORED_BELOW = 0.2  # random places would seldom be observed
SAMPLED = 20_000  # entries that thresholds are taken from
LEAST = 1e-9  # of the scale of the data: errors are never taken for smaller
# where no more entries are observed, all of them are the sample
ALL_UP_TO = SAMPLED
Form = Literal["dense", "masked", "sparse"]
EVERY = slice(None)
T = TypeVar("T", bound="Observations")


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations(ABC):
    """A partly observed n1 x n2 matrix Y. What is abstract here is what a kind of
    storage has to do.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # of the arithmetic
    row_observed: Array  # how many entries of each row are observed
    col_observed: Array
    form: Form = "dense"  # of the input, for what is given back in that form
    gain: float = 1.0  # Y is read as gain times the data
    threads: int = 1
    AT_ONCE: ClassVar[int] = 4_000_000  # entries that `medians` looks at
    # one after another in a dense array: `part` is a view of them
    rows_in_memory: ClassVar[bool] = False

    @abstractmethod
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        """One pass over the data: see `products`, which callers read more easily."""

    def products(
        self,
        L: Any,
        R: Any,
        weight: Weight | float,
        *,
        P: Any = None,
        Q: Any = None,
        Pw: Any = None,
        Qw: Any = None,
    ) -> Pull:
        """C @ Q and C.T @ P, where C is the weighted residual of Y - L R' on the observed entries.

        One pass over the data. L and R may both be None (zero). A product whose factor is not given
        is not made; OWN is the model's own factor, P = L or Q = R. With Pw or Qw also W.T @ Pw or W
        @ Qw of the weights W, as `grams`: not for the rule Clip, which keeps none."""
        return self.multiply(L, R, as_weight(weight), Multipliers(P, Q, Pw, Qw))

    @abstractmethod
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        """The reverse of `pull(L, R, zeta)`: from gradients with respect to C @ R and C.T @ L,
        those of L, R and zeta.

        One pass over the data. With E = Y - L R' and Cb = Ab R' + L Bb' on the observed entries, and Eb = Cb where
        |E| <= zeta, else 0: C @ Bb - Eb @ R, C.T @ Ab - Eb.T @ L, and the sum of Cb sign(E) over |E| > zeta. Rows in
        groups have none: `Grouped.adjoint` is an error.
        """

    @abstractmethod
    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        """The k-th largest |Y - L R'| of each row and of each column, where k is `share` of what is
        observed there.

        k is rounded up; where it is 0 the answer is infinity. L and R may both be None (zero). Two
        passes over the data and some counting, exact. The scratch is a few columns of the matrix
        per thread (sparse: twice the entries)."""

    @abstractmethod
    def regress(self, model: Regression, axis: int = 0) -> tuple[Any, Any, Any]:
        """Each row (axis 0) or column (axis 1) fitted by itself, in one pass.

        Gives n x r scores; the standard deviation of the noise that each line was fitted with; and
        the root mean square of its residuals in units of the noise, each counted as at most 6.
        Lines without entries get the mean. Data whose blocks lie across the lines refuse: a line
        would have to be put together from all of them."""

    @abstractmethod
    def survey(self) -> Counts:
        """Count what is observed. One pass over the data."""

    @abstractmethod
    def lookup(self, rows: Array, cols: Array) -> Array:
        """The entries at these places, NaN where not observed."""

    @abstractmethod
    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """Y - L R' where it is larger than the threshold, 0 elsewhere, in the form of the input."""

    @abstractmethod
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        """Y - L R' at all observed entries, about a million places of the matrix (or
        stored entries) at a time.
        """

    # ---- what storage may know better

    def refit(self, given: Refit) -> Refitted | None:
        """Half a layer on noisy data at once; None where a kernel does not reach all rows."""
        return None

    def settle(self, given: Settle) -> Settled | None:
        """The same for layers after each other."""
        return None

    def levels(self, given: Levels) -> tuple[Array, Array] | None:
        """What rows and columns add to each other, at once; None as for `refit`."""
        return None

    @property
    def groups(self) -> Array | None:
        """Groups x size of a group: the rows that are weighed together. None where each
        is weighed by itself.
        """
        return None

    @property
    def of_complex(self) -> bool:
        """Whether this is a complex matrix in real numbers: see `complex_parts`."""
        return False

    @property
    def stored(self) -> np.dtype[Any]:
        """The type of the numbers where they lie."""
        return self.dtype

    @property
    def in_memory(self) -> bool:
        """Whether `part` gives all of the data, as they are or by a copy."""
        return False

    @property
    def in_blocks(self) -> bool:
        """Whether the data lie elsewhere, and come block by block in every pass."""
        return False

    @property
    def entries_read(self) -> int:
        """How many places of the matrix were read so far from where the data lie; 0 for
        data in memory.
        """
        return 0

    def stripes(self) -> Stripes:
        """How all of the data are read, some lines after others."""
        return row_stripes(*self.shape)

    def check_unchanged(self, closely: bool = True) -> None:  # noqa: B027
        """Raise an error if what the data are read from did not stay what it was. Data
        in memory always do.
        """

    def with_counts(self, rows: Array, cols: Array) -> Self:
        """The same data with these for `row_observed` and `col_observed`."""
        return replace(self, row_observed=rows, col_observed=cols)

    def part(self, rows: slice = EVERY, cols: slice = EVERY) -> Part:
        """Some rows and columns as a dense array; as they are stored, where that is one."""
        at, along = (np.arange(n)[lines] for n, lines in zip(self.shape, (rows, cols)))
        Y = np.empty((len(at), len(along)), self.dtype)
        for some in row_blocks(*Y.shape):
            Y[some] = self.grid(at[some], along)
        return Part(Y, None, 1.0)

    def block(self, rows: Any, cols: Any) -> Array:
        """The rows x cols part as a dense array, 0 where not observed."""
        places = (np.arange(n)[x] for n, x in zip(self.shape, (rows, cols)))
        return np.nan_to_num(self.grid(*places), nan=0.0)

    def grid(self, rows: Array, cols: Array) -> Array:
        """The entries of these rows and columns as a dense array, NaN where not observed."""
        places = np.repeat(rows, len(cols)), np.tile(cols, len(rows))
        return self.lookup(*places).reshape(len(rows), len(cols))

    def medians(self, axis: int, places: Array, subtract: Array, empty: float) -> Any:
        """The median of some entries of each row (axis 0) or column (axis 1), less what the others
        typically are.

        `places` are the columns (rows) that are looked at; `subtract` has a number for every column
        (row). A line without entries there gets `empty`."""
        n = self.shape[axis]
        less, out = take(subtract, places), np.full(n, empty)
        for at in np.array_split(np.arange(n), max(1, n * len(places) // self.AT_ONCE)):
            grid = self.grid(at, places) if axis == 0 else self.grid(places, at).T
            # NaN comes last; numpy's nanmedian is ten times slower on long lines
            values = np.sort(grid - less, axis=1)
            count = values.shape[1] - np.isnan(values).sum(1)
            seen = np.flatnonzero(count)
            below, above = (values[seen, (count[seen] - k) // 2] for k in (1, 0))
            out[at[seen]] = (below + above) / 2
        return out

    def scaled(self, gain: float) -> Observations:
        """The same data, read as gain times what they were."""
        return self.with_sample_for(replace(self, gain=self.gain * gain), gain)

    def with_sample_for(self, other: T, gain: float) -> T:
        """The same data times gain, with the sample of these, if one was drawn: drawing one
        may take a pass.
        """
        if "sample" in vars(self):
            some = self.sample
            vars(other)["sample"] = some._replace(
                values=some.values * self.dtype.type(gain)
            )
        return other

    def round(self, work: Work, rows: tuple[Any, ...], shared: Any) -> tuple[Any, Any]:
        """One pass: `work(block, rows, shared)` on every block of rows. See
        `lrmc._rows`. In memory there is one.
        """
        return work(self, rows, shared)

    @property
    def across(self) -> Observations | None:
        """The transposed matrix, where that is what workers of a cluster have lines of;
        None elsewhere.
        """
        return None

    @property
    def is_here(self) -> bool:
        """Whether lines of rows and columns are in this process."""
        return is_here(self.row_observed) and is_here(self.col_observed)

    def in_form(self, L: Any, R: Any) -> tuple[Any, Any]:
        """Factors as they are given back to the user."""
        return L, R

    def pull(self, L: Any, R: Any, weight: Weight | float) -> Pull:
        """C @ R and C.T @ L, where C is the weighted residual of Y - L R' on the observed entries.

        `weight` is the paper's threshold zeta (C is the residual clipped to it) or a rule of
        `lrmc.weights`."""
        return self.products(L, R, weight, P=OWN, Q=OWN)

    @cached_property
    def n_observed(self) -> int:
        """How many entries are observed."""
        return int(self.row_observed.sum())

    @property
    def fraction(self) -> float:
        """The observed fraction p."""
        return self.n_observed / (self.shape[0] * self.shape[1])

    def draw(self, size: int = SAMPLED, seed: int = 0) -> Sample:
        """About `size` observed entries: the same ones whatever the storage, if at least
        a fifth is observed.
        """
        places = random_places(self.shape, int(size / self.fraction) + 1, seed)
        return self._observed_at(*places)

    @cached_property
    def sample(self) -> Sample:
        """The entries that thresholds are taken from, row by row: what `draw` gives,
        once; where there are no more, all.
        """
        stored = self.fraction < DRAW_FROM_STORED_BELOW
        if stored or self.n_observed > ALL_UP_TO:
            return self.draw().by_row()
        n1, n2 = self.shape
        return self._observed_at(*np.divmod(np.arange(n1 * n2), n2))

    def _observed_at(self, rows: Array, cols: Array) -> Sample:
        """Those of these places that are observed."""
        values = self.lookup(rows, cols)
        seen = ~np.isnan(values)
        return Sample(rows[seen], cols[seen], values[seen])

    @cached_property
    def telling(self) -> Sample:
        """The sample without a value that stands in many places: by what is left the size of
        residuals is told.
        """
        return self.sample.telling(A_QUARTER, 1.0)

    @cached_property
    def scale(self) -> float:
        """The median of |y| over a sample of the observed entries: the unit of relative
        thresholds. Never 0.
        """
        size = np.abs(self.sample.values)
        for typical in (median_of, np.mean):
            with np.errstate(over="ignore"):
                scale = float(typical(size)) if size.size else 0.0
            if scale > 0:
                return scale
        return float(np.max(size, initial=0.0)) or 1.0

    @cached_property
    def rounding(self) -> float:
        """The typical error that rounding makes, where values are multiples of a step; else 0. Errors
        are not taken for smaller: what meets the most frequent value of each line would make all
        others outliers.
        """
        return step_of(self.sample.values) / 4

    @property
    def least_error(self) -> float:
        """The typical size of errors is at least this."""
        return max(LEAST * self.scale, self.rounding)

    @property
    def rough_scale(self) -> float:
        """The order of magnitude of `scale`, where that is all that is asked for. Storage may know it
        without a sample.
        """
        return self.scale


def typical_size(values: Array) -> float:
    """The median of those that are neither missing nor 0; 0 without any."""
    size = np.abs(values)
    size = size[size > 0]  # NaN is not
    middle = len(size) // 2
    return float(np.partition(size, middle)[middle]) if len(size) else 0.0


def common(obs: Observations) -> dict[str, Any]:
    """What different forms of the same data share."""
    return {field.name: getattr(obs, field.name) for field in fields(Observations)}


def how_many(share: float, observed: Array) -> Array:
    """A share of each number, rounded up: 0.3 of 10 is 3, though 0.3 * 10 may be a
    little more in floating point.
    """
    return np.minimum(np.ceil(share * observed * (1 - 1e-12)), observed).astype(
        np.int64
    )


def row_blocks(n1: int, n2: int, entries: int = 1 << 20) -> list[slice]:
    """Slices of rows that have about so many entries."""
    step = max(1, entries // max(1, n2))
    return [slice(i, min(n1, i + step)) for i in range(0, n1, step)]


def row_stripes(n1: int, n2: int) -> Stripes:
    """The same as stripes."""
    first = [rows.start for rows in row_blocks(n1, n2)]
    return Stripes(np.append(first, n1), by_columns=False)


def standing_out(
    residuals: Iterable[Sample],
    threshold: float,
    shape: tuple[int, int],
) -> Any:
    """A CSR matrix of the entries whose residuals are larger than the threshold, and only these."""
    found = []
    for some in residuals:
        large = np.abs(some.values) > threshold
        found.append((some.values[large], some.rows[large], some.cols[large]))
    values, rows, cols = (np.concatenate(x) for x in zip(*found, strict=True))
    return sp.csr_array((values, (rows, cols)), shape=shape)


def in_form(S: Array, form: Form) -> Any:
    """A dense result in the form of the input."""
    if form == "masked":
        return np.ma.masked_invalid(S)
    if form == "sparse":
        rows, cols = np.nonzero(~np.isnan(S))
        return sp.csr_array((S[rows, cols], (rows, cols)), shape=S.shape)
    return S
