"""Faults in mid-run: full disks, data that vanish, blocks that cannot be read, signals at any
moment.

Whatever happens, outputs are there whole or not at all, nothing hidden is left, and the same
command goes on."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from presentations import Small, hdf5

from lrmc.complete import blockwise as large
from lrmc.observations.sources import InFile

zarr = pytest.importorskip("zarr")
CliRunner = pytest.importorskip("typer.testing").CliRunner
OUTPUTS = {"out.npy", "out.outliers.zarr", "out.report.html"}
posix = pytest.mark.skipif(os.name != "posix", reason="needs fork, limits and signals")


@pytest.fixture(scope="module")
def Y():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((200, 2)) @ rng.standard_normal((60, 2)).T
    Y[rng.random(Y.shape) < 0.05] += 10
    return Y


def in_npy(Y, folder):
    np.save(folder / "in.npy", Y)
    return folder / "in.npy"


def in_zarr(Y, folder):
    zarr.create_array(
        folder / "in.zarr", shape=Y.shape, dtype=Y.dtype, chunks=(20, 60)
    )[:] = Y
    return folder / "in.zarr"


def in_hdf5(Y, folder):
    array = hdf5(Small(Y, np.ones(Y.shape, bool), Y), folder).Y
    shutil.copyfile(array.encoding["source"], folder / "in.nc")
    os.unlink(array.encoding["source"])
    return folder / "in.nc"


def completed(source, *options):
    from lrmc.cli import app

    target = source.parent / "out.npy"
    return CliRunner().invoke(
        app,
        [
            "complete",
            str(source),
            "-o",
            str(target),
            "-r",
            "2",
            "--memory",
            "100kB",
            *options,
        ],
    )


def beside(source):
    return {p.name for p in source.parent.iterdir()} - {source.name}


# ---- data that vanish


@pytest.mark.parametrize(
    ("kind", "options"),
    [(in_npy, ()), (in_zarr, ()), (in_hdf5, ()), (in_zarr, ("--scheduler", "threads"))],
)
def test_data_that_vanish(kind, options, Y, tmp_path, monkeypatch):
    source, call = kind(Y, tmp_path), large._Watch.__call__

    def gone(self, it):
        if it.k == 3:
            shutil.rmtree(source) if source.is_dir() else source.unlink()
        call(self, it)

    monkeypatch.setattr(large._Watch, "__call__", gone)
    done = completed(source, *options)
    assert done.exit_code == 2, done.output
    assert f"{source.name} changed or vanished while it was read" in done.output
    assert beside(source) == set()


@pytest.mark.parametrize("times", [1, 1000], ids=["once", "for ever"])
def test_a_block_that_cannot_be_read(times, Y, tmp_path, monkeypatch):
    source, read, left = in_npy(Y, tmp_path), InFile.read, [60, times]

    def failing(self, rows, into):
        left[0] -= 1
        if left[0] < 0 < left[1]:
            left[1] -= 1
            raise OSError(5, "Input/output error")
        return read(self, rows, into)

    monkeypatch.setattr(InFile, "read", failing)
    done = completed(source)
    assert done.exit_code == 2
    assert "could not be read: [Errno 5] Input/output error" in done.output
    assert beside(source) == {"out.npy.resume.npz"}
    done = completed(source)
    if times == 1:
        assert done.exit_code == 0, done.output
        assert "of an earlier run" in done.output
        assert beside(source) == OUTPUTS
    else:
        assert done.exit_code == 2
        assert beside(source) == {"out.npy.resume.npz"}


# ---- a full disk


class Full:
    """A file that takes so many bytes and no more, together with all others."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        self.room[0] -= memoryview(data).nbytes
        if self.room[0] < 0:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


@pytest.mark.parametrize("room", [0, 1, 127, 128, 50_000, 96_127])
def test_a_disk_that_is_full_at_any_byte(room, Y, tmp_path, monkeypatch):
    """The matrix takes 128 + 96,000."""
    source = in_npy(Y, tmp_path)
    monkeypatch.setattr(
        "lrmc.outofcore.open",
        lambda path, mode: opened(path, mode, [room]),
        raising=False,
    )

    def opened(path, mode, left):
        return Full(open(path, mode), left) if "w" in mode else open(path, mode)

    done = completed(source)
    assert done.exit_code == 2, done.output
    assert "No space left on device" in done.output
    assert beside(source) == {"out.npy.resume.npz"}
    monkeypatch.undo()
    assert completed(source).exit_code == 0
    assert beside(source) == OUTPUTS


