"""A schedule on many small matrices at once: the numbers of LRMC as `solve` runs it, for each."""

import warnings

import numpy as np
import pytest
from each import each

import lrmc
from lrmc import _kernels
from lrmc.methods.layered import MOST_LAYERS, Layered

PLAIN = lrmc.Schedule(zeta=(2.0, 1.0, 0.5), eta=(0.8, 0.9), tail=(0.7, 1.0))
SCHEDULES = (
    lrmc.Schedule.named("geometric"),
    PLAIN,
    lrmc.Schedule(  # everything that there is
        zeta=(2.0, 1.0, 0.5, 0.3),
        eta=(0.8, 0.9, 0.7),
        momentum=(0.0, 0.2, 0.1),
        tangent=True,
        start_gain=1.2,
    ),
    lrmc.Schedule(zeta=(0.3, 0.2), eta=(0.6,), tail=(0.8, 1.0), units="absolute"),
    lrmc.Schedule(zeta=(2.0, 1.0), eta=(0.8,), tail=(0.2, 1.0)),  # stalls
)


def matrix(n1=60, n2=40, rank=2, p=1.0, seed=0):
    made = lrmc.synthetic.problem(
        n1, n2=n2, rank=rank, alpha=0.1, p=p, seed=seed, form="dense"
    )
    return made.Y / np.nanmedian(np.abs(made.Y))


def quiet(f, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args, **options)


def by_kernel(Y, rank, schedule, **options):
    """The result of the kernel, which must not have left it to others."""
    results = quiet(lrmc.solve_many, [Y], rank, schedule=schedule, **options)
    assert isinstance(results.answers[0], Layered)
    return results[0]


def one_by_one(Y, rank, schedule, **options):
    return quiet(
        lrmc.solve, Y, rank, schedule=schedule, method="lrmc", threads=1, **options
    )


def agree(got, want, tol):
    """Whether two results are the same run."""
    X, truth = got.low_rank(), want.low_rank()
    assert np.array_equal(np.isnan(X), np.isnan(truth))
    assert np.linalg.norm(np.nan_to_num(X - truth)) <= tol * np.linalg.norm(
        np.nan_to_num(truth)
    )
    assert got.status is want.status
    assert got.regime == want.regime
    assert got.warnings == want.warnings
    for name in ("k", "change", "zeta", "inliers"):
        a, b = ([getattr(record, name) for record in r.history] for r in (got, want))
        assert a == pytest.approx(b, rel=1e-3, abs=1e-5, nan_ok=True), name


@pytest.mark.parametrize("schedule", SCHEDULES)
@each("shape", ((60, 40, 2, 1.0), (41, 67, 3, 0.7), (9, 70, 1, 1.0), (50, 50, 8, 1.0)))
def test_the_numbers_of_solve(shape, schedule):
    *size, p = shape
    Y = matrix(*size, p=p)
    rank = size[-1]
    agree(by_kernel(Y, rank, schedule), one_by_one(Y, rank, schedule), 1e-9)


@each("p", (1.0, 0.6, 0.1))
def test_where_scales_are_taken_from_a_sample(p):
    """All matrices without gaps have one; with gaps, or drawn from few entries, each its own."""
    Y = matrix(300, 80, rank=1, p=p)
    agree(by_kernel(Y, 1, PLAIN), one_by_one(Y, 1, PLAIN), 1e-9)


@each("kind", (np.float32, np.uint8, np.int16, np.uint16))
def test_every_storage(kind):
    Y = matrix(rank=1)
    Y = Y if kind is np.float32 else 20 * np.clip(Y, 0, 12)
    agree(
        by_kernel(Y.astype(kind), 1, SCHEDULES[2]),
        one_by_one(Y.astype(kind), 1, SCHEDULES[2]),
        1e-5,
    )


