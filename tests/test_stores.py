"""Files that are damaged, odd, or made to do harm: one sentence, exit code 2, and
nothing is left behind.
"""

import json

import numpy as np
import pytest
from each import each

from lrmc.observations.stores import opened

zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")
CliRunner = pytest.importorskip("typer.testing").CliRunner
pytest.importorskip("xarray")
ROWS = 60


def refused(source, *options):
    """What the command says of a file that it does not take."""
    from lrmc.cli import app

    before = sorted(source.parent.iterdir())
    done = CliRunner().invoke(
        app,
        [
            "complete",
            str(source),
            "-o",
            str(source.parent / "out.npy"),
            "-r",
            "2",
            *options,
        ],
    )
    assert done.exit_code == 2, (done.output, done.exception)
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.output.startswith("error:")
    assert done.output.count("\n") == 1
    assert sorted(source.parent.iterdir()) == before
    return done.output


@pytest.fixture
def Y():
    rng = np.random.default_rng(0)
    return rng.standard_normal((ROWS, 2)) @ rng.standard_normal((30, 2)).T


def in_zarr(Y, folder, **options):
    array = zarr.create_array(
        folder / "in.zarr", shape=Y.shape, dtype=Y.dtype, chunks=(20, 30), **options
    )
    array[:] = Y
    return folder / "in.zarr"


def changed(path, **fields):
    """The metadata of a zarr array, with other fields."""
    file = path / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


ODD = {
    "complex": (
        {"data_type": "complex64", "fill_value": [0.0, 0.0]},
        "complex numbers",
    ),
    "chunks of nothing": (
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 30]}}},
        "damaged",
    ),
    "chunks below nothing": (
        {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [-5, 30]}}},
        "in.zarr",
    ),
    "no codecs": ({"codecs": []}, "in.zarr"),
    "unknown codec": ({"codecs": [{"name": "nonsense"}]}, "in.zarr"),
    "unknown type": ({"data_type": "nonsense"}, "in.zarr"),
    "text": ({"data_type": "string", "fill_value": ""}, "in.zarr"),
    "shape of text": ({"shape": ["a", "b"]}, "in.zarr"),
    "one dimension": (
        {
            "shape": [60],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [20]}},
        },
        "2-D",
    ),
    "enormous": ({"shape": [10**30, 30]}, ""),
    "another format": ({"zarr_format": 7}, "in.zarr"),
    "no fields": ({"node_type": "nothing"}, "in.zarr"),
}


@each(("fields", "said"), ODD.values(), ids=ODD.keys())
def test_odd_metadata_of_zarr(fields, said, Y, tmp_path):
    path = in_zarr(Y, tmp_path)
    changed(path, **fields)
    assert said in refused(path)


@pytest.mark.parametrize("odd", ["complex", "chunks of nothing", "enormous"])
def test_odd_metadata_of_zarr_with_dask(odd, Y, tmp_path):
    path, (fields, said) = in_zarr(Y, tmp_path), ODD[odd]
    changed(path, **fields)
    assert said in refused(path, "--scheduler", "threads")


