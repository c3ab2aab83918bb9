"""Data in a torch tensor, on whatever device it lies: `solve` reads it there. Imported only where
torch is.

Each pass takes the factors to the device and brings (n1 + n2) x r numbers back; the methods' small
algebra stays in NumPy. On a GPU with Triton a pass is one kernel (`fused.py`); elsewhere, and in
double precision, the rules of `weights.py` are applied to blocks of rows. On the CPU the compiled
kernels are several times faster."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .._extras import optional
from .._scipy import sparse as sp
from .._typing import override
from ..weights import (
    Array,
    Cauchy,
    Clip,
    DType,
    Threshold,
    Weight,
    ratio,
    weights,
)
from ._checks import (
    check_finite,
    check_mask,
    check_numbers,
    check_observed,
    check_shape,
    seen_by,
)
from .base import (
    DRAW_FROM_STORED_BELOW,
    OWN,
    Adjoint,
    Counts,
    Multipliers,
    Observations,
    Pull,
    Regression,
    Sample,
    how_many,
    row_blocks,
)
from .dense import regress_by_parts
from .places import stored_places
from .transposed import transposed

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = optional("torch", "torch")
    Tensor = torch.Tensor

ENTRIES_ON_CPU = 1 << 18  # at a time: a block and what is made of it stay in the cache
# at a time elsewhere, where starting an operation costs more (not measured)
ENTRIES = 1 << 23


@dataclass(frozen=True, eq=False, kw_only=True)
class TorchObservations(Observations):
    """A 2-D tensor; missing entries are NaN, or False in the mask. Nothing larger than
    some blocks of rows is made.
    """

    Y: Tensor
    mask: Tensor | None = None

    @override
    def multiply(self, L: Any, R: Any, weight: Weight, by: Multipliers) -> Pull:
        rule = weight.mapped(self._sent, self._sent)
        L, R = self._sent_if_any(L), self._sent_if_any(R)
        P = L if by.P is OWN else self._sent_if_any(by.P)
        Q = R if by.Q is OWN else self._sent_if_any(by.Q)
        Pw, Qw = self._sent_if_any(by.Pw), self._sent_if_any(by.Qw)
        fused = _fused(self.Y)
        if fused is not None:
            factors = fused.Factors(L, R, P, Q, Pw, Qw)
            if fused.serves(self.Y, factors):
                return _as_pull(
                    fused.sums(self.Y, self.mask, self.gain, factors, rule), rule
                )
        by_rows: list[Any] = []
        by_cols: Any = None
        for rows in self._blocks():
            E = self._read(rows)
            if L is not None:
                E = E - L[rows] @ R.mT
            E, W, inlier = _weighed(E, rule.mapped(rows=itemgetter(rows)))
            C = W * E
            energy = C * E
            summed = C * C if getattr(rule, "squares", False) else W
            by_rows.append(
                (
                    _times(C, Q),
                    _times(W, Qw),
                    inlier.sum(1),
                    summed.sum(1),
                    energy.sum(1),
                )
            )
            block = (
                _times(C.mT, P, rows),
                _times(W.mT, Pw, rows),
                inlier.sum(0),
                summed.sum(0),
                energy.sum(0),
            )
            by_cols = (
                block
                if by_cols is None
                else [a if a is None else a + b for a, b in zip(by_cols, block)]
            )
        lines = (None if x[0] is None else torch.cat(x) for x in zip(*by_rows))
        return _as_pull((*lines, *by_cols), rule)

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        F, G, A, B = (self._sent(X) for X in (L, R, Ab, Bb))
        zeta = float(self.dtype.type(zeta))
        by_rows, by_cols, slope = [], torch.zeros_like(G), 0.0
        for rows in self._blocks():
            E = self._read(rows) - F[rows] @ G.mT
            Cb = torch.where(torch.isnan(E), 0.0, A[rows] @ G.mT + F[rows] @ B.mT)
            E = torch.nan_to_num(E, nan=0.0)
            C = torch.clamp(E, -zeta, zeta)
            Eb = torch.where(C == E, Cb, 0.0)
            slope += float(((Cb - Eb) * torch.sign(E)).sum(dtype=torch.float64))
            by_rows.append(C @ B - Eb @ G)
            by_cols += C.mT @ A[rows] - Eb.mT @ F[rows]
        return Adjoint(_array(torch.cat(by_rows)), _array(by_cols), slope)

    @override
    def magnitudes(self, L: Any, R: Any, share: float) -> tuple[Array, Array]:
        model = None if L is None else (self._sent(L), self._sent(R))
        every = slice(None)
        rows = [
            self._kth_largest(i, every, 1, how_many(share, self.row_observed[i]), model)
            for i in self._blocks()
        ]
        cols = [
            self._kth_largest(every, j, 0, how_many(share, self.col_observed[j]), model)
            for j in row_blocks(self.shape[1], self.shape[0], self._entries)
        ]
        return np.concatenate(rows), np.concatenate(cols)

    @override
    def regress(self, model: Regression, axis: int = 0) -> tuple[Array, Array, Array]:
        """On the CPU, with copies of some lines at a time."""
        return regress_by_parts(self, model, axis)

    @override
    def survey(self) -> Counts:
        return _survey(self.Y, self.mask)

    def _kth_largest(
        self,
        rows: slice,
        cols: slice,
        axis: int,
        k: Array,
        model: Any,
    ) -> Array:
        """Of |Y - L R'| along an axis of a block, k of its own for each line; infinity
        where k is 0.
        """
        E = self._read(rows, cols)
        size = abs(E if model is None else E - model[0][rows] @ model[1][cols].mT)
        size = torch.where(torch.isnan(size), -1.0, size)
        size = torch.sort(size, dim=axis, descending=True).values
        where = self._index(np.maximum(k - 1, 0)).unsqueeze(axis)
        found = _array(size.gather(axis, where).squeeze(axis))
        return np.where(k > 0, found, np.inf).astype(self.dtype)

    @override
    def lookup(self, rows: Array, cols: Array) -> Array:
        return _array(self._read(self._index(rows), self._index(cols)))

    @override
    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """Where few entries are observed, drawn from those. One pass over the data then."""
        if self.fraction >= DRAW_FROM_STORED_BELOW:
            return super().draw(size, seed)
        where = stored_places(self.n_observed, size, seed)
        before = np.concatenate([[0], np.cumsum(self.row_observed)])
        places = []
        for rows in self._blocks():
            ends = before[rows.start], before[rows.stop]
            first, last = np.searchsorted(where, ends)
            if last > first:
                seen = torch.nonzero(~torch.isnan(self._read(rows)))
                chosen = seen[self._index(where[first:last] - ends[0])]
                places.append(_array(chosen) + np.array([rows.start, 0]))
        i, j = np.concatenate(places).T
        return Sample(i, j, self.lookup(i, j))

    @override
    def block(self, rows: Any, cols: Any) -> Array:
        i, j = (
            torch.arange(n, device=self.Y.device)[
                x if isinstance(x, slice) else torch.as_tensor(x)
            ]
            for n, x in zip(self.shape, (rows, cols))
        )
        return _array(torch.nan_to_num(self._read(i[:, None], j[None, :]), nan=0.0))

    @override
    def outliers(self, L: Array, R: Array, threshold: float) -> Tensor:
        """A tensor where the data are, with NaN where nothing was observed."""
        F, G = self._sent(L), self._sent(R)
        S = torch.empty(self.shape, dtype=F.dtype, device=self.Y.device)
        for rows in self._blocks():
            E = self._read(rows) - F[rows] @ G.mT
            S[rows] = torch.where(abs(E) <= threshold, 0.0, E)
        return S

    @override
    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        F, G = self._sent(L), self._sent(R)
        for rows in self._blocks():
            E = self._read(rows) - F[rows] @ G.mT
            i, j = torch.nonzero(~torch.isnan(E), as_tuple=True)
            yield Sample(rows.start + _array(i), _array(j), _array(E[i, j]))

    def _blocks(self) -> list[slice]:
        return row_blocks(*self.shape, self._entries)

    @property
    def _entries(self) -> int:
        """At a time."""
        return ENTRIES_ON_CPU if self.Y.device.type == "cpu" else ENTRIES

    def _sent(self, X: Any) -> Tensor:
        """A copy of an array where the data are, in the precision of the arithmetic."""
        return torch.as_tensor(np.ascontiguousarray(X, self.dtype)).to(self.Y.device)

    def _sent_if_any(self, X: Any) -> Tensor | None:
        return None if X is None else self._sent(X)

    def _index(self, at: Array) -> Tensor:
        return torch.as_tensor(at, device=self.Y.device)

    def _read(self, *at: Any) -> Tensor:
        """Entries in the precision of the arithmetic, NaN where not observed."""
        values = self.Y[at].to(_torch_type(self.dtype)) * self.gain
        return (
            values
            if self.mask is None
            else torch.where(self.mask[at], values, torch.nan)
        )


def as_torch_observations(
    Y: Any,
    mask: Any = None,
    *,
    threads: int = 1,
) -> Observations:
    """Look at a tensor once, where it is, and say what was observed: as `as_observations`, which
    calls this for tensors that are not on the CPU. `threads` is for the algebra on the factors.

    float64, int32 and int64 are computed in float64 (float32 on devices without), all else in
    float32."""
    if Y.layout != torch.strided or Y.device.type == "meta":
        raise ValueError(
            f"the tensor is {Y.layout} on {Y.device}; a dense one that holds data is wanted"
        )
    check_shape(tuple(Y.shape))
    check_numbers(Y.dtype)
    Y, mask = (
        Y.detach(),
        None if mask is None else as_tensor_mask(mask, tuple(Y.shape), Y.device),
    )
    # columns are contiguous
    by_columns = Y.stride(0) == 1 and Y.stride(1) != 1 and Y.shape[1] > 1
    if by_columns:
        Y, mask = Y.mT, None if mask is None else mask.mT
    wide = (
        Y.dtype in (torch.float64, torch.int32, torch.int64) and Y.device.type != "mps"
    )
    shape = (Y.shape[0], Y.shape[1])
    rows, cols, infinite = _survey(Y, mask)
    check_finite(infinite)
    lines = TorchObservations(
        shape=shape,
        dtype=np.dtype(np.float64 if wide else np.float32),
        row_observed=rows,
        col_observed=cols,
        threads=threads,
        Y=Y,
        mask=mask,
    )
    obs: Observations = transposed(lines) if by_columns else lines
    check_observed(obs.n_observed, obs.shape)
    return obs


def stays(Y: Tensor) -> bool:
    """Whether a tensor is read where it is: a dense one on another device. On the CPU
    the kernels are faster.
    """
    return Y.layout == torch.strided and Y.device.type not in ("cpu", "meta")


def on_cpu(Y: Tensor) -> Any:
    """A tensor as an array that shares its memory where it can; a sparse tensor as a
    scipy matrix.
    """
    Y = Y.detach()
    if Y.device.type == "meta":
        raise ValueError("the tensor is on the device 'meta', which holds no data")
    if Y.layout == torch.strided:
        return _shared(Y.float() if Y.dtype == torch.bfloat16 else Y)
    shape = tuple(Y.shape)
    if Y.layout == torch.sparse_coo and Y.sparse_dim() == len(shape) == 2:
        Y = Y.coalesce()
        return sp.coo_array(
            (on_cpu(Y.values()), tuple(on_cpu(Y.indices()))), shape=shape
        )
    if Y.layout == torch.sparse_csr and len(shape) == 2:
        return sp.csr_array(
            tuple(map(on_cpu, (Y.values(), Y.col_indices(), Y.crow_indices()))),
            shape=shape,
        )
    if Y.layout == torch.sparse_csc and len(shape) == 2:
        return sp.csc_array(
            tuple(map(on_cpu, (Y.values(), Y.row_indices(), Y.ccol_indices()))),
            shape=shape,
        )
    raise ValueError(
        f"the tensor is {Y.layout} of shape {shape}; a dense, COO, CSR or CSC matrix is wanted"
    )


def _shared(Y: Tensor) -> Array:
    try:
        return Y.resolve_neg().resolve_conj().cpu().numpy()
    except (TypeError, RuntimeError):  # a type that numpy does not have
        raise ValueError(
            f"the tensor is of {Y.dtype}; convert it first: Y.float(), or Y.dequantize()"
        ) from None


def _fused(Y: Tensor) -> Any:
    """The kernel for a tensor where it is, if there is one: on a GPU for which Triton compiles."""
    if Y.device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return None
    from . import fused

    return fused


def _as_pull(sums: Iterable[Any], rule: Weight) -> Pull:
    """What a pass gives, from its sums as tensors: products, counts, weights and energies of rows,
    then of columns.
    """
    CQ, WQ, *of_rows, CtP, WtP, col_inliers, col_weight, col_energy = map(_array, sums)
    row_inliers, row_weight, row_energy = of_rows
    n_inliers = int(row_inliers.sum())
    if isinstance(rule, Clip):
        return Pull(CQ, CtP, n_inliers=n_inliers)
    energies = {}
    if isinstance(rule, Cauchy):
        energies = {
            "row_energy": row_energy.astype(np.float64),
            "col_energy": col_energy.astype(np.float64),
            "energy": float(row_energy.sum(dtype=np.float64)),
        }
    return Pull(
        CQ,
        CtP,
        n_inliers=n_inliers,
        row_inliers=row_inliers,
        col_inliers=col_inliers,
        row_weight=row_weight,
        col_weight=col_weight,
        grams=(WQ, WtP),
        **energies,
    )


def as_tensor_mask(mask: Any, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """True where an entry is observed: of booleans, or of numbers that are 0 or 1."""
    mask = torch.as_tensor(mask, device=device)
    check_mask(mask, shape)
    return seen_by(mask)


def _survey(Y: Tensor, mask: Tensor | None) -> Counts:
    """How many entries of each row and column are observed, and how many of these are infinite."""
    rows = []
    cols, infinite = (
        torch.zeros(n, dtype=torch.int64, device=Y.device) for n in (Y.shape[1], ())
    )
    for block in row_blocks(*Y.shape):
        seen = ~torch.isnan(Y[block])
        if mask is not None:
            seen &= mask[block]
        rows.append(seen.sum(1))
        cols += seen.sum(0)
        infinite += (torch.isinf(Y[block]) & seen).sum()
    return Counts(_array(torch.cat(rows)), _array(cols), int(infinite))


def _weighed(E: Tensor, rule: Weight) -> tuple[Tensor, Tensor, Tensor]:
    """Residuals with 0 for NaN, their weights (0 there) and inliers. `rule` has tensors."""
    seen = ~torch.isnan(E)
    q = ratio(E, rule, torch)
    W, inlier = weights(q, rule, torch)
    if isinstance(rule, Threshold):  # what is protected is clipped
        protect: tuple[Any, Any] = (rule.protect_rows[:, None], rule.protect_cols)
        W = torch.where(inlier, W, torch.maximum(*protect) / q)
    return (
        torch.where(seen, E, 0.0),
        torch.where(seen, W, 0.0).to(E.dtype),
        inlier & seen,
    )


def _times(Z: Tensor, X: Tensor | None, rows: slice = slice(None)) -> Tensor | None:
    return None if X is None else Z @ X[rows]


def _array(X: Tensor | None) -> Any:
    return None if X is None else X.cpu().numpy()


def _torch_type(dtype: DType) -> torch.dtype:
    return torch.float64 if dtype == np.float64 else torch.float32
