"""Variables of npz and mat files, by name."""

import numpy as np
import pytest
import scipy.io

from lrmc._extras import MissingPackage
from lrmc.formats.variables import Unusable, chosen_name, read_variables, reading


@pytest.mark.parametrize("suffix", ["npz", "mat"])
def test_all_variables_are_read(tmp_path, suffix):
    content = {"b": np.eye(3), "a": np.arange(6.0).reshape(2, 3)}
    path = tmp_path / f"in.{suffix}"
    if suffix == "npz":
        np.savez(path, **content)
    else:
        scipy.io.savemat(path, content)
    got = read_variables(path)
    assert set(got) == {"a", "b"}
    for name, values in content.items():
        np.testing.assert_array_equal(got[name], values)


WORDS = ("films", "no film")


@pytest.mark.parametrize(
    ("name", "fitting", "sentence"),
    [
        ("z", ["a"], "in.npz has no variable 'z'; it has: a, b"),
        (None, [], "in.npz holds no film; one is wanted"),
        (
            None,
            ["a", "b"],
            r"in.npz holds 2 films \(a, b\); one is wanted: choose it by its name \(--name\)",
        ),
    ],
)
def test_which_is_meant_must_be_clear(name, fitting, sentence, tmp_path):
    with pytest.raises(Unusable, match=sentence):
        chosen_name(
            {"a": 1, "b": 2}, name, tmp_path / "in.npz", fitting=fitting, words=WORDS
        )


def test_the_named_or_the_only_one(tmp_path):
    content = {"a": 1, "b": 2}
    assert chosen_name(content, "a", tmp_path, fitting=["b"], words=WORDS) == "a"
    assert chosen_name(content, None, tmp_path, fitting=["b"], words=WORDS) == "b"


@pytest.mark.parametrize(
    "error",
    [
        MissingPackage("pip install"),
        MemoryError(),
        Unusable("as it is"),
        OSError(13, "not allowed", "file"),
    ],
)
def test_what_is_clear_is_told_as_it_is(error, tmp_path):
    with pytest.raises(type(error)) as caught, reading("in.npz could not be read"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError(), "KeyError"),
        (OSError("bad\n  block"), "bad block"),
        (ValueError("x"), "x"),
    ],
)
def test_all_else_is_told_in_a_sentence(error, reason, tmp_path):
    with (
        pytest.raises(ValueError, match=f"^in.npz could not be read: {reason}$"),
        reading("in.npz could not be read"),
    ):
        raise error
