"""Wrong answers are announced. `make silence` looks at all problems."""

import pytest

from silence.count import above, allowed, outcome, shown, silent, tally
from silence.problems import PROBLEMS, families, quick

SLOW = ("table", "noise", "rank", "traffic")
MARKS = {
    "data": [pytest.mark.data, pytest.mark.slow],
    **{name: [pytest.mark.slow] for name in SLOW},
}


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=MARKS.get(name, [])) for name in families(PROBLEMS)],
)
def test_wrong_answers_are_announced(family):
    here = [
        problem
        for problem in quick(PROBLEMS)
        if problem.family == family and problem.available()
    ]
    if not here:
        pytest.skip("no data beside the repository")
    outcomes = [outcome(problem) for problem in here]
    print("\n".join([*silent(outcomes), shown(tally(outcomes))]))
    assert above(outcomes, allowed("quick")) == []