@each("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"zarr_format": 3}'])
def test_damaged_metadata_of_zarr(content, Y, tmp_path):
    path = in_zarr(Y, tmp_path)
    (path / "zarr.json").write_bytes(content)
    assert "in.zarr" in refused(path)


def test_flipped_bits_in_the_metadata(Y, tmp_path):
    """Whatever they make of it: no traceback, and it is a sentence or a result."""
    from lrmc.cli import app

    path = in_zarr(Y, tmp_path)
    good, rng = (path / "zarr.json").read_bytes(), np.random.default_rng(0)
    for _ in range(15):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        (path / "zarr.json").write_bytes(bytes(bad))
        done = CliRunner().invoke(
            app,
            ["complete", str(path), "-o", str(tmp_path / "out.npy"), "--max-iter", "2"],
        )
        assert done.exception is None or isinstance(done.exception, SystemExit), (
            bytes(bad),
            done.exception,
        )
        assert not list(tmp_path.glob(".*"))


@each("value", [[], {}, "text", None, [[]], 1e400])
def test_declared_missing_values_that_say_nothing(value, Y, tmp_path):
    """They are as good as none."""
    from lrmc.observations.ondisk import blocks

    changed(in_zarr(Y, tmp_path), attributes={"_FillValue": value})
    assert blocks(opened(tmp_path / "in.zarr"), memory="1MB").fraction == 1


def test_a_damaged_chunk(Y, tmp_path):
    path = in_zarr(Y, tmp_path)
    (path / "c" / "1" / "0").write_bytes(b"nonsense")
    assert "block 0 of 1" in refused(path)


def test_pickled_chunks_are_not_read(Y, tmp_path):
    """Unpickling executes what the file says."""
    path = tmp_path / "in.zarr"
    zarr.create_array(
        path,
        shape=Y.shape,
        dtype=float,
        chunks=(20, 30),
        zarr_format=2,
        compressors=None,
    )[:] = Y
    about = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(
        json.dumps(about | {"compressor": {"id": "pickle", "protocol": 5}})
    )
    assert "pickle" in refused(path)


# ---- npy


@each(
    ("damage", "said"),
    [
        (lambda content: b"", "damaged"),
        (lambda content: content[:40], "damaged"),
        (lambda content: b"nonsense" + content, "damaged"),
        (lambda content: content[:6] + b"\x09\x09" + content[8:], "damaged"),
        (lambda content: content.replace(b"(60, 30)", b"(60, 30]"), "damaged"),
        (lambda content: content.replace(b"(60, 30)", b"(-6, 30)"), "damaged"),
        (lambda content: content.replace(b"(60, 30)", b"(61, 30)"), "ends too early"),
        (lambda content: content.replace(b"(60, 30)", b"(60,)   "), "2-D"),
        (lambda content: content.replace(b"'<f8'", b"'|O' "), "Python objects"),
        (lambda content: content.replace(b"'<f8'", b"'<c8'"), "complex"),
        (lambda content: content.replace(b"'<f8'", b"'<U2'"), "wanted"),
        (lambda content: content.replace(b"'<f8'", b"'xyz'"), "damaged"),
        (lambda content: content[:-100], "ends too early"),
    ],
)
def test_damaged_npy_files(damage, said, Y, tmp_path):
    np.save(tmp_path / "in.npy", Y)
    content = (tmp_path / "in.npy").read_bytes()
    (tmp_path / "in.npy").write_bytes(damage(content))
    assert said in refused(tmp_path / "in.npy", "--memory", "1MB")


def test_pickles_in_npy_files_are_not_read(tmp_path):
    np.save(
        tmp_path / "in.npy", np.array([[None, 1], [2, 3]], object), allow_pickle=True
    )
    assert "Python objects" in refused(tmp_path / "in.npy", "--memory", "1MB")


# ---- HDF5


def in_hdf5(Y, path):
    with h5py.File(path, "w") as file:
        file["Y"] = Y
    return path


def test_plain_hdf5(Y, tmp_path):
    """Without the names of dimensions that netCDF has."""
    np.testing.assert_array_equal(opened(in_hdf5(Y, tmp_path / "in.h5")).values, Y)


@pytest.mark.parametrize(
    "kind", ["link", "link in a group", "storage", "virtual", "virtual in a group"]
)
def test_other_files_are_not_read(kind, Y, tmp_path):
    """A file of someone else must not bring what lies elsewhere on this machine into its result."""
    secret, path = in_hdf5(Y, tmp_path / "secret.h5"), tmp_path / "in.h5"
    Y.tofile(tmp_path / "secret.bin")
    with h5py.File(path, "w") as file:
        place = file.create_group("inside") if "group" in kind else file
        if kind.startswith("link"):
            place["Y"] = h5py.ExternalLink(str(secret), "/Y")
        elif kind == "storage":
            file.create_dataset(
                "Y",
                Y.shape,
                float,
                external=[(str(tmp_path / "secret.bin"), 0, Y.nbytes)],
            )
        else:
            layout = h5py.VirtualLayout(Y.shape, float)
            layout[:] = h5py.VirtualSource(str(secret), "Y", Y.shape)
            place.create_virtual_dataset("Y", layout)
    said = refused(path)
    assert "secret" in said
    assert "another file" in said


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated_hdf5(share, Y, tmp_path):
    path = in_hdf5(Y, tmp_path / "in.h5")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "in.h5" in refused(path)


def test_links_within_a_file_are_fine(Y, tmp_path):
    path = in_hdf5(Y, tmp_path / "in.h5")
    with h5py.File(path, "a") as file:
        file["again"] = h5py.SoftLink("/Y")
    np.testing.assert_array_equal(opened(path, "Y").values, Y)
