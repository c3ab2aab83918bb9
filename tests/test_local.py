"""A regression corrected by its errors among neighbors: against loops, and where it is asked."""

import numpy as np
from numpy.testing import assert_allclose
from opinions import asked

import lrmc
from lrmc.linalg import Factors
from lrmc.methods.local import NEAREST, local
from lrmc.methods.neighbors import DOUBT, PRIOR


def bent(rng, n=300):
    """Six columns that two numbers tell, but not by planes."""
    x, y = rng.uniform(-2, 2, (2, n))
    columns = [x, y, x * y, np.sin(2 * x), y**2 - 1, np.cos(2 * y) + x]
    return np.stack(columns, 1) + 0.05 * rng.standard_normal((n, 6))


def table(rng, n=80):
    Y = bent(rng, n)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    return Y, Factors(np.ones((n, 1)), np.nanmean(Y, 0)[:, None])


def test_errors_of_near_rows_are_taken_away():
    """Row by row and entry by entry, as the words say it."""
    Y, X = table(np.random.default_rng(0))
    part = asked(local, Y, X, 1e6)
    said = part.regression.said
    Z = np.where(np.isnan(Y), said, Y)
    apart = np.square(Z[:, None] - Z[None]).sum(2)
    order = np.argsort(apart + np.diag(np.full(len(Y), np.inf)), axis=1)[:, :NEAREST]
    usual = PRIOR / 6 * np.median(np.take_along_axis(apart, order, 1))
    want = np.zeros(Y.shape)
    for i, j in np.ndindex(*Y.shape):
        near = order[i]
        counts = (apart[i, near[0]] + usual) / (apart[i, near] + usual)
        seen = ~np.isnan(Y[near, j])
        wrong = Y[near, j][seen] - said[near, j][seen]
        want[i, j] = said[i, j] + counts[seen] @ wrong / (counts[seen].sum() + DOUBT)
    rows, cols = (x.ravel() for x in np.indices(Y.shape))
    got = (X.L @ X.R.T).ravel() + part.at(rows, cols)
    assert_allclose(got, want.ravel(), rtol=1e-6, atol=1e-6)


def test_it_is_the_same_of_the_transposed_table():
    Y, X = table(np.random.default_rng(1))
    rows, cols = (x.ravel() for x in np.indices(Y.shape))
    plain = asked(local, Y, X, 100.0, 0.5).at(rows, cols)
    turned = asked(local, Y.T.copy(), Factors(X.R, X.L), 100.0, 0.5)
    assert_allclose(turned.at(cols, rows), plain, rtol=1e-6, atol=1e-6)
    fit = X.R[:3] @ X.L.T
    assert_allclose(turned.for_new(Y.T[:3], fit), fit)


def test_new_rows_have_neighbors_too():
    rng = np.random.default_rng(2)
    known, rest = np.split(bent(rng), [240])
    X = Factors(np.ones((len(known), 1)), known.mean(0)[:, None])
    part = asked(local, known, X, 1e6)
    hidden = rng.random(rest.shape) < 0.2
    Y = np.where(hidden, np.nan, rest)
    fit = np.ones((len(rest), 1)) @ X.R.T
    errors = [
        np.sqrt(np.mean((x.for_new(Y, fit) - rest)[hidden] ** 2))
        for x in (part, part.regression)
    ]
    assert errors[0] < 0.9 * errors[1]


def test_bent_tables_are_told_by_near_rows():
    rng = np.random.default_rng(3)
    X = bent(rng)
    Y = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    result = lrmc.solve(Y, time=None)
    chosen = [x.name for x in result.evidence["table"] if x.chosen]
    assert "regression among neighbors" in chosen[0]
    assert "regression among neighbors" in [part.name for part in result.beyond]
