"""`lrmc complete` on matrices that are read block by block."""

import json
import re

import numpy as np
import pytest
from comparing import by_steps
from each import each
from presentations import on_disk

import lrmc
import lrmc.units
from lrmc.complete import blockwise as large
from lrmc.observations.ondisk import blocks

zarr = pytest.importorskip("zarr")
CliRunner = pytest.importorskip("typer.testing").CliRunner


@pytest.fixture(scope="module")
def Y():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((300, 3)) @ rng.standard_normal((80, 3)).T
    Y[rng.random(Y.shape) < 0.05] += 10
    Y[rng.random(Y.shape) > 0.7] = np.nan
    return Y


def run(*arguments):
    from lrmc.cli import app

    return CliRunner().invoke(app, [str(x) for x in arguments])


def saved(Y, folder, suffix):
    path = folder / f"in{suffix}"
    if suffix == ".npy":
        np.save(path, Y)
    elif suffix == ".nc":
        pytest.importorskip("xarray").Dataset({"Y": (("a", "b"), Y)}).to_netcdf(
            path, engine="h5netcdf"
        )
    else:
        array = zarr.create_array(path, shape=Y.shape, dtype=Y.dtype, chunks=(40, 80))
        array[:] = Y
    return path


@pytest.mark.parametrize(
    ("suffix", "memory"), [(".zarr", None), (".npy", "400kB"), (".nc", None)]
)
@pytest.mark.parametrize("target", ["out.zarr", "out.npy"])
def test_the_command(Y, suffix, memory, target, tmp_path):
    source = saved(Y, tmp_path, suffix)
    done = run(
        "complete",
        source,
        "-o",
        tmp_path / target,
        "-r",
        3,
        *(("--memory", memory) if memory else ()),
    )
    assert done.exit_code == 0, done.output
    assert "300 x 80" in done.output
    got = (
        np.load(tmp_path / target)
        if target == "out.npy"
        else zarr.open_array(tmp_path / target, mode="r")[:]
    )
    want = by_steps(Y, 3)
    S = np.nan_to_num(want.outliers())
    np.testing.assert_allclose(
        got, np.where(np.isnan(Y) | (S != 0), want.low_rank(), Y), atol=1e-7
    )
    listed = zarr.open_group(tmp_path / "out.outliers.zarr", mode="r")
    assert listed["row"].shape == (np.count_nonzero(S),)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [source.name, target, "out.outliers.zarr", "out.report.html"]
    )


def test_with_dask(Y, tmp_path):
    pytest.importorskip("dask.array")
    source = saved(Y, tmp_path, ".zarr")
    done = run(
        "complete",
        source,
        "-o",
        tmp_path / "out.npy",
        "--scheduler",
        "threads",
        "--fill",
        "all",
    )
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"), by_steps(Y).low_rank(), atol=1e-7
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "scale"),
    [
        (("--memory", "100kB"), "columns"),
        (("--scheduler", "threads"), "none"),
    ],
)
def test_intervals_are_like_those_of_data_in_memory(options, scale, tmp_path):
    if "threads" in options:
        pytest.importorskip("dask.array")
    Y = lrmc.synthetic.problem(
        300, 2, alpha=0.05, p=0.7, n2=40, noise=0.1, form="dense"
    ).Y
    Y = Y * np.geomspace(1, 100, 40) if scale == "columns" else Y
    source = saved(Y, tmp_path, ".zarr")
    done = run(
        "complete", source, "-o", tmp_path / "out.npy", "-r", 2, "--scale", scale,
        "--intervals", 0.9, *options,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    # long names are broken where the terminal ends
    assert "out.intervals.zarr" in "".join(done.stdout.split())
    assert "of hidden entries" in done.stdout
    group = zarr.open_group(tmp_path / "out.intervals.zarr", mode="r")
    row, col, value, lower, upper = (
        group[name][:] for name in ("row", "col", "value", "lower", "upper")
    )
    order = np.lexsort((col, row))
    np.testing.assert_array_equal((row[order], col[order]), np.nonzero(np.isnan(Y)))
    np.testing.assert_allclose(value, np.load(tmp_path / "out.npy")[row, col])
    units = lrmc.units.column_units(Y) if scale == "columns" else None
    inside = lrmc.solve(Y if units is None else units.removed(Y), 2)
    want = np.subtract(*inside.interval(row, col)[::-1])
    width = upper - lower if units is None else (upper - lower) / units.spread[col]
    np.testing.assert_allclose(np.median(width / want), 1, rtol=0.05)


def test_intervals_that_cannot_be_vouched_for_are_not_written(tmp_path):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 1)) @ rng.standard_normal((1, 30))
    Y += 0.1 * rng.standard_normal(Y.shape)
    source = saved(np.where(rng.random(Y.shape) < 0.9, Y, np.nan), tmp_path, ".zarr")
    done = run(
        "complete", source, "-o", tmp_path / "out.npy", "-r", 1, "--intervals", 0.9999
    )
    assert "no intervals are written" in done.stderr
    assert not (tmp_path / "out.intervals.zarr").exists()
    assert (tmp_path / "out.npy").exists()


