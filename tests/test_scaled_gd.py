"""The paper's baselines: the k-th largest residuals, the operator T, and both methods
against slow ones.
"""

import math
from itertools import islice

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from comparing import assert_close
from each import each
from presentations import every_storage, small

import lrmc
from lrmc import _kernels, as_observations, relative_error, solve
from lrmc.methods.scaled_gd import sparsify
from lrmc.schedule import Tuning

SHARES = (0.0, 0.01, 0.1, 0.3, 0.5, 1.0)


def check(many, E, share, model=(None, None), exact=True):
    """Observations of the same residual E, which is NaN where something is missing,
    against sorting.
    """
    slow = reference.magnitudes(E, share)
    for obs in many:
        for got, want in zip(obs.magnitudes(*model, share), slow, strict=True):
            assert got.dtype == obs.dtype
            np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
            finite = np.isfinite(want)
            if exact:
                np.testing.assert_array_equal(got[finite], want[finite])
            else:
                assert_close(got[finite], want[finite], obs.dtype)


@every_storage
def test_magnitudes_of_every_storage(present, p, folder):
    """Whole numbers: many are tied, and all are exact, with a model of whole numbers too."""
    s = small(p=p)
    obs = as_observations(*present(s, folder))
    rng = np.random.default_rng(0)
    L, R = (rng.integers(-3, 4, (n, 2)).astype(float) for n in s.values.shape)
    for share in SHARES:
        check([obs], s.nan, share)
        check([obs], s.nan - L @ R.T, share, model=(L, R))
        check([obs.scaled(0.25)], s.nan / 4, share)


def forms(Y):
    """Dense and sparse, by rows and by columns, whatever the door would choose."""
    rows, cols = np.nonzero(~np.isnan(Y))
    csr = sp.csr_array((Y[rows, cols], (rows, cols)), shape=Y.shape)
    seen = ~np.isnan(Y)
    common = {
        "shape": Y.shape,
        "dtype": Y.dtype,
        "row_observed": seen.sum(1),
        "col_observed": seen.sum(0),
    }
    for threads in (1, 3):
        common["threads"] = threads
        yield lrmc.observations.Dense(Y=Y, **common)
        parts = {
            "indptr": csr.indptr.astype(np.int64),
            "indices": csr.indices.astype(np.int32),
            "values": csr.data,
        }
        yield lrmc.observations.Sparse(**parts, **common)
        yield as_observations(np.asfortranarray(Y), threads=threads)
        yield as_observations(csr.tocsc(), threads=threads)


SHAPES = [
    (1, 1),
    (1, 40),
    (40, 1),
    (5, 17),
    (7, 255),
    (8, 256),
    (257, 6),
    (3, 513),
    (300, 270),
    (9, 1537),
    (4500, 70),
]


