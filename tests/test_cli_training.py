import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import lrmc
from lrmc import Schedule, synthetic
from lrmc.synthetic import Problems
from lrmc.training import fast, recipes

typer_testing = pytest.importorskip("typer.testing")
from lrmc import cli
from lrmc.cli import console, training

TINY = ("--n", 50, "--rank", 2, "--p", 1, "--layers", 2, "--steps", 3)


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    for name, value in {
        "DECAYS": (0.5, 0.7),
        "SECOND_THRESHOLDS": (1.5,),
        "TAILS": ((0.7, 1.0),),
        "HORIZON": 16,
    }.items():
        monkeypatch.setattr(fast, name, value)


def run(*arguments):
    return typer_testing.CliRunner().invoke(
        cli.app, [str(x) for x in arguments], env={"COLUMNS": "200"}
    )


def test_train_and_use(tmp_path):
    mine = tmp_path / "mine.json"
    done = run("train", *TINY, "--tangent", "--momentum", "--seed", 3, "-o", mine)
    assert done.exit_code == 0, done.stderr
    schedule = Schedule.load(mine)
    assert (len(schedule), len(schedule.momentum), schedule.tangent, schedule.tail) == (
        2,
        2,
        True,
        (0.7, 1.0),
    )
    same = lrmc.train(
        Problems(n=50, p=1.0), 2, layers=2, steps=3, tangent=True, momentum=True, seed=3
    )
    assert replace(same, card={}) == replace(schedule, card={})
    for words in (
        "0.7, 1",
        "tangent, momentum",
        "error",
        f"--schedule {mine}",
        "lrmc.solve(Y, rank=2",
    ):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == [mine]
    np.save(
        tmp_path / "in.npy", synthetic.problem(80, 2, alpha=0.05, p=0.9, form="dense").Y
    )
    used = run(
        "complete",
        tmp_path / "in.npy",
        "-o",
        tmp_path / "out.npy",
        "-r",
        2,
        "--schedule",
        mine,
    )
    assert used.exit_code in (0, 1), used.stderr


