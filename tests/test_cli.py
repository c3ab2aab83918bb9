import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from each import each

from lrmc import __version__, synthetic

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")
from rich.console import Console

from lrmc import cli
from lrmc._progress import Progress
from lrmc.cli import complete, console


@pytest.fixture
def source(tmp_path):
    np.save(
        tmp_path / "in.npy", synthetic.problem(80, 2, alpha=0.05, p=0.7, form="dense").Y
    )
    return tmp_path / "in.npy"


def run(*arguments):
    return typer_testing.CliRunner().invoke(
        cli.app, [str(x) for x in arguments], env={"COLUMNS": "200"}
    )


def test_complete(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.npy", "--rank", 2)
    assert done.exit_code == 0
    assert np.isfinite(np.load(tmp_path / "out.npy")).all()
    words = done.stdout.split()
    for word in (
        "80",
        "observed",
        "rank",
        "converged",
        "iterations",
        "outliers",
        "undetermined",
        "out.npy",
    ):
        assert any(word in w for w in words), done.stdout


def test_nothing_has_to_be_said(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.npy")
    assert done.exit_code == 0
    facts = dict(
        line.split(maxsplit=1) for line in done.stdout.splitlines() if line[1:2].strip()
    )
    assert facts["rank"].strip() == "2"
    assert facts["regime"].strip() == "exact"
    assert "outliers, noise of standard deviation" in facts["estimated"]


@pytest.mark.parametrize(
    ("asked", "left", "said", "how"),
    [
        ("blank", 7, "left missing", []),
        ("keep", 0, "filled in as a guess", []),
        ("keep", 0, "filled in as a guess", ["--memory", "100MB"]),
    ],
)
def test_a_row_of_which_too_little_is_known(tmp_path, asked, left, said, how):
    Y = synthetic.problem(80, 2, alpha=0.05, p=1.0).Y
    Y[3], Y[3, :7] = (
        np.abs(Y).max() * np.random.default_rng(0).standard_normal(80),
        np.nan,
    )
    np.save(tmp_path / "in.npy", Y)
    place = tmp_path / "out.npy"
    done = run(
        "complete",
        tmp_path / "in.npy",
        "-o",
        place,
        "--rank",
        2,
        "--undetermined",
        asked,
        *how,
    )
    assert done.exit_code == 0, done.stderr
    assert np.isnan(np.load(place)).sum() == left
    assert "1 rows, 0 columns" in done.stdout
    # entries are not counted block by block
    assert said in done.stdout or (how and asked == "blank")


def test_noise_is_noticed(tmp_path):
    np.save(
        tmp_path / "in.npy",
        synthetic.problem(90, 2, 0.05, 0.7, n2=60, noise=0.1, form="dense").Y,
    )
    for options in (
        [],
        ["--loss", "cauchy"],
        ["--outliers", "both", "--loss", "huber", "-r", 2],
    ):
        done = run(
            "complete", tmp_path / "in.npy", "-o", tmp_path / "out.npy", *options
        )
        assert done.exit_code == 0, done.stderr
        assert "noisy" in done.stdout.split()


def test_intervals_are_listed_beside_the_output(tmp_path):
    Y = synthetic.problem(80, 2, alpha=0.05, p=0.7, n2=40, noise=0.1, form="dense").Y
    np.save(tmp_path / "in.npy", Y)
    done = run(
        "complete",
        tmp_path / "in.npy",
        "-o",
        tmp_path / "out.npy",
        "--rank",
        2,
        "--intervals",
        0.9,
    )
    assert done.exit_code == 0, done.stderr
    assert "out.intervals.csv" in done.stdout
    listed = pd.read_csv(tmp_path / "out.intervals.csv")
    assert len(listed) == int(np.isnan(Y).sum())
    assert (listed.lower < listed.value).all()


def test_intervals_want_a_level(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.npy", "--intervals", "90")
    assert done.exit_code == 2
    assert "a number between 0 and 1" in done.stderr
    assert not (tmp_path / "out.npy").exists()


def test_what_did_not_converge_is_written_and_said(source, tmp_path):
    done = run(
        "complete", source, "-o", tmp_path / "out.csv", "--rank", 2, "--max-iter", 3
    )
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
        done = run(
            "complete",
            source,
            "-o",
            tmp_path / "o.npy",
            "-r",
            2,
            "--schedule",
            schedule,
            "--fill",
            "missing",
        )
        assert done.exit_code == 0, done.stderr
    Y, X = np.load(source), np.load(tmp_path / "o.npy")
    np.testing.assert_array_equal(X[~np.isnan(Y)], Y[~np.isnan(Y)])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["nothing.npy", "-o", "out.npy", "-r", 2],
            "nothing.npy: there is no such file",
        ),
        (["in.npy", "-o", "out.xls", "-r", 2], "the suffix says the format"),
        (["in.npy", "-o", "no/such/out.npy", "-r", 2], "there is no such directory"),
        (["in.npy", "-o", ".", "-r", 2], "the suffix says the format"),
        (["in.npy", "-o", "out.npy", "-r", 900], "1 to 80 is wanted"),
        (["in.npy", "-o", "out.npy", "-r", 2, "--tol", 0], "tol=0.0"),
        (["in.npy", "-o", "out.npy", "--schedule", "geometric"], "LRMC needs the rank"),
        (
            ["in.npy", "-o", "out.npy", "-r", 2, "--schedule", "none"],
            "there is no schedule named",
        ),
        (
            ["in.npy", "-o", "out.npy", "-r", 2, "--schedule", "none.json"],
            "none.json: No such file",
        ),
        (["words.csv", "-o", "out.npy", "-r", 2], "no numbers"),
        (["cube.npy", "-o", "out.npy", "-r", 2], "a 2-D matrix is wanted"),
        (
            ["loop.npy", "-o", "out.npy"],
            "loop.npy: is a symbolic link that leads to itself",
        ),
        (
            ["loop.csv", "-o", "out.npy"],
            "loop.csv: is a symbolic link that leads to itself",
        ),
        (
            ["in.npy", "-o", "loop.npy"],
            "loop.npy: is a symbolic link that leads to itself",
        ),
        (
            ["in.npy", "-o", "out.npy", "--report", "loop.html"],
            "loop.html: is a symbolic link that leads to itself",
        ),
        (
            ["in.npy", "-o", "out.npy", "--schedule", "loop.json", "-r", 2],
            "loop.json: Too many levels",
        ),
        (
            ["in.npy", "-o", "out.npy", "--seed", -1],
            "seed=-1; a whole number of at least 0 is wanted",
        ),
    ],
)
def test_bad_input_is_one_sentence(source, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.csv").write_text("a,b\nx,y\n")
    np.save("cube.npy", np.ones((2, 2, 2)))
    for name in ("loop.npy", "loop.csv", "loop.html", "loop.json"):
        os.symlink(name, name)
    before = sorted(tmp_path.iterdir())
    done = run("complete", *arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout.strip() == ""
    assert sorted(tmp_path.iterdir()) == before


def test_side_files(source, tmp_path):
    """By default beside OUT; elsewhere or not at all if asked."""
    (tmp_path / "d").mkdir()

    def written(*options):
        done = run(
            "complete", source, "-o", tmp_path / "d" / "out.v1.npy", "-r", 2, *options
        )
        assert done.exit_code == 0, done.stderr
        names = sorted(path.name for path in (tmp_path / "d").iterdir())
        for path in (tmp_path / "d").iterdir():
            assert path.name in done.stdout
            path.unlink()
        return names

    assert written() == ["out.v1.npy", "out.v1.outliers.csv", "out.v1.report.html"]
    assert written("--no-report") == ["out.v1.npy", "out.v1.outliers.csv"]
    assert written("--no-report", "--no-outliers-file") == ["out.v1.npy"]
    elsewhere = [
        "--report",
        tmp_path / "d" / "r.html",
        "--outliers-to",
        tmp_path / "d" / "l.csv",
    ]
    assert written(*elsewhere) == ["l.csv", "out.v1.npy", "r.html"]
    done = run(
        "complete",
        source,
        "-o",
        tmp_path / "out.npy",
        "--report",
        tmp_path / "r.html",
        "--no-report",
    )
    assert (done.exit_code, "contradict" in done.stderr) == (2, True)


def frame(n=40):
    """Exact rank 1, one gap, in like units."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.standard_normal((n, 1)) @ (1 + rng.random((1, 5))), columns=list("abcde")
    )
    table.iloc[3, 2] = np.nan
    return table


def mixed(table):
    table["b"] = table["b"].astype(object)
    table.iloc[2, 1] = "n.d."
    return table


def with_dates(table):
    table.insert(0, "day", pd.date_range("2024-01-01", periods=len(table)))
    table["flag"] = [True, False] * (len(table) // 2)
    table["whole"] = pd.array([round(50 * x) for x in table["a"]], "Int64")
    table.loc[5, "whole"] = pd.NA
    return table


def test_markers_of_missing_cells_are_told(tmp_path):
    frame().to_csv(tmp_path / "in.csv", index=False, na_rep="?")
    done = run(
        "complete", tmp_path / "in.csv", "-o", tmp_path / "out.csv", "--no-report"
    )
    assert done.exit_code == 0, done.stderr
    assert "warning: '?' is taken as missing, in 1 cells: column 'c' (1)" in done.stderr
    assert "?" not in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize("suffix", ["npz", "mat"])
def test_a_variable_without_a_name(tmp_path, suffix):
    np.savez(tmp_path / "in.npz", **{"": frame().to_numpy()})
    done = run(
        "complete", tmp_path / "in.npz", "-o", tmp_path / f"out.{suffix}", "--no-report"
    )
    assert done.exit_code == 0, done.stderr
    assert ("written as 'X'" in done.stderr) == (suffix == "mat")


def half(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


FILES = {  # file, how it is made, exit code, what is said
    "truncated.parquet": (
        lambda p: (frame().to_parquet(p), half(p)),
        2,
        "could not be read as parquet",
    ),
    "truncated.npz": (
        lambda p: (np.savez(p, a=np.ones((9, 9))), half(p)),
        2,
        "could not be read as npz",
    ),
    "empty.csv": (
        lambda p: p.write_text(""),
        2,
        "could not be read as csv: No columns",
    ),
    "header.csv": (lambda p: p.write_text("a,b\n"), 2, "has no numbers"),
    "words.csv": (lambda p: p.write_text("a,b\nx,y\nz,w\n"), 2, "has no numbers"),
    "missing.csv": (
        lambda p: p.write_text("a,b\n" + ",\n" * 5),
        2,
        "no numbers",
    ),
    "latin.csv": (
        lambda p: p.write_bytes("na\xefve,b\n1,2\n".encode("latin-1")),
        2,
        "is not UTF-8 text",
    ),
    "late.csv": (
        lambda p: p.write_bytes(b"a,b\n" + b"1,2\n" * 9999 + b"\xff,1\n"),
        2,
        "is not UTF-8 text",
    ),
    "utf16.csv": (
        lambda p: p.write_bytes("a,b\n1,2\n".encode("utf-16")),
        2,
        "iconv -f utf-16",
    ),
    "comment.csv": (
        lambda p: p.write_text("# station 12\na,b\n1,2\n3,4\n"),
        2,
        "what stands above the header",
    ),
    "thousands.csv": (
        lambda p: p.write_text("a,b\n" + '"1,234.50","5,678.90"\n' * 5),
        2,
        "without units and separators, instead of '1,234.50'",
    ),
    "infinite.csv": (lambda p: p.write_text("a,b\n1,inf\n3,4\n"), 2, "are infinite"),
    "ragged.csv": (
        lambda p: p.write_text("a,b\n1,2\n3,4,5\n"),
        2,
        "Expected 2 fields in line 3",
    ),
    "one.csv": (
        lambda p: p.write_text("a\n5\n7\n2\n9\n"),
        2,
        "low rank is a pattern across several columns",
    ),
    "gap.csv": (
        lambda p: p.write_text("a,b\n1,x\n,y\n3,z\n"),
        2,
        "'b' is passed through; low rank",
    ),
    "twice.csv": (
        lambda p: frame().rename(columns={"b": "a"}).to_csv(p, index=False),
        0,
        "",
    ),
    "mixed.csv": (
        lambda p: mixed(frame()).to_csv(p, index=False),
        0,
        "column 'b' passes through: 1 of its 40 cells",
    ),
    "hostile.csv": (
        lambda p: (
            frame().set_axis(["<b>", "[red]", "\x1b[31m", "=1", "e"], axis=1).to_csv(p)
        ),
        0,
        "",
    ),
    "dates.parquet": (lambda p: with_dates(frame()).to_parquet(p), 0, ""),
    "dates.csv": (lambda p: with_dates(frame()).to_csv(p, index=False), 0, ""),
}


@pytest.mark.parametrize(
    "name", ["words.csv", pytest.param("twice.csv", marks=pytest.mark.slow)]
)
def test_exit_codes_of_the_real_command(tmp_path, name):
    """The command as a shell runs it."""
    make, code, said = FILES[name]
    make(tmp_path / name)
    command = [sys.executable, "-m", "lrmc.cli", "complete", name, "-o", f"out-{name}"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@each("name", FILES)
def test_exit_codes(tmp_path, monkeypatch, name):
    """Code 0 writes all three files, code 2 writes none and says why."""
    make, code, said = FILES[name]
    make(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    done = run("complete", name, "-o", f"out-{name}")
    assert done.exit_code == code, done.stderr
    assert said in " ".join(done.stderr.split())
    stem = name.partition(".")[0]
    wanted = (
        []
        if code == 2
        else [f"out-{name}", f"out-{stem}.outliers.csv", f"out-{stem}.report.html"]
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, *wanted])
    if code == 2:
        assert (done.stdout.strip(), done.stderr.count("\n")) == ("", 1)
    if name.startswith("dates"):
        before, after = (
            (pd.read_csv if name.endswith("csv") else pd.read_parquet)(tmp_path / x)
            for x in (name, f"out-{name}")
        )
        pd.testing.assert_frame_equal(after[["day", "flag"]], before[["day", "flag"]])
        assert before[["c", "whole"]].isna().sum().tolist() == [1, 1]
        assert not after.isna().any().any()


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
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        1,
        'the command line needs typer and rich: pip install "lrmc[cli]"\n',
    )


def test_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "lrmc.cli", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"lrmc {__version__}\n")
    for option in ("--fill", "--loss", "--outliers"):
        assert run("complete", "x.npy", "-o", "y.npy", option, "some").exit_code == 2
    assert "demo" in run("--help").stdout


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_of_each_command_begins_with_what_the_list_says(name):
    done = run(name, "--help")
    assert done.exit_code == 0
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    assert lines[1] == cli.COMMANDS[name].about
    assert name in run("--help").stdout


WHILE_WRITING = """
import os, signal, sys, time
from lrmc import cli
from lrmc.complete import tables

def writer(path, table, X):
    path.write_bytes(b"half")
    os.kill(os.getpid(), {signal})
    time.sleep(30)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
tables.WRITERS[".npy"] = writer
cli.main()
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [("signal.SIGTERM", 143, "terminated\n"), ("signal.SIGINT", 130, "interrupted\n")],
)
def test_ended_from_outside_while_writing(source, tmp_path, number, code, said):
    program = WHILE_WRITING.format(signal=number)
    command = [
        sys.executable,
        "-c",
        program,
        "complete",
        str(source),
        "-o",
        str(tmp_path / "out.npy"),
        "-r",
        "2",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, said)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, console.Terminated])
