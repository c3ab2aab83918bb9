"""Dense passes by the rule clip at low rank, and the layer of LRMC that follows them."""

import numpy as np
import pytest
import reference
from comparing import assert_pull
from each import each
from rules import rules

from lrmc import _kernels
from lrmc.methods.lrmc import _moved
from lrmc.observations import Dense

KINDS = [np.uint8, np.int16, np.uint16, np.float32, np.float64]


def dense(Y, seen, *, masked, threads=1):
    """The data with a mask, or with NaN, whatever the door would choose."""
    floats = Y.dtype.kind == "f"
    given = Y if masked or not floats else np.where(seen, Y, Y.dtype.type(np.nan))
    return Dense(
        shape=Y.shape,
        dtype=np.dtype(np.float64 if Y.dtype == np.float64 else np.float32),
        row_observed=seen.sum(1),
        col_observed=seen.sum(0),
        threads=threads,
        Y=given,
        mask=seen.astype(np.uint8) if masked else None,
    )


def made(shape, kind, p=0.6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 20, shape).astype(kind), rng.random(shape) < p


def factors(shape, rank, dtype):
    rng = np.random.default_rng(rank)
    return tuple(rng.standard_normal((n, rank)).astype(dtype) for n in shape)


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@pytest.mark.parametrize("masked", [False, True])
@each("rank", [1, 2, 3, 4, 5])
def test_pull_of_every_type(name, masked, rank):
    """Whole vectors and ragged ends, few rows and many, threads, at ranks that are served and not."""
    _kernels.use_instruction_set(name)
    for kind in KINDS:
        shapes = [(1, 1), (9, 3), (61, 37)] + [(2100, 16)] * (kind is np.uint8)
        for shape in shapes:
            Y, seen = made(shape, kind)
            if not masked and Y.dtype.kind != "f":
                seen = np.ones(shape, bool)
            obs = dense(Y, seen, masked=masked, threads=2)
            L, R = factors(shape, rank, obs.dtype)
            weight, slow = dict(rules)["clip"](*shape, 6.0)
            want = reference.pull(Y.astype(float), seen, L, R, slow)
            assert_pull(obs.pull(L, R, weight), want, obs.dtype)


def test_rows_may_be_apart_in_memory():
    """Of a part of an array, nothing beyond it counts."""
    Y, seen = made((50, 40), np.float32)
    whole = np.where(seen, Y, np.float32(np.nan))
    part = dense(Y[:20, :21], seen[:20, :21], masked=True)
    part = Dense(**{**vars(part), "Y": whole[:20, :21]})
    L, R = factors((20, 21), 2, np.float32)
    got = part.pull(L, R, 6.0)
    _, slow = dict(rules)["clip"](20, 21, 6.0)
    want = reference.pull(Y[:20, :21].astype(float), seen[:20, :21], L, R, slow)
    assert_pull(got, want, np.dtype(np.float32))


def test_a_factor_that_is_not_finite_reaches_its_own_row_only():
    Y, seen = made((40, 30), np.uint8)
    obs = dense(Y, seen, masked=True)
    L, R = factors(Y.shape, 2, np.float32)
    clean = obs.pull(L, R, 6.0)
    L[3] = np.nan
    spoilt = obs.pull(L, R, 6.0)
    others = np.arange(40) != 3
    np.testing.assert_array_equal(spoilt[0][others], clean[0][others])


@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("rank", [1, 2, 3, 5, 8, 9])
def test_a_layer_moves_rows_as_its_formula_says(name, rank):
    """With momentum and a shared part, and without; in both precisions; up to ragged ends."""
    _kernels.use_instruction_set(name)
    rng = np.random.default_rng(rank)
    for dtype in (np.float32, np.float64):
        for n in (1, 15, 37, 9000):
            L, CR, mL = (rng.standard_normal((n, rank)).astype(dtype) for _ in range(3))
            scale, M = (rng.standard_normal((rank, rank)).astype(dtype) for _ in "ab")
            for shared, gamma in ((None, 0.0), (None, 0.3), (M, 0.0), (M, 0.3)):
                d = CR.astype(float) @ scale
                m = d + gamma * mL
                m = m if shared is None else m - L @ (shared / 2.0)
                D = 0.7 * m
                got = _moved((L, CR, mL), (scale, shared, 0.7, gamma))
                want = (d, m, L + D), (D.T @ D, D.T @ L)
                for kept, right in zip((*got[0], *got[1]), (*want[0], *want[1])):
                    close = 2e-5 if dtype is np.float32 else 1e-12
                    size = np.abs(right).max()
                    np.testing.assert_allclose(kept, right, close, close * size)
