"""The paper's synthetic problems."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ._arguments import checked_rank, one_of, real_number, shown, whole_number
from ._scipy import sparse as sp
from .linalg import Factors
from .observations.base import row_blocks
from .weights import Array, DType

NOT_NEGATIVE = "a number that is not negative"
LARGEST = 2**31 - 1  # rows and columns: indices of sparse matrices have 32 bits


@dataclass(frozen=True, eq=False)
class Problem:
    """Observed data Y and what they were made of: the low-rank X = L R' and the outliers.

    Attributes
    ----------
    Y : array or sparse matrix
        The data; NaN or not stored is missing.
    X_factors : (L, R)
        Factors of the truth.
    outliers : array or sparse matrix
        What was added to X, in the form of Y.
    rank, alpha, p, seed
        As asked of `problem`.

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=100, rank=2, alpha=0.1, p=0.5)
    >>> problem.shape, problem.X.shape
    ((100, 100), (100, 100))
    >>> bool(0.4 < problem.mask.mean() < 0.6)
    True
    """

    Y: Any = field(repr=False)
    X_factors: Factors = field(repr=False)
    outliers: Any = field(repr=False)  # in the form of Y
    rank: int
    alpha: float
    p: float
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return len(self.X_factors.L), len(self.X_factors.R)

    @property
    def X(self) -> Array:
        """The low-rank matrix itself: n1 * n2 numbers."""
        return np.asarray(self.X_factors.L @ self.X_factors.R.T)

    @property
    def mask(self) -> Array:
        """True where an entry is observed: n1 * n2 booleans."""
        if not sp.issparse(self.Y):
            return ~np.isnan(self.Y)
        mask = np.zeros(self.shape, bool)
        mask[
            np.repeat(np.arange(self.shape[0]), np.diff(self.Y.indptr)), self.Y.indices
        ] = True
        return mask


@dataclass(frozen=True)
class Problems:
    """A kind of problems, to train on: everything about them but the rank and the seed.

    Parameters
    ----------
    n, alpha, p, n2, outlier_scale, condition, noise
        As for `problem`.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> import lrmc
    >>> problems = lrmc.synthetic.Problems(n=200, alpha=0.2, p=0.3)
    >>> problems.draw(rank=3, seed=7).shape
    (200, 200)
    """

    n: int = 3000
    alpha: float = 0.1
    p: float = 0.1
    n2: int | None = None
    outlier_scale: float = 1.0
    condition: float = 1.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        for name, value in _checked_kind(**asdict(self)).items():
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrices."""
        return self.n, self.n if self.n2 is None else self.n2

    def draw(self, rank: int, seed: int, **how: Any) -> Problem:
        """One of them."""
        return problem(rank=rank, seed=seed, **asdict(self), **how)

    def shrunk(self, size: int) -> Problems:
        """Problems with at most `size` rows and columns that are as hard.

        Observed entries per missing entry grow as the matrix shrinks, so that a row keeps about as
        many entries: p becomes p' with p' / (1 - p') = (n / n') p / (1 - p)."""
        n1, n2 = self.shape
        m1, m2 = min(n1, size), min(n2, size)
        if self.p >= 1:
            return replace(self, n=m1, n2=m2)
        odds = np.sqrt(n1 * n2 / (m1 * m2)) * self.p / (1 - self.p)
        return replace(self, n=m1, n2=m2, p=float(odds / (1 + odds)))


