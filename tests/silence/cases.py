"""What a problem is made of: a truth, what is observed of it and how it is spoilt, and
what counts as right.
"""

from dataclasses import dataclass, replace

import numpy as np

EXACT = {"float64": 1e-5, "float32": 1e-3}  # the relative error that exact data allow
TIMES_ORACLE = 3.0  # of the error of least squares on the true inliers, for noisy data
# of the error of the best matrix of the rank that was asked for, where that is too low
TIMES_BEST = 1.5
# of the error of column medians, for real tables: nobody knows more about those
TIMES_MEDIANS = 1.1
SWEEPS = 10
NOISE = 1e-2  # data with this much of it, in units of E|X|, must not be called exact


@dataclass(frozen=True, eq=False)
class Case:
    """Data, NaN where nothing is observed; the truth; where and how closely an answer
    has to meet it.
    """

    Y: np.ndarray
    X: np.ndarray
    limit: float
    # True where the truth is known and asked for; None is everywhere
    judged: np.ndarray | None = None
    # if not, an answer that calls the data exact is wrong, however near it is
    may_be_exact: bool = True
    # even a right answer: what was asked for is not what the data have
    deserves_a_word: bool = False

    def error(self, answer):
        """|answer - X|_F / |X|_F where it is judged. Entries that the answer leaves open (NaN) are
        left out.

        One that leaves most of them open is no answer.
        """
        where = np.ones(self.X.shape, bool) if self.judged is None else self.judged
        told = where & ~np.isnan(answer)
        if told.sum() <= where.sum() / 2:
            return np.inf
        truth = self.X[told].astype(np.float64)
        return relative(answer[told] - truth, truth)


def relative(difference, truth):
    """Its size as a part of that of the truth. Infinite for what is not finite."""
    size = float(np.linalg.norm(truth))
    off = float(np.linalg.norm(difference))
    if not np.isfinite(off):
        return np.inf
    return off / size if size else off


# --- truths ---


def gaussian(shape, rank, rng):
    """Factors with independent normal entries."""
    return tuple(rng.standard_normal((n, rank)) for n in shape)


def conditioned(shape, rank, rng, condition):
    """Singular values from 1 down to 1 / condition, evenly spaced on a logarithmic scale."""
    L, R = (np.linalg.qr(F)[0] for F in gaussian(shape, rank, rng))
    return L * np.geomspace(1, 1 / condition, rank), R


# --- what is observed ---


def covered(shape, rank, rng, count):
    """True at `count` places, with at least `rank` in each row and column; and the few
    that see to that.
    """
    n1, n2 = shape
    base = np.argsort(rng.random(shape), axis=1) < rank  # `rank` places in each row
    for j in np.flatnonzero(base.sum(0) < rank):
        free = np.flatnonzero(~base[:, j])
        lacking = rank - int(base[:, j].sum())
        base[rng.choice(free, lacking, replace=False), j] = True
    more = int(count) - int(base.sum())
    if more < 0:
        raise ValueError(
            f"{count} entries are too few for {rank} in each of {n1} rows and {n2} columns"
        )
    seen = base.copy()
    seen.ravel()[rng.choice(np.flatnonzero(~base.ravel()), more, replace=False)] = True
    return seen, base


def some(shape, rng, share):
    """True at a share of the places."""
    bad = np.zeros(shape, bool)
    bad.ravel()[rng.choice(bad.size, int(share * bad.size), replace=False)] = True
    return bad


def some_of(places, rng, share, *, but=None):
    """True at a share of these places, none of them among `but`."""
    chosen = np.zeros(places.shape, bool)
    free = places if but is None else places & ~but
    count = min(int(share * places.sum()), int(free.sum()))
    chosen.ravel()[rng.choice(np.flatnonzero(free.ravel()), count, replace=False)] = (
        True
    )
    return chosen


# --- kinds of outliers: what is read instead of X, where something is wrong ---


def unit(X):
    """E|X|, in which outliers and noise are measured."""
    return float(np.abs(X).mean())


def uniform(X, rng):
    return X + unit(X) * rng.uniform(-1, 1, X.shape)


def uniform_large(X, rng):
    return X + 10 * unit(X) * rng.uniform(-1, 1, X.shape)


def one_sided(X, rng):
    return X + 10 * unit(X) * rng.uniform(0, 1, X.shape)


def stuck(X, rng):
    return np.full(X.shape, 3 * unit(X))


