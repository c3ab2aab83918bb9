"""What README shows works: its Python in one go, and its commands, on small data."""

import glob
import re
import shlex
from functools import partial
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from made.landscape import landscape, write_landscape
from made.spheres import heads, write_heads

import lrmc

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
SMALL = ("3000", "80")  # rows and columns of its synthetic problems
# training, which would take hundreds of steps
SHORT = {"steps": 2, "layers": 2, "model": "fnn"}
LEFT_OUT = ("lrmc bench", "lrmc demo")  # tests of their own run these


def blocks():
    """Its ```python blocks, also those within a list."""
    return [
        dedent(block)
        for block in re.findall(r"^ *```python\n(.*?)^ *```$", README, re.M | re.S)
    ]


def commands():
    """Its indented lines that begin with `lrmc`, without the comment and what is optional."""
    lines = re.findall(r"^ {4}(lrmc .*)$", README, re.M)
    bare = [
        re.sub(r"\[[^]]*\]|#.*", "", line).replace(*SMALL).strip() for line in lines
    ]
    return [line for line in bare if not line.startswith(LEFT_OUT)]


def table(shape=(80, 60), rank=5, seed=0):
    """Data with gaps and outliers, and their truth."""
    problem = lrmc.synthetic.problem(
        shape[0], rank, 0.05, 0.8, n2=shape[1], form="dense", seed=seed
    )
    return problem.Y, problem.X


def noisy(seed):
    """A table of a kind."""
    return lrmc.synthetic.problem(
        80, 3, 0.05, 0.8, n2=60, form="dense", noise=0.1, seed=seed
    ).Y


def names():
    """What its snippets take for granted."""
    da, zarr = pytest.importorskip("dask.array"), pytest.importorskip("zarr")
    (Y, X), (Y2, X2) = table(), table(seed=1)
    zarr.save_array("Y.zarr", Y)
    return {
        **{"Y": Y, "X": X, "Y1": Y, "X1": X, "Y2": Y2, "X2": X2, "X_new": X2},
        **{f"Y{k}": noisy(k) for k in (1, 2, 3)},
        "tiles": np.stack([table((64, 20), 1, seed=k)[0] for k in range(3)]),
        "dask_array": da.from_array(Y, chunks=(40, 60)),
        **{"lrmc": lrmc, "zarr": zarr},
    }


def trained(train, data, *given, **options):
    """By a few steps; of several matrices in full, which takes a second."""
    return train(data, *given, **options | ({} if isinstance(data, list) else SHORT))


def test_every_snippet_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lrmc, "train", partial(trained, lrmc.train))
    given, known, shown = names(), {}, blocks()
    assert len(shown) >= 5
    for block in shown:
        here = dict(given)
        exec(compile(block.replace(*SMALL), "README.md", "exec"), here)
        known |= here
    assert "CONVERGED" in capsys.readouterr().out
    assert (tmp_path / "mine.json").exists()
    assert (tmp_path / "X.zarr").exists()
    assert known["X_filled"].shape == (80, 60)
    assert known["scores"].shape == (80, 5)


def inputs():
    """The files that its commands name."""
    film, cine = pytest.importorskip("made.film"), pytest.importorskip("made.cine")
    pandas, zarr = pytest.importorskip("pandas"), pytest.importorskip("zarr")
    Y, _ = table()
    zarr.save_array("in.zarr", Y)
    np.savez("Y.npz", Y=Y)
    for folder in ("lrmc-demo", "scenes", "DIR"):
        Path(folder).mkdir()
    pandas.DataFrame(Y).to_csv("lrmc-demo/measured.csv", index=False)
    film.write_clip("in.mp4", film.scene(20)[0])
    write_landscape("scenes", landscape(8, 16, 16))
    write_heads("DIR", heads(8, 24, 20))
    tissue, bubbles, _ = cine.scene()
    cine.dicom(
        "cine.dcm",
        np.clip(200 * (tissue + bubbles), 0, 255).astype(np.uint8)[:8, :40, :48],
    )


def test_every_command_runs(tmp_path, monkeypatch):
    app = pytest.importorskip("lrmc.cli").app
    CliRunner = pytest.importorskip("typer.testing").CliRunner
    monkeypatch.chdir(tmp_path)
    inputs()
    shown = commands()
    assert len(shown) >= 9
    for command in shown:
        _, *words = shlex.split(command)
        if words[0] == "train":
            words += [f"--{name}={value}" for name, value in SHORT.items()]
        done = CliRunner().invoke(
            app, [path for word in words for path in glob.glob(word) or [word]]
        )
        # the schedule is too short to converge
        most = 1 if "--schedule" in words else 0
        assert done.exit_code <= most, (command, done.output)
        if "-o" in words:
            assert Path(words[words.index("-o") + 1]).exists()