def test_what_problems_have_reaches_them(tmp_path):
    options = {
        "n": 40,
        "n2": 30,
        "alpha": 0.2,
        "p": 0.8,
        "noise": 0.01,
        "outlier_scale": 2.0,
        "condition": 3.0,
    }
    flags = [
        x
        for key, value in options.items()
        for x in (f"--{key.replace('_', '-')}", value)
    ]
    done = run(
        "train",
        *flags,
        "-r",
        1,
        "--layers",
        1,
        "--steps",
        1,
        "--model",
        "fnn",
        "-o",
        tmp_path / "a.json",
    )
    assert done.exit_code == 0, done.stderr
    schedule = Schedule.load(tmp_path / "a.json")
    assert schedule.card["trained_on"]["problems"] == options
    assert schedule.tail is None
    done = run(
        "train", *TINY, "--recipe", "paper", "--model", "fnn", "-o", tmp_path / "b.json"
    )
    assert done.exit_code == 0, done.stderr
    assert Schedule.load(tmp_path / "b.json").card["recipe"] == "paper"


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv"])
def test_on_data(suffix, tmp_path):
    Y = Problems(n=50, p=0.7).draw(2, 0, form="dense").Y
    source = tmp_path / f"Y.{suffix}"
    if suffix == "npy":
        np.save(source, Y)
    elif suffix == "npz":
        rows, cols = np.nonzero(~np.isnan(Y))
        sp.save_npz(source, sp.csr_matrix((Y[rows, cols], (rows, cols)), shape=Y.shape))
    else:
        pytest.importorskip("pandas").DataFrame(Y).add_prefix("day ").to_csv(
            source, index=False
        )
    done = run(
        "train",
        "--data",
        source,
        "-r",
        2,
        "--layers",
        2,
        "--steps",
        2,
        "-o",
        tmp_path / "mine.json",
    )
    assert done.exit_code == 0, done.stderr
    assert "hidden entries" in done.stdout
    assert Schedule.load(tmp_path / "mine.json").card["trained_on"]["shape"] == [50, 50]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "mine.npz"], "mine.npz: a schedule is a .json file"),
        (["-o", "missing/mine.json"], "missing: there is no such directory"),
        (["-o", "folder.json"], "folder.json: is a directory"),
        (["--data", "none.npy", "-o", "mine.json"], "none.npy: there is no such file"),
        (
            ["--data", "x.npy", "--n", "5", "--outlier-scale", "2", "-o", "mine.json"],
            "--n, --outlier-scale: synthetic",
        ),
        (["--name", "X", "-o", "mine.json"], "--name chooses a variable"),
        (["--p", "2", "-o", "mine.json"], "p=2.0"),
        (["--layers", "0", "-o", "mine.json"], "layers=0; a whole number"),
        (
            ["--n", "20", "--rank", "21", "-o", "mine.json"],
            "rank=21 for a 20 x 20 matrix",
        ),
        (["--recipe", "paper", "--tangent", "-o", "mine.json"], "not in the paper"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.json").mkdir()
    done = run("train", *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder.json"]


@pytest.mark.parametrize(
    "options", [("--model", "cnn"), ("--recipe", "slow"), ("--n", "many")], ids=str
)
def test_unknown_choices(options):
    assert run("train", *options, "-o", "mine.json").exit_code == 2


def interrupting(after, stop=KeyboardInterrupt):
    """`train`, with a Ctrl-C after so many states."""

    def train(*arguments, progress, **options):
        seen = []

        def interrupt(state):
            progress(state)
            seen.append(state)
            if len(seen) == after:
                raise stop

        return recipes.train(*arguments, progress=interrupt, **options)

    return train


def test_interrupted_and_taken_up_again(tmp_path, monkeypatch):
    mine, partial = tmp_path / "mine.json", tmp_path / "mine.json.partial"
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", interrupting(3))
        done = run("train", *TINY, "-o", mine)
    assert done.exit_code == 130
    assert re.fullmatch(
        r"interrupted; the same command goes on from .*mine\.json\.partial.*\n",
        done.stderr,
    )
    assert not mine.exists()
    assert json.loads(partial.read_text())["step"] == 2
    other = run("train", *TINY, "--seed", 1, "-o", mine)
    assert other.exit_code == 2
    assert "checkpoint of other training" in other.stderr
    assert partial.exists()
    assert run("train", *TINY, "-o", mine).exit_code == 0
    assert not partial.exists()
    whole = lrmc.train(Problems(n=50, p=1.0), 2, layers=2, steps=3)
    assert replace(Schedule.load(mine), card={}) == replace(whole, card={})


def test_terminated_keeps_what_was_learned(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "train", interrupting(3, console.Terminated))
    done = run("train", *TINY, "-o", tmp_path / "mine.json")
    assert done.exit_code == 143
    assert done.stderr.startswith("terminated; the same command goes on from")
    assert (tmp_path / "mine.json.partial").exists()


def test_interrupted_at_once(tmp_path, monkeypatch):
    def train(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", train)
    done = run("train", *TINY, "-o", tmp_path / "mine.json")
    assert done.exit_code == 130
    assert "before anything was learned" in done.stderr


EAGER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
from lrmc import cli
from lrmc.training import recipes
recipes.SAVE_EVERY = 0.0
cli.main()
"""


@pytest.mark.slow
def test_a_real_interrupt(tmp_path):
    mine, partial = tmp_path / "mine.json", tmp_path / "mine.json.partial"
    asked = [
        "train",
        "--n",
        "40",
        "-r",
        "1",
        "--p",
        "1",
        "--layers",
        "1",
        "--steps",
        "150",
    ]
    asked += ["--recipe", "paper", "--model", "fnn", "-o", str(mine)]
    running = subprocess.Popen(
        [sys.executable, "-c", EAGER, *asked], stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 60
        while (
            not partial.exists() and running.poll() is None and time.monotonic() < until
        ):
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    finally:
        running.kill()
    assert running.returncode == 130, said
    assert said.startswith("interrupted; the same command goes on from")
    assert said.count("\n") == 1
    assert json.loads(partial.read_text())["stage"].startswith("layer")
    assert not mine.exists()
    assert run(*asked).exit_code == 0
    whole = lrmc.train(
        Problems(n=40, p=1.0), 1, layers=1, steps=150, recipe="paper", model="fnn"
    )
    assert replace(Schedule.load(mine), card={}) == replace(whole, card={})
    assert list(tmp_path.iterdir()) == [mine]


def test_several_files_of_one_kind(tmp_path):
    for seed in range(4):
        Y = lrmc.synthetic.problem(
            80, 2, alpha=0.05, p=0.6, n2=40, noise=0.1, seed=seed, form="dense"
        ).Y
        np.savetxt(tmp_path / f"{seed}.csv", Y, delimiter=",")
    mine, files = tmp_path / "mine.json", [tmp_path / f"{k}.csv" for k in range(3)]
    done = run("train", *(x for path in files for x in ("--data", path)), "-o", mine)
    assert done.exit_code == 0, done.stderr
    for words in ("matrices 3", "judges 1", "low rank", "--schedule"):
        assert words in done.stdout
    assert Schedule.load(mine).plan is not None
    out = tmp_path / "out.csv"
    done = run("complete", tmp_path / "3.csv", "-o", out, "--schedule", mine)
    assert done.exit_code == 0, done.stderr
    assert "noisy" in done.stdout
    shown = run("schedules", mine)
    assert "reach" in shown.stdout


def test_schedules():
    done = run("schedules")
    assert done.exit_code == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert set(Schedule.names()) <= set(lines)
    name = "synthetic-r5-a0.1-p0.1"
    words = lines[name].split()
    schedule = Schedule.named(name)
    assert words[1:3] == ["5", str(len(schedule))]
    assert f"{schedule.tail[0]:g}, {schedule.tail[1]:g}" in lines[name]


def test_one_schedule(tmp_path):
    done = run("schedules", "geometric")
    assert done.exit_code == 0
    for words in ("0.85, 1", "relative", "not learned"):
        assert words in done.stdout
    Schedule(
        (3.0, 1.0), (0.5,), card={"about": "[bold]mine[/bold]", "checked_on": 3}
    ).save(tmp_path / "mine.json")
    done = run("schedules", tmp_path / "mine.json")
    assert "[bold]mine[/bold]" in done.stdout
    assert done.exit_code == 0
    done = run("schedules", "nothing")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "there is no schedule named 'nothing'" in done.stderr


@pytest.mark.parametrize(
    "card",
    [
        {},
        {"trained_on": 3, "checked_on": "x"},
        {"rank": "five", "trained_on": {"p": "?"}},
    ],
)
def test_cards_may_say_anything(card):
    assert training._told(card, "rank") == ""
    assert training._told(card, "p") == ""
    assert isinstance(training._summary(card), str)


def test_how_much_is_done():
    def state(stage, step, steps):
        return recipes.State(stage, step, steps, 0.1, Schedule((1.0,), ()))

    shares = [
        ("geometric", 1, 1, 0),
        ("refine", 3, 4, 0.75),
        ("tail", 1, 1, 1),
        ("layer 0", 1, 1, 0),
    ]
    for stage, step, steps, share in [
        *shares,
        ("layer 1", 1, 2, 0.125),
        ("layer 4", 2, 2, 1),
    ]:
        assert training._share(state(stage, step, steps), 4) == share