def test_an_interrupted_run_goes_on(Y, tmp_path):
    source, target = saved(Y, tmp_path, ".zarr"), tmp_path / "out.zarr"
    seen = []

    def stop(at):
        seen.append(at)
        if at.note.startswith("iteration 6,"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        large.complete_large(source, target, 3, progress=stop, memory="400kB")
    assert [p.name for p in tmp_path.glob("out*")] == ["out.zarr.resume.npz"]
    passes, speed = re.search(r"(\d+) passes, (\d+) MB/s", seen[-1].note).groups()
    assert int(passes) > 8
    assert int(speed) > 0
    done = large.complete_large(source, target, 3, memory="400kB", fill="all")
    whole = by_steps(Y, 3)
    assert done.resumed == 6
    assert done.result.n_iter < whole.n_iter
    np.testing.assert_allclose(
        zarr.open_array(target, mode="r")[:], whole.low_rank(), atol=1e-4
    )
    assert [p.name for p in tmp_path.glob("out*")] == ["out.zarr"]


def test_ctrl_c_says_that_it_goes_on(Y, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(large, "solve", interrupted)
    done = run("complete", saved(Y, tmp_path, ".zarr"), "-o", tmp_path / "out.zarr")
    assert done.exit_code == 130
    assert "goes on from the last iterate" in done.output


def test_a_resume_file_of_something_else_is_refused(Y, tmp_path):
    source, target = saved(Y, tmp_path, ".zarr"), tmp_path / "out.zarr"
    resume = tmp_path / "out.zarr.resume.npz"
    resume.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="remove it to begin anew"):
        large.complete_large(source, target, 3)
    resume.unlink()
    with pytest.raises(ZeroDivisionError):
        large.complete_large(source, target, 3, progress=lambda at: at.done and 1 / 0)
    with pytest.raises(ValueError, match="another matrix or rank"):
        large.complete_large(source, target, 4)


def test_an_iterate_is_gone_on_from(Y):
    """Also where the rank is not given."""
    for it in lrmc.iterates(Y):
        if it.k == 7:
            break
    result = lrmc.solve(Y, start=it)
    assert result.converged
    assert result.rank == 3
    assert result.n_iter < by_steps(Y).n_iter
    with pytest.raises(ValueError, match="only the closed loop"):
        lrmc.solve(Y, 3, start=it, schedule="geometric")
    with pytest.raises(ValueError, match="300 x 80 matrix"):
        lrmc.solve(Y.T, start=it)


@each(
    ("arguments", "words"),
    [
        (("in.zarr", "-o", "out.csv"), "written as .zarr or .npy"),
        (("in.zarr", "-o", "in.zarr"), "also the input"),
        (("none.zarr", "-o", "out.zarr"), "no such file"),
        (("in.zarr", "-o", "out.zarr", "--memory", "much"), "2GB"),
        (("in.zarr", "-o", "out.zarr", "--outliers-to", "x.csv"), "written as .zarr"),
        (("in.zarr", "-o", "nowhere/out.zarr"), "no such directory"),
        (("in.zarr", "-o", "out.zarr", "--name", "B"), "choose one with --name"),
        (
            ("in.csv", "-o", "out.csv", "--memory", "2GB"),
            "--memory and --scheduler are for",
        ),
    ],
)
def test_errors_in_a_sentence(Y, arguments, words, tmp_path, monkeypatch):
    saved(Y, tmp_path, ".zarr")
    monkeypatch.chdir(tmp_path)
    done = run("complete", *arguments)
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.output.split())


def test_what_is_read_block_by_block(Y, tmp_path, monkeypatch):
    path = saved(Y, tmp_path, ".npy")
    assert not large.is_for(path)
    assert large.is_for(path, memory="1GB")
    monkeypatch.setattr("lrmc._memory.memory_there_is", lambda: 300_000)
    assert large.is_for(path)
    assert not large.is_for(tmp_path / "a.csv")
    obs = blocks(on_disk(Y, tmp_path, (40, 80)), memory="1MB")
    assert obs.meter.rows == 300  # the first pass


# ---- options hold on every path


def in_units(Y):
    """Columns that differ a thousand times in size."""
    return Y * np.logspace(-1.5, 1.5, Y.shape[1]) + np.linspace(-5, 5, Y.shape[1])


