"""Video: events, regions, runs without films, streams."""

import contextlib
import csv
import io
import json
import socket
import threading
from fractions import Fraction

import numpy as np
import pytest

av = pytest.importorskip("av")
Image = pytest.importorskip("PIL.Image")
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

    tracker = Tracker(lambda k: k / 10, scale=2, origin=(100, 7))
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


def served(connection, content):
    """A stream that ends."""
    with contextlib.suppress(OSError):  # a reader that has enough hangs up
        connection.sendall(content)


@contextlib.contextmanager
def listened(serve, content):
    """A port where whoever comes first is served."""

    def first():
        connection, _ = listening.accept()
        with connection:
            serve(connection, content)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        sending = threading.Thread(target=first)
        sending.start()
        yield listening.getsockname()[1]
        sending.join()


def as_stream(path, frames, form="mpegts", rate=25):
    """Into a file, or what has a method `write`."""
    with av.open(path, "w", format=form) as container:
        stream = container.add_stream("mpeg2video", rate=Fraction(rate))
        stream.height, stream.width = frames.shape[1:]
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame, format="gray")
            for packet in stream.encode(picture.reformat(format="yuv420p")):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)


def sent_as(frames, rate=25):
    content = io.BytesIO()
    as_stream(content, frames, rate=rate)
    return content.getvalue()


@pytest.mark.parametrize("most", [None, 40])
def test_a_stream(tmp_path, most, monkeypatch):
    """Over the loopback: read once, with a background from its first frames."""
    monkeypatch.setattr(model, "ENOUGH", 25)
    frames, places = moving(70)
    with listened(served, sent_as(frames)) as port:
        done = files.process(
            f"tcp://127.0.0.1:{port}",
            tmp_path / "out",
            grey=True,
            films=False,
            most=most,
        )
    assert done.n_frames == (most or 70)
    seen = {e.frame for e in done.events}
    assert len(seen) > 0.8 * done.n_frames
    at = [e for e in done.events if e.frame == 30]
    assert any(abs(e.left - places[30][1][0]) <= 4 for e in at)


def test_the_rate_that_a_stream_has(tmp_path, monkeypatch):
    """Seconds are told by it, also with a background that is known."""
    monkeypatch.setattr(model, "ENOUGH", 25)
    frames, _ = moving(40)
    known = None
    for name in ("learned", "known"):
        with listened(served, sent_as(frames, rate=50)) as port:
            address = f"tcp://127.0.0.1:{port}"
            done = files.process(
                address, tmp_path / name, grey=True, films=False, model=known
            )
        known = done.model
        assert done.events[-1].seconds == pytest.approx(done.events[-1].frame / 50)


def parts_over_http(connection, jpegs):
    """As cameras send pictures; the last one is cut off."""
    connection.recv(4096)
    kind = b"Content-Type: multipart/x-mixed-replace; boundary=frame"
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n\r\n")
    for one in jpegs:
        size = b"Content-Length: %d" % len(one)
        head = b"\r\n".join([b"--frame", b"Content-Type: image/jpeg", size, b"", b""])
        connection.sendall(head + one + b"\r\n")


def test_a_camera_that_breaks_off(tmp_path, monkeypatch):
    """What came before is not lost, and a sentence says what happened."""
    monkeypatch.setattr(model, "ENOUGH", 25)
    jpegs = []
    for frame in moving(40)[0]:
        content = io.BytesIO()
        Image.fromarray(frame).save(content, "JPEG", quality=95)
        jpegs.append(content.getvalue())
    with listened(parts_over_http, jpegs) as port:
        address = f"http://127.0.0.1:{port}/video"
        with pytest.warns(UserWarning, match="broke off after 40 frames"):
            done = files.process(address, tmp_path / "out", grey=True, films=False)
    assert done.n_frames == 40
    assert done.sound
    assert (tmp_path / "out" / "events.csv").exists()


class Packets:
    """What FFmpeg writes, packet by packet."""

    def __init__(self):
        self.all = []

    def write(self, content):
        self.all.append(bytes(content))
        return len(content)


def spoken_rtsp(connection, packets):
    """A camera's end of the real-time streaming protocol, with the frames between the sentences."""
    mpeg = 32  # the number of this kind of video
    about = f"v=0\r\nm=video 0 RTP/AVP {mpeg}\r\na=control:track1\r\n"
    answers = {
        b"DESCRIBE": f"Content-Type: application/sdp\r\nContent-Length: {len(about)}\r\n\r\n{about}",
        b"SETUP": "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n\r\n",
    }
    lines = connection.makefile("rb")
    while request := lines.readline():
        fields = iter(lambda: lines.readline().strip(), b"")
        named = dict(field.split(b": ", 1) for field in fields)
        verb = request.split()[0]
        head = f"RTSP/1.0 200 OK\r\nCSeq: {int(named[b'CSeq'])}\r\n"
        connection.sendall((head + answers.get(verb, "\r\n")).encode())
        if verb == b"PLAY":
            for one in packets:
                if one[1] & 127 == mpeg:
                    connection.sendall(b"$\0" + len(one).to_bytes(2, "big") + one)
            return


def test_a_network_camera(tmp_path, monkeypatch):
    monkeypatch.setattr(model, "ENOUGH", 25)
    frames, places = moving(60)
    packets = Packets()
    as_stream(packets, frames, form="rtp")
    with listened(spoken_rtsp, packets.all) as port:
        address = f"rtsp://127.0.0.1:{port}/camera"
        done = files.process(address, tmp_path / "out", grey=True, films=False)
    assert 50 <= done.n_frames <= 60
    at = [e for e in done.events if e.frame == 30]
    assert any(abs(e.left - places[30][1][0]) <= 10 for e in at)


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
