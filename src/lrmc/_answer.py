"""The answer of a run, and what speaks against it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._job import Job
from ._loop import Ended
from ._rows import where
from .fit import Fit, Part
from .linalg import Factors
from .methods.alike import LOST, UNSURE, usual_difference
from .methods.blends import WORTH
from .methods.certificate import Certificate, agreement_border
from .methods.connected import Entries, unconnected
from .methods.decide import TYPICAL
from .methods.default import Findings
from .methods.noisy import noise_and_share
from .methods.plan import Plan
from .methods.planned import parts_of
from .observations.base import Observations
from .result import Iterate, Result, Status
from .weights import Array

MOST_OUTLIERS = 0.5  # beyond, the majority speaks against the fit
SURPRISE = 6.0  # times: by how much more entries may be missed that a fit has not seen
# good entries for every free number of the fit: with fewer, it follows the noise
FEW_PER_UNKNOWN = 1.5
NOTHING = 1e-9  # of the scale of the data
AHEAD = 0.1  # of root mean square errors: by how much a model that was not taken may be ahead


def answer(job: Job, ended: Ended) -> Result:
    """What a run gives, with what speaks against it."""
    last, found, status = ended.last, ended.found, ended.status
    X = Factors(last.L, last.R)
    # a prior holds a rank that was not given: hidden entries say whether it follows the noise
    shrunk = found.plan is not None and not found.plan.fixed
    few = job.method == "closed_loop" and not shrunk and _too_few(job.obs, last)
    if status is Status.CONVERGED and few:
        status = Status.UNDETERMINED
    open_rows, open_cols = empty = without_entries(job.obs)
    proof, doubts = found.certificate, list(found.doubts)
    beyond = beyond_low_rank(found.plan, job.obs, X)
    if proof is None:
        noise, share = noise_and_share(job.obs, X)
        if job.method == "closed_loop":
            doubts += _not_believed(job.obs, Fit(X, beyond), share, found)
    else:
        noise, share = _disagreement(job.obs, X, proof)
        open_rows, open_cols = (
            np.union1d(open_rows, proof.rows),
            np.union1d(open_cols, proof.cols),
        )
        doubts += _not_vouched_for(proof, job.obs.is_here)
    doubts += _alike(job, X, proof)
    L, R = job.obs.in_form(last.L, last.R)
    # a proof that looked at this has seen enough entries everywhere
    known = proof is not None and proof.connected
    lacking = () if known else _lacking(job.obs, L.shape[1], empty, shrunk)
    return Result(
        L,
        R,
        status=status,
        history=ended.history,
        method=job.method,
        tol=job.tol,
        undetermined_rows=open_rows,
        undetermined_cols=open_cols,
        noise_level=noise,
        outlier_fraction=share,
        regime=found.regime,
        evidence=found.evidence | _held_out(found),
        observations=job.obs,
        beyond=beyond,
        certificate=None if proof is None else proof.plain(),
        warnings=(*doubts, *lacking),
        missed=found.missed,
    )


def _disagreement(
    obs: Observations,
    X: Factors,
    proof: Certificate,
) -> tuple[float, float]:
    """The root mean square of residuals that agree with what is proven, and the share of others."""
    if not math.isnan(proof.noise):
        return proof.noise, 1 - proof.agreeing
    size = np.abs(obs.sample.residual(X)).astype(np.float64)
    good = size[size <= proof.border]
    # no product of BLAS, which wakes threads for 10,000 numbers
    noise = math.sqrt(float(np.square(good).mean())) if len(good) else 0.0
    return noise, 1 - proof.agreeing


def _held_out(found: Findings) -> dict[str, dict[str, float]]:
    """By how much entries that were set aside are missed, by the fit and by what is simple."""
    missed = found.held_out
    return (
        {}
        if missed is None
        else {"held_out": {"error": missed.error, "medians": missed.simple}}
    )


def without_entries(obs: Observations) -> tuple[Array, Array]:
    """The rows and the columns without an observation."""
    return where(_empty, (obs.row_observed,)), where(_empty, (obs.col_observed,))


def _empty(rows: tuple[Array], _: None) -> Array:
    return rows[0] == 0


def _not_believed(
    obs: Observations,
    fit: Fit,
    share: float,
    found: Findings,
) -> Iterator[str]:
    """Why a fit to noisy data may be wrong, in sentences."""
    if share > MOST_OUTLIERS:
        yield f"{100 * share:.0f} % of the entries are far from this fit: it may be the fit that is wrong"
    rank = fit.X.L.shape[1]
    good, free = round((1 - share) * obs.n_observed), rank * (sum(obs.shape) - rank)
    # else that is said of all entries
    few = good < FEW_PER_UNKNOWN * free and obs.n_observed >= rank * sum(obs.shape)
    if few and (found.plan is None or found.plan.fixed):
        yield f"{good} good entries are few for the {free} free numbers of rank {rank}: the fit may follow the noise"
    if found.held_out is None:
        return
    typical, error, simple = found.held_out
    # of rows without gaps, others tell an entry exactly where columns add up: nothing was followed
    alone = obs.telling.residual(fit.X)
    shown = max(_typical(x) for x in (fit.residual(obs.telling), alone))
    if max(typical, shown) < NOTHING * obs.scale:
        yield "the fit meets most entries exactly, but that does not prove it: see evidence['certificate']"
        return
    if typical > SURPRISE * shown:
        yield (
            "entries that were set aside are missed by far more than those that were fitted"
            f" (a quarter of them by less than {typical:.2g} and {shown:.2g}):"
            " the data do not determine this matrix, or the fit follows what it has seen"
        )
    # by less a blend would not be worth its while: the two are as good
    if error > (1 + WORTH) * simple:
        yield (
            f"the mean absolute error on entries that were set aside is {error:.2g}, and {simple:.2g} if each is taken"
            " for the median of its row or column: low rank is no good model here"
        )
    yield from _few_decide(found.evidence)


def _few_decide(evidence: Mapping[str, Any]) -> Iterator[str]:
    """A word where another model is ahead by squares: a few entries are then missed by far, and
    what was decided looks at the others.
    """
    table = evidence.get("table", ()) + evidence.get("opinions", ())
    chosen = next((line for line in table if line.chosen), None)
    if chosen is None:
        return
    best = min(table, key=lambda line: line.rmse)
    if best.rmse < (1 - AHEAD) * chosen.rmse:
        less = 100 * (1 - best.rmse / chosen.rmse)
        yield (
            f"by root mean squares, entries that were set aside are missed by {less:.0f} % less by {best.name} alone:"
            " a few large values decide that, and the fit minimises errors of the others"
            " (score='rmse', of RobustImputer scoring='rmse', counts large ones more)"
        )


def _not_vouched_for(proof: Certificate, here: bool) -> list[str]:
    if proof.doubt:
        return [proof.doubt]
    lines = ((len(proof.rows), "row(s)"), (len(proof.cols), "column(s)"))
    counts = " and ".join(f"{n} {name}" for n, name in lines if n)
    if not counts:
        return []
    text = (
        f"of {counts} too few entries agree with the fit to vouch for it: NaN in the"
        " completion, unless they are kept"
    )
    if not here:
        text += (
            "; on a cluster such lines are not fitted anew, as they are in one process"
        )
    return [text]


def _alike(job: Job, X: Factors, proof: Certificate | None) -> Iterator[str]:
    """A word where differences are lost beside the size of the data."""
    usual = usual_difference(job.obs, X, job.tol)
    if math.isinf(usual):
        return
    border = max(LOST, UNSURE * float(np.finfo(job.obs.dtype).eps)) * job.obs.scale
    if proof is not None:
        border = agreement_border(job.obs, job.tol)
    if usual < border:
        yield (
            f"two entries of a line typically differ by {usual:.2g}, and differences up to {border:.2g} are"
            " hardly told, since all entries are so far from 0: take the median of each column, or of each"
            " row, away first (RobustImputer does, of columns)"
        )


def _too_few(obs: Observations, it: Iterate) -> bool:
    """Whether inliers cannot determine a matrix of this rank: it has rank (n1 + n2 -
    rank) free numbers.
    """
    rank = it.L.shape[1]
    return it.inliers * obs.n_observed < rank * (sum(obs.shape) - rank)


def _lacking(
    obs: Observations,
    rank: int,
    empty: tuple[Array, Array],
    shrunk: bool,
) -> Iterator[str]:
    """What the entries cannot determine, in sentences. `empty` rows and columns have none."""
    rows, cols = (
        unconnected(obs) if obs.across is None else unconnected(obs.across)[::-1]
    )
    open_rows, open_cols = map(len, empty)
    there = Entries(obs.n_observed, open_rows, open_cols, rows, cols)
    return shortcomings(there, rank, sum(obs.shape), shrunk=shrunk)


def shortcomings(
    entries: Entries, rank: int, lines: int, *, shrunk: bool = False
) -> Iterator[str]:
    """What the entries of a matrix of so many lines cannot determine, in sentences."""
    sides = ((entries.empty_rows, "row(s)"), (entries.empty_cols, "column(s)"))
    without = [f"{n} {name}" for n, name in sides if n]
    if without:
        yield f"{' and '.join(without)} have no observation: their values are not determined, and NaN in the completion"
    rows, cols = entries.apart_rows, entries.apart_cols
    if rows or cols:
        text = f"{rows} row(s) and {cols} column(s) share no entry with the others, not even through a chain of entries"
        yield f"{text}: how large they are beside each other is not determined"
    unknowns = rank * lines
    if entries.observed < unknowns and not shrunk:
        yield f"{entries.observed} entries are observed, and rank {rank} has {unknowns} unknowns: not determined"


def beyond_low_rank(
    plan: Plan | None, obs: Observations, X: Factors
) -> tuple[Part, ...]:
    """What lies beyond low rank."""
    return () if plan is None else parts_of(plan, obs, X)


def _typical(residual: Array) -> float:
    """A quarter of the entries is missed by less."""
    return float(np.quantile(np.abs(residual), TYPICAL))
