import io
import pickle
import zipfile

import numpy as np
import pytest
from each import each

from lrmc import outofcore
from lrmc.formats import arrays


def header(shape="(2, 3)", descr="'<f8'", more=""):
    text = (
        f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {more}}}".ljust(
            117
        )
        + "\n"
    )
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_what_numpy_writes(tmp_path):
    made = {
        "X": np.arange(6.0).reshape(2, 3),
        "F": np.asfortranarray(np.eye(3)),
        "s": np.array("text"),
    }
    np.savez_compressed(tmp_path / "a.npz", **made)
    np.save(tmp_path / "a.npy", made["F"])
    with arrays.opened_npz(tmp_path / "a.npz") as content:
        content.check()
        assert set(content) == set(made)
        for name, X in made.items():
            np.testing.assert_array_equal(content[name], X)
    np.testing.assert_array_equal(arrays.read_npy(tmp_path / "a.npy"), made["F"])


HOSTILE = {
    "huge": (
        header("(999999999, 999999999)"),
        "ends too early: it has .* bytes, 799.* are wanted",
    ),
    "more than numbers of 64 bits count": (
        header("(2**62, 2**62)".replace("2**62", str(2**62))),
        "ends too early",
    ),
    "negative": (header("(-2, 3)") + bytes(48), r"its shape is \(-2, 3\)"),
    "booleans": (header("(True, 3)") + bytes(48), "its shape is"),
    "text": (header("('a', 3)") + bytes(48), "no .npy file, or damaged"),
    "objects": (header(descr="'|O'") + pickle.dumps([1]), "holds Python objects"),
    "objects in records": (
        header(descr="[('a', '|O')]") + pickle.dumps([1]),
        "holds Python objects",
    ),
    "code": (header("__import__('os')"), "no .npy file, or damaged"),
    "a pickle": (pickle.dumps([1]), "no .npy file, or damaged"),
    "deep": (header("(" * 90 + ")" * 90), "no .npy file, or damaged|ends too early"),
    "another version": (b"\x93NUMPY\x09\x00", "no .npy file, or damaged"),
    "nothing": (b"", "no .npy file, or damaged"),
}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@each(("content", "said"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers(content, said, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=said):
        arrays.read_npy(path)
    with pytest.raises(ValueError, match=said):
        outofcore.in_npy(path)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("../../X.npy", content)
    with arrays.opened_npz(tmp_path / "a.npz") as found:
        with pytest.raises(ValueError, match=said):
            found["../../X"]
        with pytest.raises(ValueError, match=said):
            found.check()
    # nothing is unpacked
    assert {p.name for p in tmp_path.iterdir()} == {"a.npy", "a.npz"}


def test_more_than_there_is_memory(tmp_path, monkeypatch):
    """A few kB that stand for many MB."""
    file = io.BytesIO()
    np.save(file, np.zeros((1000, 1000)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", file.getvalue())
    assert (tmp_path / "a.npz").stat().st_size < 20_000
    monkeypatch.setattr("lrmc._memory.memory_there_is", lambda: 4_000_000)
    with arrays.opened_npz(tmp_path / "a.npz") as found:
        with pytest.raises(
            ValueError,
            match="X in it takes 8000128 bytes, and this machine has 4000000 in all",
        ):
            found["X"]
        with pytest.raises(KeyError, match="there is no Z in it"):
            found["Z"]
