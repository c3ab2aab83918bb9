"""The pass over a tensor on a GPU as one kernel in Triton, which comes with torch there.

A program has a stripe of rows and a block of columns. It goes over the stripe tile by tile: the
residual is made, weighed and multiplied in registers, so that the data are read once and nothing as
large as they are is written. Sums over the stripe and over the block are parts, which are added in
their order: no atomics, the same bits every time.

Tested with Triton's interpreter; how fast it is on a GPU was not measured (benchmarks/gpu.py does)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from ..weights import Array, Threshold, Weight

ROWS, COLUMNS = 32, 128  # of a tile
TILES = 32  # of a stripe: sums by column are written once for 1024 rows
LEAST = 16  # columns of a factor: what a product of tiles takes
MOST = 64  # more do not stay in registers
RULES = {"clip": 0, "threshold": 1, "cauchy": 2, "huber": 3, "mixture": 4, "power": 5}
SIDES = {"both": 0, "positive": 1, "negative": 2}


class Sums(NamedTuple):
    """What a pass adds up, as tensors: products, counts, weights and energies."""

    CQ: Any
    WQ: Any
    row_inliers: Any
    row_weight: Any
    row_energy: Any
    CtP: Any
    WtP: Any
    col_inliers: Any
    col_weight: Any
    col_energy: Any


class Factors(NamedTuple):
    """The model, and what its weighed residual and the weights are multiplied with."""

    L: Any = None
    R: Any = None
    P: Any = None
    Q: Any = None
    Pw: Any = None
    Qw: Any = None


def serves(Y: Any, factors: Factors) -> bool:
    """Whether the kernel computes this: in single precision, with factors that fit into registers."""
    narrow = all(X is None or X.shape[1] <= MOST for X in factors)
    wide = Y.dtype in (torch.float64, torch.int32, torch.int64)
    return narrow and not wide and Y.stride(1) == 1


def sums(Y: Any, mask: Any, gain: float, factors: Factors, rule: Weight) -> Sums:
    """One pass. The rule has tensors for rows and columns."""
    n1, n2 = Y.shape
    stripes = triton.cdiv(n1, ROWS * TILES)
    blocks = triton.cdiv(n2, COLUMNS)
    f = factors
    by_row, by_col = (blocks, n1), (stripes, n2)
    CQ, WQ = _room(Y, by_row, f.Q), _room(Y, by_row, f.Qw)
    CtP, WtP = _room(Y, by_col, f.P), _room(Y, by_col, f.Pw)
    rows, cols = (
        torch.empty((parts, 3, n), dtype=torch.float32, device=Y.device)
        for parts, n in (by_row, by_col)
    )
    _pass[(stripes, blocks)](
        Y=Y,
        mask=None if mask is None else mask.contiguous().view(torch.uint8),
        **f._asdict(),
        CQ=CQ,
        WQ=WQ,
        CtP=CtP,
        WtP=WtP,
        row_sums=rows,
        col_sums=cols,
        n1=n1,
        n2=n2,
        stride=Y.stride(0),
        gain=float(gain),
        rank=_width(f.L),
        width=max(_width(f.P), _width(f.Q)),
        width_w=max(_width(f.Pw), _width(f.Qw)),
        K=_padded(f.L),
        W=max(_padded(f.P), _padded(f.Q)),
        WW=max(_padded(f.Pw), _padded(f.Qw)),
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        TILES=TILES,
        **_of_rule(rule),
    )
    return Sums(
        _added(CQ), _added(WQ), *_lines(rows), _added(CtP), _added(WtP), *_lines(cols)
    )


def _room(Y: Any, lines: tuple[int, int], X: Any) -> Any:
    """For the parts of a product with X."""
    if X is None:
        return None
    shape = (*lines, X.shape[1])
    return torch.empty(shape, dtype=torch.float32, device=Y.device)


def _width(X: Any) -> int:
    return 0 if X is None else int(X.shape[1])


def _padded(X: Any) -> int:
    return max(LEAST, triton.next_power_of_2(_width(X)))


def _of_rule(rule: Weight) -> dict[str, Any]:
    """The rule as the kernel takes it: its number, its thresholds, its sides."""
    name = rule.rule.name
    number = {"clip": "zeta", "mixture": "odds", "power": "shape"}.get(name)
    return {
        "z": float(getattr(rule, number)) if number else 0.0,
        "row_z": getattr(rule, "rows", None),
        "col_z": getattr(rule, "cols", None),
        "row_protect": rule.protect_rows if isinstance(rule, Threshold) else None,
        "col_protect": rule.protect_cols if isinstance(rule, Threshold) else None,
        "RULE": RULES[name],
        "SIDE": SIDES[getattr(rule, "outliers", "both")],
        "SQUARES": bool(getattr(rule, "squares", False)),
    }


def _added(parts: Any) -> Any:
    """Parts in their order, in double precision."""
    return None if parts is None else parts.sum(0, dtype=torch.float64).float()


def _lines(parts: Any) -> tuple[Array, Array, Array]:
    """Counts of inliers, weights and energies."""
    inliers, weight, energy = parts.sum(0, dtype=torch.float64)
    return inliers.long(), weight.float(), energy


@triton.jit
def _sized(e, SIDE: tl.constexpr):
    """The size of residuals: 0 on a side that has no outliers."""
    if SIDE == 1:
        return tl.maximum(e, 0.0)
    if SIDE == 2:
        return tl.maximum(-e, 0.0)
    return tl.abs(e)


@triton.jit
def _smooth(q, z, RULE: tl.constexpr):
    """The weight of residuals that are q thresholds out, and which are inliers."""
    inlier = q <= 1.0
    most: tl.constexpr = 3.4e38
    if RULE == 2:
        w = 1.0 / (1.0 + q * q)
    elif RULE == 4:
        x = 1.0 + q * q / 32
        x = x * x
        x = x * x
        x = x * x
        odds = z * tl.minimum(x * x, most)
        w = 1.0 / (1.0 + odds)
        inlier = odds <= 1.0
    elif RULE == 5:
        w = tl.exp(-z * tl.log(1.0 + tl.minimum(q * q, most)))
    else:
        w = 1.0 / tl.maximum(q, 1.0)
    return w, inlier


@triton.jit
def _weighed(e, z, zr, zc, pr, pc, RULE: tl.constexpr, SIDE: tl.constexpr):
    """Weights and inliers by any rule; pr and pc are where outliers are clipped."""
    least: tl.constexpr = 1.1754944e-38  # 0 / 0 would be NaN
    size = _sized(e, SIDE)
    if RULE == 0:
        w, inlier = _smooth(size / tl.maximum(z, least), z, RULE)
    elif RULE == 1:
        limit = tl.maximum(zr[:, None], zc[None, :])
        inlier = size <= limit
        clipped = tl.maximum(pr[:, None], pc[None, :]) * limit / tl.maximum(size, least)
        w = tl.where(inlier, 1.0, clipped)
    else:
        limit = tl.maximum(zr[:, None] * zc[None, :], least)
        w, inlier = _smooth(size / limit, z, RULE)
    return w, inlier


@triton.jit
def _factor(X, lines, n, width, WIDE: tl.constexpr):
    """Some rows of a factor, 0 beyond its ends."""
    k = tl.arange(0, WIDE)
    here = (lines < n)[:, None] & (k < width)[None, :]
    return tl.load(X + lines[:, None] * width + k[None, :], mask=here, other=0.0)


@triton.jit
def _put(X, part, lines, n, width, values, WIDE: tl.constexpr):
    """Some rows of a product, as the part of one program."""
    k = tl.arange(0, WIDE)
    here = (lines < n)[:, None] & (k < width)[None, :]
    at = (part.to(tl.int64) * n + lines)[:, None] * width + k[None, :]
    tl.store(X + at, values, mask=here)


@triton.jit
def _put_sums(X, part, lines, n, inliers, weight, energy):
    """Counts, weights and energies of some lines, as the part of one program."""
    at = X + part.to(tl.int64) * 3 * n + lines
    tl.store(at, inliers, mask=lines < n)
    tl.store(at + n, weight, mask=lines < n)
    tl.store(at + 2 * n, energy, mask=lines < n)


@triton.jit
def _read(Y, mask, rows, cols, n1, n2, stride, gain):
    """A tile of the data in single precision, and what of it is observed."""
    here = (rows < n1)[:, None] & (cols < n2)[None, :]
    y = tl.load(Y + rows.to(tl.int64)[:, None] * stride + cols[None, :], mask=here)
    y = y.to(tl.float32)
    seen = here & (y == y)
    if mask is not None:
        at = mask + rows.to(tl.int64)[:, None] * n2 + cols[None, :]
        seen = seen & (tl.load(at, mask=here, other=0) != 0)
    return tl.where(seen, gain * y, 0.0), seen


@triton.jit
def _line(x, lines, n):
    """Some numbers of rows or columns, if there are any."""
    if x is None:
        return tl.zeros_like(lines).to(tl.float32)
    return tl.load(x + lines, mask=lines < n, other=0.0)


@triton.jit
def _pass(
    Y,
    mask,
    L,
    R,
    P,
    Q,
    Pw,
    Qw,
    CQ,
    WQ,
    CtP,
    WtP,
    row_sums,
    col_sums,
    row_z,
    col_z,
    row_protect,
    col_protect,
    n1,
    n2,
    stride,
    gain,
    z,
    rank,
    width,
    width_w,
    K: tl.constexpr,
    W: tl.constexpr,
    WW: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TILES: tl.constexpr,
    RULE: tl.constexpr,
    SIDE: tl.constexpr,
    SQUARES: tl.constexpr,
):
    """A stripe of TILES tiles of rows, and one block of columns."""
    stripe, block = tl.program_id(0), tl.program_id(1)
    cols = block * COLUMNS + tl.arange(0, COLUMNS)
    zc, pc = _line(col_z, cols, n2), _line(col_protect, cols, n2)
    by_p = tl.zeros((COLUMNS, W), tl.float32)
    by_pw = tl.zeros((COLUMNS, WW), tl.float32)
    col_inliers = tl.zeros((COLUMNS,), tl.float32)
    col_weight = tl.zeros((COLUMNS,), tl.float32)
    col_energy = tl.zeros((COLUMNS,), tl.float32)
    for t in range(TILES):
        rows = (stripe * TILES + t) * ROWS + tl.arange(0, ROWS)
        e, seen = _read(Y, mask, rows, cols, n1, n2=n2, stride=stride, gain=gain)
        if L is not None:
            l, r = _factor(L, rows, n1, rank, K), _factor(R, cols, n2, rank, K)
            e -= tl.dot(l, tl.trans(r), input_precision="ieee")
            e = tl.where(seen, e, 0.0)
        zr, pr = _line(row_z, rows, n1), _line(row_protect, rows, n1)
        w, inlier = _weighed(e, z, zr, zc, pr, pc=pc, RULE=RULE, SIDE=SIDE)
        w = tl.where(seen, w, 0.0)
        inliers = tl.where(seen & inlier, 1.0, 0.0)
        c = w * e
        if Q is not None:
            q = _factor(Q, cols, n2, width, W)
            part = tl.dot(c, q, input_precision="ieee")
            _put(CQ, block, rows, n1, width, values=part, WIDE=W)
        if Qw is not None:
            qw = _factor(Qw, cols, n2, width_w, WW)
            part = tl.dot(w, qw, input_precision="ieee")
            _put(WQ, block, rows, n1, width_w, values=part, WIDE=WW)
        if P is not None:
            p = _factor(P, rows, n1, width, W)
            by_p += tl.dot(tl.trans(c), p, input_precision="ieee")
        if Pw is not None:
            pw = _factor(Pw, rows, n1, width_w, WW)
            by_pw += tl.dot(tl.trans(w), pw, input_precision="ieee")
        energy = c * e
        summed = c * c if SQUARES else w
        _put_sums(
            row_sums,
            block,
            rows,
            n1,
            tl.sum(inliers, 1),
            weight=tl.sum(summed, 1),
            energy=tl.sum(energy, 1),
        )
        col_inliers += tl.sum(inliers, 0)
        col_weight += tl.sum(summed, 0)
        col_energy += tl.sum(energy, 0)
    if P is not None:
        _put(CtP, stripe, cols, n2, width, values=by_p, WIDE=W)
    if Pw is not None:
        _put(WtP, stripe, cols, n2, width_w, values=by_pw, WIDE=WW)
    _put_sums(
        col_sums,
        stripe,
        cols,
        n2,
        col_inliers,
        weight=col_weight,
        energy=col_energy,
    )