@pytest.mark.parametrize("how", ["rows", "columns", "threads"])
def test_columns_are_scaled_as_in_memory(how, Y, tmp_path):
    Z = in_units(Y)
    np.save(tmp_path / "in.npy", np.asarray(Z, order="F" if how == "columns" else "C"))
    block = ("--scheduler", "threads") if how == "threads" else ("--memory", "1MB")
    options = ("-r", 4, "--scale", "columns")
    there = run("complete", tmp_path / "in.npy", "-o", tmp_path / "there.npy", *options)
    here = run(
        "complete", tmp_path / "in.npy", "-o", tmp_path / "here.npy", *options, *block
    )
    assert (there.exit_code, here.exit_code) == (0, 0), here.output
    assert "at once" in there.output
    assert "block by block" in here.output
    for done in (there, here):
        assert "each column by its spread" in done.output
    got, want = (np.load(tmp_path / name) for name in ("here.npy", "there.npy"))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.nanstd(Z))
    same = ~np.isnan(Z) & (got == Z)
    # what was observed and is no outlier stays to the last digit
    assert same.sum() > 0.9 * np.isfinite(Z).sum()
    listed = zarr.open_group(tmp_path / "here.outliers.zarr", mode="r")
    lines = (tmp_path / "there.outliers.csv").read_text().splitlines()[1:]
    told = {
        (int(i), int(j)): float(y) - float(x)
        for i, j, y, x, _ in (line.split(",") for line in lines)
    }
    found = dict(
        zip(
            zip(listed["row"][:].tolist(), listed["col"][:].tolist()),
            listed["value"][:].tolist(),
        )
    )
    assert found.keys() == told.keys()
    np.testing.assert_allclose([found[k] for k in told], list(told.values()), rtol=1e-4)


def test_integers_with_a_fill_value_are_scaled(Y, tmp_path):
    Z = np.where(np.isnan(Y), -999, np.round(100 * in_units(np.nan_to_num(Y)))).astype(
        np.int16
    )
    array = zarr.create_array(
        tmp_path / "in.zarr", shape=Z.shape, dtype=Z.dtype, chunks=(40, 80)
    )
    array[:] = Z
    array.attrs["_FillValue"] = -999
    seen = np.where(Z == -999, np.nan, Z.astype(float))
    want = lrmc.units.column_units(seen)
    for scheduler in (None, "threads"):
        data = large._observations(tmp_path / "in.zarr", None, None, scheduler)
        assert data.n_observed == np.isfinite(seen).sum()
        units = lrmc.units.column_units(large._some_rows(data))
        np.testing.assert_allclose(units.spread, want.spread)
        scaled = large._observations(tmp_path / "in.zarr", None, None, scheduler, units)
        np.testing.assert_allclose(
            scaled.grid(np.arange(300), np.arange(80)), want.removed(seen)
        )


def test_the_report(Y, tmp_path):
    source, page = saved(Y, tmp_path, ".zarr"), tmp_path / "page.html"
    done = run(
        "complete",
        source,
        "-o",
        tmp_path / "out.npy",
        "-r",
        3,
        "--report",
        page,
        "--scale",
        "columns",
    )
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "in.zarr, completed" in text
    assert "The worst outliers" in text
    assert "scaled" in text
    assert not (tmp_path / "out.report.html").exists()
    done = run(
        "complete",
        source,
        "-o",
        tmp_path / "two.npy",
        "-r",
        3,
        "--no-report",
        "--no-outliers-file",
    )
    assert sorted(p.name for p in tmp_path.glob("two*")) == ["two.npy"]


@pytest.mark.parametrize(
    "options", [(), ("--memory", "1MB")], ids=["at once", "block by block"]
)
def test_columns_of_arrays_cannot_be_kept(options, Y, tmp_path):
    done = run(
        "complete",
        saved(Y, tmp_path, ".npy"),
        "-o",
        tmp_path / "out.npy",
        "--keep",
        "id",
        *options,
    )
    assert done.exit_code == 2
    assert "column 'id': in.npy is no table" in done.output


def test_contradictions_are_told_on_every_path(Y, tmp_path):
    source = saved(Y, tmp_path, ".zarr")
    done = run(
        "complete",
        source,
        "-o",
        tmp_path / "out.npy",
        "--report",
        tmp_path / "x.html",
        "--no-report",
    )
    assert done.exit_code == 2
    assert "contradict" in done.output


# ---- outputs appear together or not at all


