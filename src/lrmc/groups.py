"""Rows that are good or bad together: all bands of a pixel are under a cloud, or none is.

In each column, the rows of a group share one weight: that of the worst of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .centre import centre
from .storage import Dense, Observations, Pull, Sample, Transposed, common
from .weights import Array, Cauchy, Clip, Huber, Mixture, Threshold, Weight, as_weight

ENTRIES = 1 << 20  # at a time


@dataclass(frozen=True, eq=False, kw_only=True)
class Grouped(Observations):
    """Data whose rows are weighed in groups. In plain NumPy, block by block: several times slower than the kernels."""

    of: Observations
    members: Array  # groups x size of a group: rows

    def products(self, L: Any, R: Any, weight: Weight | float, P: Any, Q: Any, Pw: Any = None, Qw: Any = None) -> Pull:
        """See `Observations.products`."""
        rule, (n1, n2), dtype = as_weight(weight), self.shape, self.dtype
        rows_out = [None if X is None else np.zeros((n1, X.shape[1]), dtype) for X in (Q, Qw)]
        cols_out = [None if X is None else np.zeros((n2, X.shape[1]), np.float64) for X in (P, Pw)]
        sums = {name: np.zeros(n, np.float64) for name, n in (("row_inliers", n1), ("row_weight", n1))}
        sums |= {name: np.zeros(n, np.float64) for name, n in (("col_inliers", n2), ("col_weight", n2))}
        energy = 0.0
        for members in np.array_split(self.members, max(1, n1 * n2 // ENTRIES)):
            rows = members.ravel()
            E = self.values(rows)
            if L is not None:
                E = E - L[rows] @ R.T
            C, W, inlier = self._weigh(E, rule, rows)
            energy += float(np.vdot(C, np.nan_to_num(E)))
            for out, X, Z in zip(rows_out, (Q, Qw), (C, W), strict=True):
                if out is not None:
                    out[rows] = Z @ X
            for out, X, Z in zip(cols_out, (P, Pw), (C, W), strict=True):
                if out is not None:
                    out += Z.T @ X[rows]
            summed = C * C if getattr(rule, "squares", False) else W
            sums["row_inliers"][rows], sums["row_weight"][rows] = inlier.sum(1), summed.sum(1)
            sums["col_inliers"] += inlier.sum(0)
            sums["col_weight"] += summed.sum(0)
        n_inliers = int(sums["row_inliers"].sum())
        CtP, WtP = (None if out is None else out.astype(dtype) for out in cols_out)
        return Pull(rows_out[0], CtP, n_inliers=n_inliers, energy=energy, grams=(rows_out[1], WtP), **sums)

    def _weigh(self, E: Array, rule: Weight, rows: Array) -> tuple[Array, Array, Array]:
        """Pulls, weights and inliers of the residuals of some rows, whole groups one after another."""
        seen, size = ~np.isnan(E), self.members.shape[1]
        ratio = np.nan_to_num(_ratio(E, rule, rows), nan=-np.inf)
        worst = ratio.reshape(-1, size, E.shape[1]).max(1)
        ratio = np.repeat(np.maximum(worst, 0), size, axis=0)
        W, inlier = _weights(ratio, rule)
        W, inlier = np.where(seen, W, 0).astype(self.dtype), inlier & seen
        return W * np.nan_to_num(E), W, inlier

    def values(self, rows: Array) -> Array:
        """Some rows as a dense array, NaN where not observed."""
        swapped = isinstance(self.of, Transposed)
        dense = self.of.of if isinstance(self.of, Transposed) else self.of
        if not isinstance(dense, Dense):
            places = np.repeat(rows, self.shape[1]), np.tile(np.arange(self.shape[1]), len(rows))
            return self.lookup(*places).reshape(len(rows), -1)
        part = (dense.Y[:, rows].T if swapped else dense.Y[rows]).astype(self.dtype) * self.dtype.type(self.gain)
        if dense.mask is not None:
            part[(dense.mask[:, rows].T if swapped else dense.mask[rows]) == 0] = np.nan
        return part

    def lookup(self, rows: Array, cols: Array) -> Array:
        """See `Observations.lookup`."""
        return self.of.lookup(rows, cols)

    def draw(self, size: int = 20_000, seed: int = 0) -> Sample:
        """See `Observations.draw`."""
        return self.of.draw(size, seed)

    def block(self, rows: Any, cols: Any) -> Array:
        """See `Observations.block`."""
        return self.of.block(rows, cols)

    def outliers(self, L: Array, R: Array, threshold: float) -> Any:
        """See `Observations.outliers`."""
        return self.of.outliers(L, R, threshold)

    def residuals(self, L: Array, R: Array) -> Iterator[Sample]:
        """See `Observations.residuals`."""
        return self.of.residuals(L, R)

    def scaled(self, gain: float) -> Grouped:
        """See `Observations.scaled`."""
        of = self.of.scaled(gain)
        return replace(self, of=of, gain=of.gain)


def grouped(obs: Observations, labels: Any) -> Grouped:
    """The same data with rows in groups: `labels` names the group of each row; all groups have as many rows."""
    labels = np.asarray(labels)
    if labels.shape != (obs.shape[0],):
        raise ValueError(f"groups has shape {labels.shape}; a label for each of the {obs.shape[0]} rows is wanted")
    _, counts = np.unique(labels, return_counts=True)
    if counts.min() != counts.max():
        raise ValueError(f"groups have {counts.min()} to {counts.max()} rows; as many in each are wanted")
    members = np.argsort(labels, kind="stable").reshape(-1, counts[0])
    return Grouped(of=obs, members=members, **common(obs))


def unlike_members(obs: Grouped) -> Array:
    """The relative noise of each row: bands differ, and the same band is alike in all groups.

    Taken from how far entries of a band typically are from the median of their row and column.
    """
    size = obs.members.shape[1]
    position = np.empty(obs.shape[0], np.int64)
    position[obs.members.ravel()] = np.tile(np.arange(size), len(obs.members))
    some, middle = obs.sample, centre(obs)
    rest = some.values if middle is None else some.residual(middle)
    levels = np.array([np.median(np.abs(rest[position[some.rows] == b])) for b in range(size)])
    return np.maximum(levels, 1e-3 * levels.max())[position] / np.median(levels)


def _ratio(E: Array, rule: Weight, rows: Array) -> Array:
    """|residual| over its threshold."""
    if isinstance(rule, Clip):
        return np.abs(E) / max(rule.zeta, 1e-300)
    size = np.abs(E)
    if rule.outliers != "both":
        size = np.where((E > 0) == (rule.outliers == "positive"), size, np.where(np.isnan(E), np.nan, 0))
    if isinstance(rule, Threshold):
        return size / np.maximum(np.maximum(rule.rows[rows][:, None], rule.cols), 1e-300)
    return size / np.maximum(rule.rows[rows][:, None] * rule.cols, 1e-300)


def _weights(ratio: Array, rule: Weight) -> tuple[Array, Array]:
    """The weight for a ratio, and whether it makes an inlier. Rows far behind are not protected here."""
    inlier = ratio <= 1
    if isinstance(rule, Threshold):
        return inlier.astype(ratio.dtype), inlier
    if isinstance(rule, Mixture):
        with np.errstate(over="ignore"):
            odds = rule.odds * np.minimum((1 + ratio**2 / 32) ** 16, np.finfo(ratio.dtype).max)
        return 1 / (1 + odds), odds <= 1
    if isinstance(rule, Clip | Huber):
        return np.minimum(1, 1 / np.maximum(ratio, 1e-300)), inlier
    assert isinstance(rule, Cauchy)
    return 1 / (1 + ratio**2), inlier
