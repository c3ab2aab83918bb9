"""Complex matrices in real numbers: each entry a + bi is the block [a, -b; b, a].

Blocks add and multiply as complex numbers do, so a matrix of rank r becomes a real one of rank 2 r,
twice as long and twice as wide, on which every method runs as it is. The two rows of an entry are a
group that is weighed by its modulus; both its columns have the same one. So a real method keeps
blocks that are complex numbers, but for rounding and what is random: what is left is averaged out
when factors become complex again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._memory import is_large
from .._scipy import sparse as sp
from ..formats.sparse import sound
from ..linalg import Factors
from ..weights import Array
from ._checks import as_mask, check_finite, check_observed, check_shape
from ._door import as_observations
from .grouped import Grouped, grouped

MISSING = complex(np.nan, np.nan)


def holds_complex(Y: Any) -> bool:
    """Whether these are data with a complex type, of numpy, scipy or what becomes an array."""
    if isinstance(Y, list | tuple):
        try:
            Y = np.asarray(Y)
        except ValueError:  # lists of unlike lengths, which the door refuses
            return False
    return getattr(getattr(Y, "dtype", None), "kind", "") == "c"


class RealParts(NamedTuple):
    """Complex data as the methods see them: times `turn`, which has modulus 1."""

    obs: Grouped
    turn: complex


def in_real_parts(
    Y: Any,
    mask: Any = None,
    *,
    threads: int | None = None,
) -> RealParts:
    """A complex matrix (NaN, masked or not stored: missing) in real numbers."""
    values = _dense(Y, mask)
    check_finite(int(np.isinf(values).sum()))
    check_observed(values.size - int(np.isnan(values).sum()), values.shape)
    turn = even_turn(values)
    parts = blocks(values * values.dtype.type(turn))
    labels = np.repeat(np.arange(len(values)), 2)
    obs = grouped(as_observations(parts, threads=threads), labels, modulus=True)
    return RealParts(obs, turn)


def even_turn(values: Array) -> complex:
    """The phase after which real and imaginary parts are alike: of real data, all imaginary parts
    are 0, and a model that is 0 agrees with half of the parts. It turns with the data.
    """
    seen = values[~np.isnan(values)]
    sizes = np.maximum(np.abs(seen), np.finfo(seen.dtype).tiny)
    # of z^2 / |z|: opposite phases count alike
    axis = np.angle(np.sum(seen * (seen / sizes), dtype=np.complex128)) / 2
    return complex(np.exp(1j * (np.pi / 4 - axis)))


def blocks(values: Array) -> Array:
    """The real matrix: (2 n1, 2 n2)."""
    n1, n2 = values.shape
    values = np.where(np.isnan(values), values.dtype.type(MISSING), values)
    parts = np.empty((n1, 2, n2, 2), values.real.dtype)
    parts[:, 0, :, 0] = parts[:, 1, :, 1] = values.real
    parts[:, 1, :, 0] = values.imag
    parts[:, 0, :, 1] = -values.imag
    return parts.reshape(2 * n1, 2 * n2)


def complex_factors(
    L: Array,
    R: Array,
    turn: complex = 1.0,
) -> Factors:
    """Complex L and R of half the rank, whose product L R' (transposed, not conjugated) is nearest
    to the blocks of the real one, turned back.
    """
    left = L[::2] + 1j * L[1::2]
    right = (R[::2] - 1j * R[1::2]) / (2 * turn)
    Q1, T1 = np.linalg.qr(left)
    Q2, T2 = np.linalg.qr(right)
    U, s, Vt = np.linalg.svd(T1 @ T2.T)
    kept = (L.shape[1] + 1) // 2
    root = np.sqrt(s[:kept])
    kind = np.result_type(L.dtype, np.complex64)
    return Factors(
        (Q1 @ (U[:, :kept] * root)).astype(kind),
        (Q2 @ (Vt[:kept].T * root)).astype(kind),
    )


def _dense(Y: Any, mask: Any) -> Array:
    """An array of complex numbers, NaN where nothing is observed."""
    if sp.issparse(Y):
        if mask is not None:
            raise ValueError(
                "mask= was given with a sparse matrix, which says itself what is observed: what it stores"
            )
        return _from_sparse(sound(Y))
    seen = None if mask is None else as_mask(mask, np.shape(Y))
    if isinstance(Y, np.ma.MaskedArray):
        stored = ~np.ma.getmaskarray(Y)
        seen = stored if seen is None else seen & stored
        Y = Y.data
    values = np.asarray(Y)
    check_shape(values.shape)
    _check_size(values.shape)
    single = values.dtype.newbyteorder("=") == np.complex64
    values = values.astype(np.complex64 if single else np.complex128, copy=False)
    if seen is None:
        return values
    return np.where(seen, values, values.dtype.type(MISSING))


def _from_sparse(Y: Any) -> Array:
    check_shape(Y.shape)
    _check_size(Y.shape)
    entries = Y.tocsr(copy=True)
    entries.sum_duplicates()
    entries = entries.tocoo()
    single = Y.dtype == np.complex64
    kind = np.complex64 if single else np.complex128
    values = np.full(Y.shape, MISSING, kind)
    values[entries.coords] = entries.data
    return values


def _check_size(shape: tuple[int, ...]) -> None:
    """Refuse what does not fit into memory as real numbers."""
    if is_large(float(np.prod(shape, dtype=np.float64)) * 32):
        size = " x ".join(map(str, shape))
        raise ValueError(
            f"complex data are solved in memory, in real numbers that take four times their"
            f" entries, and {size} are too many for that: give fewer rows or columns"
        )