def nothing_but(folder, *names):
    assert sorted(p.name for p in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    ("target", "fails", "error"),
    [
        ("out.npy", "write_completed", OSError(28, "No space left on device")),
        ("out.zarr", "write_outliers", OSError(28, "No space left on device")),
        ("out.zarr", "write_completed", KeyboardInterrupt()),
        ("out.npy", "_report", KeyboardInterrupt()),
    ],
)
def test_an_output_that_fails_takes_the_others_with_it(
    target, fails, error, Y, tmp_path, monkeypatch
):
    source, write = saved(Y, tmp_path, ".zarr"), getattr(large, fails)

    def failing(*arguments, **options):
        write(*arguments, **options)
        raise error

    monkeypatch.setattr(large, fails, failing)
    done = run("complete", source, "-o", tmp_path / target, "-r", 3)
    assert done.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    nothing_but(tmp_path, "in.zarr", f"{target}.resume.npz")
    monkeypatch.undo()
    done = run("complete", source, "-o", tmp_path / target, "-r", 3)
    assert done.exit_code == 0, done.output
    assert "of an earlier run" in done.output
    nothing_but(tmp_path, "in.zarr", target, "out.outliers.zarr", "out.report.html")


def test_outputs_of_before_are_replaced_whole(Y, tmp_path):
    source, target = saved(Y, tmp_path, ".zarr"), tmp_path / "out.zarr"
    group = zarr.open_group(target, mode="w", zarr_format=2)
    group.create_array("old", shape=(3,), dtype=float)
    assert run("complete", source, "-o", target, "-r", 3).exit_code == 0
    assert sorted(p.name for p in target.iterdir()) == ["c", "zarr.json"]


@pytest.mark.parametrize(
    ("make", "place", "said"),
    [
        (lambda path: path.mkdir(), "out.npy", "is a folder, which is not replaced"),
        (
            lambda path: path.write_text("mine"),
            "out.zarr",
            "is a file, which is not replaced",
        ),
        (
            lambda path: (path.mkdir(), (path / "mine.txt").write_text("mine")),
            "out.zarr",
            "something else than zarr",
        ),
    ],
)
def test_what_is_something_else_is_not_replaced(make, place, said, Y, tmp_path):
    source = saved(Y, tmp_path, ".zarr")
    make(tmp_path / place)
    done = run("complete", source, "-o", tmp_path / place, "-r", 3)
    assert done.exit_code == 2
    assert said in done.output
    nothing_but(tmp_path, "in.zarr", place)


def test_no_output_within_the_input(Y, tmp_path):
    source = saved(Y, tmp_path, ".zarr")
    done = run("complete", source, "-o", source / "out.npy", "-r", 3)
    assert done.exit_code == 2
    assert "also the input, or within it" in done.output


# ---- what an interrupted run left


def damaged(path, **arrays):
    about = {
        "format": "lrmc-iterate",
        "k": 3,
        "zeta": 1.0,
        "change": 0.1,
        "stage": "loop",
        "scaled": False,
    }
    content = {"about": about, "L": np.ones((300, 3)), "R": np.ones((80, 3))} | arrays
    content["about"] = np.array(json.dumps(about | content["about"]))
    np.savez(path, **content)
    return path


@each(
    ("arrays", "said"),
    [
        ({"L": np.ones(300)}, "remove it"),
        ({"L": np.full((300, 3), np.nan)}, "not finite"),
        ({"R": np.ones((80, 3), complex)}, "remove it"),
        ({"R": np.ones((80, 4))}, "remove it"),
        ({"about": {"k": "many"}}, "remove it"),
        ({"about": {"k": -4}}, "no sense"),
        ({"about": {"zeta": None}}, "remove it"),
        ({"about": {"zeta": float("nan")}}, "no sense"),
        ({"about": {"format": "else"}}, "something else"),
        ({"about": {"scaled": True}}, "another --scale"),
    ],
)
def test_damaged_resume_files(arrays, said, Y, tmp_path):
    source = saved(Y, tmp_path, ".zarr")
    resume = damaged(tmp_path / "out.npy.resume.npz", **arrays)
    done = run("complete", source, "-o", tmp_path / "out.npy", "-r", 3)
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert resume.name in done.output
    nothing_but(tmp_path, "in.zarr", resume.name)


def test_truncated_resume_files(Y, tmp_path):
    source, resume = (
        saved(Y, tmp_path, ".zarr"),
        damaged(tmp_path / "out.npy.resume.npz"),
    )
    content = resume.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 1):
        resume.write_bytes(content[:length])
        with pytest.raises(ValueError, match="remove it to begin anew"):
            large.complete_large(source, tmp_path / "out.npy", 3)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4  # the check sum of the archive tells
    resume.write_bytes(bytes(flipped))
    with pytest.raises(ValueError, match="remove it to begin anew"):
        large.complete_large(source, tmp_path / "out.npy", 3)
