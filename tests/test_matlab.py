import struct
import zlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from each import each

from lrmc.formats.matlab import NewerFormatError, read_mat

HEAD = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
CONTENT = {
    "X": np.arange(6.0).reshape(2, 3),
    "z": np.array([[1 + 2j]]),
    "bytes": np.ones((3, 3), np.uint8),
    "text": "words",
    "sparse": sp.csc_array(np.eye(4)),
    "cell": np.array([[np.eye(2), "text"]], object),
    "structure": {"a": 1.0, "b": {"c": [1, 2, 3]}},
    "empty": np.zeros((0, 3)),
}


def element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(*parts, kind=6, flags=0):
    about = element(6, struct.pack("<II", kind | flags, 0))
    return element(
        14,
        about
        + element(5, struct.pack("<ii", 1, 2))
        + element(1, b"X")
        + b"".join(parts),
    )


NUMBERS = element(9, struct.pack("<dd", 1.5, 2.5))


@pytest.mark.parametrize("compressed", [False, True])
def test_what_scipy_writes(compressed, tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", CONTENT, do_compression=compressed)
    found = read_mat(tmp_path / "a.mat")
    assert set(found) == set(CONTENT)
    np.testing.assert_array_equal(found["X"], CONTENT["X"])
    assert found["z"][0, 0] == 1 + 2j


def test_version_4(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"X": CONTENT["X"]}, format="4")
    np.testing.assert_array_equal(read_mat(tmp_path / "a.mat")["X"], CONTENT["X"])


HOSTILE = {
    "a type that there is not": matrix(element(77, bytes(16))),
    "a type far away": matrix(element(60_000, bytes(16))),
    "a reserved type": matrix(element(8, bytes(16))),
    "a matrix for numbers": matrix(matrix(NUMBERS)),
    "no numbers": matrix(),
    "no imaginary part": matrix(NUMBERS, flags=0x800),
    "a sparse matrix of one part": matrix(NUMBERS, kind=5),
    "a type in a cell": matrix(matrix(element(77, bytes(16))), kind=1),
    "no matrix": element(9, bytes(16)),
    "longer than the file": struct.pack("<II", 14, 2**31) + bytes(40),
    "a part that is longer": matrix(struct.pack("<II", 9, 2**31)),
}


@each("compressed", [False, True])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(content, compressed, tmp_path):
    """At several of these scipy crashes."""
    if compressed:
        packed = zlib.compress(content)
        content = struct.pack("<II", 15, len(packed)) + packed
    (tmp_path / "a.mat").write_bytes(HEAD + content)
    with pytest.raises(ValueError, match=r"where|ends beyond|elements"):
        read_mat(tmp_path / "a.mat")


@pytest.mark.parametrize("version", [b"\x00\x01IM", b"\x07\x01IX", b"\x01\x09XX"])
def test_whatever_the_version_says(version, tmp_path):
    (tmp_path / "a.mat").write_bytes(HEAD[:124] + version + HOSTILE["a type far away"])
    with pytest.raises(ValueError, match=r"where|ends beyond|elements"):
        read_mat(tmp_path / "a.mat")


def test_the_same_without_harm(tmp_path):
    (tmp_path / "a.mat").write_bytes(HEAD + matrix(NUMBERS))
    np.testing.assert_array_equal(read_mat(tmp_path / "a.mat")["X"], [[1.5, 2.5]])


def test_hdf5(tmp_path):
    (tmp_path / "a.mat").write_bytes(
        b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400)
    )
    with pytest.raises(NewerFormatError, match=r"a\.mat is a MATLAB 7\.3 file"):
        read_mat(tmp_path / "a.mat")
