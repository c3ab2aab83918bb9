"""Clips: frames one after another from a video, a folder of pictures, a camera or an address, and
into a video.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._extras import optional
from ...weights import Array
from ..pictures import LUMA, SUFFIXES, as_bytes, one_depth, pictures_in, read_picture

# Containers that hold their frames themselves. FFmpeg reads more: playlists, scripts and manifests
# that name other files or addresses, which a clip from elsewhere must not make this machine open.
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,avi,matroska,webm,mpeg,mpegts,mpegvideo,m4v,h264,hevc,obu,ivf,"
    "flv,asf,ogg,mxf,nut,dv,gif,apng,mjpeg,yuv4mpegpipe,wtv,swf,rm,vc1,amv"
)
OPTIONS = {"protocol_whitelist": "file", "format_whitelist": CONTAINERS}
# Of addresses that a user gives, never of those that a file names.
STREAMS = ("rtsp", "rtsps", "rtmp", "http", "https", "tcp", "udp", "srt")
STREAM_OPTIONS = {
    "rtsp_transport": "tcp",
    "timeout": "10000000",  # microseconds without a frame: the stream has ended
}
USUAL_RATE = Fraction(25)  # frames per second, where a file does not say
RATES = (
    1,
    240,
)  # frames per second; what a stream says beyond is the clock of its packets
SMALLEST_SIDE = 16  # pixels of a region
LOST = 2  # frames that a file may hold fewer than it says

VideoFrame: TypeAlias = Any  # of PyAV, which need not be installed
Look: TypeAlias = Callable[[], Array]  # makes a frame


class Region(NamedTuple):
    """A part of a frame, in pixels."""

    left: int
    top: int
    width: int
    height: int

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse a region that is not within a frame of this shape."""
        height, width = shape[:2]
        inside = self.left >= 0 and self.left + self.width <= width
        inside = inside and self.top >= 0 and self.top + self.height <= height
        if not inside or min(self.width, self.height) < SMALLEST_SIDE:
            raise ValueError(
                f"the region {','.join(map(str, self))} (left, top, width, height) is not"
                f" within frames of {width} x {height} pixels, or smaller than"
                f" {SMALLEST_SIDE} x {SMALLEST_SIDE}"
            )


@dataclass(frozen=True)
class View:
    """What of each frame is looked at: a region, in so many times fewer pixels on each side."""

    region: Region | None = None
    fewer: int = 1

    def of(self, frame: Array) -> Array:
        """A region of a frame, and means of its blocks."""
        if self.region is not None:
            self.region.check(frame.shape)
            left, top, width, height = self.region
            frame = frame[top : top + height, left : left + width]
        return reduced(frame, self.fewer)

    @property
    def origin(self) -> tuple[int, int]:
        """Left and top."""
        return (0, 0) if self.region is None else self.region[:2]


