"""`lrmc complete` on matrices that are read block by block."""

import numpy as np
import pytest
from presentations import on_disk

import lrmc
from lrmc import large
from lrmc.outofcore import blocks

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
        pytest.importorskip("xarray").Dataset({"Y": (("a", "b"), Y)}).to_netcdf(path, engine="h5netcdf")
    else:
        array = zarr.create_array(path, shape=Y.shape, dtype=Y.dtype, chunks=(40, 80))
        array[:] = Y
    return path


@pytest.mark.parametrize(("suffix", "memory"), [(".zarr", None), (".npy", "400kB"), (".nc", None)])
@pytest.mark.parametrize("target", ["out.zarr", "out.npy"])
def test_the_command(Y, suffix, memory, target, tmp_path):
    source = saved(Y, tmp_path, suffix)
    done = run("complete", source, "-o", tmp_path / target, "-r", 3, *(("--memory", memory) if memory else ()))
    assert done.exit_code == 0, done.output
    assert "300 x 80" in done.output
    got = np.load(tmp_path / target) if target == "out.npy" else zarr.open_array(tmp_path / target, mode="r")[:]
    want = lrmc.solve(Y, 3)
    S = np.nan_to_num(want.outliers())
    np.testing.assert_allclose(got, np.where(np.isnan(Y) | (S != 0), want.low_rank(), Y), atol=1e-7)
    listed = zarr.open_group(tmp_path / "out.outliers.zarr", mode="r")
    assert listed["row"].shape == (np.count_nonzero(S),)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([source.name, target, "out.outliers.zarr"])


def test_with_dask(Y, tmp_path):
    pytest.importorskip("dask.array")
    source = saved(Y, tmp_path, ".zarr")
    done = run("complete", source, "-o", tmp_path / "out.npy", "--scheduler", "threads", "--fill", "all")
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), lrmc.solve(Y).low_rank(), atol=1e-7)


def test_an_interrupted_run_goes_on(Y, tmp_path):
    source, target = saved(Y, tmp_path, ".zarr"), tmp_path / "out.zarr"
    seen = []

    def stop(it, pace):
        seen.append(pace)
        if it.k == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        large.complete_large(source, target, 3, progress=stop, memory="400kB")
    assert [p.name for p in tmp_path.glob("out*")] == ["out.zarr.resume.npz"]
    assert seen[-1].passes > 8
    assert seen[-1].speed > 0
    done = large.complete_large(source, target, 3, memory="400kB", fill="all")
    whole = lrmc.solve(Y, 3)
    assert done.resumed == 6
    assert done.result.n_iter < whole.n_iter
    np.testing.assert_allclose(zarr.open_array(target, mode="r")[:], whole.low_rank(), atol=1e-4)
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
        large.complete_large(source, target, 3, progress=lambda it, pace: it.k and 1 / 0)
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
    assert result.n_iter < lrmc.solve(Y).n_iter
    with pytest.raises(ValueError, match="only the closed loop"):
        lrmc.solve(Y, 3, start=it, schedule="geometric")
    with pytest.raises(ValueError, match="300 x 80 matrix"):
        lrmc.solve(Y.T, start=it)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in.zarr", "-o", "out.csv"), "written as .zarr or .npy"),
        (("in.zarr", "-o", "in.zarr"), "also the input"),
        (("none.zarr", "-o", "out.zarr"), "no such file"),
        (("in.zarr", "-o", "out.zarr", "--memory", "much"), "2GB"),
        (("in.zarr", "-o", "out.zarr", "--outliers-to", "x.csv"), "written as .zarr"),
        (("in.zarr", "-o", "nowhere/out.zarr"), "no such directory"),
        (("in.zarr", "-o", "out.zarr", "--name", "B"), "choose one with --name"),
        (("in.csv", "-o", "out.csv", "--memory", "2GB"), "--memory and --scheduler are for"),
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
    monkeypatch.setattr("lrmc.outofcore.memory_there_is", lambda: 300_000)
    assert large.is_for(path)
    assert not large.is_for(tmp_path / "a.csv")
    obs = blocks(on_disk(Y, tmp_path, (40, 80)), memory="1MB")
    assert obs.meter.rows == 300  # the first pass
