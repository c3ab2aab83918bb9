"""The kernel for small matrices: what it finds is right, and what it proves the certificate proves."""

import numpy as np
import pytest
from each import each

import lrmc
from lrmc import _kernels
from lrmc.linalg import Factors
from lrmc.methods.certificate import certify
from lrmc.methods.small import MOST_RANK, PLACES, is_small, solve_small
from lrmc.observations.base import Part

TOL = 1e-6


def solved(Y, rank=None, mask=None, **options):
    """What the kernel proves of one matrix."""
    dtype = np.dtype(np.float64 if Y.dtype == np.float64 else np.float32)
    seen = None if mask is None else mask.view(np.uint8)
    return solve_small([Part(Y, seen, 1.0)], rank, dtype=dtype, tol=TOL, **options)[0]


def problem(n1=80, n2=60, rank=2, alpha=0.1, p=1.0, seed=0, **options):
    return lrmc.synthetic.problem(
        n1, n2=n2, rank=rank, alpha=alpha, p=p, seed=seed, form="dense", **options
    )


def relative(X, truth):
    return np.linalg.norm(X - truth) / np.linalg.norm(truth)


# rows, columns, rank, share of outliers, observed fraction
PROBLEMS = (
    (80, 60, 2, 0.1, 1.0),
    (60, 83, 3, 0.2, 1.0),
    (257, 30, 1, 0.1, 0.8),
    (100, 100, 5, 0.1, 0.8),
    (150, 150, 2, 0.1, 0.4),
    (120, 120, MOST_RANK, 0.05, 1.0),
)


@pytest.mark.parametrize("given", [True, False])
@each("n1, n2, rank, alpha, p", PROBLEMS)
def test_truth_is_found_and_proven(n1, n2, rank, alpha, p, given):
    for seed in range(3):
        made = problem(n1, n2, rank, alpha, p, seed)
        found = solved(made.Y, rank if given else None)
        assert found.rank == rank
        assert relative(found.completed(), made.X) < TOL / 10


def test_what_it_proves_the_certificate_proves():
    """On problems of all kinds, many of which are proven in neither way."""
    rng = np.random.default_rng(1)
    proven = 0
    for seed in range(60):
        n1, n2 = (int(n) for n in rng.integers(12, 90, 2))
        alpha, p = rng.uniform(0, 0.4), rng.uniform(0.3, 1)
        made = problem(n1, n2, int(rng.integers(1, 5)), alpha, p, seed)
        found = solved(made.Y, made.rank)
        if found is None:
            continue
        proven += 1
        proof = certify(lrmc.as_observations(made.Y), found.X, TOL)
        assert proof.holds, (seed, proof.why_not)
        assert not len(proof.rows), seed
        assert not len(proof.cols), seed
        assert proof.agreeing == pytest.approx(found.certificate.agreeing, abs=0.002)
        assert relative(found.completed(), made.X) < 100 * TOL
    assert 15 < proven < 60


@each("kind", (np.uint8, np.int16, np.uint16, np.float32, np.float64))
def test_every_storage(kind):
    made = problem(rank=1, alpha=0.1)
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(1, 8, 80), rng.integers(1, 8, 60)
    whole = np.outer(rows, cols) + 37 * (rng.random((80, 60)) < 0.1)
    mask = rng.random((80, 60)) < 0.7
    floats = np.dtype(kind).kind == "f"
    Y, truth = (made.Y, made.X) if floats else (whole, np.outer(rows, cols))
    result = lrmc.solve(Y.astype(kind), 1, mask=mask)
    assert result.status is lrmc.Status.CONVERGED
    assert relative(result.low_rank(), truth) < 1e-5


@each("name", _kernels.instruction_sets())
def test_every_instruction_set(name):
    made, best = problem(p=0.8), _kernels.instruction_set()
    want = solved(made.Y, 2).completed()
    try:
        _kernels.use_instruction_set(name)
        assert relative(solved(made.Y, 2).completed(), want) < 1e-9
    finally:
        _kernels.use_instruction_set(best)


def noisy():
    return problem(noise=0.01).Y


def too_high():
    return problem(n1=300, rank=5).Y, 6


def unconnected():
    Y = np.full((80, 60), np.nan)
    Y[:40, :30] = problem(40, 30, 1, 0.0).Y
    Y[40:, 30:] = problem(40, 30, 1, 0.0, seed=1).Y
    return Y, 1


def empty_row():
    Y = problem(alpha=0.0).Y.copy()
    Y[3] = np.nan
    return Y


def poor_row():
    """A row with two entries: any fit of rank 2 meets them."""
    Y = problem().Y.copy()
    Y[3, 2:] = np.nan
    return Y


def hanging_row():
    """A direction of a row that one entry alone tells: the other columns are alike."""
    rng = np.random.default_rng(0)
    L = rng.standard_normal((80, 2))
    R = np.column_stack([np.ones(60), (np.arange(60) >= 30) * rng.standard_normal(60)])
    Y = L @ R.T
    Y[3, 31:] += 5 + rng.random(29)
    return Y


def often_zero():
    Y = problem(alpha=0.0).Y.copy()
    Y[np.random.default_rng(0).random(Y.shape) < 0.2] = 0
    return Y


def infinite():
    Y = problem().Y.copy()
    Y[4, 5] = np.inf
    return Y


def only_outliers():
    return np.random.default_rng(0).standard_normal((80, 60))


def nothing_seen():
    return np.full((80, 60), np.nan)


def zeros():
    return np.zeros((80, 60))


