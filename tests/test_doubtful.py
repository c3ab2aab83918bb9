"""Where much of a list of outliers may be good entries, it is told and nothing is replaced."""

import numpy as np
import pytest

import lrmc
from lrmc.evidence.alarms import LEFT


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
def test_good_entries_of_a_narrow_table_stay(tmp_path):
    X, _ = narrow(0, columns=(0, 2, 3))
    np.savetxt(tmp_path / "in.csv", X, delimiter=",", header="a,b,c", comments="")
    pytest.importorskip("pandas")
    from lrmc.complete import in_memory

    done = in_memory.complete(tmp_path / "in.csv", tmp_path / "out.csv")
    out = np.genfromtxt(tmp_path / "out.csv", delimiter=",", skip_header=1)
    assert len(done.outliers.rows) > 10
    assert LEFT in done.warnings
    np.testing.assert_allclose(out[~np.isnan(X)], X[~np.isnan(X)])


@pytest.mark.filterwarnings("ignore")
def test_gross_errors_are_replaced():
    X, at = narrow(1, wrong=12)
    where = changed(X)
    assert where[at].sum() >= 10
    assert where.sum() <= 16