@each("name", _kernels.instruction_sets())
def test_instruction_sets(name):
    Y, usual = matrix(53, 37, p=0.8), _kernels.instruction_set()
    want = one_by_one(Y, 2, SCHEDULES[2])
    _kernels.use_instruction_set(name)
    try:
        agree(by_kernel(Y, 2, SCHEDULES[2]), want, 1e-9)
    finally:
        _kernels.use_instruction_set(usual)


def test_runs_that_blow_up_keep_the_last_sound_iterate():
    Y = matrix()
    wild = lrmc.Schedule(zeta=(2.0, 1.0), eta=(5.0,), tail=(1.1, 1.3))
    got, want = by_kernel(Y, 2, wild), one_by_one(Y, 2, wild)
    assert got.status is lrmc.Status.DIVERGED
    agree(got, want, 1e-6)


@each("scale", (1e-25, 1e25))
def test_sizes_far_from_1(scale):
    Y = scale * matrix()
    agree(by_kernel(Y, 2, PLAIN), one_by_one(Y, 2, PLAIN), 1e-9)


def test_matrices_of_mostly_zeros():
    """The median is 0: the unit is the mean."""
    Y = np.zeros((40, 30))
    Y[:10] = matrix(10, 30)
    agree(by_kernel(Y, 2, PLAIN), one_by_one(Y, 2, PLAIN), 1e-9)
    agree(by_kernel(0 * Y, 2, PLAIN), one_by_one(0 * Y, 2, PLAIN), 1e-9)


@each("size", ((9, 7), (40, 30), (200, 150)))
def test_the_unit_is_the_median(size):
    """Of all entries or of a sample: values that many have, heavy tails, few that differ."""
    Y = matrix(*size, rank=1)
    signs, alike = np.sign(Y), Y.copy()
    alike[1:] = 3.0
    for X in (Y, np.round(Y, 1), np.round(Y), signs, Y**9, 1e-3 * Y**9, alike):
        for one in (X, X.astype(np.float32)):
            got, want = (f(one, 1, PLAIN, max_iter=2) for f in (by_kernel, one_by_one))
            zetas = [run.history[1].zeta for run in (got, want)]
            assert zetas[0] == pytest.approx(zetas[1], rel=1e-7)


def test_rows_are_read_where_they_are():
    """Also views of larger arrays, whose rows are far apart or upside down, and narrow matrices."""
    Y = np.repeat(matrix(80, 60), 2, axis=0)
    for view in (Y[::2], Y[:, 7:29], Y[::-1], Y[:, :3], Y[5:38, 11:27]):
        plain = np.ascontiguousarray(view)
        got, want = (by_kernel(X, 1, PLAIN) for X in (view, plain))
        assert np.array_equal(got.low_rank(), want.low_rank())
        agree(want, one_by_one(plain, 1, PLAIN), 1e-6)


def test_what_entries_do_not_determine_is_said():
    Y = matrix()
    Y[3], Y[:, 5] = np.nan, np.nan
    apart = np.full((60, 40), np.nan)
    apart[:30, :20], apart[30:, 20:] = matrix(30, 20), matrix(30, 20)
    batch = [Y, apart, matrix()]
    results = quiet(lrmc.solve_many, batch, 2, schedule=PLAIN)
    for i, one in enumerate(batch):
        want = one_by_one(one, 2, PLAIN)
        assert results.warnings[i] == want.warnings
        found = results.completed()[i]
        assert np.allclose(found, want.completed(), rtol=1e-6, equal_nan=True)
    assert [bool(texts) for texts in results.warnings] == [True, True, False]


