"""Video: a small generated scene in real files, the command line, faults, models, memory."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

av = pytest.importorskip("av")
Image = pytest.importorskip("PIL.Image")
typer_testing = pytest.importorskip("typer.testing")
from made.film import scene, write_clip, write_pictures
from real_data import DATA

from lrmc import cli
from lrmc.apps.video import clips, files, foreground, medians, output, windows
from lrmc.apps.video import model as video
from lrmc.observations import as_observations
from lrmc.subspace import Part, follow

ROOT = Path(__file__).resolve().parents[1]
CLIPS = DATA / "video"


def run(*arguments):
    return typer_testing.CliRunner().invoke(
        cli.app, [str(x) for x in arguments], env={"COLUMNS": "200"}
    )


def f_measure(found, truth):
    return 2 * np.sum(found & truth) / (found.sum() + truth.sum())


def read_masks(folder):
    pictures = [
        np.asarray(Image.open(path)) for path in sorted((folder / "masks").iterdir())
    ]
    assert set(np.unique(pictures)) <= {0, 255}
    return np.stack(pictures) == 255


# ---- arrays


@pytest.mark.parametrize("sample", [1.0, 0.3])
@pytest.mark.parametrize("colour", [False, True])
def test_separate(colour, sample):
    frames, truth = scene(80, colour=colour)
    parts = video.separate(frames, sample=sample)
    assert f_measure(parts.masks(), truth) > 0.93
    back = parts.background()
    assert back.shape == frames.shape
    assert back.dtype == np.uint8
    behind = np.abs(back.astype(float) - frames)[~truth]
    assert np.median(behind) <= 2
    assert np.quantile(behind, 0.99) < 12
    front = parts.foreground(slice(3, 5))
    np.testing.assert_array_equal(
        front[parts.masks(slice(3, 5))], frames[3:5][parts.masks(slice(3, 5))]
    )
    assert not front[~parts.masks(slice(3, 5))].any()


def test_the_background_is_that_of_a_median_where_light_is_constant():
    rng = np.random.default_rng(1)
    wall = rng.integers(40, 150, (24, 32))
    frames = np.clip(wall + rng.normal(0, 2, (101, 24, 32)), 0, 255).astype(np.uint8)
    frames[:20, 5:10, 5:10] = 255
    parts = video.separate(frames)
    assert (
        np.abs(parts.background()[50].astype(int) - np.median(frames, axis=0)).max()
        <= 2
    )


def naive_clean_up(found, near, gap):
    """Majority, dilation and erosion by squares, pixel by pixel; outside is nothing
    (majority: the border goes on).
    """
    height, width = found.shape

    def around(image, i, j, n, far):
        rows, cols = (range(k - n // 2, k + n // 2 + 1) for k in (i, j))
        if far is None:
            return [
                image[min(max(a, 0), height - 1), min(max(b, 0), width - 1)]
                for a in rows
                for b in cols
            ]
        return [image.get((a, b), far) for a in rows for b in cols]

    places = [
        (i, j) for i in range(-gap, height + gap) for j in range(-gap, width + gap)
    ]
    major = {
        (i, j): sum(around(found, i, j, near, None)) * 2 > near * near
        for i in range(height)
        for j in range(width)
    }
    grown = {(i, j): any(around(major, i, j, gap, False)) for i, j in places}
    return np.array(
        [
            [all(around(grown, i, j, gap, False)) for j in range(width)]
            for i in range(height)
        ]
    )


def test_clean_up_is_what_it_says():
    rng = np.random.default_rng(0)
    smooth = rng.random((2, 24, 30)) < np.linspace(0, 1, 30)
    got = foreground.cleaned(smooth)
    for k in range(2):
        np.testing.assert_array_equal(got[k], naive_clean_up(smooth[k], 3, 3))
    assert foreground.cleaned(np.zeros((1, 240, 320), bool)).sum() == 0
    assert foreground.cleaned(np.ones((1, 240, 320), bool)).all()


def test_neighbourhoods_grow_with_the_picture():
    assert [windows.odd(side / 22) for side in (48, 240, 1080)] == [3, 11, 49]
    assert [windows.odd(side / 48) for side in (48, 240, 1080)] == [3, 5, 23]


@pytest.mark.parametrize(
    ("frames", "sentence"),
    [
        (np.zeros((5, 8, 8), np.float32), "bytes"),
        (np.zeros((5, 8, 8, 2), np.uint8), "shape"),
        (np.zeros((0, 8, 8), np.uint8), "shape"),
        (np.zeros((1, 8, 8), np.uint8), "at least 2"),
    ],
)
def test_bad_arrays(frames, sentence):
    with pytest.raises(ValueError, match=sentence):
        video.separate(frames)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 5}, "rank=5 for 5 frames; a whole number from 1 to 4"),
        ({"rank": 0}, "rank=0"),
        ({"rank": None}, "rank=None"),
        ({"sample": 0.0}, "a share of 0.0"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_options_for_arrays(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        video.separate(scene(5)[0], **options)


def test_pixels_that_are_never_seen_are_told():
    with pytest.warns(UserWarning, match="never observed"):
        video.separate(scene(20)[0], sample=0.05)


@pytest.mark.parametrize("sample", [1.0, 0.2])
def test_medians_of_pixels(sample):
    """Against a loop over pixels; pixels that nothing shows get the median of all."""
    frames = np.random.default_rng(0).integers(0, 256, (40, 9, 7), dtype=np.uint8)
    seen = video.sampled(frames, sample, 0)
    if sample < 1:
        seen = seen.tolil()
        seen[:, 5] = 0  # lil drops these
        seen = seen.tocsr()
    got = medians.medians(seen)
    values = [
        seen[:, j] if sample == 1 else seen.tocsc()[:, [j]].data for j in range(63)
    ]
    every = np.median(np.concatenate(values)).astype(np.uint8)
    want = [sorted(v)[(len(v) - 1) // 2] if len(v) else every for v in values]
    np.testing.assert_array_equal(got, want)


def test_spread_keeps_few_and_evenly():
    for n in (1, 5, 6, 50, 1000):
        spread = output.Spread(6)
        for k in range(n):
            spread.add(lambda k=k: k)
        assert 1 <= len(spread.items) <= 6
        assert spread.items == list(range(0, n, spread.step))


# ---- models


def test_a_model_on_more_video(tmp_path):
    """A box that never moves in the second clip is in front all the same."""
    known = video.separate(scene(60)[0]).model
    known.save(tmp_path / "model.npz")
    loaded = video.Background.load(tmp_path / "model.npz")
    more, _ = scene(20, seed=5)
    more[:, 36:46, 40:54] = 255
    for model in (known, loaded):
        found = video.separate(more, model=model).masks()
        assert found[:, 37:45, 41:53].all()
    alone = video.separate(more).masks()
    # without it, that box is background but for the light
    assert alone[:, 37:45, 41:53].mean() < 0.5


def test_bad_models(tmp_path):
    known = video.separate(scene(30)[0]).model
    known.save(tmp_path / "model.npz")
    content = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.npz").write_bytes(b"hello")
    np.savez(tmp_path / "other.npz", V=np.zeros(3))
    parts = dict(np.load(tmp_path / "model.npz"))
    np.savez(tmp_path / "mixed.npz", **(parts | {"shape": np.array([3, 3])}))
    for name in ("short", "text", "other", "mixed"):
        with pytest.raises(ValueError, match="could not be read as a background"):
            video.Background.load(tmp_path / f"{name}.npz")
    with pytest.raises(
        ValueError, match="32 x 24 pixels in grey, and the model is for 64 x 48"
    ):
        video.separate(scene(5, 24, 32)[0], model=known)


# ---- files


def test_a_video_in_and_out(tmp_path):
    frames, truth = scene(colour=True)
    source = write_clip(tmp_path / "in.mp4", frames, rate=12)
    done = run("video", source, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "frames per second" in done.stdout
    out = tmp_path / "out"
    names = [
        "background.mp4",
        "background.npz",
        "background_sd.npz",
        "events.csv",
        "events.json",
        "foreground.mp4",
        "masks",
        "report.html",
    ]
    assert sorted(path.name for path in out.iterdir()) == names
    assert [path.name for path in sorted((out / "masks").iterdir())] == [
        f"{k:06d}.png" for k in range(40)
    ]
    # H.264 has colours at half of the resolution: things get a coloured rim.
    assert f_measure(read_masks(out), truth) > 0.87
    back = np.stack(list(clips.Clip.open(out / "background.mp4").frames()))
    assert back.shape == frames.shape
    # the film has a quarter of the colours
    assert np.quantile(np.abs(back.astype(float) - frames)[~truth], 0.9) < 15
    front = np.stack(list(clips.Clip.open(out / "foreground.mp4").frames()))
    # grey, so that dark things are seen
    assert abs(np.median(front[~truth]) - output.NOTHING) < 5
    assert np.abs(front[truth].mean(axis=0) - (250, 240, 20)).max() < 40
    assert clips.Clip.open(out / "foreground.mp4").rate == 12


def test_a_folder_of_pictures_and_its_sample(tmp_path):
    frames, truth = scene(60)
    source = write_pictures(tmp_path / "in", frames)
    (source / "notes.txt").write_text("not a picture")
    done = run("video", source, "-o", tmp_path / "out", "--sample", 0.3, "--seed", 3)
    assert done.exit_code == 0, done.stderr
    assert f_measure(read_masks(tmp_path / "out"), truth) > 0.93
    assert video.Background.load(tmp_path / "out" / "background.npz").shape == (48, 64)
    again = run(
        "video",
        source,
        "-o",
        tmp_path / "again",
        "--model",
        tmp_path / "out" / "background.npz",
    )
    assert again.exit_code == 0, again.stderr
    assert f_measure(read_masks(tmp_path / "again"), truth) > 0.93


def test_grey_on_request_and_odd_sizes(tmp_path):
    frames, truth = scene(60, colour=True)
    source = write_pictures(tmp_path / "in", frames[:, :47, :63])
    done = run("video", source, "-o", tmp_path / "out", "--grey", "--rank", 2)
    assert done.exit_code == 0, done.stderr
    model = video.Background.load(tmp_path / "out" / "background.npz")
    assert model.shape == (47, 63)
    assert model.model.rank == 2
    # rank 2 takes up a part of the box
    assert f_measure(read_masks(tmp_path / "out"), truth[:, :47, :63]) > 0.8


def test_files_and_arrays_agree(tmp_path):
    frames, _ = scene(30)
    files.process(write_pictures(tmp_path / "in", frames), tmp_path / "out")
    np.testing.assert_array_equal(
        read_masks(tmp_path / "out"), video.separate(frames).masks()
    )


def test_long_clips_in_blocks(tmp_path, monkeypatch):
    """Little is held at a time, and a background that changes for good is followed."""
    size, n = 48 * 64, 240
    frames, truth = scene(n)
    other, _ = scene(1, picture=7)
    frames[140:, 40:, :24] = other[0, 40:, :24]
    monkeypatch.setattr(files, "TO_LEARN", 30 * size)
    monkeypatch.setattr(files, "AT_ONCE", 20 * size)
    for module in (video, files):
        monkeypatch.setattr(module, "REMEMBERED", 60)
    held, shown = [], []
    stack, sections = np.stack, files.sections
    monkeypatch.setattr(output, "SHOWN", 10 * size)
    monkeypatch.setattr(
        files,
        "sections",
        lambda *about: shown.extend(about[-1].items) or sections(*about),
    )
    monkeypatch.setattr(
        np, "stack", lambda some, **how: held.append(len(some)) or stack(some, **how)
    )
    done = files.process(write_pictures(tmp_path / "in", frames), tmp_path / "out")
    monkeypatch.undo()
    assert done.n_frames == n
    assert max(held) <= 30
    assert len(shown) <= 10
    # views would hold whole blocks
    assert all(layer.base is None for one in shown for layer in one[1:])
    found = read_masks(tmp_path / "out")
    assert f_measure(found[:120], truth[:120]) > 0.9
    assert f_measure(found[-20:], truth[-20:]) > 0.9


def test_a_grid_is_enough_to_follow_by():
    """The same background as by all pixels, in light that changes, some of them seen, and in units
    of any size."""
    rng = np.random.default_rng(0)
    light = 1 + 0.2 * rng.random(60)
    frames = np.rint(light[:, None, None] * scene(60)[0] * 0.8).astype(np.uint8)
    for sample in (1.0, 0.5):
        seen = video.sampled(frames, sample, 0)
        known = video.learn(seen[:30], frames.shape[1:])
        obs = as_observations(seen[30:])
        every = np.arange(0, obs.shape[1], 3)
        few = Part(as_observations(seen[30:][:, every]), every)
        for gain in (1.0, 1e-6):
            model, memory = known.model.scaled(gain), known.memory.scaled(gain)
            rest = obs.scaled(gain), model, memory, 0.9, False
            by_all, by_few = follow(*rest), follow(*rest, few.scaled(gain))
            np.testing.assert_allclose(by_few.rows.T, by_all.rows.T, rtol=0.01)
            pictures = [one.rows.T @ one.model.V.T for one in (by_all, by_few)]
            assert np.median(np.abs(pictures[1] - pictures[0])) < 0.5 * gain


# ---- what goes wrong


def fails(tmp_path, source, *options):
    """The sentence; nothing is left behind."""
    before = sorted(tmp_path.iterdir())
    done = run("video", source, "-o", tmp_path / "out", *options)
    assert done.exit_code == 2, done.stdout
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before
    return done.stderr


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", scene()[0])


def test_broken_files(tmp_path, clip):
    content = clip.read_bytes()
    for name, part in (
        ("empty", b""),
        ("short", content[: len(content) // 2]),
        ("text", b"hello " * 100),
    ):
        (tmp_path / f"{name}.mp4").write_bytes(part)
        assert "could not be read as a video" in fails(
            tmp_path, tmp_path / f"{name}.mp4"
        )
    assert "no such file" in fails(tmp_path, tmp_path / "absent.mp4")


@pytest.mark.parametrize(
    "name", ["list.m3u8", "list.mp4", "list.ffconcat", "manifest.mpd"]
)
def test_files_that_name_others_are_not_followed(name, tmp_path, clip):
    """Playlists and scripts, whatever their names: neither other files nor addresses are opened."""
    (tmp_path / "other.mp4").write_bytes(clip.read_bytes())
    texts = {
        ".m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nother.mp4\n#EXT-X-ENDLIST\n",
        ".mp4": "ffconcat version 1.0\nfile other.mp4\n",
        ".ffconcat": "ffconcat version 1.0\nfile other.mp4\nfile other.mp4\n",
        ".mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
        '<AdaptationSet contentType="video"><Representation id="0"><BaseURL>other.mp4</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>",
    }
    source = tmp_path / name
    source.write_text(texts[source.suffix])
    assert "could not be read as a video" in fails(tmp_path, source)
    assert "there is no such file" in fails(
        tmp_path, f"concat:{tmp_path / 'other.mp4'}"
    )


def test_a_video_of_an_unknown_codec(tmp_path, clip):
    (tmp_path / "in.mp4").write_bytes(clip.read_bytes().replace(b"avc1", b"zzzz"))
    assert "could not be read as a video" in fails(tmp_path, tmp_path / "in.mp4")


def test_a_truncated_avi(tmp_path):
    source = write_clip(tmp_path / "in.avi", scene(60)[0], "mpeg4")
    content = source.read_bytes()
    source.write_bytes(content[: len(content) * 2 // 3])
    assert "truncated" in fails(tmp_path, source)


def test_one_frame_no_frames_and_mixed_sizes(tmp_path):
    frames, _ = scene(3)
    assert "at least 2" in fails(tmp_path, write_clip(tmp_path / "one.mp4", frames[:1]))
    assert "at least 2" in fails(tmp_path, write_pictures(tmp_path / "one", frames[:1]))
    assert "without pictures" in fails(
        tmp_path, write_pictures(tmp_path / "none", frames[:0])
    )
    mixed = write_pictures(tmp_path / "mixed", [*frames, frames[0, :40]])
    assert "frame 4 has 64 x 40 pixels, those before 64 x 48" in fails(tmp_path, mixed)
    (mixed / "003.png").write_bytes((mixed / "002.png").read_bytes()[:100])
    assert "cannot be read as a picture" in fails(tmp_path, mixed)


def test_bad_options(tmp_path, clip):
    assert "more than 0 and at most 1" in fails(tmp_path, clip, "--sample", 1.5)
    assert "rank=500" in fails(tmp_path, clip, "--rank", 500)
    assert (
        "no such" in fails(tmp_path, clip, "--model", tmp_path / "absent.npz").lower()
    )
    video.separate(scene(12, 24, 32)[0]).model.save(tmp_path / "small.npz")
    assert "the model is for 32 x 24" in fails(
        tmp_path, clip, "--grey", "--model", tmp_path / "small.npz"
    )
    (tmp_path / "file").write_bytes(b"")
    done = run("video", clip, "-o", tmp_path / "file")
    assert done.exit_code == 2
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_error_in_the_middle_leaves_nothing(tmp_path, clip, error, monkeypatch):
    def tell(step):
        if step.stage == "writing":
            raise error

    monkeypatch.setattr(files, "AT_ONCE", 48 * 64 * 10)
    with pytest.raises(error):
        files.process(clip, tmp_path / "out", progress=tell)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path):
    source = write_pictures(
        tmp_path / "in", np.repeat(scene(20, 240, 320)[0], 8, axis=0)
    )
    command = [
        sys.executable,
        "-m",
        "lrmc.cli",
        "video",
        str(source),
        "-o",
        str(tmp_path / "out"),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 50
    while (
        process.poll() is None
        and time.monotonic() < until
        and not list(tmp_path.glob(".out-*/masks/*"))
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_report_in_a_browser(tmp_path, clip, show):
    done = run("video", clip, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    page = show(tmp_path / "out" / "report.html")
    assert page.title() == "clip.mp4"
    panes = page.locator(".film figure")
    assert panes.all_inner_texts() == ["original", "background", "foreground", "mask"]
    page.locator(".film input").focus()
    page.keyboard.press("End")
    assert page.locator(".film output").inner_text() == "frame 40 of 40"
    assert page.evaluate(
        "Array.from(document.images).every(image => image.complete && image.naturalWidth > 0)"
    )


@pytest.mark.data
@pytest.mark.skipif(not CLIPS.is_dir(), reason="no data beside the repository")
@pytest.mark.parametrize(("sample", "bar"), [(1.0, 0.945), (0.1, 0.945)])
def test_a_real_clip(sample, bar):
    content = np.load(CLIPS / "sbi2015_ibmtest2.npz")
    codes, found = (
        content["masks"],
        video.separate(content["frames"], sample=sample).masks(),
    )
    counts = (codes != 85) & (codes != 170)
    assert f_measure(found & counts, (codes == 255) & counts) > bar
