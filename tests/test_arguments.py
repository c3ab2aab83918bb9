"""What is let in at the door, and in which words the rest is refused."""

from fractions import Fraction

import numpy as np
import pytest
from each import each

from lrmc._arguments import (
    LONGEST,
    finite,
    function_or_none,
    one_of,
    real_number,
    shown,
    whole_number,
    yes_or_no,
)

WHOLE = [0, 7, np.int8(7), np.uint64(7)]
REAL = [*WHOLE, 0.5, np.float32(0.5), Fraction(1, 2)]
NEITHER = [
    True,
    np.True_,
    None,
    "7",
    7j,
    [7],
    np.array([7]),
    float("nan"),
    float("inf"),
    np.float64("nan"),
]


@pytest.mark.parametrize("x", WHOLE, ids=repr)
def test_whole_numbers_become_those_of_python(x):
    found = whole_number("x", x, 0, 7)
    assert (type(found), found) == (int, x)


@each("x", REAL, ids=repr)
def test_real_numbers_become_those_of_python(x):
    found = real_number("x", x, lambda x: x < 8, "a small number")
    assert (type(found), found) == (float, x)


@each("x", NEITHER, ids=repr)
def test_what_is_no_number(x):
    with pytest.raises(
        ValueError, match=r"x=.*; a whole number of at least 0 is wanted, or none$"
    ):
        whole_number("x", x, 0, hint=", or none")
    with pytest.raises(ValueError, match=r"x=.*; a small number is wanted$"):
        real_number("x", x, lambda x: True, "a small number")
    assert finite(x) is None


@pytest.mark.parametrize(
    ("x", "said"),
    [(-1, "x=-1; .*at least 0"), (8, "x=8; .*at most 7"), (10**30, "at most 7")],
)
def test_bounds(x, said):
    with pytest.raises(ValueError, match=said):
        whole_number("x", x, 0, 7)


def test_numbers_beyond_all_floats():
    assert finite(10**400) is None
    assert finite(-(10**400)) is None
    assert finite(10**300) == 1e300


@each("x", ["no", "yes", 0, 1, None, np.array([True])], ids=repr)
def test_words_and_numbers_are_neither_yes_nor_no(x):
    with pytest.raises(ValueError, match=r"x=.*; True or False is wanted"):
        yes_or_no("x", x)


def test_yes_and_no():
    assert [yes_or_no("x", x) for x in (True, np.True_, False, np.False_)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("x", ["c", None, ["a"], np.array(["a", "b"])], ids=repr)
def test_unknown_words(x):
    with pytest.raises(ValueError, match=r"x=.*; one of a, b is wanted"):
        one_of("x", x, ("a", "b"))


def test_functions():
    function_or_none("x", None)
    function_or_none("x", print)
    with pytest.raises(ValueError, match="x=3; a function is wanted, or None"):
        function_or_none("x", 3)


@pytest.mark.parametrize(
    "x", [10**400, 10**5000, "x" * 1000, list(range(1000))], ids=lambda x: str(type(x))
)
def test_long_values_are_cut_off(x):
    assert len(shown(x)) <= LONGEST
