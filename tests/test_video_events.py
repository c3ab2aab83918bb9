"""Video: events, regions, runs without films, streams."""

import contextlib
import csv
import json
import socket
import threading
from fractions import Fraction

import numpy as np
import pytest

av = pytest.importorskip("av")
pytest.importorskip("PIL.Image")
typer_testing = pytest.importorskip("typer.testing")

from made.film import scene, write_clip

from lrmc import cli
from lrmc.apps.video import clips, files, model
from lrmc.apps.video.clips import Clip, Region, View, reduced
from lrmc.apps.video.events import Box, Tracker, boxes
from lrmc.apps.video.foreground import in_front


def moving(count=60, height=96, width=128, *, dark=False, scale=1):
    """Two things that cross: frames in bytes, and their boxes."""
    rng = np.random.default_rng(0)
    ground = rng.uniform(90, 160, (height, width))
    frames, places = [], []
    for t in range(count):
        frame = ground + rng.normal(0, 2, ground.shape)
        spots = [(10 + 2 * t % 90, 20), (100 - t, 60)]
        for left, top in spots:
            frame[top : top + 16, left : left + 18] = 5 if dark else 250
        frames.append(np.clip(frame, 0, 255))
        places.append(spots)
    frames = np.stack(frames).astype(np.uint8)
    return frames.repeat(scale, 1).repeat(scale, 2), places


def pictures(folder, frames):
    from PIL import Image

    folder.mkdir()
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"{k:04}.png")
    return folder


def naive_boxes(mask):
    """Flood fill, also over corners."""
    left, found = {tuple(x) for x in np.argwhere(mask)}, []
    while left:
        some, edge = set(), [left.pop()]
        while edge:
            y, x = edge.pop()
            some.add((y, x))
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            edge += near
        ys, xs = zip(*some, strict=True)
        box = Box(min(xs), min(ys), max(xs) + 1, max(ys) + 1)
        found.append((box, len(some)))
    return sorted(found)


def test_boxes_are_those_of_a_flood_fill():
    rng = np.random.default_rng(0)
    for _ in range(20):
        mask = rng.random((30, 40)) < 0.3  # so small that nothing is too small
        assert sorted(boxes(mask)) == naive_boxes(mask)
    assert list(boxes(np.zeros((30, 40), bool))) == []
    speck = np.zeros((240, 320), bool)
    speck[5:9, 5:9] = True
    assert list(boxes(speck)) == []


def test_tracks_follow_things_that_are_lost_for_a_while():
    def mask(*lefts):
        found = np.zeros((60, 200), bool)
        for left in lefts:
            found[20:40, left : left + 20] = True
        return found

    tracker = Tracker(10.0, scale=2, origin=(100, 7))
    (first,) = tracker.events(0, mask(10))
    assert (first.left, first.top, first.width, first.height) == (120, 47, 40, 40)
    assert (first.area, first.track, first.seconds) == (1600, 1, 0.0)
    both = tracker.events(1, mask(14, 150))
    assert {event.track for event in both} == {1, 2}
    assert tracker.events(2, mask()) == []
    (back,) = tracker.events(4, mask(18))
    assert back.track == 1
    assert back.seconds == 0.4
    (late,) = tracker.events(30, mask(18))
    assert late.track == 3


