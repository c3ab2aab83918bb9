"""Wrong answers are announced. `make silence` (or `pytest -m slow tests/silence`) looks at all problems."""

import pytest

from silence.count import above, allowed, outcome, shown, silent, tally
from silence.problems import PROBLEMS, families, quick


def announced(problems, form):
    outcomes = [outcome(problem) for problem in problems]
    print("\n".join([*silent(outcomes), shown(tally(outcomes))]))
    assert above(outcomes, allowed(form)) == []


@pytest.mark.parametrize("family", families(PROBLEMS))
def test_wrong_answers_are_announced(family):
    announced([problem for problem in quick(PROBLEMS) if problem.family == family], "quick")


@pytest.mark.slow
@pytest.mark.parametrize("family", families(PROBLEMS))
def test_all_wrong_answers_are_announced(family):
    announced([problem for problem in PROBLEMS if problem.family == family], "full")
