"""Where much of a list of outliers may be good entries, it is told and nothing is replaced."""

import numpy as np
import pytest

import lrmc
from lrmc.evidence.alarms import LEFT, Listing, listing


def narrow(seed, wrong=0, columns=(0, 1, 2, 3)):
    """200 rows of few columns, rank 2 and noise: two or three others tell each. Some are wrong."""
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(200, 2)), rng.normal(size=(2, 6))
    X = (3 * U @ V + 20 + 0.3 * rng.normal(size=(200, 6))).round(2)
    X[rng.random(X.shape) < 0.12] = np.nan
    X = X[:, columns]
    seen = np.argwhere(~np.isnan(X))
    at = tuple(rng.choice(seen, wrong, replace=False).T)
    X[at] += rng.choice([-60, 60], wrong)
    return X, at


def changed(X, **options):
    imputer = lrmc.RobustImputer(fill="missing+outliers", **options)
    return (imputer.fit_transform(X) != X) & ~np.isnan(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("columns", [(0, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3, 4)])
def test_good_entries_of_a_narrow_table_are_not_listed(columns):
    """A fit nearly meets most of a row: what is left to one entry is no farther off than hidden
    entries are missed by.
    """
    X, _ = narrow(0, columns=columns)
    result = lrmc.solve(X)
    assert result.false_alarms().found <= 2
    if len(columns) == 3:  # by residuals alone
        plain = listing(result.observations, result.fit)
        assert plain.threshold < 0.5 * result.listing().threshold


@pytest.mark.filterwarnings("ignore")
def test_a_loaded_result_lists_the_same(tmp_path):
    X, _ = narrow(0, wrong=6, columns=(0, 2, 3))
    result = lrmc.solve(X)
    result.save(tmp_path / "run.npz")
    again = lrmc.Result.load(tmp_path / "run.npz")
    assert again.false_alarms(X) == result.false_alarms()


@pytest.mark.filterwarnings("ignore")
def test_a_doubtful_list_is_told_and_not_replaced(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    from lrmc.complete import in_memory

    X, _ = narrow(1, wrong=12)
    np.savetxt(tmp_path / "in.csv", X, delimiter=",", header="a,b,c,d", comments="")
    monkeypatch.setattr(Listing, "is_doubtful", True)
    done = in_memory.complete(tmp_path / "in.csv", tmp_path / "out.csv")
    out = np.genfromtxt(tmp_path / "out.csv", delimiter=",", skip_header=1)
    assert len(done.outliers.rows) > 5
    assert LEFT in done.warnings
    np.testing.assert_allclose(out[~np.isnan(X)], X[~np.isnan(X)])


@pytest.mark.filterwarnings("ignore")
def test_gross_errors_are_replaced():
    X, at = narrow(1, wrong=12)
    where = changed(X)
    assert where[at].sum() >= 10
    assert where.sum() <= 16
