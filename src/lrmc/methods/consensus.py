"""Rows and columns that meet too few entries, fitted anew: the best known answer where only some
entries are good.

The closed loop moves a row by all of its entries that are within a threshold. One with many
outliers, or few entries, can come to rest at a wrong place. Where the columns are known, a row of
rank r is given by any r of its good entries: small subsets are tried, and the fit that most of the
row's entries agree with is kept. Columns likewise."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .. import _kernels
from .._rows import equal, is_here
from ..linalg import Factors, change, entries_at
from ..observations.base import OWN, Observations
from ..row_systems import packed_trace, pairs, solve_rows
from ..weights import Array, Threshold
from .certificate import (
    FAR_OFF,
    NEARLY,
    Certificate,
    agreement_border,
    certify,
    met_within,
)
from .chance import by_chance, proving
from .step import Step

ROUNDS = 3  # rows, columns, least squares: what one round mends helps the next
# of the entries nearly agree: below, there is nothing that others could be fitted to
PROMISING = 0.15
# times that quantile of the residuals: what agrees at first, where the fit has not got there yet
WIDE = 6.0
DRAWS = 10_000  # of subsets for a line, at most ...
WORK = 2e9  # ... and for all lines together about so many products
FEWEST_DRAWS = 50
# of the rows and of the columns are open: there is nothing to fit them to
NOTHING_KNOWN = 0.5
# times the typical share of agreeing entries: a line with more is good enough to fit others to
KNOWN = 0.6
# standard deviations below the typical share of agreeing entries: such lines are tried as well
FEWER = 1.5
SWEEPS = 12  # over what agrees, where steps had not converged
AT_ONCE = 1 << 24  # entries that are gathered


class Entries(NamedTuple):
    """The entries of some lines, one line after another (CSR): `places` are where they
    lie in the line.
    """

    indptr: Array
    places: Array
    values: Array


def repaired(
    obs: Observations,
    X: Factors,
    certificate: Certificate,
    tol: float,
) -> Generator[Step, None, tuple[Factors, Certificate]]:
    """X with its open rows and columns fitted anew, and its certificate. A round takes about seven
    passes.

    Factors that lie on the workers of a cluster are left as they are.
    """
    if not (is_here(X.L) and is_here(X.R)):
        return X, certificate
    border = agreement_border(obs, tol)
    for _ in range(ROUNDS):
        opened = [
            len(lines) / n
            for lines, n in zip(
                (certificate.rows, certificate.cols), obs.shape, strict=True
            )
        ]
        if not any(opened) or min(opened) > NOTHING_KNOWN:
            break
        wide = max(
            NEARLY * border,
            WIDE * float(np.quantile(np.abs(obs.sample.residual(X)), PROMISING)),
        )
        better, mended = _refitted(obs, X, certificate, wide)
        for step in on_what_agrees(obs, better, wide, border):
            better = Factors(step.L, step.R)
            yield step
        again = certify(obs, better, tol)
        if again.agreeing < certificate.agreeing:
            yield step._replace(L=X.L, R=X.R)  # the last step is where a run ends
            break
        X, certificate = better, again
        if not mended:
            break
    return X, certificate


def finished(
    obs: Observations,
    X: Factors,
    certificate: Certificate,
    tol: float,
) -> Generator[Step, None, tuple[Factors, Certificate]]:
    """X, which has a certificate though the steps to it had not converged, after sweeps
    over what agrees.
    """
    border, after = agreement_border(obs, tol), X
    for _ in range(SWEEPS):
        before = after
        for step in on_what_agrees(obs, before, NEARLY * border, border):
            after = Factors(step.L, step.R)
            yield step
        if change(before, after) < tol:
            break
    again = certify(obs, after, tol)
    if again.holds and again.agreeing >= certificate.agreeing:
        return after, again
    yield step._replace(L=X.L, R=X.R)  # the last step is where a run ends
    return X, certificate


def sharpened(
    obs: Observations,
    X: Factors,
    certificate: Certificate,
    tol: float,
) -> Generator[Step, None, tuple[Factors, Certificate]]:
    """X, which has a certificate, with lines fitted anew in which most entries agree, and yet few
    closely.

    In a short line an outlier that is hardly one can take part in the fit, and spoil it for the
    others. One pass where there is no such line."""
    border, rank = agreement_border(obs, tol), X.L.shape[1]
    met = met_within(obs, X, border)
    sides = ((met.row_inliers, obs.row_observed), (met.col_inliers, obs.col_observed))
    rows, cols = (
        np.flatnonzero((close < rank + 2) & (observed > close))
        for close, observed in sides
    )
    if not len(np.setdiff1d(rows, certificate.rows)) and not len(
        np.setdiff1d(cols, certificate.cols)
    ):
        return X, certificate
    better, _ = _refitted(obs, X, replace(certificate, rows=rows, cols=cols), border)
    again = certify(obs, better, tol)
    if not again.holds or met_within(obs, better, border).n_inliers < met.n_inliers:
        return X, certificate
    yield Step(better.L, better.R, border, again.agreeing, border, "consensus")
    return better, again


def promising(obs: Observations, X: Factors, tol: float) -> bool:
    """Whether so many entries nearly agree that the others may be outliers, or in lines
    that can be mended.
    """
    size = np.abs(obs.sample.residual(X))
    return float(np.quantile(size, PROMISING)) <= FAR_OFF * agreement_border(obs, tol)


def _refitted(
    obs: Observations,
    X: Factors,
    certificate: Certificate,
    border: float,
) -> tuple[Factors, int]:
    """X with its open rows, then its open columns, fitted anew; and how many of them are
    better now.
    """
    rank, met, mended = X.L.shape[1], met_within(obs, X, border), 0
    chance = by_chance(obs, np.abs(obs.sample.residual(X)), border)
    seen = obs.row_observed, obs.col_observed
    opened = certificate.rows, certificate.cols
    judged = [
        _judged(*side)
        for side in zip(opened, (met.row_inliers, met.col_inliers), seen, strict=True)
    ]
    known = [good for _, good in judged]
    for axis, (doubted, _) in enumerate(judged):
        lines = np.flatnonzero(doubted)
        F, G = X[axis].copy(), np.ascontiguousarray(X[1 - axis], np.float64)
        observed = seen[axis][lines]
        draws = _draws(observed, rank)
        for some in _portions(lines, observed):
            entries = gathered(obs, X, axis, some, known[1 - axis])
            new, agreeing = (
                np.ascontiguousarray(F[some], np.float64),
                np.empty(len(some), np.int64),
            )
            _kernels.consensus(
                indptr=entries.indptr,
                indices=entries.places,
                values=entries.values,
                G=G,
                F=new,
                agreeing=agreeing,
                border=border,
                draws=draws,
                seed=axis,
                threads=obs.threads,
            )
            told = agreeing >= proving(np.diff(entries.indptr), rank, chance)
            F[some] = new.astype(F.dtype)
            known[axis][some[told]] = True
            mended += int(told.sum())
        X = Factors(F, X.R) if axis == 0 else Factors(X.L, F)
    return X, mended


def _judged(opened: Array, inliers: Array, observed: Array) -> tuple[Array, Array]:
    """Which lines are fitted anew, and which are known well enough to fit others to.

    Those that are open are fitted anew, and those in which fewer entries agree than elsewhere: in a
    line that is nearly right some entries may agree, where what is wrong counts little. But one
    entry that is missed may be so because it lies in a line of the other kind that is wrong."""
    share = inliers / np.maximum(observed, 1)
    typical = float(np.median(share[observed > 0]))
    spread = np.sqrt(typical * (1 - typical) / np.maximum(observed, 1))
    doubted = (share < typical - FEWER * spread - 0.02) & (observed > 0)
    known = share > KNOWN * typical
    doubted[opened], known[opened] = True, False
    return doubted, known


def _draws(observed: Array, rank: int) -> int:
    """How many subsets of each line are tried."""
    each = float((observed * rank + rank**3).sum())
    return int(np.clip(WORK / max(each, 1.0), FEWEST_DRAWS, DRAWS))


def _portions(lines: Array, observed: Array) -> list[Array]:
    """Lines in parts with about as many entries as are gathered at once."""
    part = np.cumsum(observed) // AT_ONCE
    return np.split(lines, np.flatnonzero(np.diff(part)) + 1) if len(lines) else []


def gathered(
    obs: Observations,
    X: Factors,
    axis: int,
    lines: Array,
    known: Array,
) -> Entries:
    """The entries of some rows (axis 0) or columns (1) in the columns or rows that are
    known. One pass.
    """
    number = np.full(obs.shape[axis], -1)
    number[lines] = np.arange(len(lines))
    parts = [(number[:0], number[:0], np.empty(0))]
    for sample in obs.residuals(*obs.in_form(*X)):
        line, place = sample[axis], sample[1 - axis]
        wanted = np.flatnonzero((number[line] >= 0) & known[place])
        rows, cols = sample.rows[wanted], sample.cols[wanted]
        model = entries_at(X, rows, cols)
        values = model.astype(np.float64) + sample.values[wanted]
        parts.append((number[line[wanted]], place[wanted], values))
    line, place, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(line, kind="stable")
    indptr = np.searchsorted(line[order], np.arange(len(lines) + 1))
    return Entries(
        indptr.astype(np.int64), place[order].astype(np.int32), values[order]
    )


def on_what_agrees(
    obs: Observations,
    X: Factors,
    wide: float,
    border: float,
) -> Generator[Step, None, None]:
    """Least squares on the entries that agree, columns and rows in turn: one pass each. What counts
    gets narrower.

    Only lines that more entries agree with than can be made to, or all: the others have nothing to
    go by."""
    (n1, n2), rank = obs.shape, X.L.shape[1]
    steps = max(2, math.ceil(math.log(wide / border, NEARLY) - 0.01) + 1)
    for within in np.geomspace(wide, border, steps):
        rule = Threshold(
            equal(within, n1), equal(within, n2), equal(0.0, n1), equal(0.0, n2)
        )
        for side in (1, 0):
            other = X[1 - side]
            asked = (
                {"P": OWN, "Pw": pairs(other)}
                if side
                else {"Q": OWN, "Qw": pairs(other)}
            )
            pull = obs.products(X.L, X.R, rule, **asked)
            met, observed = (
                (pull.row_inliers, obs.row_observed),
                (pull.col_inliers, obs.col_observed),
            )[side]
            told = (met > rank + 1) | ((met == observed) & (met >= rank))
            H = pull.grams[side]
            ridge = 1e-12 * float(packed_trace(H, rank).mean()) / rank * np.eye(rank)
            after = X[side] + solve_rows(H, pull[side], ridge, told, obs.threads)
            X = Factors(after, X.R) if side == 0 else Factors(X.L, after)
        yield Step(
            X.L, X.R, within, pull.n_inliers / obs.n_observed, within, "consensus"
        )