def reads_zero(X, rng):
    return np.zeros(X.shape)


def shifted(X, rng):
    return X + 5 * unit(X)


def row_signs(X, rng):
    signs = rng.choice([-1.0, 1.0], (len(X), 1))
    return X + 6 * unit(X) * signs * rng.uniform(0, 1, X.shape)


def flipped(X, rng):
    return -X


def elsewhere(X, rng):
    return rng.permutation(X.ravel()).reshape(X.shape)


ENTRYWISE = (
    uniform,
    uniform_large,
    one_sided,
    stuck,
    reads_zero,
    shifted,
    row_signs,
    flipped,
    elsewhere,
)


def rectangles(shape, rng, side, share):
    """True within squares of this side that cover at least this share."""
    bad = np.zeros(shape, bool)
    while bad.mean() < share:
        i, j = (rng.integers(n - side + 1) for n in shape)
        bad[i : i + side, j : j + side] = True
    return bad


# --- cases ---


def exact(X, Y, *, judged=None, dtype=np.float64):
    """Data without noise: all of the truth can be asked for."""
    return Case(Y.astype(dtype), X, EXACT[np.dtype(dtype).name], judged)


def spoilt(
    factors,
    rng,
    *,
    p=1.0,
    alpha=0.0,
    kind=uniform,
    noise=0.0,
    dtype=np.float64,
    rho=None,
):
    """L R' with a share alpha of the observed entries replaced, and noise in units of E|X|.

    With `rho` there are rho r (n1 + n2 - r) entries, at least r good ones in each row and column;
    else a share p."""
    L, R = factors
    X, rank = L @ R.T, L.shape[1]
    if rho is not None:
        seen, base = covered(X.shape, rank, rng, rho * rank * (sum(X.shape) - rank))
    else:
        seen, base = some(X.shape, rng, p), None
    bad = some_of(seen, rng, alpha, but=base)
    clean = X + noise * unit(X) * rng.standard_normal(X.shape)
    Y = np.where(bad, kind(X, rng), clean)
    made = exact(X, np.where(seen, Y, np.nan), dtype=dtype)
    if not noise:
        return made
    limit = TIMES_ORACLE * oracle_error(factors, Y, seen & ~bad)
    return replace(made, limit=max(made.limit, limit), may_be_exact=noise < NOISE)


def oracle_error(factors, Y, good):
    """The error of least squares on these entries, found by sweeps from the truth."""
    L, R = factors
    X = L @ R.T
    values = np.where(good, Y, 0.0)
    for _ in range(SWEEPS):
        L = fitted(values, good, R)
        R = fitted(values.T, good.T, L)
    return relative(L @ R.T - X, X)


def fitted(values, good, R):
    """For each row its least-squares coefficients in the columns of R, from its good
    entries; others are zero.
    """
    n, rank = R.shape
    pairs = (R[:, :, None] * R[:, None, :]).reshape(n, -1)
    gram = (good.astype(np.float64) @ pairs).reshape(-1, rank, rank)
    sizes = np.trace(gram, axis1=1, axis2=2)[:, None, None]
    # rows with fewer entries than components stay finite
    gram = gram + (1e-12 * sizes + 1e-300) * np.eye(rank)
    return np.linalg.solve(gram, (values @ R)[:, :, None])[:, :, 0]


def best_of_rank(case, rank):
    """The rank that is given is too low: as good as the best matrix of that rank is right."""
    s = np.linalg.svd(case.X, compute_uv=False)
    best = float(np.linalg.norm(s[rank:]) / np.linalg.norm(s))
    return replace(case, limit=TIMES_BEST * best, deserves_a_word=True)


def hidden(table, rng, *, share=0.2, bad=None, dtype=np.float64):
    """A table that nobody knows the truth of: some entries are hidden, and column medians are the
    bar.

    `bad` is read instead of the table where it is not NaN.
    """
    away = some(table.shape, rng, share)
    shown = table if bad is None else np.where(np.isnan(bad), table, bad)
    Y = np.where(away, np.nan, shown).astype(dtype)
    return told_by_medians(table, Y, away)


def told_by_medians(table, Y, away):
    """Judged where the entries are hidden, against the medians of what is seen of each column."""
    medians = np.broadcast_to(np.nanmedian(Y, axis=0), Y.shape)
    bar = relative(medians[away] - table[away], table[away])
    return Case(Y, table, TIMES_MEDIANS * bar, away, may_be_exact=False)
