"""Results: blocks of the completion, outliers, files."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from each import each
from presentations import Small, every_storage, inputs, small

import lrmc
from lrmc import Result, Status


@pytest.fixture(scope="module")
def result():
    return lrmc.solve(
        lrmc.synthetic.problem(n=50, n2=40, rank=2, alpha=0.05, p=0.8).Y, 2
    )


@pytest.fixture(scope="module")
def gappy():
    """Rows 3 and 7 and column 5 have no observation."""
    Y = lrmc.synthetic.problem(n=50, n2=40, rank=2, alpha=0, p=1.0).Y
    Y[[3, 7]], Y[:, 5] = np.nan, np.nan
    with pytest.warns(
        UserWarning, match=r"2 row\(s\) and 1 column\(s\) have no observation"
    ):
        return lrmc.solve(Y, 2), Y


CHOICES = [
    slice(None),
    slice(2, 9),
    slice(None, None, -3),
    [7, 3, 3, 0],
    np.arange(50) % 2 == 0,
    np.array([-1, 4]),
]


@each("rows", CHOICES, ids=str)
def test_low_rank_blocks(result, gappy, rows):
    np.testing.assert_allclose(
        result.low_rank(rows), (result.L @ result.R.T)[rows], rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        gappy[0].low_rank(rows), gappy[0].low_rank()[rows], rtol=1e-12, atol=1e-15
    )


def test_low_rank_of_one_row(result, gappy):
    np.testing.assert_allclose(np.ravel(result.low_rank(4)), result.L[4] @ result.R.T)
    assert np.isnan(gappy[0].low_rank(7)).all()


def test_undetermined_rows_and_columns_are_nan(gappy):
    result, Y = gappy
    X = result.low_rank()
    want = np.zeros(Y.shape, bool)
    want[[3, 7]], want[:, 5] = True, True
    np.testing.assert_array_equal(np.isnan(X), want)
    np.testing.assert_allclose(X[~want], Y[~want], atol=1e-5 * np.nanmax(Y))
    np.testing.assert_array_equal(result.undetermined_rows, [3, 7])
    np.testing.assert_array_equal(result.undetermined_cols, [5])


def test_undetermined_rows_and_columns_are_kept_if_asked_for(gappy):
    result, _ = gappy
    np.testing.assert_array_equal(
        result.low_rank(undetermined="keep"), result.L @ result.R.T
    )
    with pytest.raises(ValueError, match=r"undetermined='drop'.*nan"):
        result.low_rank(undetermined="drop")


@every_storage
def test_outliers_are_found_in_every_form(present, p, folder):
    """With the true factors as result: exactly the outliers stand out."""
    s = small(n1=40, n2=45, p=p, rank=2, alpha=0.05)
    U, sigma, Vt = np.linalg.svd(s.X)
    truth = Result(
        U[:, :2] * sigma[:2],
        Vt[:2].T,
        Status.CONVERGED,
        (lrmc.result.Record(3, 0, 0.5, 1, 0),),
        "lrmc",
        1e-6,
        [],
        [],
    )
    Y, mask = present(s, folder)
    S = truth.outliers(Y, mask=mask)
    S = (
        S.toarray()
        if sp.issparse(S)
        else S.filled(0)
        if isinstance(S, np.ma.MaskedArray)
        else np.nan_to_num(np.asarray(S))
    )
    want = np.where(s.mask, s.values - s.X, 0)
    np.testing.assert_allclose(S, want, atol=1e-3)
    np.testing.assert_array_equal(S != 0, want != 0)


def test_outliers_of_a_run():
    problem = lrmc.synthetic.problem(n=200, rank=2, alpha=0.1, p=1.0, outlier_scale=5)
    S = lrmc.solve(problem.Y, 2, tol=1e-9, max_iter=200).outliers()
    large = np.abs(problem.outliers) > 1e-3 * np.abs(problem.outliers).max()
    np.testing.assert_array_equal((S != 0)[large], True)
    assert not S[problem.outliers == 0].any()
    np.testing.assert_allclose(S[large], problem.outliers[large], rtol=1e-3)


def test_noise_is_no_outlier():
    problem = lrmc.synthetic.problem(
        n=200, rank=2, alpha=0.05, p=1.0, noise=0.05, outlier_scale=20
    )
    with pytest.warns(lrmc.ConvergenceWarning):
        result = lrmc.solve(problem.Y, 2, method="lrmc", max_iter=30)
    found, true = result.outliers() != 0, problem.outliers != 0
    assert found[~true].mean() < 1e-3
    assert found[true].mean() > 0.8


def test_outliers_with_a_threshold(result):
    everything = result.outliers(threshold=0.0)
    assert everything.nnz == result.observations.n_observed
    assert np.count_nonzero(result.outliers(threshold=1e9).data) == 0


def test_outliers_of_a_loaded_result(result, tmp_path):
    result.save(tmp_path / "r.npz")
    loaded = Result.load(tmp_path / "r.npz")
    with pytest.raises(ValueError, match=r"call outliers\(Y\)"):
        loaded.outliers()
    with pytest.raises(ValueError, match=r"\(3, 4\).*\(50, 40\)"):
        loaded.outliers(np.ones((3, 4)))
    Y = lrmc.synthetic.problem(n=50, n2=40, rank=2, alpha=0.05, p=0.8).Y
    np.testing.assert_array_equal(
        loaded.outliers(Y).toarray(), result.outliers().toarray()
    )


# ---- files


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_save_and_load(gappy, dtype, tmp_path):
    result = replace(gappy[0], L=gappy[0].L.astype(dtype), R=gappy[0].R.astype(dtype))
    path = tmp_path / "some name.npz"
    result.save(path)
    assert list(tmp_path.iterdir()) == [path]
    loaded = Result.load(path)
    for name in ("L", "R", "undetermined_rows", "undetermined_cols"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(result, name))
    assert loaded.L.dtype == dtype
    assert (loaded.status, loaded.method, loaded.tol) == (
        result.status,
        result.method,
        result.tol,
    )
    np.testing.assert_array_equal(np.array(loaded.history), np.array(result.history))
    assert (loaded.n_iter, loaded.rank, loaded.converged) == (
        result.n_iter,
        result.rank,
        result.converged,
    )
    np.testing.assert_array_equal(loaded.low_rank(), result.low_rank())


@pytest.mark.parametrize("name", ["plain", "r.result"])
def test_the_name_is_the_users(result, name, tmp_path):
    result.save(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert Result.load(tmp_path / name).n_iter == result.n_iter


def half_written(file, **arrays):
    file.write(b"PK half")
    raise OSError("disk full")


def not_replaced(self, target):
    raise OSError("disk gone")


FAULTS = {
    "while writing": (np, "savez", half_written),
    "while moving": (Path, "replace", not_replaced),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("before", [None, b"the old file"])
def test_a_fault_leaves_what_was_there(result, fault, before, tmp_path, monkeypatch):
    path = tmp_path / "r.npz"
    if before is not None:
        path.write_bytes(before)
    monkeypatch.setattr(*fault)
    with pytest.raises(OSError, match="disk"):
        result.save(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == (
        [] if before is None else [before]
    )


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "none.npz")


class Bomb:
    """Leaves a mark if anyone unpickles it."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def parts(result, tmp_path):
    result.save(tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as content:
        return dict(content)


def about(parts, **change):
    return {
        "about": np.array(json.dumps({**json.loads(str(parts["about"])), **change}))
    }


DAMAGES = {
    "another format": lambda parts: about(parts, format="x"),
    "a later version": lambda parts: about(parts, version=99),
    "unknown status": lambda parts: about(parts, status="fine"),
    "tol of text": lambda parts: about(parts, tol="x"),
    "not JSON": lambda parts: {"about": np.array("{")},
    "a list": lambda parts: {"about": np.array("[]")},
    "ranks differ": lambda parts: {"L": parts["L"][:, :1]},
    "factor with one dimension": lambda parts: {"L": parts["L"][:, 0]},
    "complex factor": lambda parts: {"L": parts["L"] * 1j},
    "text factor": lambda parts: {"R": np.full((40, 2), "a")},
    "history with few columns": lambda parts: {"history": parts["history"][:, :2]},
    "history of one dimension": lambda parts: {"history": np.zeros(3)},
    "no history": lambda parts: {"history": np.zeros((0, 5))},
    "undetermined row that is not there": lambda parts: {
        "undetermined_rows": np.array([50])
    },
    "undetermined column that is not there": lambda parts: {
        "undetermined_cols": np.array([-41])
    },
    "undetermined rows of text": lambda parts: {"undetermined_rows": np.array(["a"])},
    "factor with NaN": lambda parts: {"L": parts["L"] * np.nan},
}


def load_damaged(parts, damage, tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **{**parts, **damage(parts)})
    with pytest.raises(ValueError, match=r"bad\.npz could not be read as a result"):
        Result.load(path)


@each("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_parts(parts, damage, tmp_path):
    load_damaged(parts, damage, tmp_path)


@each(
    "missing", ["about", "L", "R", "history", "undetermined_rows", "undetermined_cols"]
)
def test_missing_parts(parts, missing, tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **{name: part for name, part in parts.items() if name != missing})
    with pytest.raises(ValueError, match=r"bad\.npz could not be read as a result"):
        Result.load(path)


@pytest.mark.parametrize("where", ["L", "about", "history", "the file"])
def test_nothing_is_executed(parts, where, tmp_path):
    path, mark = tmp_path / "bad.npz", tmp_path / "executed"
    if where == "the file":
        path.write_bytes(pickle.dumps(Bomb(mark)))
    else:
        np.savez(path, **{**parts, where: np.array([Bomb(mark)], object)})
    with pytest.raises(ValueError, match=r"bad\.npz could not be read as a result"):
        Result.load(path)
    assert not mark.exists()


@pytest.mark.parametrize("keep", [0, 1, 50, 0.5, 0.99])
def test_cut_off_files(result, keep, tmp_path):
    path = tmp_path / "bad.npz"
    result.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else keep])
    with pytest.raises(ValueError, match=r"bad\.npz could not be read as a result"):
        Result.load(path)


