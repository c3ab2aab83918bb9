"""Complex data: against a plain reference in complex numbers, and what must not change."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import lrmc
from lrmc.evidence.calibration import NotCalibrated
from lrmc.observations.complex_parts import blocks, complex_factors, in_real_parts
from lrmc.observations.heldout import hold_out


def normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def problem(n1=120, n2=80, rank=2, *, share=0.1, seen=0.8, noise=0.0, seed=0):
    """A low-rank matrix, and data with outliers and gaps."""
    rng = np.random.default_rng(seed)
    X = normal(rng, n1, rank) @ normal(rng, rank, n2)
    Y = X + noise * normal(rng, n1, n2)
    bad = rng.random(X.shape) < share
    Y[bad] += 20 * normal(rng, n1, n2)[bad]
    Y[rng.random(X.shape) > seen] = np.nan
    return X, Y, bad


def distance(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


def test_blocks_multiply_as_complex_numbers():
    rng = np.random.default_rng(0)
    A, B = normal(rng, 5, 3), normal(rng, 3, 4)
    assert_allclose(blocks(A) @ blocks(B), blocks(A @ B), atol=1e-12)
    L, R = complex_factors(blocks(A), blocks(B).T)
    assert L.shape == (5, 3)
    assert R.shape == (4, 3)
    assert_allclose(L @ R.T, A @ B, atol=1e-12)


@pytest.mark.parametrize("zeta", [0.5, 2.0])
def test_clip_shrinks_the_modulus(zeta):
    """The pull of the kernels is that of complex numbers, entry by entry."""
    rng = np.random.default_rng(1)
    _, Y, _ = problem(17, 11)
    A, B = normal(rng, 17, 2), normal(rng, 2, 11)
    E = Y - A @ B
    C = np.zeros_like(E)
    for at in zip(*np.nonzero(~np.isnan(E)), strict=True):
        C[at] = E[at] * min(1, zeta / abs(E[at]))
    obs, turn = in_real_parts(Y)
    got = obs.pull(blocks(turn * A), blocks(B).T, zeta)
    assert_allclose(got[0], blocks(turn * C @ B.conj().T), atol=1e-10)
    assert_allclose(got[1], blocks(C.conj().T @ A), atol=1e-10)


def naive(Y, rank, steps=300):
    """Robust least squares in complex numbers, one row and one column at a time."""
    seen = ~np.isnan(Y)
    filled = np.where(seen, Y, 0)
    U, s, Vh = np.linalg.svd(
        np.where(np.abs(filled) < 6 * np.median(np.abs(Y[seen])), filled, 0)
    )
    L, R = U[:, :rank] * s[:rank], Vh[:rank]
    for _ in range(steps):
        size = np.abs(filled - L @ R)
        W = seen / (1 + (size / np.quantile(size[seen], 0.5)) ** 2)
        for i in range(len(Y)):
            G = (R * W[i]) @ R.conj().T
            L[i] = np.linalg.solve(G.T, (R.conj() * W[i]) @ filled[i])
        for j in range(Y.shape[1]):
            G = (L.conj().T * W[:, j]) @ L
            R[:, j] = np.linalg.solve(G, (L.conj().T * W[:, j]) @ filled[:, j])
    return L @ R


@pytest.mark.parametrize("rank", [2, None])
def test_exact(rank):
    X, Y, bad = problem()
    result = lrmc.solve(Y, rank)
    assert isinstance(result, lrmc.ComplexResult)
    assert result.regime == "exact"
    assert result.converged
    assert result.rank == 2
    assert result.L.shape == (120, 2)
    assert result.R.shape == (80, 2)
    assert distance(result.low_rank(), X) < 1e-6
    S, seen = result.outliers(), ~np.isnan(Y)
    assert np.isnan(S[~seen]).all()
    assert np.array_equal(S[seen] != 0, bad[seen])
    assert_allclose(S[seen & bad], (Y - X)[seen & bad], atol=1e-4)


def test_as_good_as_a_plain_reference():
    X, Y, _ = problem(60, 40, noise=0.1)
    assert distance(lrmc.solve(Y, 2).low_rank(), X) < 1.1 * distance(naive(Y, 2), X)


def test_noise_has_its_level():
    _, Y, _ = problem(200, 100, noise=0.2, seed=3)
    result = lrmc.solve(Y, 2)
    assert result.regime == "noisy"
    assert result.noise_level == pytest.approx(0.2 * np.sqrt(2), rel=0.1)
    off = result.standard_error([0, 1], [2, 3])
    assert np.all((off > 0.2) & (off < 0.6))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_phase_turns_the_answer(noise):
    X, Y, _ = problem(noise=noise, seed=4)
    turn = np.exp(0.7j)
    plain, turned = (lrmc.solve(data, 2).low_rank() for data in (Y, turn * Y))
    # what rounding changes in a run is small beside the noise
    allowed = 0.01 * distance(plain, X) if noise else 1e-7
    assert distance(turned, turn * plain) < allowed


def test_the_conjugate_has_the_conjugate_answer():
    _, Y, _ = problem(seed=5)
    plain, mirrored = (lrmc.solve(data, 2).low_rank() for data in (Y, Y.conj()))
    assert distance(mirrored, plain.conj()) < 1e-6


def test_real_data_stay_real():
    Y = lrmc.synthetic.problem(n=150, rank=3, alpha=0.1, p=0.8).Y
    Y = Y.toarray() if sp.issparse(Y) else Y
    real, other = lrmc.solve(Y, 3), lrmc.solve(Y.astype(complex), 3)
    assert distance(other.low_rank(), real.low_rank()) < 1e-6
    assert np.abs(other.low_rank().imag).max() < 1e-6 * np.abs(Y[~np.isnan(Y)]).max()


def test_presentations():
    """A mask, a masked array, a sparse matrix, single precision: the same answer."""
    X, Y, _ = problem(seed=6)
    seen = ~np.isnan(Y)
    filled = np.where(seen, Y, 99)
    stored = sp.coo_array((Y[seen], np.nonzero(seen)), Y.shape)
    half = np.where(seen, Y, complex(np.nan, 5))  # a part is missing: so is the entry
    forms = {
        "masked": np.ma.array(filled, mask=~seen),
        "csr": stored.tocsr(),
        "csc": stored.tocsc(),
        "single": Y.astype(np.complex64),
        "by columns": np.asfortranarray(Y),
        "half": half,
    }
    answers = {name: lrmc.solve(form, 2).low_rank() for name, form in forms.items()}
    answers["mask"] = lrmc.solve(filled, 2, mask=seen).low_rank()
    far = {name: distance(answer, X) for name, answer in answers.items()}
    assert max(far.values()) < 1e-4, far
    assert answers["single"].dtype == np.complex64


def test_other_methods_and_iterates():
    X, Y, _ = problem(seed=7)
    *_, last = lrmc.iterates(Y, 2)
    assert distance(last.L @ last.R.T, X) < 1e-4
    assert last.norm == pytest.approx(np.linalg.norm(X), rel=1e-3)
    seen = []
    lrmc.solve(Y, 2, progress=seen.append)
    assert all(np.iscomplexobj(it.L) and len(it.L) == len(Y) for it in seen)


def test_what_is_hidden_is_hidden_in_both_columns():
    _, Y, _ = problem(noise=0.1)
    rest, hidden = hold_out(in_real_parts(Y).obs)
    assert rest.of_complex
    assert np.isnan(rest.lookup(hidden.rows, hidden.cols ^ 1)).all()
    assert np.isnan(rest.lookup(hidden.rows ^ 1, hidden.cols)).all()


def test_files(tmp_path):
    _, Y, _ = problem(seed=8)
    result = lrmc.solve(Y, 2)
    result.save(tmp_path / "r.npz")
    loaded = lrmc.Result.load(tmp_path / "r.npz")
    assert isinstance(loaded, lrmc.ComplexResult)
    assert_allclose(loaded.low_rank(), result.low_rank())
    assert_allclose(loaded.outliers(Y), result.outliers())
    assert "ComplexResult(120 x 80, rank 2" in repr(loaded)
    with pytest.raises(ValueError, match="does not hold the data"):
        loaded.outliers()
    with pytest.raises(ValueError, match=r"the data have shape \(80, 120\)"):
        loaded.outliers(Y.T)


def test_lines_without_entries():
    _, Y, _ = problem(seed=9)
    Y[3], Y[:, 5] = np.nan, np.nan
    with pytest.warns(lrmc.DoubtWarning, match="real and imaginary parts"):
        result = lrmc.solve(Y, 2)
    assert result.undetermined_rows.tolist() == [3]
    assert result.undetermined_cols.tolist() == [5]
    assert np.isnan(result.low_rank()[3]).all()
    assert not np.isnan(result.low_rank()[2, :5]).any()


def test_how_sure(tmp_path):
    _, Y, bad = problem(noise=0.1, seed=10)
    result = lrmc.solve(Y, 2)
    with pytest.raises(NotCalibrated, match="no order"):
        result.interval(0, 0)
    draws = result.sample([0, 1], [2, 3], n=5)
    assert draws.shape == (5, 2)
    assert np.iscomplexobj(draws)
    seen = ~np.isnan(Y)
    rows, cols = np.nonzero(seen)
    chance = result.outlier_probability(rows, cols)
    assert chance[bad[seen]].mean() > 0.95 > 0.1 > chance[~bad[seen]].mean()
    found = result.false_alarms()
    # outliers of all sizes, so that the smallest cannot be told
    assert found.found == pytest.approx(2 * bad[seen].sum(), rel=0.15)
    assert found.rate < 0.1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"outliers": "positive"}, "outliers of complex data"),
        ({"groups": np.arange(120)}, "groups= was given with complex data"),
        ({"time": "columns"}, "time= is for real data"),
        (
            {"method": "gd", "schedule": lrmc.schedule.Tuning(alpha=0.1)},
            "method for complex",
        ),
        ({"rank": 81}, "rank"),
        ({"row_noise": np.ones(7)}, "row_noise has shape"),
        ({"mask": np.ones((80, 120), bool)}, "transpose"),
    ],
)
def test_refused(options, text):
    with pytest.raises(ValueError, match=text):
        lrmc.solve(problem()[1], **options)


def test_refused_data():
    for bad, text in (
        (np.full((4, 4), np.inf + 0j), "16 observed entries are infinite"),
        (np.full((4, 4), np.nan + 0j), "nothing is observed"),
        (np.ones(4) + 0j, "2-D matrix"),
    ):
        with pytest.raises(ValueError, match=text):
            lrmc.solve(bad)


def test_files_of_noisy_data(tmp_path):
    """Errors at hidden entries are those of real and imaginary parts."""
    _, Y, _ = problem(noise=0.1)
    result = lrmc.solve(Y, 2)
    assert result.missed is not None
    assert result.missed.rows.max() >= len(Y)
    result.save(tmp_path / "r.npz")
    loaded = lrmc.Result.load(tmp_path / "r.npz")
    assert_allclose(loaded.outliers(Y), result.outliers())
