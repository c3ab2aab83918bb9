"""Every application and command tells where it is in one way, and how it ended in one way."""

from pathlib import Path

import numpy as np
import pytest

import lrmc
from lrmc._progress import Progress
from lrmc._work import SOUND, Outcome, following, moved, placed
from lrmc.complete import process as complete
from lrmc.result import Status


def test_a_fit_is_done_when_its_change_has_come_to_tol():
    Y = lrmc.synthetic.problem(n=60, rank=2, alpha=0.1, p=1.0, form="dense").Y
    seen, told = [], []
    follow = following(told.append, 1e-6, lambda: "more")
    result = lrmc.solve(
        Y, 2, tol=1e-6, progress=lambda it: (seen.append(it), follow(it))
    )
    assert len(told) == len(seen) == len(result.history)
    assert told[0] == Progress("fitting", 0.0, 1.0, note="start")
    assert told[-1].done == 1.0
    for it, at in zip(seen[1:], told[1:], strict=True):
        assert at.note.startswith(f"iteration {it.k}, change ")
        assert at.note.endswith(", more")
        assert 0 <= at.done <= at.total == 1.0


def test_no_way_to_a_tol_that_is_none():
    told = []
    for it in lrmc.iterates(np.outer(range(9), range(9)), 1):
        following(told.append, 2.0)(it)
        if it.k == 2:
            break
    assert {at.done for at in told} == {0.0}


def test_a_warning_is_given_and_kept():
    with pytest.warns(lrmc.ConvergenceWarning, match="in doubt"):
        ended = SOUND.warned("it is in doubt", Status.UNDETERMINED)
    with pytest.warns(UserWarning, match="another"):
        ended = ended.warned("another")
    assert ended == Outcome(
        status=Status.UNDETERMINED, warnings=("it is in doubt", "another")
    )
    assert not ended.sound
    assert ended.sections()[0].paragraphs == ["It is in doubt.", "Another."]
    assert SOUND.sound
    assert SOUND.sections() == []


def test_where_files_will_be(tmp_path):
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "a").mkdir()
    assert placed(tmp_path, "out") == (Path("out/a"), Path("out/b"))
    assert moved([tmp_path / "b"], "out") == (Path("out/b"),)


# ---- all that works on files


def a_clip(folder):
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("av")
    from lrmc.apps.video import process

    (folder / "in").mkdir()
    for k, frame in enumerate(
        np.random.default_rng(0).integers(90, 110, (6, 24, 32), dtype=np.uint8)
    ):
        pillow.fromarray(frame).save(folder / "in" / f"{k}.png")
    return process, folder / "in"


def a_cine(folder):
    pytest.importorskip("PIL.Image")
    from lrmc.apps.ultrasound import process

    np.save(folder / "in.npy", np.random.default_rng(0).normal(100, 10, (8, 24, 24)))
    return process, folder / "in.npy"


def some_scenes(folder):
    pytest.importorskip("PIL.Image")
    pytest.importorskip("rasterio")
    from made.landscape import landscape, write_landscape

    from lrmc.apps.clouds import process

    (folder / "in").mkdir()
    return process, write_landscape(folder / "in", landscape(12, 16, 16))


def some_faces(folder):
    pytest.importorskip("PIL.Image")
    from made.spheres import heads, write_heads

    from lrmc.apps.faces import process

    (folder / "in").mkdir()
    write_heads(folder / "in", heads(8, 24, 20))
    return process, folder / "in"


@pytest.mark.parametrize("made", [a_clip, a_cine, some_scenes, some_faces])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_applications_end_alike(made, tmp_path):
    process, source = made(tmp_path)
    told = []
    done = process(source, tmp_path / "out", progress=told.append)
    assert isinstance(done, Outcome)
    assert sorted(done.files) == sorted((tmp_path / "out").iterdir())
    assert done.report == tmp_path / "out" / "report.html"
    assert done.report in done.files
    assert done.seconds > 0
    assert isinstance(done.status, Status)
    ends(told)


@pytest.mark.parametrize("memory", [None, "100kB"])
def test_completion_ends_as_applications_do(memory, tmp_path):
    Y = lrmc.synthetic.problem(n=60, rank=2, alpha=0.1, p=0.8, form="dense").Y
    np.save(tmp_path / "in.npy", Y)
    told, page = [], tmp_path / "page.html"
    pytest.importorskip("PIL.Image")
    done = complete(
        tmp_path / "in.npy",
        tmp_path / "out.npy",
        2,
        report_to=page,
        memory=memory,
        progress=told.append,
    )
    assert isinstance(done, Outcome)
    assert done.files == (tmp_path / "out.npy", page)
    assert done.report == page
    assert done.sound is done.result.converged is True
    assert not np.isnan(np.load(tmp_path / "out.npy")).any()
    ends(told)


def ends(told):
    """All are records of progress, and the last stage comes to its end."""
    assert told
    assert all(isinstance(at, Progress) for at in told)
    assert told[-1].done == told[-1].total > 0
    assert all(at.done <= at.total for at in told if at.total)


def test_options_are_refused_where_they_do_not_hold(tmp_path):
    np.save(tmp_path / "in.npy", np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"column 'a': in\.npy is no table"):
        complete(tmp_path / "in.npy", tmp_path / "out.npy", keep=["a"])
    with pytest.raises(ValueError, match="--memory and --scheduler are for"):
        complete(tmp_path / "in.csv", tmp_path / "out.csv", memory="1GB")


# ---- what the console makes of it


@pytest.fixture
def words():
    pytest.importorskip("typer")
    from lrmc.cli.console import InWords

    now = [0.0]
    return InWords(lambda: now[0]), now


def test_progress_in_words(words):
    tell, now = words
    assert tell(Progress("reading", 1, 0, "frames")) == "reading, 1 frames"
    now[0] = 10.0
    assert tell(Progress("writing", 0, 1000, "frames")) == "writing"
    now[0] = 12.0
    assert (
        tell(Progress("writing", 200, 1000, "frames"))
        == "writing, 200 of 1 000 frames, 100 frames/s, 8 s left"
    )
    now[0] = 110.0
    assert tell(Progress("writing", 500, 1000, "frames")).endswith(
        "5 frames/s, 1:40 min left"
    )
    assert tell(Progress("writing", 1000, 1000, "frames")).endswith("10 frames/s")


def test_shares_in_words(words):
    tell, now = words
    assert tell(Progress("fitting", 0.0, 1.0, note="start")) == "fitting, start"
    now[0] = 3.0
    assert (
        tell(Progress("fitting", 0.25, 1.0, note="iteration 1 [x]"))
        == r"fitting, iteration 1 \[x], 9 s left"
    )
    now[0] = 3.5
    # its time is counted from its own beginning
    assert tell(Progress("tail", 0.5, 1.0)) == "tail"