@pytest.mark.parametrize(
    "made",
    [
        *(noisy, too_high, unconnected, empty_row, poor_row, hanging_row),
        *(often_zero, infinite, only_outliers, nothing_seen, zeros),
    ],
)
def test_what_is_in_doubt_is_left_to_others(made):
    given = made()
    Y, rank = given if isinstance(given, tuple) else (given, 2)
    assert solved(Y, rank) is None
    # without a rank, a lower one may be proven: never a wrong matrix
    found = solved(Y)
    assert found is None or made is too_high


def test_a_rank_that_is_too_high_is_found_out():
    made = problem(n1=300, rank=5)
    assert lrmc.solve(made.Y, 6).rank == 5


def test_solve_takes_it_where_nobody_looks_on():
    made = problem(p=0.9)
    at_once, seen = lrmc.solve(made.Y, 2), []
    step_by_step = lrmc.solve(made.Y, 2, progress=seen.append)
    assert len(seen) == step_by_step.n_iter + 1
    assert at_once.regime == step_by_step.regime == "exact"
    assert relative(at_once.low_rank(), step_by_step.low_rank()) < TOL
    assert [record.k for record in at_once.history] == list(range(at_once.n_iter + 1))
    assert at_once.history[-1].change < TOL
    assert at_once.outlier_fraction == pytest.approx(0.1, abs=0.02)
    assert np.all(np.diff([record.seconds for record in at_once.history]) >= 0)


FORMS = {
    "columns one after another": lambda: np.asfortranarray(problem(p=0.9).Y),
    "with steps": lambda: problem(p=0.9).Y[::-1, ::2],
    "sparse": lambda: lrmc.synthetic.problem(150, rank=2, p=0.4, form="sparse").Y,
}


@each("form", FORMS)
def test_other_orders_and_forms(form):
    Y = FORMS[form]()
    obs = lrmc.as_observations(Y)
    assert is_small(obs)
    result = lrmc.solve(Y, 2)
    assert result.regime == "exact"
    sizes = np.abs(obs.sample.residual(Factors(result.L, result.R)))
    assert np.median(sizes) < 1e-8 * obs.scale


@each("unit", (1e-200, 1e-30, 1e-8, 1e8, 1e30, 1e200))
def test_units_do_not_matter(unit):
    made = problem()
    found, plain = solved(made.Y * unit, 2), solved(made.Y, 2)
    assert relative(found.completed() / unit, made.X) < TOL / 10
    assert found.certificate.border / unit == pytest.approx(plain.certificate.border)
    assert found.certificate.noise < 1e-9 * found.scale
    assert found.scale / unit == pytest.approx(plain.scale)


@each("n1, n2, rank, alpha, p", PROBLEMS)
def test_single_precision_of_sweeps_does_not_show(n1, n2, rank, alpha, p):
    """Sweeps go on from a model in double precision; without it 1e-7 is the best."""
    made = problem(n1, n2, rank, alpha, p)
    for Y, X in ((made.Y, made.X), (np.ascontiguousarray(made.Y.T), made.X.T)):
        found = solved(Y, rank)
        assert relative(found.completed(), X) < 3e-10


def test_large_outliers_take_no_precision_from_the_rest():
    made = problem(alpha=0.0)
    hit = np.random.default_rng(0).random(made.Y.shape) < 0.1
    Y = np.where(hit, 1e12 * made.Y, made.Y)
    assert relative(solved(Y, 2).completed(), made.X) < 3e-10


@each("kind", (np.float32, np.float64))
@each("n1, n2, rank, alpha, p", PROBLEMS[:4])
def test_answer_is_least_squares_on_what_agrees(n1, n2, rank, alpha, p, kind):
    """A naive sweep in double precision moves nothing, and counts what the proof has counted."""
    Y = problem(n1, n2, rank, alpha, p).Y.astype(kind)
    found = solved(Y, rank)
    L, R = found.factors
    residual = Y.astype(float) - L @ R.T
    good = np.abs(residual) <= found.certificate.border
    seen = ~np.isnan(Y)
    assert found.certificate.agreeing == good.sum() / seen.sum()
    rms = np.sqrt(np.mean(residual[good] ** 2))
    assert found.certificate.noise == pytest.approx(rms, rel=1e-4, abs=1e-15)
    good &= np.abs(residual) <= found.certificate.border / 100  # no outlier by chance
    Y = np.where(good, Y, 0.0)
    rows = [np.linalg.lstsq(R[g], y[g], rcond=None)[0] for y, g in zip(Y, good)]
    cols = [np.linalg.lstsq(L[g], y[g], rcond=None)[0] for y, g in zip(Y.T, good.T)]
    assert relative(np.array(rows) @ R.T, L @ R.T) < 1e-9
    assert relative(L @ np.array(cols).T, L @ R.T) < 1e-9


def test_matrices_of_a_batch_know_nothing_of_each_other():
    """Room and the places of the sample are kept from one to the next."""
    shapes = ((80, 60), (257, 30), (30, 101), (80, 60))
    made = [problem(n1, n2, 1, p=p).Y for n1, n2 in shapes for p in (0.8, 1.0, 1.0)]
    batch = [Part(unit * Y, None, 1.0) for Y in made for unit in (1.0, 1e9)]
    together = solve_small(batch, 1, dtype=np.dtype(float), tol=TOL)
    for part, found in zip(batch, together, strict=True):
        alone = solved(part.Y, 1)
        assert np.array_equal(found.completed(), alone.completed())
        assert found.certificate.plain() == alone.certificate.plain()


def test_large_matrices_take_the_usual_way():
    assert not is_small(lrmc.as_observations(np.ones((2, PLACES))))


def test_few_sweeps_prove_nothing():
    assert solved(problem().Y, 2, most=3) is None


def test_a_rank_beyond_those_that_are_compiled():
    assert solved(problem().Y, MOST_RANK + 1) is None