def problem(
    n: int = 3000,
    rank: int = 5,
    alpha: float = 0.1,
    p: float = 0.1,
    seed: int = 0,
    *,
    n2: int | None = None,
    outlier_scale: float = 1.0,
    condition: float = 1.0,
    noise: float = 0.0,
    form: Literal["auto", "dense", "sparse"] = "auto",
    dtype: Any = np.float64,
) -> Problem:
    """Random problem with a known answer, as in the paper.

    Factors are Gaussian with entries N(0, 1/n), entries are observed at random, and outliers are
    uniform in `[-E|X|, E|X|]`.

    Parameters
    ----------
    n : int, default 3000
        Number of rows, and of columns unless `n2` is given.
    rank : int, default 5
        Rank of the truth.
    alpha : float, default 0.1
        Fraction of the observed entries that are outliers.
    p : float, default 0.1
        Probability of an entry to be observed.
    seed : int, default 0
        Seed of all that is random.
    n2 : int, optional
        Number of columns.
    outlier_scale : float, default 1.0
        Multiplies the outliers.
    condition : float, default 1.0
        Condition number: if not 1, singular values go from 1 to 1 / condition.
    noise : float, default 0.0
        Standard deviation of Gaussian noise, in units of `E|X|`.
    form : {"auto", "dense", "sparse"}, default "auto"
        Whether Y is an array (NaN is missing) or a CSR matrix of the observed entries; "auto"
        gives an array if p is 1.
    dtype : float32 or float64, default float64
        Type of Y.

    Returns
    -------
    Problem
        With the data `Y`, the truth `X_factors` and `X`, and the `outliers`.

    Examples
    --------
    >>> import lrmc
    >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=0.5)
    >>> problem.Y.shape
    (100, 100)
    """
    kind = Problems(
        n, alpha, p, n2, outlier_scale=outlier_scale, condition=condition, noise=noise
    )
    n1, n2 = kind.shape
    rank, seed = checked_rank(rank, kind.shape), whole_number("seed", seed, 0)
    one_of("form", form, ("auto", "dense", "sparse"))
    dtype = _float_type(dtype)
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((m, rank)) / np.sqrt(m) for m in (n1, n2))
    if condition != 1:
        L, R = (
            np.linalg.qr(L)[0] * np.geomspace(1, 1 / condition, rank),
            np.linalg.qr(R)[0],
        )
    dense = form == "dense" or (form == "auto" and p >= 1)
    if p >= 1 and dense:  # every place, in order: they need not be listed
        rows = cols = None
        x = np.concatenate([(L[block] @ R.T).ravel() for block in row_blocks(n1, n2)])
    else:
        blocks = [
            (block, _bernoulli(rng, p, block.stop - block.start, n2))
            for block in row_blocks(n1, n2)
        ]
        rows = np.concatenate([block.start + i for block, (i, _) in blocks])
        cols = np.concatenate([j for _, (_, j) in blocks])
        x = np.concatenate([(L[block] @ R.T)[here] for block, here in blocks])
    mean = np.abs(x).mean() if len(x) else 0.0
    support = rng.choice(len(x), int(alpha * len(x)), replace=False)
    s = np.zeros_like(x)
    s[support] = 2 * mean * outlier_scale * (rng.random(len(support)) - 0.5)
    y = x + s + (noise * mean * rng.standard_normal(len(x)) if noise else 0.0)
    Y, S = (_stored(v.astype(dtype), rows, cols, (n1, n2), dense) for v in (y, s))
    return Problem(Y, Factors(L, R), S, rank, alpha=kind.alpha, p=kind.p, seed=seed)


def _bernoulli(
    rng: np.random.Generator,
    p: float,
    n1: int,
    n2: int,
) -> tuple[Array, Array]:
    """The places that are observed."""
    seen = (
        np.ones((n1, n2), bool)
        if p >= 1
        else rng.random((n1, n2), dtype=np.float32) < p
    )
    return np.nonzero(seen)  # type: ignore[return-value]


def _stored(
    values: Array,
    rows: Array | None,
    cols: Array | None,
    shape: tuple[int, int],
    dense: bool,
) -> Any:
    if rows is None or cols is None:
        return values.reshape(shape)
    if not dense:
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        return sp.csr_array((values, cols.astype(np.int32), indptr), shape=shape)
    Y = np.full(shape, np.nan, values.dtype)
    Y[rows, cols] = values
    return Y


def _checked_kind(
    n: int,
    alpha: float,
    p: float,
    n2: int | None,
    outlier_scale: float,
    condition: float,
    noise: float,
) -> dict[str, int | float | None]:
    """The numbers of a kind of problems, as Python's own; or an error that says what no
    problems have.
    """
    return {
        "n": whole_number("n", n, 1, LARGEST),
        "n2": None
        if n2 is None
        else whole_number("n2", n2, 1, LARGEST, hint=", or None for as many as n"),
        "alpha": real_number(
            "alpha", alpha, lambda x: 0 <= x <= 1, "a number from 0 to 1"
        ),
        "p": real_number("p", p, lambda x: 0 < x <= 1, "a number above 0 and up to 1"),
        "outlier_scale": real_number(
            "outlier_scale", outlier_scale, lambda x: x >= 0, NOT_NEGATIVE
        ),
        "condition": real_number(
            "condition", condition, lambda x: x >= 1, "a number of at least 1"
        ),
        "noise": real_number("noise", noise, lambda x: x >= 0, NOT_NEGATIVE),
    }


def _float_type(dtype: Any) -> DType:
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.float32, np.float64):
        raise ValueError(f"dtype={shown(dtype)}; float32 or float64 is wanted")
    return found
