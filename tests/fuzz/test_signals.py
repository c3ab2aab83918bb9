"""Ctrl-C and SIGTERM at random moments of commands in real processes: outputs are whole, or there
are none.

`tests/test_faults.py` has the same for data that are read block by block.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fuzz.effort import rounds

pytest.importorskip("typer")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="needs signals"),
]

LATEST = 4.0  # seconds after the start; imports take the first one or two
CODES = {signal.SIGINT: (130, -signal.SIGINT), signal.SIGTERM: (143, -signal.SIGTERM)}


def matrix(folder):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((600, 5)) @ rng.standard_normal(
        (5, 400)
    ) + 0.1 * rng.standard_normal((600, 400))
    np.save(folder / "in.npy", Y)


def frames(folder):
    Image = pytest.importorskip("PIL.Image")
    pytest.importorskip("av")
    rng = np.random.default_rng(0)
    (folder / "in").mkdir()
    for k in range(40):
        Image.fromarray(rng.integers(90, 110, (96, 96)).astype(np.uint8)).save(
            folder / "in" / f"{k:03d}.png"
        )


COMMANDS = {
    "complete": (
        matrix,
        ["complete", "in.npy", "-o", "out.npy"],
        {"out.npy", "out.outliers.csv", "out.report.html"},
    ),
    "train": (
        lambda folder: None,
        ["train", "--n", "60", "-r", "2", "--layers", "3", "-o", "out.json"],
        {"out.json"},
    ),
    "video": (frames, ["video", "in", "-o", "out"], {"out"}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_at_any_moment(name, tmp_path):
    make, command, outputs = COMMANDS[name]
    make(tmp_path)
    given = {path.name for path in tmp_path.iterdir()}
    for seed in rounds(2):
        rng = np.random.default_rng(seed)
        number = (signal.SIGINT, signal.SIGTERM)[seed % 2]
        start = [sys.executable, "-m", "lrmc.cli", *command]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        before = {path.name for path in tmp_path.iterdir()} & outputs
        run = subprocess.Popen(
            start,
            cwd=tmp_path,
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0.05, LATEST))
        run.send_signal(number)
        said = run.communicate(timeout=60)[1].decode()
        assert run.returncode in (0, 1, *CODES[number]), said
        assert "Traceback" not in said
        found = {path.name for path in tmp_path.iterdir()} - given
        assert found & outputs in (before, outputs), found
        assert found <= outputs | {"out.json.partial"}, found
        if name == "video" and "out" in found:
            # the last that is written
            assert (tmp_path / "out" / "report.html").exists()