LIMITED = """
import contextlib, resource, sys
from pathlib import Path
import numpy as np
from lrmc.complete import blockwise as large
source, folder = Path(sys.argv[1]), Path(sys.argv[1]).parent
hard, rng, failed = resource.getrlimit(resource.RLIMIT_FSIZE)[1], np.random.default_rng(0), 0
for most, suffix in zip([0, *rng.integers(1, 120_000, 3)], 2 * (".npy", ".zarr")):
    target, listed, page = (folder / f"out{end}" for end in (suffix, ".outliers.zarr", ".html"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), hard))
    try:
        large.complete_large(source, target, 2, outliers_to=listed, report_to=page, memory="100kB")
        whole = {source.name, target.name, listed.name, page.name}
    except OSError as error:
        assert error.errno == 27, error
        failed += 1
        whole = {source.name}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    left = {p.name for p in folder.iterdir()} - {target.name + ".resume.npz"}
    assert left == whole, (most, left)
    large.complete_large(source, target, 2, outliers_to=listed, report_to=page, memory="100kB")
    for path in folder.iterdir():
        if path != source:
            with contextlib.suppress(NotADirectoryError):
                import shutil; shutil.rmtree(path)
            path.unlink(missing_ok=True)
print(failed)
"""


@posix
def test_files_that_may_not_grow(Y, tmp_path):
    """A limit of the system, which every writer meets: of matrix, list, page and iterate."""
    source = in_npy(Y, tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, source],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 2


# ---- signals

SIGNALS = """
import os, signal, sys, time
from pathlib import Path
import numpy as np
from lrmc.cli import app
import lrmc.report, zarr
source, folder = Path(sys.argv[1]), Path(sys.argv[1]).parent
OUTPUTS = {"out.npy", "out.outliers.zarr", "out.report.html"}
command = ["complete", str(source), "-o", str(folder / "out.npy"), "-r", "2", "--memory", "100kB"]

def child(number=None, delay=0.0):
    "The command in a process of its own, which begins with everything imported; its exit code."
    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        def ended(number, frame):
            raise SystemExit(128 + number)
        signal.signal(signal.SIGTERM, ended)
        try:
            app(command)
        except SystemExit as error:
            os._exit(error.code or 0)
        except KeyboardInterrupt:  # before the command began, or after it ended
            os._exit(130)
        os._exit(99)
    if number is not None:
        time.sleep(delay)
        os.kill(pid, number)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def found():
    return {p.name for p in folder.iterdir()} - {source.name}

began = time.perf_counter()
assert child() == 0
takes = time.perf_counter() - began
rng, codes = np.random.default_rng(0), []
for k in range(8):
    for path in folder.glob("out*"):
        if k % 2 == 0 and path.name in OUTPUTS:
            os.system(f"rm -r '{path}'")
    before = found() & OUTPUTS
    codes.append(child((signal.SIGINT, signal.SIGTERM)[k % 4 // 2], rng.uniform(0.02, takes)))
    after = found()
    assert codes[-1] in (0, 130, 143), codes
    assert after & OUTPUTS in (before, OUTPUTS), after
    assert after <= OUTPUTS | {"out.npy.resume.npz"}, after
    if codes[-1] == 0:
        assert after == OUTPUTS
assert child() == 0
assert found() == OUTPUTS
print(*codes)
"""


@posix
@pytest.mark.slow
def test_signals_at_any_moment(Y, tmp_path):
    source = in_npy(Y, tmp_path)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-W", "ignore", "-c", SIGNALS, source]
    run = subprocess.run(
        arguments, capture_output=True, text=True, timeout=100, env=environment
    )
    assert run.returncode == 0, run.stderr
    assert set(run.stdout.split()) != {"0"}  # some were interrupted