def test_events_of_a_clip(tmp_path):
    frames, places = moving()
    done = files.process(pictures(tmp_path / "in", frames), tmp_path / "out")
    tracks = {event.track for event in done.events}
    assert len(tracks) <= 5  # two, that meet and part again
    for t in (5, 20):
        found = {(e.left, e.top) for e in done.events if e.frame == t}
        for left, top in places[t]:
            near = min(abs(left - x) + abs(top - y) for x, y in found)
            assert near <= 4, (t, found)
    with open(tmp_path / "out" / "events.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    listed = json.loads((tmp_path / "out" / "events.json").read_text())
    assert len(lines) == len(listed) == len(done.events)
    assert [int(x["left"]) for x in lines] == [x["left"] for x in listed]


def test_without_films(tmp_path):
    """Smaller pictures, the same boxes; nothing but lists, the background and the report."""
    frames, _ = moving(30, 240, 320, scale=2)
    source = pictures(tmp_path / "in", frames)
    full = files.process(source, tmp_path / "full", grey=True)
    fast = files.process(source, tmp_path / "fast", grey=True, films=False)
    names = {"events.csv", "events.json", "background.npz", "report.html"}
    names.add("background_sd.npz")
    assert {path.name for path in (tmp_path / "fast").iterdir()} == names
    assert fast.model.shape == (240, 320)
    assert full.model.shape == (480, 640)
    off = [
        min(abs(e.left - f.left) + abs(e.top - f.top) for f in fast.events)
        for e in full.events
    ]
    assert len(off) > 30
    assert np.quantile(off, 0.9) <= 6


def test_a_region(tmp_path):
    frames, places = moving()
    source = pictures(tmp_path / "in", frames)
    done = files.process(source, tmp_path / "out", region=(0, 50, 128, 40), films=False)
    assert done.model.shape == (40, 128)
    assert all(50 <= event.top < 90 for event in done.events)
    seen = {e.frame: e.left for e in done.events}
    off = [abs(seen[t] - places[t][1][0]) for t in seen]
    assert np.median(off) <= 2
    for wrong in ((0, 0, 500, 20), (-1, 0, 50, 50), (0, 0, 4, 4)):
        with pytest.raises(ValueError, match="is not within frames of 128 x 96"):
            files.process(source, tmp_path / "no", region=wrong)


def test_blocks_are_means():
    frame = np.random.default_rng(0).integers(0, 256, (11, 14, 3)).astype(np.uint8)
    small = reduced(frame, 3)
    assert small.shape == (3, 4, 3)
    by_hand = frame[3:6, 6:9].reshape(9, 3).mean(axis=0)
    assert np.abs(small[1, 2] - by_hand).max() <= 0.5
    large = frame.repeat(4, 0).repeat(4, 1)
    seen = View(Region(2, 1, 30, 24), 3).of(large)
    assert np.array_equal(seen, reduced(large[1:25, 2:32], 3))


def test_dark_things_are_seen_in_the_film(tmp_path):
    frames, places = moving(dark=True)
    files.process(pictures(tmp_path / "in", frames), tmp_path / "out")
    with av.open(str(tmp_path / "out" / "foreground.mp4")) as film:
        shown = [f.to_ndarray(format="gray") for f in film.decode(video=0)]
    left, top = places[20][1]
    assert shown[20][top + 4 : top + 12, left + 4 : left + 12].max() < 60
    assert np.median(shown[20]) > 110
    black = in_front(frames[:2], np.zeros((2, 96, 128), bool))
    assert not black.any()


def test_addresses():
    assert clips.address_of("rtsp://camera/1") == "rtsp://camera/1"
    assert clips.address_of("0") == "/dev/video0"
    assert clips.address_of("clip.mp4") == ""
    assert clips.address_of("file:///etc/passwd") == ""


def served(content, listening):
    """A stream that ends, to whoever comes first."""
    connection, _ = listening.accept()
    with connection, contextlib.suppress(OSError):  # a reader that has enough hangs up
        connection.sendall(content)


def as_stream(path, frames):
    with av.open(str(path), "w", format="mpegts") as container:
        stream = container.add_stream("mpeg2video", rate=Fraction(25))
        stream.height, stream.width = frames.shape[1:]
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame, format="gray")
            for packet in stream.encode(picture.reformat(format="yuv420p")):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path.read_bytes()


@pytest.mark.parametrize("most", [None, 40])
def test_a_stream(tmp_path, most, monkeypatch):
    """Over the loopback: read once, with a background from its first frames."""
    monkeypatch.setattr(model, "ENOUGH", 25)
    frames, places = moving(70)
    content = as_stream(tmp_path / "sent.ts", frames)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sending = threading.Thread(target=served, args=(content, listening))
        sending.start()
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        done = files.process(
            address, tmp_path / "out", grey=True, films=False, most=most
        )
        sending.join()
    assert done.n_frames == (most or 70)
    seen = {e.frame for e in done.events}
    assert len(seen) > 0.8 * done.n_frames
    at = [e for e in done.events if e.frame == 30]
    assert any(abs(e.left - places[30][1][0]) <= 4 for e in at)


def test_nobody_there(tmp_path):
    with pytest.raises(ValueError, match="could not be read as a video"):
        files.process("tcp://127.0.0.1:9", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path):
    source = tmp_path / "in.mp4"
    write_clip(source, scene(30)[0])
    options = ["--no-films", "--region", "0,0,64,48", "--frames", "20", "--grey"]
    done = typer_testing.CliRunner().invoke(
        cli.app, ["video", str(source), "-o", str(tmp_path / "out"), *options]
    )
    assert done.exit_code == 0, done.output
    assert "20 frames in" in done.output
    assert (tmp_path / "out" / "events.csv").exists()
    assert not (tmp_path / "out" / "masks").exists()
    for wrong in (["--region", "1,2"], ["--frames", "1"]):
        bad = typer_testing.CliRunner().invoke(
            cli.app, ["video", str(source), "-o", str(tmp_path / "no"), *wrong]
        )
        assert bad.exit_code == 2
        assert not (tmp_path / "no").exists()
    assert Clip.open(source).address == ""