@each("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_magnitudes_of_every_shape(shape, dtype):
    """4500 rows make panels of columns narrower than a tile."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal(shape).astype(dtype)
    Y[rng.random(shape) < 0.4] = np.nan
    Y[0, 0] = 1
    L, R = (rng.standard_normal((n, 3)).astype(dtype) for n in shape)
    E = Y.astype(float) - L.astype(float) @ R.T.astype(float)
    for share in SHARES:
        check(forms(Y), Y, share)
        check(forms(Y), E, share, (L, R), exact=False)


@pytest.mark.parametrize("shape", [(0, 9), (9, 0)], ids=str)
def test_magnitudes_of_nothing(shape):
    empty = np.zeros(shape[0] + 1, np.int64), np.zeros(0, np.int32), np.zeros(0)
    counts = [np.zeros(n, np.int64) for n in shape]
    common = dict(
        zip(
            ("shape", "dtype", "row_observed", "col_observed"),
            (shape, np.dtype(float), *counts),
        )
    )
    sparse = lrmc.observations.Sparse(
        **dict(zip(("indptr", "indices", "values"), empty)), **common
    )
    for obs in (lrmc.observations.Dense(Y=np.empty(shape), **common), sparse):
        for got, n in zip(obs.magnitudes(None, None, 0.5), shape, strict=True):
            np.testing.assert_array_equal(got, np.full(n, np.inf))


@pytest.mark.usefixtures("restore_instruction_set")
@pytest.mark.parametrize("name", _kernels.instruction_sets())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_magnitudes_in_every_instruction_set(name, dtype):
    _kernels.use_instruction_set(name)
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((61, 530)).astype(dtype)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    check(forms(Y), Y, 0.2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_magnitudes_of_extreme_numbers(dtype):
    """Zeros, denormals, the largest numbers; a row that is empty; all tied."""
    info = np.finfo(dtype)
    Y = np.zeros((6, 9), dtype)
    Y[1] = info.smallest_subnormal * np.arange(9)
    Y[2] = info.max * np.linspace(-1, 1, 9).astype(dtype)
    Y[3] = np.nan
    Y[4] = -7
    Y[5] = 10.0 ** np.arange(-30, 33, 7)
    for share in SHARES:
        check(forms(Y), Y, share)


@pytest.mark.parametrize("p", [0.1, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exactly_so_many_are_left_out_of_each_row(p, dtype):
    """The pass that uses the thresholds computes the same residuals to the last bit as
    the one that found them.
    """
    q = lrmc.synthetic.problem(300, 4, 0.1, p, seed=2, n2=700, dtype=dtype)
    rng = np.random.default_rng(0)
    L, R = (
        F.astype(dtype) + rng.standard_normal(F.shape).astype(dtype) / 50
        for F in q.X_factors
    )
    for obs in (
        as_observations(q.Y),
        as_observations(
            q.Y.T.tocsr().T if sp.issparse(q.Y) else np.asfortranarray(q.Y)
        ),
    ):
        rule = sparsify(obs, L, R, 0.15)
        for name, observed in (("rows", obs.row_observed), ("cols", obs.col_observed)):
            other = {"rows": "cols", "cols": "rows"}[name]
            alone = lrmc.weights.Threshold(
                **{
                    name: getattr(rule, name),
                    other: np.full(len(getattr(rule, other)), -np.inf),
                },
                protect_rows=rule.protect_rows,
                protect_cols=rule.protect_cols,
            )
            pull = obs.pull(L, R, alone)
            left = pull.row_inliers if name == "rows" else pull.col_inliers
            np.testing.assert_array_equal(
                observed - left, np.ceil(0.15 * observed - 1e-9)
            )


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_sparsify_is_the_operator_of_the_papers(p):
    """C = E - T(E), with T formed; whole numbers, so that ties are there and are kept,
    as the definition has it.
    """
    rng = np.random.default_rng(3)
    Y = rng.integers(-9, 10, (40, 50)).astype(float)
    Y[rng.random(Y.shape) >= p] = np.nan
    L, R = (rng.integers(-2, 3, (n, 2)).astype(float) for n in Y.shape)
    for share in SHARES:
        E = Y - L @ R.T
        C = np.nan_to_num(E - reference.sparsified(E, share))
        CR, CtL = pull = as_observations(Y).pull(
            L, R, sparsify(as_observations(Y), L, R, share)
        )
        assert_close(CR, C @ R)
        assert_close(CtL, C.T @ L)
        outliers = np.count_nonzero(np.nan_to_num(reference.sparsified(E, share)))
        zeros = np.count_nonzero(E == 0)
        assert 0 <= np.count_nonzero(~np.isnan(Y)) - pull.n_inliers - outliers <= zeros


METHODS = {"scaled_gd": reference.scaled_gd, "gd": reference.gd}
TUNING = Tuning(alpha=0.1, gamma=1.6, eta=0.6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("p", [0.5, 1.0])
def test_iterates_are_those_of_the_papers(method, p):
    """Against S, X and the gradients formed, from the same start."""
    q = lrmc.synthetic.problem(120, 3, 0.1, p, seed=1, n2=90)
    got = list(islice(lrmc.iterates(q.Y, 3, method=method, schedule=TUNING), 9))
    assert [it.stage for it in got] == ["start", *[method] * 8]
    Y = np.where(q.mask, q.Y.toarray() if sp.issparse(q.Y) else q.Y, np.nan)
    slow = METHODS[method](Y, got[0].L, got[0].R, share=0.16, eta=0.6)
    for it, (L, R) in zip(got[1:], slow):
        assert_close(it.L @ it.R.T, L @ R.T, factor=100)


@pytest.mark.parametrize("p", [0.5, 1.0])
def test_start_is_near_the_best_approximation(p):
    q = lrmc.synthetic.problem(200, 3, 0.1, p, seed=1)
    first = next(lrmc.iterates(q.Y, 3, method="scaled_gd", schedule=TUNING))
    Y = np.where(q.mask, q.Y.toarray() if sp.issparse(q.Y) else q.Y, np.nan)
    U, s, Vt = np.linalg.svd(
        np.nan_to_num(Y - reference.sparsified(Y, 0.1)) / q.mask.mean()
    )
    best = (U[:, :3] * s[:3]) @ Vt[:3]
    assert np.linalg.norm(first.L @ first.R.T - best) < 0.15 * np.linalg.norm(best)
    np.testing.assert_allclose(
        first.L.T @ first.L, first.R.T @ first.R, atol=1e-6 * s[0]
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("p", [0.5, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_recovers(method, p, dtype):
    q = lrmc.synthetic.problem(400, 3, 0.05, p, seed=0, dtype=dtype)
    result = solve(
        q.Y,
        3,
        method=method,
        schedule=Tuning(alpha=0.05, gamma=2.5, eta=0.7),
        max_iter=200,
    )
    assert result.converged
    assert result.method == method
    assert relative_error(result, q) < 1e-5
    assert 0 < result.n_iter < 120
    assert all(0 < record.zeta < math.inf for record in result.history)


def test_scaled_gd_does_not_mind_a_bad_condition_and_gd_does():
    q = lrmc.synthetic.problem(300, 3, 0.02, 1.0, seed=0, condition=5)
    tuning = Tuning(alpha=0.02, gamma=2.5, eta=0.6)
    fast = solve(q.Y, 3, method="scaled_gd", schedule=tuning)
    assert relative_error(fast, q) < 1e-5
    *_, slow = islice(
        lrmc.iterates(q.Y, 3, method="gd", schedule=tuning), fast.n_iter + 1
    )
    assert relative_error(slow, q) > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_same_answer_every_time_and_for_any_scale(method):
    q = lrmc.synthetic.problem(150, 2, 0.05, 0.6, seed=4)
    last = [
        list(islice(lrmc.iterates(q.Y * scale, 2, method=method, schedule=TUNING), 12))[
            -1
        ]
        for scale in (1.0, 1.0, 2.0**40)
    ]
    assert np.array_equal(last[0].L, last[1].L)
    assert np.array_equal(last[0].R, last[1].R)
    np.testing.assert_allclose(
        last[2].L @ last[2].R.T, 2.0**40 * (last[0].L @ last[0].R.T), rtol=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_rank_too_high_and_data_of_zeros_do_no_harm(method):
    zero = next(
        islice(
            lrmc.iterates(np.zeros((9, 7)), 2, method=method, schedule=TUNING), 3, None
        )
    )
    assert not zero.L.any() or not zero.R.any()
    q = lrmc.synthetic.problem(60, 1, 0.0, 1.0, seed=4)
    it = next(islice(lrmc.iterates(q.Y, 4, method=method, schedule=TUNING), 20, None))
    assert np.isfinite(it.L).all()


def test_too_long_a_step_is_noticed():
    q = lrmc.synthetic.problem(100, 2, 0.05, 1.0, seed=4)
    with pytest.warns(lrmc.ConvergenceWarning, match="grew without bound"):
        result = solve(q.Y, 2, method="gd", schedule=Tuning(alpha=0.05, eta=20.0))
    assert np.isfinite(result.L).all()


Y = np.random.default_rng(0).standard_normal((6, 5))
REFUSED = {
    "no alpha": ({}, r"share of outliers has to be known.*schedule=Tuning\(alpha"),
    "a schedule": ({"schedule": "geometric"}, "share of outliers has to be known"),
    "no rank": ({"schedule": TUNING, "rank": None}, "scaled_gd needs the rank"),
    "a Tuning for LRMC": (
        {"schedule": TUNING, "method": "lrmc"},
        "a Tuning is for the baselines.*scaled_gd",
    ),
    "a Tuning for auto": (
        {"schedule": TUNING, "method": "auto"},
        "a Tuning is for the baselines",
    ),
    "a start": ({"schedule": TUNING, "start": "cur"}, "leave them out"),
    "groups": (
        {"schedule": TUNING, "groups": np.arange(6) // 2},
        "groups.*not for method='scaled_gd'",
    ),
    "outliers": ({"schedule": TUNING, "outliers": "positive"}, "outliers.*not for"),
    "noise": (
        {"schedule": TUNING, "row_noise": np.ones(6)},
        "noise levels are not for",
    ),
}


@each(("arguments", "said"), REFUSED.values(), ids=REFUSED)
def test_refused(arguments, said):
    for function in (solve, lrmc.iterates):
        with pytest.raises(ValueError, match=said):
            function(Y, **{"rank": 2, "method": "scaled_gd", **arguments})


@each(
    ("arguments", "said"),
    [
        ({"alpha": 1.0}, "alpha=1.0; the share of outliers"),
        ({"alpha": -0.1}, "alpha holds -0.1"),
        ({"alpha": math.nan}, "alpha holds nan"),
        ({"alpha": "few"}, "alpha holds 'few'"),
        ({"alpha": 0.1, "eta": -1}, "eta holds -1"),
        ({"alpha": 0.1, "gamma": math.inf}, "gamma holds inf"),
        ({"alpha": 0.1, "gamma": None}, "gamma holds None"),
    ],
)
def test_tunings_that_are_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        Tuning(**arguments)


def test_kernels_refuse_counts_of_another_shape():
    counts = {"row_k": np.ones(4, np.int64), "col_k": np.ones(1, np.int64)}
    with pytest.raises(ValueError, match="kernel: col_k"):
        _kernels.magnitudes(
            _kernels.DenseData(np.ones((4, 5))),
            _kernels.Factors(),
            **counts,
            rows=np.ones(4),
            cols=np.ones(5),
            threads=1,
        )
