"""Data in tensors: the rest is in presentations.py."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from comparing import assert_close, assert_pull, by_steps
from each import each
from numpy.testing import assert_allclose
from problems import made
from rules import every_rule, rules

import lrmc
from lrmc.observations import OWN

torch = pytest.importorskip("torch")
lt = pytest.importorskip("lrmc.torch")
stays = pytest.importorskip("lrmc.observations.tensor").stays

GOOD = torch.ones(6, 5)


@every_rule
@each("dtype", [np.float32, np.float64])
def test_products_of_tensors(rule, dtype):
    """Blocks of rows, other and missing factors, sums of weights and squares, as for the
    kernels.
    """
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((700, 600)).astype(dtype)  # two blocks
    Y[rng.random(Y.shape) < 0.3] = np.nan
    L, R, P, Q, Pw, Qw = (
        rng.standard_normal((n, r)).astype(dtype) for r in (3, 4, 6) for n in Y.shape
    )
    weight, _ = rule(*Y.shape, 0.8)
    ours, theirs = lt.as_torch_observations(torch.tensor(Y)), lrmc.as_observations(Y)
    assert len(ours._blocks()) > 1
    clip = not hasattr(weight, "rows")
    more = {} if clip else {"Pw": Pw, "Qw": Qw}
    weights = (weight,) if clip else (weight, replace(weight, squares=True))
    for chosen in weights:
        for F, G, asked in (
            (L, R, {"P": P, "Q": Q} | more),
            (None, None, {"P": P}),
            (L, R, {"Q": Q} | {name: X for name, X in more.items() if name == "Qw"}),
            (L, R, {"P": OWN, "Q": OWN}),
        ):
            got, want = (obs.products(F, G, chosen, **asked) for obs in (ours, theirs))
            _same_pull(got, want, dtype)


def _same_pull(got, want, dtype):
    parts = [*zip(got, want, strict=True)]
    parts += zip(got.grams or (), want.grams or (), strict=True)
    names = (
        "n_inliers",
        "row_inliers",
        "col_inliers",
        "row_weight",
        "col_weight",
        "row_energy",
        "col_energy",
        "energy",
    )
    parts += [(getattr(got, name), getattr(want, name)) for name in names]
    for a, b in parts:
        assert (a is None) == (b is None)
        if b is not None:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            assert_close(a, b, dtype)


@every_rule
def test_small_tensors_match_the_reference(rule):
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (1, 40), (40, 1), (5, 17)):
        Y = rng.standard_normal(shape)
        L, R = (rng.standard_normal((n, 1)) for n in shape)
        weight, slow = rule(*shape, 0.8)
        want = reference.pull(Y, np.ones(shape, bool), L, R, slow)
        assert_pull(
            lt.as_torch_observations(torch.tensor(Y)).pull(L, R, weight),
            want,
            np.float64,
        )


def test_counts_at_the_border():
    """|e| = zeta is an inlier, the next number is not, also after a division."""
    for zeta in np.random.default_rng(0).uniform(0.5, 2, 50):
        Y = np.array([[zeta, -zeta, np.nextafter(zeta, 3), -np.nextafter(zeta, 3), 0]])
        for weight in (
            zeta,
            lrmc.weights.Threshold(
                *(np.full(n, x) for x in (zeta, 0.0) for n in (1, 5))
            ),
        ):
            pull = lt.as_torch_observations(torch.tensor(Y)).pull(
                np.zeros((1, 1)), np.ones((5, 1)), weight
            )
            assert pull.n_inliers == 3


@pytest.mark.parametrize("name", ["cauchy", "huber", "mixture", "clip", "threshold"])
def test_zero_thresholds_give_finite_numbers(name):
    weight, _ = dict(rules)[name](1, 2, 0.0 if name in ("clip", "threshold") else 1.0)
    weight = weight.scaled(0.0)
    pull = lt.as_torch_observations(torch.tensor([[0.0, 2.0]])).pull(
        np.zeros((1, 1)), np.ones((2, 1)), weight
    )
    assert np.isfinite(pull[0]).all()


SOLVED = {
    "exact": ({"p": 0.5}, {"rank": 3}),
    "exact, few entries": ({"p": 0.15, "rate": 0.02}, {"rank": 3}),
    "exact, by LRMC": ({"p": 0.5}, {"rank": 3, "schedule": "geometric"}),
    "rank not given": ({"p": 0.5}, {}),
    "noisy": ({"p": 0.6, "noise": 0.05}, {"rank": 3}),
    "noisy, rank not given": ({"p": 0.6, "noise": 0.05}, {}),
    "noisy, by held-out error": (
        {"p": 0.6, "noise": 0.05},
        {"rank": 3, "loss": "cauchy"},
    ),
    "one-sided": (
        {"p": 0.6, "noise": 0.05, "low": 0.0},
        {"rank": 3, "outliers": "positive"},
    ),
}


# what differs from "noisy" there is the same code in memory and elsewhere
SLOW = ("noisy, rank not given", "noisy, by held-out error")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in SLOW else [])
        for name, case in SOLVED.items()
    ],
)
def test_solve_gives_the_same_from_tensors(kind, options):
    Y = made((150, 120), 3, **kind).Y
    for given in (Y, np.asfortranarray(Y)):
        obs = lt.as_torch_observations(torch.from_numpy(given))
        want, got = (by_steps(x, **options) for x in (given, obs))
        assert got.status == want.status
        assert (got.rank, got.n_iter, got.regime) == (
            want.rank,
            want.n_iter,
            want.regime,
        )
        X = want.low_rank()
        assert_allclose(got.low_rank(), X, atol=1e-8 * abs(X).max())
        assert_allclose(got.outliers(), want.outliers(), atol=1e-8 * abs(X).max())


def test_groups_of_tensors():
    rng = np.random.default_rng(0)
    Y = np.abs(rng.standard_normal((90, 2))) @ np.abs(rng.standard_normal((2, 25))) + 1
    Y += 0.05 * rng.standard_normal(Y.shape)
    labels = np.tile(np.arange(30), 3)
    want, got = (
        lrmc.solve(x, 2, groups=labels, loss="cauchy")
        for x in (Y, lt.as_torch_observations(torch.tensor(Y)))
    )
    assert_allclose(got.low_rank(), want.low_rank(), atol=1e-8)


BAD_TENSORS = {
    "one dimension": (torch.ones(5), {}, r"2-D.*\(5,\)"),
    "empty": (torch.ones(0, 5), {}, r"empty: shape \(0, 5\)"),
    "complex": (GOOD * 1j, {}, "complex numbers"),
    "infinite": (GOOD / 0, {}, "30 observed entries are infinite; set them to NaN"),
    "nothing": (
        GOOD * torch.nan,
        {},
        "nothing is observed: all entries of the 6 x 5 matrix",
    ),
    "mask": (
        GOOD,
        {"mask": torch.ones(5, 6) > 0},
        r"mask has shape \(5, 6\), the matrix \(6, 5\); transpose",
    ),
    "mask of other floats": (GOOD, {"mask": 2 * GOOD}, "booleans are wanted"),
    "meta": (torch.ones(6, 5, device="meta"), {}, "meta"),
}


@each(("Y", "options", "said"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_tensors_that_cannot_be_read(Y, options, said):
    for function in (lt.as_torch_observations, lrmc.as_observations):
        with pytest.raises(ValueError, match=said):
            function(Y, **options)


# torch says that its CSR is new
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_types_that_numpy_does_not_have():
    with pytest.raises(
        ValueError,
        match=r"the tensor is of torch.float8_e5m2; convert it first: Y.float\(\)",
    ):
        lrmc.as_observations(GOOD.to(torch.float8_e5m2))


# torch says that its CSR is new
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_tensors_that_are_no_matrix():
    with pytest.raises(ValueError, match="a dense one that holds data"):
        lt.as_torch_observations(GOOD.to_sparse())
    with pytest.raises(ValueError, match="says itself what is observed"):
        lrmc.as_observations(GOOD.to_sparse(), GOOD > 0)
    for Y in (
        torch.ones(4, 4).to_sparse_bsr((2, 2)),
        torch.tensor(1.0).to_sparse(),
        GOOD.to_sparse(1),
    ):
        with pytest.raises(
            ValueError, match="a dense, COO, CSR or CSC matrix is wanted"
        ):
            lrmc.as_observations(Y)


def test_tensors_on_the_cpu_are_not_copied():
    Y = torch.ones(6, 5, requires_grad=True)
    obs = lrmc.as_observations(Y, mask=torch.ones(6, 5, dtype=torch.bool))
    assert isinstance(obs, lrmc.observations.Dense)
    assert obs.Y.ctypes.data == Y.data_ptr()
    assert lrmc.as_observations(torch.ones(6, 5, dtype=torch.bfloat16)).n_observed == 30


class Elsewhere(torch.Tensor):
    """Says that it is on a GPU."""

    @property
    def device(self):
        return torch.device("cuda")


def test_tensors_on_other_devices_are_read_there(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "lrmc.observations.tensor.as_torch_observations",
        lambda Y, mask, threads: calls.append((Y, mask, threads)),
    )
    Y, mask = torch.ones(6, 5).as_subclass(Elsewhere), GOOD > 0
    lrmc.as_observations(Y, mask, threads=3)
    assert calls[0][0] is Y
    assert calls[0][1:] == (mask, 3)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_sparse_tensors_do_not_stay_on_other_devices(layout):
    assert not stays(
        SimpleNamespace(layout=getattr(torch, layout), device=torch.device("cuda"))
    )
    assert stays(SimpleNamespace(layout=torch.strided, device=torch.device("cuda")))


@every_rule
def test_no_operation_mixes_devices(rule, monkeypatch):
    """On a device that has no data but knows where tensors are: what the CPU has must be
    sent there first.
    """
    back = []

    def array(X):
        back.append("meta" if X is None else X.device.type)
        return None if X is None else np.zeros(tuple(X.shape))

    monkeypatch.setattr("lrmc.observations.tensor._array", array)
    shape = (700, 600)
    monkeypatch.setattr("lrmc.observations.tensor.ENTRIES", 1 << 18)
    weight, _ = rule(*shape, 0.8)
    rng = np.random.default_rng(0)
    L, R = (rng.standard_normal((n, 3)).astype(np.float32) for n in shape)
    Y, mask = (
        torch.empty(shape, device="meta", dtype=t) for t in (torch.float32, torch.bool)
    )
    seen = {"row_observed": np.full(700, 600), "col_observed": np.full(600, 700)}
    obs = lt.TorchObservations(
        shape=shape, dtype=np.dtype("f4"), Y=Y, mask=mask, **seen
    )
    CQ, CtP = obs.products(
        L,
        R,
        weight,
        P=OWN,
        Q=OWN,
        **({"Pw": L, "Qw": R} if hasattr(weight, "rows") else {}),
    )
    assert (CQ.shape, CtP.shape) == ((700, 3), (600, 3))
    assert obs.lookup(np.arange(5), np.arange(5)).shape == (5,)
    assert obs.block(slice(None), np.arange(4)).shape == (700, 4)
    assert obs.outliers(L, R, 1.0).device.type == "meta"
    assert set(back) == {"meta"}