def test_few_entries_are_left_to_the_kernel(monkeypatch):
    """Their unit and what they lack too: observations would take ten times as long."""
    batch = [matrix(300, 80, rank=1, p=0.03, seed=seed) for seed in range(3)]
    batch[1][:4], batch[2][:, 7] = np.nan, np.nan
    batch[2][:20, 60:], batch[2][20:, :20], batch[2][:20, 20:60] = (
        np.nan,
        np.nan,
        np.nan,
    )
    want = [one_by_one(Y, 1, PLAIN) for Y in batch]
    assert any("share no entry" in text for text in want[2].warnings)

    def unwanted(*_, **__):
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr("lrmc.methods.layered.as_observations", unwanted)
        patch.setattr("lrmc._job.as_observations", unwanted)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            results = lrmc.solve_many(batch, 1, schedule=PLAIN)
    doubts = [str(x.message) for x in told if x.category is lrmc.DoubtWarning]
    assert len(doubts) == 1
    assert doubts[0].startswith("3 of 3 matrices: ")
    assert list(results.warnings) == [one.warnings for one in want]
    assert list(results.status) == [one.status for one in want]
    for got, one in zip(results, want, strict=True):
        agree(got, one, 1e-9)


@each("max_iter", (1, 2, 5, 9))
def test_runs_that_are_cut_short(max_iter):
    """Also a schedule that ends before, at or after the last iteration."""
    Y = matrix()
    for schedule in (PLAIN, SCHEDULES[2]):
        got = by_kernel(Y, 2, schedule, max_iter=max_iter)
        agree(got, one_by_one(Y, 2, schedule, max_iter=max_iter), 1e-9)


def test_a_schedule_without_layers():
    Y, none = matrix(), lrmc.Schedule(zeta=(2.0,))
    agree(by_kernel(Y, 2, none), one_by_one(Y, 2, none), 1e-9)


def test_masks_orders_and_shapes_may_differ():
    Y = matrix(p=0.8)
    mask = ~np.isnan(Y)
    other = matrix(30, 33)
    batch = [np.where(mask, Y, 1e6), np.asfortranarray(other), other]
    masks = [mask, None, None]
    results = quiet(lrmc.solve_many, batch, 2, mask=masks, schedule=PLAIN)
    for got, one in zip(results, (Y, other, other), strict=True):
        agree(got, one_by_one(one, 2, PLAIN), 1e-9)


def test_threads_change_nothing():
    Y = np.stack([matrix(seed=seed) for seed in range(5)])
    one, two = (
        quiet(lrmc.solve_many, Y, 2, schedule=PLAIN, threads=n).completed()
        for n in (1, 2)
    )
    assert np.array_equal(one, two)


def test_what_the_kernel_does_not_take_solve_does():
    Y = matrix(rank=9)
    (high,) = quiet(lrmc.solve_many, [Y], 9, schedule=PLAIN)
    agree(high, one_by_one(Y, 9, PLAIN), 1e-12)
    still = lrmc.Schedule(zeta=(2.0,), tail=(1.0, 1.0), eta_0=1e-3)
    results = quiet(
        lrmc.solve_many, [matrix()], 2, schedule=still, tol=1e-2, max_iter=10**8
    )
    assert MOST_LAYERS < 10**8
    assert results[0].status is lrmc.Status.CONVERGED


@pytest.mark.parametrize(
    ("schedule", "rank", "text"),
    [
        (PLAIN, None, "matrix 0 of the batch: rank=None: LRMC needs the rank"),
        (PLAIN, 41, "matrix 0 of the batch: rank=41"),
        ("nothing", 2, "no schedule named 'nothing'"),
        (lrmc.Schedule(plan={"rank": 2}), 2, "a plan"),
        (3, 2, "schedule is int"),
    ],
)
def test_what_makes_no_sense(schedule, rank, text):
    with pytest.raises(ValueError, match=text):
        lrmc.solve_many([matrix()], rank, schedule=schedule)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(60, 40), (300, 80)])
def test_a_matrix_that_cannot_be_solved_is_named(shape, value):
    Y = np.stack([matrix(*shape), matrix(*shape)])
    Y[1] = value
    with pytest.raises(ValueError, match="matrix 1 of the batch"):
        lrmc.solve_many(Y, 2, schedule=PLAIN)
