import subprocess
import sys

import numpy as np
import pytest

from lrmc import __version__, synthetic

typer_testing = pytest.importorskip("typer.testing")
from lrmc import cli  # noqa: E402


@pytest.fixture
def source(tmp_path):
    np.save(tmp_path / "in.npy", synthetic.problem(80, 2, alpha=0.05, p=0.7, form="dense").Y)
    return tmp_path / "in.npy"


def run(*arguments):
    return typer_testing.CliRunner().invoke(cli.app, [str(x) for x in arguments], env={"COLUMNS": "200"})


def test_complete(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.npy", "--rank", 2)
    assert done.exit_code == 0
    assert np.isfinite(np.load(tmp_path / "out.npy")).all()
    words = done.stdout.split()
    for word in ("80", "observed", "rank", "converged", "iterations", "outliers", "undetermined", "out.npy"):
        assert any(word in w for w in words), done.stdout


def test_nothing_has_to_be_said(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.npy")
    assert done.exit_code == 0
    facts = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line[1:2].strip())
    assert facts["rank"].strip() == "2"
    assert facts["regime"].strip() == "exact"
    assert "outliers, noise of standard deviation" in facts["estimated"]


def test_noise_is_noticed(tmp_path):
    np.save(tmp_path / "in.npy", synthetic.problem(200, 2, alpha=0.05, p=0.7, noise=0.1, form="dense").Y)
    for options in ([], ["--loss", "cauchy"], ["--outliers", "both", "--loss", "huber", "-r", 2]):
        done = run("complete", tmp_path / "in.npy", "-o", tmp_path / "out.npy", *options)
        assert done.exit_code == 0, done.stderr
        assert "noisy" in done.stdout.split()


def test_what_did_not_converge_is_written_and_said(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.csv", "--rank", 2, "--max-iter", 3)
    assert done.exit_code == 1
    assert "max_iter" in done.stdout
    assert done.stderr.strip().startswith("warning: after 3 iterations")
    assert (tmp_path / "out.csv").exists()


def test_rows_without_observation_are_counted(tmp_path):
    Y = synthetic.problem(60, 1, alpha=0, p=1).Y
    Y[3], Y[:, 4:6] = np.nan, np.nan
    np.save(tmp_path / "in.npy", Y)
    done = run("complete", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "-r", 1)
    assert done.exit_code == 0
    assert "1 rows, 2 columns" in done.stdout
    assert "not determined" in done.stderr
    assert np.isnan(np.load(tmp_path / "out.npy")).sum() == np.isnan(Y).sum()


def test_options_reach_the_library(source, tmp_path):
    from lrmc import Schedule

    Schedule((1.0,), (), tail=(0.8, 1.0)).save(tmp_path / "mine.json")
    for schedule in ("geometric", tmp_path / "mine.json"):
        done = run("complete", source, "-o", tmp_path / "o.npy", "-r", 2, "--schedule", schedule, "--fill", "missing")
        assert done.exit_code == 0, done.stderr
    Y, X = np.load(source), np.load(tmp_path / "o.npy")
    np.testing.assert_array_equal(X[~np.isnan(Y)], Y[~np.isnan(Y)])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.npy", "-o", "out.npy", "-r", 2], "nothing.npy: there is no such file"),
        (["in.npy", "-o", "out.xlsx", "-r", 2], "the suffix says the format"),
        (["in.npy", "-o", "no/such/out.npy", "-r", 2], "there is no such directory"),
        (["in.npy", "-o", ".", "-r", 2], "the suffix says the format"),
        (["in.npy", "-o", "out.npy", "-r", 900], "1 to 80 is wanted"),
        (["in.npy", "-o", "out.npy", "-r", 2, "--tol", 0], "tol=0.0"),
        (["in.npy", "-o", "out.npy", "--schedule", "geometric"], "LRMC needs the rank"),
        (["in.npy", "-o", "out.npy", "-r", 2, "--schedule", "none"], "there is no schedule named"),
        (["in.npy", "-o", "out.npy", "-r", 2, "--schedule", "none.json"], "none.json: No such file"),
        (["words.csv", "-o", "out.npy", "-r", 2], "no numbers"),
        (["cube.npy", "-o", "out.npy", "-r", 2], "a 2-D matrix is wanted"),
    ],
)
def test_bad_input_is_one_sentence(source, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.csv").write_text("a,b\nx,y\n")
    np.save("cube.npy", np.ones((2, 2, 2)))
    before = sorted(tmp_path.iterdir())
    done = run("complete", *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout.strip() == ""
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_package_is_one_sentence(source, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    done = run("complete", source, "-o", tmp_path / "out.csv", "-r", 2)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert 'pip install "lrmc[tables]"' in done.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("demo", "-o", tmp_path / "demo")
    assert done.exit_code == 2
    assert 'pip install "lrmc[plot]"' in done.stderr
    assert not (tmp_path / "demo").exists()


def test_without_typer_one_sentence():
    program = "import sys; sys.modules['typer'] = None; import lrmc.cli"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, 'the command line needs typer and rich: pip install "lrmc[cli]"\n')


def test_as_a_program():
    done = subprocess.run([sys.executable, "-m", "lrmc.cli", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"lrmc {__version__}\n")
    for option in ("--fill", "--loss", "--outliers"):
        assert run("complete", "x.npy", "-o", "y.npy", option, "some").exit_code == 2
    assert "demo" in run("--help").stdout