def test_flipped_bits(result, tmp_path):
    """The checksums of the archive notice them in the numbers."""
    path = tmp_path / "bad.npz"
    result.save(path)
    content = bytearray(path.read_bytes())
    where = content.find(result.L.tobytes()[:64]) + 20
    assert where > 20
    content[where] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.npz could not be read as a result"):
        Result.load(path)


def test_other_files(tmp_path):
    for name, content in (
        ("text.npz", b"hello"),
        ("directory", None),
        ("array.npz", np.arange(3.0)),
    ):
        path = tmp_path / name
        if content is None:
            path.mkdir()
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            with open(path, "wb") as file:
                np.save(file, content)
        with pytest.raises(ValueError, match="could not be read as a result"):
            Result.load(path)


FORMS = {
    "masked array": np.ma.MaskedArray,
    "CSR": sp.csr_array,
    "CSC": sp.csc_array,
    "NaN": np.ndarray,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_gives_back_the_form_that_it_was_given(form, folder):
    problem = lrmc.synthetic.problem(
        n=80, n2=70, rank=2, alpha=0.05, p=0.8, form="dense"
    )
    Y, mask = dict(inputs)[form](Small(problem.Y, problem.mask, problem.X), folder)
    assert isinstance(lrmc.solve(Y, 2, mask=mask).outliers(), FORMS[form])
