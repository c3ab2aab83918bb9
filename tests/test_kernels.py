"""The compiled passes: every rank, shape, thread count and instruction set."""

import ast
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import reference
import scipy.sparse as sp
from comparing import assert_close, assert_pull, same_bits
from each import each
from rules import every_rule, rules

from lrmc import _kernels, as_observations
from lrmc._kernels import _native
from lrmc.observations.grouped import grouped
from lrmc.weights import Cauchy, Huber, Mixture, Power, Threshold


def data(n1, n2, p=0.7, dtype=np.float64, seed=0):
    """Gaussian Y with gaps (NaN), in the precision that it will be read in."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n1, n2)).astype(dtype)
    Y[rng.random((n1, n2)) >= p] = np.nan
    Y[0, 0] = 1.0  # never empty
    return Y


def factors(shape, rank, dtype=np.float64):
    rng = np.random.default_rng(rank)
    return tuple(
        (rng.standard_normal((n, rank)) / np.sqrt(rank)).astype(dtype) for n in shape
    )


def sparse(Y):
    rows, cols = np.nonzero(~np.isnan(Y))
    return sp.csr_array((Y[rows, cols], (rows, cols)), shape=Y.shape)


def check(Y, rank, rule, threads=2):
    """Dense, by columns and sparse agree with the reference."""
    L, R = factors(Y.shape, rank, Y.dtype)
    weight, slow = rule(*Y.shape, 0.8)
    want = reference.pull(
        Y.astype(float), ~np.isnan(Y), L.astype(float), R.astype(float), slow
    )
    forms = (Y, np.asfortranarray(Y), sparse(Y), sparse(Y).tocsc())
    for form in forms:
        assert_pull(
            as_observations(form, threads=threads).pull(L, R, weight), want, Y.dtype
        )


@each("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [*range(1, 18), 20, 33, 64, 65, 70])
def test_every_rank(rank, dtype):
    for p in (0.1, 0.4, 0.9):
        check(data(19, 45, p, dtype), rank, dict(rules)["threshold"])
        check(data(19, 45, p, dtype), rank, dict(rules)["clip"])


SHAPES = [
    (1, 1),
    (1, 2),
    (2, 1),
    (1, 40),
    (40, 1),
    (3, 5),
    (4, 16),
    (5, 17),
    (7, 255),
    (8, 256),
    (6, 257),
    (257, 6),
]
LONG = [
    (3, 511),
    (5, 512),
    (6, 513),
    (4, 1100),
    (1, 3000),
    (3000, 1),
    (1100, 9),
    (9, 1537),
]


@each("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES + LONG, ids=str)
def test_every_shape(shape, dtype):
    for name in ("clip", "threshold", "cauchy, positive"):
        check(data(*shape, 0.8, dtype), 1 if 1 in shape else 3, dict(rules)[name])


@each("rank", [2, 16, 40])
def test_rows_longer_than_a_panel(rank):
    """A panel is 192 kB of tiles: at rank 16 two tiles of 256 doubles."""
    check(data(5, 4700, 0.9), rank, dict(rules)["threshold"])
    check(data(4700, 5, 0.9), rank, dict(rules)["clip"])


@every_rule
@each("dtype", [np.float32, np.float64])
def test_products_narrower_and_wider_than_the_model(rule, dtype):
    Y = data(13, 600, 0.8, dtype)
    weight, slow = rule(*Y.shape, 0.8)
    for rank, width in ((2, 19), (19, 2), (70, 1), (1, 70)):
        (L, R), (P, Q) = factors(Y.shape, rank, dtype), factors(Y.shape, width, dtype)
        want = reference.products(Y, ~np.isnan(Y), L, R, slow, P, Q)
        for form in (Y, sparse(Y)):
            assert_pull(
                as_observations(form).products(L, R, weight, P=P, Q=Q), want, Y.dtype
            )


@every_rule
@pytest.mark.parametrize(
    "shape", [(61, 700), (700, 61), (2, 3000), (3000, 2), (1, 5)], ids=str
)
@each("p", [0.1, 0.9])
def test_threads_agree_and_repeat_to_the_last_bit(shape, p, rule):
    Y = data(*shape, p)
    L, R = factors(Y.shape, 4)
    weight, _ = rule(*shape, 0.8)
    one = as_observations(Y, threads=1).pull(L, R, weight)
    for threads in (1, 2, 3, 5):
        obs = as_observations(Y, threads=threads)
        got, again = obs.pull(L, R, weight), obs.pull(L, R, weight)
        assert same_bits(got, again)
        assert got.n_inliers == one.n_inliers
        for a, b in zip(got, one, strict=True):
            assert_close(a, b)


def test_results_do_not_depend_on_how_many_threads_the_machine_gives():
    """Shares of the work belong to `threads`, not to the team that happens to run."""
    code = (
        "import sys, numpy as np; from lrmc import as_observations; rng = np.random.default_rng(0);"
        "Y, L, R = (rng.standard_normal(s, dtype=np.float32) for s in ((300, 700), (300, 3), (700, 3)));"
        "pulls = [as_observations(Y, threads=threads).pull(L, R, 0.7) for threads in (2, 3, 5)];"
        "sys.stdout.buffer.write(b''.join(X.tobytes() for pull in pulls for X in pull))"
    )
    answers = set()
    for limit in ("1", "8"):
        environment = {**os.environ, "OMP_THREAD_LIMIT": limit}
        answers.add(
            subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                check=True,
            ).stdout
        )
    assert len(answers) == 1
    assert len(answers.pop()) == 3 * 4 * 3 * 1000


def whole_numbers(width):
    """What every type holds exactly, and what of it is observed."""
    rng = np.random.default_rng(0)
    values, mask = rng.integers(0, 9, (21, 530)), rng.random((21, 530)) < 0.6
    return values[:, :width], mask[:, :width]


@cache
def wanted_of_whole_numbers(name, rank, width):
    values, mask = whole_numbers(width)
    slow = dict(rules)[name](*values.shape, 3.3)[1]
    return reference.pull(
        values.astype(float), mask, *factors(values.shape, rank), slow
    )


@pytest.mark.usefixtures("restore_instruction_set")
@pytest.mark.parametrize("name", _kernels.instruction_sets())
@each("dtype", [np.float32, np.float64, np.uint8, np.int16, np.uint16])
@each("width", [530, 200], ids=["dense", "sparse"])
def test_every_instruction_set(name, dtype, width):
    _kernels.use_instruction_set(name)
    assert _kernels.instruction_set() == name
    values, mask = whole_numbers(width)
    Y = values.astype(dtype)
    stored = sp.csr_array((Y[mask], np.nonzero(mask)), shape=Y.shape)
    obs = as_observations(Y, mask) if width == 530 else as_observations(stored)
    for rank in (1, 5, 16, 18):
        L, R = factors(Y.shape, rank)
        for rule, make in rules:
            want = wanted_of_whole_numbers(rule, rank, width)
            assert_pull(obs.pull(L, R, make(*Y.shape, 3.3)[0]), want, obs.dtype)


def test_unknown_instruction_set():
    with pytest.raises(ValueError, match="no instruction set quantum"):
        _kernels.use_instruction_set("quantum")
    assert _kernels.instruction_set() in _kernels.instruction_sets()


@every_rule
@each("dtype", [np.float32, np.float64])
def test_missing_entries_stay_out(rule, dtype):
    """NaN must survive the compiler: what is under it, beside it or in its row makes no
    difference.
    """
    Y = data(9, 530, 0.5, dtype)
    Y[4], Y[:, 17] = np.nan, np.nan
    L, R = factors(Y.shape, 3, dtype)
    weight, _ = rule(*Y.shape, 0.8)
    got = as_observations(Y).pull(L, R, weight)
    assert all(np.isfinite(x).all() for x in got)
    assert not got[0][4].any()
    assert not got[1][17].any()
    seen = ~np.isnan(Y)
    for garbage in (0.0, 1e30, -np.inf):
        other = as_observations(np.where(seen, Y, garbage).astype(dtype), seen).pull(
            L, R, weight
        )
        assert same_bits(got, other)


@each("dtype", [np.float32, np.float64])
def test_counts_at_the_border(dtype):
    """|e| = zeta is an inlier, the next number is not."""
    zeta = dtype(0.75)
    Y = np.array(
        [[zeta, -zeta, np.nextafter(zeta, dtype(1)), -np.nextafter(zeta, dtype(1)), 0]],
        dtype,
    )
    for form in (Y, sparse(Y)):
        pull = as_observations(form).pull(
            np.zeros((1, 1), dtype), np.ones((5, 1), dtype), float(zeta)
        )
        assert pull.n_inliers == 3
        assert pull[0] == 0


@each("rule", [Cauchy, Huber, Mixture, Power])
def test_smooth_rules_with_zero_thresholds(rule):
    pull = as_observations(np.array([[0.0, 2.0]])).pull(
        np.zeros((1, 1)), np.ones((2, 1)), rule(np.zeros(1), np.zeros(2))
    )
    assert np.isfinite(pull[0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.1, 0.9])
def test_sums_of_weights_times_other_factors_and_of_squares(p, dtype):
    """W @ Qw and W.T @ Pw of the same pass, and c^2 instead of w summed over rows and columns."""
    Y = data(13, 600, p, dtype)
    (L, R), (P, Q), (Pw, Qw) = (factors(Y.shape, k, dtype) for k in (3, 4, 6))
    for _, rule in rules[2:]:
        weight, slow = rule(*Y.shape, 0.8)
        want = reference.products(Y, ~np.isnan(Y), L, R, slow, P, Q)
        for form in (Y, np.asfortranarray(Y), sparse(Y), sparse(Y).tocsc()):
            pull = as_observations(form).products(L, R, weight, P=P, Q=Q, Pw=Pw, Qw=Qw)
            assert_pull(pull, want, Y.dtype)
            assert_close(pull.grams[0], want.W @ Qw, dtype)
            assert_close(pull.grams[1], want.W.T @ Pw, dtype)
            squares = as_observations(form).pull(L, R, replace(weight, squares=True))
            assert_close(squares.row_weight, (want.C**2).sum(1), dtype)
            assert_close(squares.col_weight, (want.C**2).sum(0), dtype)


def test_kernels_refuse_what_would_crash():
    obs = as_observations(np.ones((4, 5)))
    L, R = np.ones((4, 2)), np.ones((5, 2))
    for args in (
        (R, R, L, R),
        (L, None, L, R),
        (L, R[:, :1], L, R),
        (L, R, L[:, :1], R),
        (L, R, L, L),
    ):
        with pytest.raises((ValueError, RuntimeError), match="kernel"):
            obs.products(args[0], args[1], 1.0, P=args[2], Q=args[3])


# ---- long sums: single precision stands still at 2^24, where 1 is less than half of the last digit


MANY = 400_000
STILL = 2.0**24


def one_column(order):
    """A column among empty ones whose sums begin with 2^24 and go on with ones."""
    Y = np.full((MANY, 3), np.nan, np.float32, order)
    Y[:, 1] = 1
    Y[0, 1] = np.sqrt(STILL)
    return Y


@each("threads", [1, 3])
@pytest.mark.parametrize(
    "form",
    [
        lambda threads: as_observations(one_column("C"), threads=threads),
        lambda threads: as_observations(one_column("F"), threads=threads),
        lambda threads: as_observations(sparse(one_column("C")), threads=threads),
        lambda threads: as_observations(
            sparse(one_column("C")).tocsc(), threads=threads
        ),
        lambda threads: grouped(
            as_observations(one_column("C"), threads=threads), np.arange(MANY) // 4
        ),
        lambda threads: grouped(
            as_observations(one_column("C")[: MANY // 8], threads=threads),
            np.zeros(MANY // 8),
        ),
    ],
    ids=["rows", "columns", "CSR", "CSC", "groups", "one group"],
)
def test_long_sums_do_not_stand_still(form, threads):
    obs = form(threads)
    n = obs.shape[0]
    wide, none = np.full(n, 2 * STILL), np.zeros(n)
    everything = Threshold(wide, wide[:3], none, none[:3], squares=True)
    P, Pw = np.ones((2, n, 1), np.float32)
    P[0], Pw[0] = np.sqrt(STILL), STILL
    pull = obs.products(None, None, everything, P=P, Pw=Pw)
    want = STILL + n - 1
    for got in (pull[1][:, 0], pull.grams[1][:, 0], pull.col_weight):
        np.testing.assert_allclose(got, [0, want, 0], rtol=1.5e-4)
    assert pull.col_inliers.tolist() == [0, n, 0]
    if obs.groups is None:
        GR = obs.adjoint(
            np.zeros((n, 1)), np.zeros((3, 1)), 2 * STILL, P, np.zeros((3, 1))
        ).R
        np.testing.assert_allclose(GR[:, 0], [0, want, 0], rtol=1.5e-4)


# ---- the border between Python and C++: what does not fit is refused


def arguments():
    """Of one call of a pass, by name, as it should be."""
    Y, L, R = (
        np.ones((6, 5), np.float32),
        np.ones((6, 2), np.float32),
        np.ones((5, 2), np.float32),
    )
    line = {n: np.ones(n, np.float32) for n in (5, 6)}
    return {
        "data": {
            "Y": Y,
            "mask": np.ones((6, 5), np.uint8),
            "members": np.arange(6).reshape(3, 2),
        },
        "factors": {
            "L": L,
            "R": R,
            "P": 2 * L,
            "Q": 2 * R,
            "Pw": L.copy(),
            "Qw": R.copy(),
        },
        "weight": {
            "rows": line[6],
            "cols": line[5],
            "protect_rows": line[6],
            "protect_cols": line[5],
        },
        "room": {
            **{
                name: np.zeros((n, 2), np.float32)
                for name, n in (("CQ", 6), ("CtP", 5), ("WQ", 6), ("WtP", 5))
            },
            **{
                "row_inliers": np.zeros(6, np.int64),
                "col_inliers": np.zeros(5, np.int64),
            },
            **{
                "row_weight": np.zeros(6, np.float32),
                "col_weight": np.zeros(5, np.float32),
            },
        },
    }


def call(given):
    """A pass with these arguments."""
    data, factors = (
        _kernels.DenseData(**given["data"]),
        _kernels.Factors(**given["factors"]),
    )
    weight, room = (
        _kernels.Weight(_kernels.Rule.threshold, **given["weight"]),
        _kernels.Room(**given["room"]),
    )
    _kernels.products(data, factors, weight, room, threads=2)


ARRAYS = [
    (part, name)
    for part, arrays in arguments().items()
    for name, value in arrays.items()
    if np.size(value) > 1  # one number is always contiguous
]
WRONG = {
    "longer": lambda X: np.concatenate([X, X]),
    "shorter": lambda X: X[:-1],
    "of another type": lambda X: X.astype(np.float16),
    "of another precision": lambda X: X.astype(
        np.int32 if X.dtype.kind == "i" else np.float64
    ),
    "not contiguous": lambda X: np.repeat(X, 2, axis=-1)[..., ::2],
    "of more dimensions": lambda X: X[None],
}


@pytest.mark.parametrize(("part", "name"), ARRAYS)
@each("wrong", WRONG.values(), ids=WRONG)
def test_an_array_that_does_not_fit_is_refused(part, name, wrong):
    given = arguments()
    call(given)
    assert given["room"]["CQ"].any()
    assert given["room"]["col_inliers"].any()
    given[part][name] = wrong(given[part][name])
    with pytest.raises((ValueError, TypeError)):
        call(given)


@pytest.mark.parametrize("name", arguments()["room"])
def test_room_that_is_missing_or_not_to_be_written_is_refused(name):
    given = arguments()
    room = given["room"].pop(name)
    with pytest.raises(ValueError, match=f"kernel: {name} is missing"):
        call(given)
    room.flags.writeable = False
    given["room"][name] = room
    with pytest.raises((ValueError, TypeError)):
        call(given)


@each(
    "members",
    [[[0, 1], [2, 3], [4, 6]], [[0, 1], [2, 3], [4, -1]], [[0, 1], [2, 3], [4, 4]]],
)
def test_groups_of_rows_that_are_not_there(members):
    given = arguments()
    given["data"]["members"] = np.array(members)
    with pytest.raises(ValueError, match="groups name a row"):
        call(given)


def test_rules_have_names_only():
    with pytest.raises(TypeError):
        _kernels.Weight(1)
    assert [rule.name for rule in _kernels.Rule] == [
        "clip",
        "threshold",
        "cauchy",
        "huber",
        "mixture",
        "power",
    ]
    for _, make in rules[2:]:
        weight, _ = make(6, 5, 1.0)
        again = pickle.loads(pickle.dumps(weight.rule))  # as it goes to workers
        assert again is weight.rule


@each("indptr", [[1, 2, 3], [0, 1, 2], [0, 2, 4]])
def test_indptr_that_does_not_fit(indptr):
    R = np.ones((2, 1))
    data = _kernels.SparseData(
        indptr=np.array(indptr), indices=np.zeros(3, np.int32), values=np.ones(3), n2=2
    )
    with pytest.raises(ValueError, match="indptr does not"):
        _kernels.residual(data, _kernels.Factors(L=R, R=R), out=np.empty(3), threads=1)


def names_of(text):
    """The classes and functions of a stub, each with the names of its arguments in order."""
    found = {}
    for node in ast.parse(text).body:
        body = (
            [x for x in node.body if isinstance(x, ast.FunctionDef)]
            if isinstance(node, ast.ClassDef)
            else [node]
        )
        for function in body:
            if isinstance(function, ast.FunctionDef):
                arguments = [*function.args.args, *function.args.kwonlyargs]
                found[node.name] = [
                    argument.arg for argument in arguments if argument.arg != "self"
                ]
    return found


def signature_of(name):
    """What the module tells of itself, without the shapes of arrays."""
    there = getattr(_native, name)
    signatures = (there.__init__ if isinstance(there, type) else there).__nb_signature__
    return re.sub(r"\[.*?\]", "", signatures[0][0])


STUB = names_of(Path(_kernels.__file__).with_name("_native.pyi").read_text())


def test_the_stub_is_complete():
    assert {name for name in vars(_native) if not name.startswith("_")} == {
        *STUB,
        "LoopTold",
        "Rule",
        "most_layer_rank",
        "most_loop_rank",
        "most_small_rank",
    }


@pytest.mark.parametrize("name", STUB)
def test_the_stub_is_true(name):
    signature = signature_of(name)
    assert re.findall(r"[(,] ?(\w+):", signature) == STUB[name]
    by_place, _, _ = signature.partition("*")
    assert by_place.count(":") <= 6


def test_products_with_a_part_of_the_model():
    """A matrix of one row: the first columns of its factor lie where the factor does,
    and are contiguous too.
    """
    L, R = factors((1, 40), 7)
    Y = data(1, 40, 1.0)
    for form in (Y, Y.T, sparse(Y), sparse(Y.T).tocsc()):
        rows, cols = (L, R) if form.shape[0] == 1 else (R, L)
        whole = as_observations(form).products(
            rows, cols, 0.5, P=rows.copy(), Q=cols.copy()
        )
        part = as_observations(form).products(
            rows, cols, 0.5, P=rows[:, :2], Q=cols[:, :2]
        )
        for a, b in zip(part, whole, strict=True):
            assert_close(a, b[:, :2])


def test_short_work_is_done_alone(monkeypatch):
    monkeypatch.setattr(_kernels, "WORTH_A_THREAD", 100)
    got = [_kernels.threads_for(work, 4) for work in (0, 99, 199, 200, 399, 10_000)]
    assert got == [1, 1, 1, 2, 3, 4]
