"""The pass as one kernel for GPUs, run by Triton's interpreter on the CPU."""

import os

import numpy as np
import pytest
import reference
from comparing import assert_close, assert_pull
from each import each
from rules import every_rule, rules

os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is made
torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="Triton is not installed: the kernel is not run")

from lrmc.observations import fused, tensor
from lrmc.observations.tensor import as_torch_observations


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch):
    """Tensors are taken for those of a GPU; small tiles, so that small data have several."""
    monkeypatch.setattr(tensor, "_fused", lambda Y: fused)
    monkeypatch.setattr(fused, "ROWS", 16)
    monkeypatch.setattr(fused, "COLUMNS", 16)
    monkeypatch.setattr(fused, "TILES", 2)


def made(shape, rank, p=0.7, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal(shape).astype(np.float32)
    Y[rng.random(shape) >= p] = np.nan
    Y[0, 0] = 1.0
    L, R = (
        (rng.standard_normal((n, rank)) / np.sqrt(rank)).astype(np.float32)
        for n in shape
    )
    return Y, L, R


def check(Y, L, R, rule, data=None, mask=None):
    weight, slow = rule(*Y.shape, 0.8)
    exact = (X.astype(float) for X in (L, R))
    want = reference.pull(Y.astype(float), ~np.isnan(Y), *exact, slow)
    obs = as_torch_observations(torch.as_tensor(Y) if data is None else data, mask)
    assert_pull(obs.pull(L, R, weight), want, obs.dtype)


@every_rule
def test_rules_agree_with_the_reference(rule):
    check(*made((17, 18), 3), rule)


@pytest.mark.slow
@each(
    "shape", [(1, 1), (1, 40), (40, 1), (16, 16), (32, 17), (33, 16), (65, 33)], ids=str
)
def test_ragged_ends(shape):
    for name in ("clip", "threshold"):
        check(*made(shape, 1 if 1 in shape else 2), dict(rules)[name])


@pytest.mark.slow
@each("rank", [1, 5, 16, 17, 40])
def test_ranks(rank):
    check(*made((41, 43), rank), dict(rules)["clip"])


def test_masks_and_columns_first():
    Y, L, R = made((37, 21), 3)
    mask = ~np.isnan(Y)
    full = torch.as_tensor(np.where(mask, Y, 7.0))
    for data, seen in ((full, mask), (full.T.contiguous().T, mask)):
        check(Y, L, R, dict(rules)["threshold"], data, torch.as_tensor(seen))


@pytest.mark.slow
@each("dtype", ["bfloat16", "float16", "uint8", "int16"])
def test_other_types_are_read_as_they_are(dtype):
    Y, L, R = made((37, 21), 3, p=1.0)
    data = torch.as_tensor(40 * Y).abs().to(getattr(torch, dtype))
    check(data.float().numpy(), L, R, dict(rules)["clip"], data)


def test_products_and_gram_matrices():
    Y, L, R = made((37, 21), 3)
    weight, slow = dict(rules)["cauchy"](*Y.shape, 0.8)
    P, Q = (np.stack([F[:, 0] ** 2, F[:, 1]], 1) for F in (L, R))
    Pw, Qw = (F[:, :, None] * F[:, None, :] for F in (L, R))
    Pw, Qw = (F.reshape(len(F), -1) for F in (Pw, Qw))
    want = reference.products(Y, ~np.isnan(Y), L, R, slow, P, Q)
    obs = as_torch_observations(torch.as_tensor(Y))
    got = obs.products(L, R, weight, P=P, Q=Q, Pw=Pw, Qw=Qw)
    assert_pull(got, want, np.float32)
    for found, gram in zip(got.grams, (want.W @ Qw, want.W.T @ Pw), strict=True):
        assert_close(found, gram, np.float32)
    for one in ({"Q": Q}, {"P": P}):
        found = obs.products(L, R, weight, **one)
        for k in (0, 1):
            assert found[k] is None or np.array_equal(found[k], got[k])


def test_the_same_bits_every_time():
    Y, L, R = made((40, 18), 3)
    obs = as_torch_observations(torch.as_tensor(Y))
    first, again = obs.pull(L, R, 0.7), obs.pull(L, R, 0.7)
    assert all(map(np.array_equal, first, again))


def test_what_the_kernel_does_not_serve_is_computed_eagerly(monkeypatch):
    """Double precision, and factors that do not fit into registers."""
    monkeypatch.setattr(fused, "sums", None)  # would fail if it were called
    Y, L, R = made((37, 21), 3)
    check(Y.astype(np.float64), L, R, dict(rules)["clip"])
    Y, L, R = made((37, 80), 65)
    check(Y, L, R, dict(rules)["clip"])
