"""Files of every kind, whole and damaged at random: whole outputs, or one sentence and none."""

import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from fuzz.effort import rounds

pytest.importorskip("resource")
pytest.importorskip("typer")
from fuzz.commands import Place, check, damage, damage_one, run
from fuzz.oracle import answered
from fuzz.small import KINDS, READERS


@pytest.mark.parametrize("name", KINDS)
def test_damaged(name, tmp_path):
    kind = KINDS[name]
    for package in kind.needs:
        pytest.importorskip(package)
    place = Place(tmp_path, kind)
    template = tmp_path / "template"
    shutil.copytree(place.folder, template)
    done = run(place)
    assert done.exit_code in (0, 1), done.output
    for seed in rounds(2):
        place.restored(template)
        damage_one(np.random.default_rng(seed), place.folder)
        run(place)


# rasterio logs bytes that are no text
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_at_their_readers(name, tmp_path):
    """Without the fit and the report, for many more of them."""
    make, read, needs = READERS[name]
    for package in needs:
        pytest.importorskip(package)
    made = make(tmp_path)
    path = made[0] if isinstance(made, list) else made
    whole = path.read_bytes()
    assert answered(lambda: read(path)) is not None
    for seed in rounds(12):
        path.write_bytes(damage(np.random.default_rng(seed), whole))
        answered(lambda: read(path))


# ---- made to do harm, in processes of their own


class Harm:
    """Writes a file where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def npy_bytes(shape, descr="<f8", body=b""):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + body


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


# the kind of file, the file that is replaced, and by what; `mark` is what must not come into being
HOSTILE = {
    "huge npy": ("npy", "in.npy", lambda mark: npy_bytes((10**9, 10**9))),
    "negative npy": ("npy", "in.npy", lambda mark: npy_bytes((-1, 3))),
    "pickle for npy": ("npy", "in.npy", lambda mark: pickle.dumps(Harm(mark))),
    "objects in npy": (
        "npy in blocks",
        "in.npy",
        lambda mark: npy_bytes((1,), "|O", pickle.dumps([Harm(mark)])),
    ),
    "bomb in npz": (
        "npz",
        "in.npz",
        lambda mark: zipped({"X.npy": npy_bytes((10**7, 10**4), body=bytes(1 << 26))}),
    ),
    "paths in npz": (
        "npz",
        "in.npz",
        lambda mark: zipped(
            {"../../elsewhere/new.npy": npy_bytes((3, 3), body=bytes(72))}
        ),
    ),
    "objects in npz": (
        "npz",
        "in.npz",
        lambda mark: zipped({"X.npy": npy_bytes((1,), "|O", pickle.dumps(Harm(mark)))}),
    ),
    "pickle for a model": ("model", "model.npz", lambda mark: pickle.dumps(Harm(mark))),
    "pickle to resume": (
        "resume",
        "out.npy.resume.npz",
        lambda mark: pickle.dumps(Harm(mark)),
    ),
    "deep schedule": ("schedule", "mine.json", lambda mark: b"[" * 10**6),
    "long numbers": (
        "schedule",
        "mine.json",
        lambda mark: b'{"format": ' + b"9" * 10**6 + b"}",
    ),
    "huge mtx": (
        "mtx",
        "in.mtx",
        lambda mark: (
            b"%%MatrixMarket matrix array real general\n999999999 999999999\n1\n"
        ),
    ),
    "wide csv": ("csv", "in.csv", lambda mark: b"," * 10**3 + b"\n"),
    "pickled chunks": (
        *("zarr 2", "in.zarr/.zarray"),
        lambda mark: json.dumps(
            {
                "zarr_format": 2,
                "shape": [9, 7],
                "chunks": [4, 7],
                "dtype": "<f8",
                "compressor": {"id": "pickle", "protocol": 5},
                "fill_value": 0.0,
                "order": "C",
                "filters": None,
            }
        ).encode(),
    ),
    "huge zarr": (
        *("zarr 2", "in.zarr/.zarray"),
        lambda mark: json.dumps(
            {
                "zarr_format": 2,
                "shape": [10**12, 10**12],
                "chunks": [10**12, 10**12],
                "dtype": "<f8",
                "compressor": None,
                "fill_value": 0.0,
                "order": "C",
                "filters": None,
            }
        ).encode(),
    ),
    "huge picture": (
        *("pictures", "in/0.png"),
        lambda mark: (
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
            + b"\x7f\xff\xff\xff" * 2
            + b"\x08\0\0\0\0"
            + bytes(40)
        ),
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name, tmp_path):
    kind, file, content = HOSTILE[name]
    for package in KINDS[kind].needs:
        pytest.importorskip(package)
    place, mark = Place(tmp_path, KINDS[kind]), tmp_path / "executed"
    (place.folder / file).write_bytes(content(mark))
    done = run(place)
    # names of variables are no paths to us
    assert done.exit_code == (0 if name == "paths in npz" else 2), done.output
    assert not mark.exists()


LIMITED = "import resource as r; r.setrlimit(r.RLIMIT_AS, (6 << 30, 6 << 30)); from lrmc.cli import main; main()"


@pytest.mark.parametrize("name", ["huge npy", "bomb in npz", "huge zarr"])
def test_hostile_in_a_process_of_its_own(name, tmp_path):
    """All that is said is one line, also by what is not Python."""
    kind, file, content = HOSTILE[name]
    for package in KINDS[kind].needs:
        pytest.importorskip(package)
    place = Place(tmp_path, KINDS[kind])
    (place.folder / file).write_bytes(content(tmp_path / "executed"))
    before = place.look()
    command = [sys.executable, "-c", LIMITED, *place.arguments()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "300"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, env=environment
    )
    check(place, before, done.returncode, done.stderr)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