def test_ended_from_outside_anywhere(source, tmp_path, monkeypatch, stop):
    """After the work, too, when results are shown."""

    def show(*arguments):
        raise stop

    monkeypatch.setattr(complete, "_show", show)
    done = run("complete", source, "-o", tmp_path / "out.npy", "-r", 2, "--no-report")
    assert done.exit_code == (143 if stop is console.Terminated else 130)
    assert done.stderr in ("interrupted\n", "terminated\n")


@pytest.mark.parametrize(
    ("package", "asked"), [("rich", "--version"), ("numpy", "schedules")]
)
def test_ctrl_c_during_imports(tmp_path, package, asked):
    """It comes while a package is being imported: before any command is known, or with one."""
    (tmp_path / f"{package}.py").write_text("raise KeyboardInterrupt")
    command = [sys.executable, "-m", "lrmc.cli", asked]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_other_programs_keep_their_tracebacks(tmp_path):
    (tmp_path / "numpy.py").write_text("raise KeyboardInterrupt")
    program = [sys.executable, "-c", "import lrmc; lrmc.solve"]
    done = subprocess.run(
        program,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert "Traceback" in done.stderr


# ---- for scripts and logs


def test_a_summary_for_scripts(source, tmp_path):
    target = tmp_path / "out.csv"
    done = run("complete", source, "-o", target, "--json")
    about = json.loads(done.stdout)
    assert done.exit_code == 0
    found = about["status"], about["rank"], about["left_missing"]
    assert found == ("converged", 2, 0)
    names = {"out.csv", "out.outliers.csv", "out.report.html"}
    assert {Path(file).name for file in about["files"]} == names
    assert all(Path(file).exists() for file in about["files"])
    listed = target.with_name("out.outliers.csv").read_text().splitlines()
    assert about["outliers"] == len(listed) - 1


def test_quiet_says_nothing(source, tmp_path):
    done = run("complete", source, "-o", tmp_path / "out.csv", "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_a_log_gets_a_line_now_and_then():
    seconds, screen = iter(range(0, 1000, 4)), Console(file=io.StringIO())
    lines = console.Lines("table.csv", screen, clock=lambda: next(seconds))
    for k in range(12):
        lines(Progress("fitting", k / 12, 1.0, note=f"iteration {k}"))
    said = screen.file.getvalue().splitlines()
    assert 2 <= len(said) <= 12
    assert all(line.startswith("table.csv: fitting, iteration ") for line in said)


def test_bars_go_forward():
    forward = console.Forward()
    done = [forward(Progress("fitting", x, 1.0)).done for x in (0.1, 0.4, 0.2, 0.5)]
    assert done == [0.1, 0.4, 0.4, 0.5]
    assert forward(Progress("writing", 0.1, 1.0)).done == 0.1


def test_long_names_leave_room_for_numbers():
    table = console.table("scene", "cloud", "missing")
    table.add_row("a_very_long_name_of_a_scene_" * 6, "12.5 %", "3.25 %")
    screen = Console(width=80, file=io.StringIO())
    screen.print(table)
    assert "12.5 %" in screen.file.getvalue()
    assert "3.25 %" in screen.file.getvalue()


@each("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_words(shell):
    program = Path(sys.executable).with_name("lrmc")
    if not program.exists():
        pytest.skip("the command is not installed beside this Python")
    asked = os.environ | {"_LRMC_COMPLETE": f"source_{shell}"}
    done = subprocess.run([program], env=asked, capture_output=True, text=True)
    assert "_LRMC_COMPLETE" in done.stdout
    assert done.returncode == 0


def test_long_tables_on_the_command_line(tmp_path):
    rng = np.random.default_rng(0)
    X = np.outer(rng.uniform(1, 2, 20), rng.uniform(1, 2, 8))
    places = [(i, j) for i in range(20) for j in range(8) if rng.random() < 0.8]
    lines = [f"s{i},m{j},{X[i, j]:.5f}" for i, j in places]
    (tmp_path / "a.csv").write_text("\n".join(["station,month,rain", *lines]))
    words = ["complete", tmp_path / "a.csv", "-o", tmp_path / "b.xlsx", "-r", 1]
    refused = run(*words)
    assert refused.exit_code == 2
    hint = "--rows 'station' --columns 'month' --values 'rain'"
    assert hint in " ".join(refused.stderr.split())
    how = ["--rows", "station", "--columns", "month"]
    assert run(*words, *how).exit_code == 2
    done = run(*words, *how, "--values", "rain", "--marks")
    assert done.exit_code == 0, done.stderr
    marks = (tmp_path / "b.marks.csv").read_text().splitlines()
    assert len(marks) == 1 + 160 - len(places)
