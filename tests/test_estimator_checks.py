"""scikit-learn's own checks. None is excused."""

import pytest

pytest.importorskip("sklearn")
from sklearn.utils.estimator_checks import parametrize_with_checks

import lrmc

# The checks fit noise, constants and tiny tables: the solver rightly says that these are not
# determined.
pytestmark = [
    pytest.mark.slow,  # a hundred fits
    pytest.mark.filterwarnings("ignore::lrmc.ConvergenceWarning"),
    # its data are often pure noise
    pytest.mark.filterwarnings("ignore::lrmc.DoubtWarning"),
    pytest.mark.filterwarnings("ignore:.*not determined"),
    pytest.mark.filterwarnings("ignore:.*have no observation"),
]


@parametrize_with_checks([lrmc.RobustPCA(), lrmc.RobustImputer()])
def test_scikit_learn(estimator, check):
    check(estimator)
