"""The helper that folds cases: it must be able to fail."""

import numpy as np
import pytest
from each import each


def test_all_are_tried_and_those_that_fail_are_named():
    tried = []

    @each("x", [1, 2, 3, 4], ids=["one", "two", "three", "four"])
    def even(x):
        tried.append(x)
        assert x % 2 == 0

    with pytest.raises(AssertionError, match="2 of 4 cases failed: one, three"):
        even()
    assert tried == [1, 2, 3, 4]


def test_an_error_that_did_not_come_is_a_failure():
    @each(("x", "said"), [("a", "invalid literal"), ("1", "invalid literal")])
    def refused(x, said):
        with pytest.raises(ValueError, match=said):
            int(x)

    with pytest.raises(
        AssertionError, match="1 of 2 cases failed: 1: '1', 'invalid literal'"
    ):
        refused()


@pytest.mark.parametrize("side", [2, 3])
@each("dtype", [np.float32, np.float64])
@each("value", (0, 1))
def test_with_other_parameters_and_fixtures(side, dtype, value, tmp_path, monkeypatch):
    """A folder of its own, and no patch of the case before."""
    assert not list(tmp_path.iterdir())
    assert not hasattr(np, "patched")
    monkeypatch.setattr(np, "patched", True, raising=False)
    (tmp_path / "file").write_bytes(np.full(side, value, dtype).tobytes())


def test_no_cases_are_no_test():
    with pytest.raises(AssertionError, match="has no values"):
        each("x", [])
