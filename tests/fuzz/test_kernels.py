"""Random calls of the kernels against the slow reference: shapes, strides, types, masks,
rules, groups, threads.
"""

from dataclasses import fields, replace

import numpy as np
import pytest
import reference
from comparing import assert_close, assert_pull
from rules import rules

from fuzz.effort import rounds
from lrmc import _kernels
from lrmc.observations import OWN, Dense, Observations, Sparse
from lrmc.observations.grouped import Grouped
from lrmc.observations.transposed import transposed
from lrmc.weights import Clip, Threshold

TYPES = (np.float32, np.float64, np.uint8, np.int16, np.uint16)


class Case:
    """One random problem: data in some storage, what they are in double precision, and factors."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.shape = n1, n2 = tuple(
            int(n) for n in rng.integers(0, 71, 2) * rng.choice([1, 1, 1, 8], 2)
        )
        if n1 * n2 > 12_000:  # the reference goes entry by entry
            self.shape = n1, n2 = min(n1, 40), n2
        self.stored = np.dtype(rng.choice(TYPES))
        self.dtype = np.dtype(np.float64 if self.stored == np.float64 else np.float32)
        self.mask = rng.random((n1, n2)) < rng.choice([0.0, 0.05, 0.5, 0.95, 1.0])
        whole = rng.integers(0, 9, (n1, n2))
        self.values = (whole if self.stored.kind in "iu" else whole - 4).astype(
            self.stored
        )
        self.gain = float(rng.choice([1.0, 0.5]))
        self.threads = int(rng.integers(1, 5))
        self.L, self.R = self.factors(int(rng.integers(1, 21)))
        self.observations = self.made()

    def factors(self, rank):
        """Not so large that rounding decides what is an inlier: multiples of 1/4."""
        return tuple(
            (self.rng.integers(-4, 5, (n, rank)) / 4).astype(self.dtype)
            for n in self.shape
        )

    def strided(self, X, fill):
        """The same rows, in a larger array, some steps apart or upside down."""
        step, before, more = self.rng.integers(1, 3), *self.rng.integers(0, 4, 2)
        large = np.full((step * len(X) + 1, before + X.shape[1] + more), fill, X.dtype)
        part = large[: step * len(X) : step, before : before + X.shape[1]]
        part[:] = X
        return part[::-1][::-1] if self.rng.random() < 0.3 else part

    def made(self) -> Observations:
        common = {
            "shape": self.shape,
            "dtype": self.dtype,
            "gain": self.gain,
            "threads": self.threads,
            "row_observed": self.mask.sum(1),
            "col_observed": self.mask.sum(0),
        }
        if self.rng.random() < 0.4:
            rows, cols = np.nonzero(self.mask)
            indptr = np.searchsorted(rows, np.arange(self.shape[0] + 1))
            entries = {
                "indptr": indptr,
                "indices": cols.astype(np.int32),
                "values": self.values[rows, cols],
            }
            return Sparse(form="sparse", **entries, **common)
        garbage = (
            self.rng.choice([np.inf, -np.inf, np.nan, 1e30])
            if self.stored.kind == "f"
            else 7
        )
        if self.stored.kind == "f" and self.rng.random() < 0.5:
            return Dense(
                Y=self.strided(
                    np.where(self.mask, self.values, self.stored.type(np.nan)), garbage
                ),
                **common,
            )
        Y = np.where(self.mask, self.values, np.array(garbage).astype(self.stored))
        return Dense(
            Y=self.strided(Y, garbage),
            mask=self.strided(self.mask.view(np.uint8), 1),
            **common,
        )

    @property
    def Y(self):
        """As the reference takes them."""
        return np.where(self.mask, self.gain * self.values.astype(float), np.nan)

    def rule(self, typical=1.3):
        """Thresholds that no residual meets exactly, in either precision."""
        _, make = rules[self.rng.integers(len(rules))]
        return make(*self.shape, typical)


def test_products():
    for seed in rounds(150):
        case = Case(seed)
        weight, slow = case.rule()
        (P, Q), (Pw, Qw) = (
            case.factors(int(case.rng.integers(1, 21))) for _ in range(2)
        )
        if case.rng.random() < 0.4:
            P, Q = case.L, case.R
        P, Q = (None if case.rng.random() < 0.15 else X for X in (P, Q))
        L, R = (None, None) if case.rng.random() < 0.1 else (case.L, case.R)
        sums = not isinstance(weight, Clip | float)
        obs = case.observations
        Pw, Qw = (X if sums and case.rng.random() < 0.5 else None for X in (Pw, Qw))
        want = reference.products(case.Y, case.mask, L, R, slow, P, Q)
        if case.rng.random() < 0.3:
            flip = weight if isinstance(weight, float) else weight.flipped()
            got = transposed(obs).products(R, L, flip, P=Q, Q=P, Pw=Qw, Qw=Pw).flipped()
        else:
            own = {
                "P": OWN if P is L and L is not None else P,
                "Q": OWN if Q is R and R is not None else Q,
            }
            got = obs.products(L, R, weight, **own, Pw=Pw, Qw=Qw)
        assert_pull(got, want, case.dtype)
        for gram, F, W in zip(got.grams or (), (Qw, Pw), (want.W, want.W.T)):
            assert (gram is None) == (F is None)
            if F is not None:
                assert_close(gram, W @ F, case.dtype)
        if sums:
            squares = obs.products(L, R, replace(weight, squares=True))
            assert_close(squares.row_weight, (want.C**2).sum(1), case.dtype)
            assert_close(squares.col_weight, (want.C**2).sum(0), case.dtype)


def test_adjoint():
    for seed in rounds(60):
        case = Case(seed)
        Ab, Bb = case.factors(case.L.shape[1])
        got = case.observations.adjoint(case.L, case.R, 1.3, Ab, Bb)
        want = reference.adjoint(case.Y, case.mask, case.L, case.R, 1.3, Ab, Bb)
        assert_close(got.L, want.L, case.dtype)
        assert_close(got.R, want.R, case.dtype)
        assert got.zeta == pytest.approx(
            want.zeta, abs=1e-5 * float(want.size) + 1e-300
        )


def test_magnitudes():
    for seed in rounds(100):
        case = Case(seed)
        share = float(case.rng.choice([0.0, 0.1, 0.5, 1.0]))
        got = case.observations.magnitudes(case.L, case.R, share)
        want = reference.magnitudes(case.Y - case.L @ case.R.T, share)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_groups():
    """All rows of a group have the weight of the worst of them."""
    for seed in rounds(80):
        case = Case(seed)
        obs, (n1, n2) = case.observations, case.shape
        if not isinstance(obs, Dense) or n1 == 0:
            continue
        size = int(case.rng.choice([k for k in range(1, n1 + 1) if n1 % k == 0]))
        members = case.rng.permutation(n1).reshape(-1, size)
        weight, slow = case.rule()
        if isinstance(weight, Threshold):  # nothing is protected in groups
            weight = replace(
                weight, protect_rows=0 * weight.rows, protect_cols=0 * weight.cols
            )
            slow = reference.threshold(
                weight.rows, weight.cols, *np.zeros((2, n1 + n2)), weight.outliers
            )
        E = case.Y - case.L @ case.R.T
        W = np.zeros(case.shape)
        for group in members:
            for j in range(n2):
                seen = group[case.mask[group, j]]
                if len(seen):
                    W[seen, j] = min(slow(E[i, j], i, j)[0] for i in seen)
        C = W * np.nan_to_num(E)
        got = Grouped(
            **{field.name: getattr(obs, field.name) for field in fields(obs)},
            members=members,
        ).products(case.L, case.R, weight, P=OWN, Q=OWN)
        assert_close(got[0], C @ case.R, case.dtype, factor=2)
        assert_close(got[1], C.T @ case.L, case.dtype, factor=2)
        if got.row_weight is not None:
            assert_close(got.row_weight, W.sum(1), case.dtype)
            assert_close(got.col_weight, W.sum(0), case.dtype)
        if got.row_energy is not None:
            energy = C * np.nan_to_num(E)
            assert_close(got.row_energy, energy.sum(1), case.dtype)
            assert_close(got.col_energy, energy.sum(0), case.dtype)


def test_counts_of_what_is_there():
    for seed in rounds(100):
        case = Case(seed)
        for obs, seen in (
            (case.observations, case.mask),
            (transposed(case.observations), case.mask.T),
        ):
            rows, cols, infinite = obs.survey()
            assert infinite == 0
            np.testing.assert_array_equal(rows, seen.sum(1))
            np.testing.assert_array_equal(cols, seen.sum(0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_huge_and_strange_numbers_stay_where_they_are():
    """Infinite, NaN and huge numbers in one row of a factor: the sums of the other rows
    are as they were.
    """
    for seed in rounds(80):
        case = Case(seed)
        n1, n2 = case.shape
        if n1 < 2 or n2 == 0:
            continue
        L, bad = case.L.copy(), int(case.rng.integers(n1))
        L[bad] = case.rng.choice([np.inf, -np.inf, np.nan, np.finfo(case.dtype).max])
        weight, _ = case.rule()
        got, want = (
            case.observations.products(F, case.R, weight, Q=OWN)[0] for F in (L, case.L)
        )
        others = np.arange(n1) != bad
        assert_close(got[others], want[others], case.dtype)
        case.observations.magnitudes(L, case.R, 0.5)


def test_regressions():
    """Rows of a model without noise: each finds its own scores, whatever the storage."""
    for seed in rounds(80):
        rng = np.random.default_rng(seed)
        n1, rank = int(rng.integers(0, 40)), int(rng.integers(1, 13))
        n2, dtype = int(rng.integers(3 * rank, 90)), np.dtype(rng.choice(TYPES[:2]))
        V, T = (
            np.linalg.qr(rng.standard_normal((n2, rank)))[0],
            rng.standard_normal((n1, rank)),
        )
        offset, mask = (
            rng.standard_normal(n2),
            rng.random((n1, n2)) < rng.choice([0.8, 1.0]),
        )
        mask[: n1 // 4] = False  # nothing of these rows is seen: they get the mean
        Y = np.where(mask, offset + T @ V.T, np.nan).astype(dtype)
        rows, cols = np.nonzero(mask)
        indptr = np.searchsorted(rows, np.arange(n1 + 1))
        model = {
            "V": V.astype(dtype),
            "offset": offset.astype(dtype),
            "mean": np.zeros(rank),
            "prior": 1e-3 * np.eye(rank),
        }
        for data in (
            _kernels.DenseData(Y),
            _kernels.DenseData(np.nan_to_num(Y), mask=mask.view(np.uint8)),
            _kernels.SparseData(
                indptr=indptr,
                indices=cols.astype(np.int32),
                values=Y[rows, cols],
                n2=n2,
            ),
        ):
            scores, (deviation, distance) = (
                np.empty((n1, rank), dtype),
                np.empty((2, n1), dtype),
            )
            rule = (_kernels.Rule.cauchy, _kernels.Rule.huber, _kernels.Rule.mixture)[
                rng.integers(3)
            ]
            regression = _kernels.Regression(
                rule, **model, widest=10.0, lowest=0.01, odds=0.01, reach=3.0
            )
            room = {"scores": scores, "deviation": deviation, "distance": distance}
            _kernels.regress(data, regression, **room, threads=int(rng.integers(1, 5)))
            assert not scores[: n1 // 4].any()
            np.testing.assert_allclose(scores[n1 // 4 :], T[n1 // 4 :], atol=0.05)
            assert np.isfinite(deviation).all()
            assert np.isfinite(distance).all()
