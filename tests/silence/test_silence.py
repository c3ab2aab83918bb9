"""Wrong answers are announced. `make silence` (or `pytest -m slow tests/silence`) looks at all problems."""

import pytest

from silence.count import above, allowed, outcome, shown, silent, tally
from silence.problems import PROBLEMS, families, quick

REAL = {"data": [pytest.mark.data]}  # files beside the repository
FAMILIES = [pytest.param(family, marks=REAL.get(family, [])) for family in families(PROBLEMS)]


def announced(problems, family, form):
    here = [problem for problem in problems if problem.family == family and problem.available()]
    if not here:
        pytest.skip("no data beside the repository")
    outcomes = [outcome(problem) for problem in here]
    print("\n".join([*silent(outcomes), shown(tally(outcomes))]))
    assert above(outcomes, allowed(form)) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_answers_are_announced(family):
    announced(quick(PROBLEMS), family, "quick")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_wrong_answers_are_announced(family):
    announced(PROBLEMS, family, "full")
