"""The reverse of a pass with the rule `Power`, against derivatives by a complex step."""

import numpy as np
import pytest
from comparing import assert_close
from each import each

from lrmc import _kernels, as_observations
from lrmc.observations._door import compressed
from lrmc.weights import Power

STEP = 1e-30  # of the complex step: nothing is subtracted, so nothing cancels


class Pass:
    """Entries, a rule, and gradients of what a pass makes of them."""

    def __init__(self, shape, rank, side, outliers, dtype, seed=0):
        rng = np.random.default_rng(seed)
        n1, n2 = shape
        q = rank * (rank + 1) // 2 + 1

        def draw(*size):
            return rng.standard_normal(size).astype(dtype)

        self.side, self.outliers, self.shape = side, outliers, shape
        self.seen = rng.random(shape) < 0.6
        self.seen[n1 // 2] = False  # a row without entries
        self.L, self.R = draw(n1, rank), draw(n2, rank)
        self.Y = draw(*shape) + self.L @ self.R.T
        self.Y[0, self.seen[0].argmax()] = 1e6  # an outlier that is one
        self.P, self.Q, self.Pw, self.Qw = (
            draw(n, k) for k in (rank, q) for n in shape
        )
        self.rows, self.cols = (rng.uniform(0.5, 2, n).astype(dtype) for n in shape)
        self.s, self.energy, self.total = 0.7, 0.3, -0.2

    def of_kernel(self, threads):
        Y = np.where(self.seen, self.Y, self.Y.dtype.type(np.nan))
        return compressed(as_observations(Y, threads=threads)).power_adjoint(
            self.L,
            self.R,
            Power(self.rows, self.cols, self.outliers, shape=self.s),
            factors=(self.P, self.Q, self.Pw, self.Qw),
            side=self.side,
            energy=self.energy,
            total=self.total,
        )

    def weights(self, E, z, s):
        positive, negative = (self.outliers != x for x in ("negative", "positive"))
        counts = np.where(E.real > 0, positive, negative)
        return (1 + counts * (E / z) ** 2) ** -s

    def value(self, E, z, s):
        """What each entry adds to the loss."""
        W = self.weights(E, z, s)
        C, Cb, Wb = W * E, self.P @ self.Q.T, self.Pw @ self.Qw.T
        return self.seen * (Cb * C + Wb * W + self.energy * C * E + self.total * W)

    def slopes(self):
        """Of the loss by E, log z and s, entry by entry."""
        E, z = self.Y - self.L @ self.R.T, np.outer(self.rows, self.cols)
        turned = 1j * STEP
        moved = (
            self.value(E + turned, z, self.s),
            self.value(E + 0j, z * np.exp(turned), self.s),
            self.value(E + 0j, z, self.s + turned),
        )
        return [x.imag / STEP for x in moved]

    def products(self):
        E, z = self.Y - self.L @ self.R.T, np.outer(self.rows, self.cols)
        W = self.seen * self.weights(E, z, self.s)
        if self.side:
            return (W * E) @ self.Q, W @ self.Qw
        return (W * E).T @ self.P, W.T @ self.Pw

    def double(self):
        for name, X in vars(self).items():
            if isinstance(X, np.ndarray) and X.dtype.kind == "f":
                setattr(self, name, X.astype(np.float64))
        return self


@each("shape", [(23, 17), (6, 900), (900, 6)])
@each("rank", [1, 3, 7, 20])
@each("side", [0, 1])
@each("outliers", ["both", "positive", "negative"])
@each("threads", [1, 3])
def test_power_adjoint(shape, rank, side, outliers, threads):
    for dtype in (np.float64, np.float32):
        made = Pass(shape, rank, side, outliers, dtype)
        got = made.of_kernel(threads)
        want = made.double()
        Eb, by_z, by_s = want.slopes()
        pull, grams = want.products()
        assert_close(got.L, -Eb @ want.R, dtype)
        assert_close(got.R, -Eb.T @ want.L, dtype)
        assert_close(got.pull, pull, dtype)
        assert_close(got.grams, grams, dtype)
        assert_close(got.rows, by_z.sum(1), dtype)
        assert_close(got.cols, by_z.sum(0), dtype)
        assert got.shape == pytest.approx(by_s.sum(), abs=1e-5 * np.abs(by_s).sum())
        assert got.L.dtype == got.grams.dtype == dtype


def test_other_rules_are_refused():
    made = Pass((6, 5), 2, 0, "both", np.float64)
    Y = compressed(as_observations(made.Y))
    ones = np.ones(6), np.ones(5)
    factors = _kernels.Factors(
        **{name: getattr(made, name) for name in ("L", "R", "P", "Q", "Pw", "Qw")}
    )
    weight = _kernels.Weight(
        _kernels.Rule.cauchy,
        rows=ones[0],
        cols=ones[1],
        protect_rows=ones[0],
        protect_cols=ones[1],
    )
    with pytest.raises(ValueError, match="want the rule power"):
        _kernels.slopes(
            Y.data,
            factors,
            weight,
            _kernels.Room(),
            L=made.L.copy(),
            R=made.R.copy(),
            rows=np.zeros(6),
            cols=np.zeros(5),
            shape=np.zeros(1),
            energy=0.0,
            total=0.0,
            threads=1,
        )