def reduced(frame: Array, fewer: int) -> Array:
    """Means of blocks of so many pixels on a side; what is left at the right and below goes."""
    if fewer == 1:
        return frame
    height, width = (n // fewer for n in frame.shape[:2])
    whole = frame[: height * fewer, : width * fewer]
    # Slices are added, rows first: a tenth of the time of numpy.sum over short axes.
    rows = whole[::fewer].astype(np.uint16)
    for k in range(1, fewer):
        rows += whole[k::fewer]
    columns = rows.reshape(height, width, fewer, *frame.shape[2:])
    total = columns[:, :, 0].astype(np.uint32)
    for k in range(1, fewer):
        total += columns[:, :, k]
    return ((total + fewer**2 // 2) // fewer**2).astype(np.uint8)


@dataclass
class Live:
    """What is known of a stream while it is read."""

    rate: Fraction = USUAL_RATE  # frames per second
    broke: str = ""  # why it ended, if it did not end well

    def opened(self, stream: Any) -> None:
        """Take down the rate that the stream says it has."""
        said = stream.average_rate or stream.guessed_rate or USUAL_RATE
        self.rate = said if RATES[0] <= said <= RATES[1] else USUAL_RATE


@dataclass(frozen=True)
class Clip:
    """A video file, a folder of pictures in the order of their names, a camera or an address."""

    path: Path
    grey: bool
    rate_said: Fraction
    n_said: int  # frames, as the file says; 0 if it does not
    white: int = 255  # the value of pictures with more than 8 bits that becomes 255
    address: str = ""  # of a stream, which can be read once, and may never end
    view: View = View()
    most: int | None = None  # frames that are read
    live: Live | None = None  # of a stream
    times: list[float] = field(default_factory=list)  # of a file's frames, as they come

    @property
    def rate(self) -> Fraction:
        """Frames per second; of a stream, once its first frame has been read."""
        return self.live.rate if self.live else self.rate_said

    @property
    def name(self) -> str:
        """As messages have it."""
        return self.address or str(self.path)

    @property
    def about_depth(self) -> str:
        """A sentence about bits that the frames lose; empty if they lose none."""
        if self.white == 255:
            return ""
        bits = self.white.bit_length()
        return (
            f"the pictures have {bits} bits, and their frames 8: {self.white} became"
            " 255, and all else in proportion"
        )

    @classmethod
    def open(cls, path: str | os.PathLike[str], grey: bool = False) -> Clip:
        """Look at the file without reading its frames. Grey files stay grey; others become so if
        asked to.
        """
        address = address_of(path)
        path = Path(path)
        if address:
            return cls(path, grey, USUAL_RATE, 0, address=address, live=Live())
        if path.is_dir():
            names = _pictures(path)
            first = read_picture(names[0], "video")
            white = 255
            # All frames are to be scaled alike: look at all of them.
            if first.dtype != np.uint8:
                white = one_depth((read_picture(name, "video") for name in names), path)
            return cls(path, grey or first.ndim == 2, USUAL_RATE, len(names), white)
        if not path.exists():
            raise FileNotFoundError(2, "there is no such file", str(path))
        if path.suffix.lower() in SUFFIXES and path.suffix.lower() != ".gif":
            raise ValueError(
                f"{path}: one picture (or a stack in one file); a film is wanted, or a folder"
                " with a picture for each frame"
            )
        with _opened(path) as (_, stream):
            grey = grey or str(stream.codec_context.pix_fmt).startswith(
                ("gray", "mono")
            )
            return cls(
                path,
                grey,
                Fraction(stream.average_rate or USUAL_RATE),
                int(stream.frames or 0),
            )

    def frames(self) -> Iterator[Array]:
        """Bytes: (height, width), or (height, width, 3) of a clip in colour. All frames have the
        size of the first.
        """
        return (look() for look in self.looks())

    def looks(self) -> Iterator[Look]:
        """The same, each made when it is called: most of the work where few are wanted."""
        shape: tuple[int, ...] = ()
        n = 0
        for look in islice(self._all(), self.most):
            n += 1
            shape = shape or look().shape
            yield partial(self._checked, look, n, shape)
        if n + LOST < min(self.n_said, self.most or self.n_said):
            raise ValueError(
                f"{self.name}: it says it has {self.n_said} frames, and {n} could be"
                " read: truncated?"
            )
        if n < 2:
            raise ValueError(
                f"{self.name}: {n} frame(s); a background needs at least 2"
            )

    def _checked(self, look: Look, n: int, shape: tuple[int, ...]) -> Array:
        """Frame n, if it has the shape of the first."""
        frame = look()
        if frame.shape != shape:
            sizes = [f"{x[1]} x {x[0]}" for x in (frame.shape, shape)]
            raise ValueError(
                f"{self.name}: frame {n} has {sizes[0]} pixels, those before {sizes[1]}"
            )
        return frame

    def _all(self) -> Iterator[Look]:
        is_folder = not self.address and self.path.is_dir()
        return self._folder() if is_folder else self._video()

    def _video(self) -> Iterator[Look]:
        self.times.clear()
        with _opened(self.path, self.address) as (container, stream):
            stream.thread_type = "AUTO"
            for frame in _as_they_come(container, stream, self.live):
                if self.live is None and frame.time is not None:
                    self.times.append(frame.time)
                yield partial(self._decoded, frame)

    def seconds(self, n: int) -> float:
        """When frame n, which has been read, was shown: not all films show them evenly."""
        if n < len(self.times):
            return self.times[n] - self.times[0]
        return n / float(self.rate)

    def _decoded(self, frame: VideoFrame) -> Array:
        kind = "gray" if self.grey else "rgb24"
        fewer = self.view.fewer
        divides = frame.width % fewer == frame.height % fewer == 0
        if self.view.region is not None or not divides:
            return self.view.of(frame.to_ndarray(format=kind))
        # FFmpeg takes means before it makes colours, in a quarter of the time.
        return np.asarray(
            frame.to_ndarray(
                format=kind,
                width=frame.width // fewer,
                height=frame.height // fewer,
                interpolation="AREA",
            )
        )

    def _folder(self) -> Iterator[Look]:
        return (partial(self._read, path) for path in _pictures(self.path))

    def _read(self, path: Path) -> Array:
        picture = read_picture(path, "video")
        if picture.dtype != np.uint8 and self.white == 255 and picture.max() > 255:
            raise ValueError(
                f"{self.path} has pictures of 8 and of 16 bits; convert them to one"
                " kind first"
            )
        return self.view.of(_in_colour(as_bytes(picture, self.white), not self.grey))


def _in_colour(picture: Array, wanted: bool) -> Array:
    """The picture with colours, or as its luma."""
    if wanted:
        return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, 2)
    return picture if picture.ndim == 2 else np.rint(picture @ LUMA).astype(np.uint8)


def _pictures(folder: Path) -> list[Path]:
    found = pictures_in(folder)
    if not found:
        raise ValueError(
            f"{folder}: a folder without pictures ({', '.join(sorted(SUFFIXES))})"
        )
    return found


def address_of(source: str | os.PathLike[str]) -> str:
    """The address of a stream, or the device of a camera with this number; empty for files."""
    text = str(source)
    if text.isdecimal() and not Path(text).exists():
        return f"/dev/video{text}"
    return text if text.partition("://")[0].lower() in STREAMS else ""


def _as_they_come(
    container: Any, stream: Any, live: Live | None
) -> Iterator[VideoFrame]:
    """All frames. A stream that breaks off has ended: what came before is of use."""
    if live is not None:
        live.opened(stream)
    any_came = False
    try:
        for frame in container.decode(stream):
            any_came = True
            yield frame
    except optional("av", "video").error.FFmpegError as error:
        if live is None or not any_came:
            raise
        live.broke = error.strerror or str(error)


def _how_opened(path: Path, address: str) -> dict[str, Any]:
    """What FFmpeg is asked for."""
    if not address:
        return {"file": str(path.absolute()), "options": dict(OPTIONS)}
    if address.startswith("/dev/"):
        return {"file": address, "format": "v4l2"}
    return {"file": address, "options": dict(STREAM_OPTIONS)}


@contextmanager
def _opened(path: Path, address: str = "") -> Iterator[tuple[Any, Any]]:
    """The first video stream; what FFmpeg complains about becomes one sentence."""
    av = optional("av", "video")
    name = address or path
    try:
        with av.open(
            **_how_opened(path, address), metadata_errors="replace"
        ) as container:
            if not container.streams.video:
                raise ValueError(f"{name}: there is no video in it")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise ValueError(
                    f"{name}: it could not be read as a video: its codec is not known;"
                    " broken?"
                )
            yield container, stream
    except av.error.ArgumentError:
        raise ValueError(
            f"{name}: it could not be read as a video: it is damaged, or of a kind that"
            " is not read"
            " (such as a playlist or a script that names other files); mp4, avi or mkv"
            " is wanted"
        ) from None
    except (av.error.FFmpegError, OverflowError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise ValueError(
            f"{name}: it could not be read as a video ({what}); broken or truncated?"
        ) from None


class Film:
    """A video that is written frame by frame: H.264 in mp4, which browsers show."""

    def __init__(self, path: Path, shape: tuple[int, ...], rate: Fraction) -> None:
        av = optional("av", "video")
        self._av, self._shape = av, shape
        self._container = av.open(str(path), "w")
        self._stream = self._container.add_stream(
            "libx264", rate=rate, options={"crf": "18", "preset": "veryfast"}
        )
        # H.264 wants even sides.
        self._stream.height, self._stream.width = (n + n % 2 for n in shape[:2])
        self._stream.pix_fmt = "yuv420p"

    def write(self, frames: Iterable[Array]) -> None:
        """Append frames; a row or column is repeated where a side is odd."""
        edge = [(0, n % 2) for n in self._shape[:2]] + [(0, 0)] * (len(self._shape) - 2)
        for frame in frames:
            form = "gray" if frame.ndim == 2 else "rgb24"
            padded = np.ascontiguousarray(np.pad(frame, edge, mode="edge"))
            for packet in self._stream.encode(
                self._av.VideoFrame.from_ndarray(padded, format=form)
            ):
                self._container.mux(packet)

    def close(self, whole: bool) -> None:
        """Finish the file; if it is not `whole`, only let go of it."""
        if whole:
            for packet in self._stream.encode(None):
                self._container.mux(packet)
        self._container.close()


@contextmanager
def film(path: Path, shape: tuple[int, ...], rate: Fraction) -> Iterator[Film]:
    """A film to write to; it is finished where the block ends well."""
    made = Film(path, shape, rate)
    try:
        yield made
    except BaseException:
        made.close(whole=False)
        raise
    made.close(whole=True)
