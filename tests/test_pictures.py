"""Pictures in files: their bits, and files that are damaged or not what they seem."""

import itertools
import struct
import zlib

import numpy as np
import pytest
from each import each

pytest.importorskip("typer")
Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
pytest.importorskip("av")
from made.spheres import heads
from typer.testing import CliRunner

from lrmc.apps.faces import process
from lrmc.apps.pictures import as_bytes, one_depth, pictures_in, read_picture, white_of
from lrmc.apps.video.clips import Clip
from lrmc.cli import app


def write(folder, pictures):
    folder.mkdir()
    for k, picture in enumerate(pictures):
        Image.fromarray(picture).save(folder / f"{k:03d}.png")
    return folder


def moving(bits, n=12):
    """A grey gradient of so many bits, and a bright box that moves over it."""
    white = (1 << bits) - 1
    frames = np.tile(np.linspace(0.1, 0.6, 64), (n, 48, 1))
    frames[:, 0, 0] = 1.0
    for k in range(n):
        frames[k, 10:22, 4 * k : 4 * k + 10] = 0.95
    return (white * frames).astype(np.uint16 if bits > 8 else np.uint8)


def chunk(kind, content):
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def bomb(path, side):
    """A PNG that says it is side x side."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 10))
    )


@each("bits", [8, 12, 16])
@each("suffix", ["png", "tif", "pgm"])
def test_all_bits_are_read(bits, suffix, tmp_path):
    frame = moving(bits)[0]
    Image.fromarray(frame).save(tmp_path / f"a.{suffix}")
    got = read_picture(tmp_path / f"a.{suffix}", "video")
    assert got.dtype == frame.dtype
    np.testing.assert_array_equal(got, frame)


def test_white_is_that_of_the_bits_in_use():
    assert [white_of(x) for x in (0, 200, 255, 256, 4000, 4095, 60000)] == [
        255,
        255,
        255,
        511,
        4095,
        4095,
        65535,
    ]
    assert as_bytes(np.array([0, 2048, 4095], np.uint16), 4095).tolist() == [
        0,
        128,
        255,
    ]
    bright = np.array([3, 7], np.uint8)
    assert as_bytes(bright, 255) is bright
    with pytest.raises(ValueError, match="8 and of 16 bits"):
        one_depth([bright, bright.astype(np.uint16)], "here")


@pytest.mark.parametrize("bits", [12, 16])
def test_a_clip_of_many_bits_is_that_of_8(bits, tmp_path):
    """Scaled as a whole, not saturated: the frames are those of the same clip in bytes,
    to one grey level.
    """
    deep = list(Clip.open(write(tmp_path / "deep", moving(bits))).frames())
    plain = list(Clip.open(write(tmp_path / "plain", moving(8))).frames())
    assert np.abs(np.stack(deep).astype(int) - np.stack(plain)).max() <= 1


def test_the_command_says_that_bits_are_lost(tmp_path):
    source = write(tmp_path / "deep", moving(12))
    done = CliRunner().invoke(app, ["video", str(source), "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "12 bits" in done.output
    assert "4095 became 255" in (tmp_path / "out" / "report.html").read_text()
    with Image.open(tmp_path / "out" / "masks" / "000005.png") as mask:
        found = np.asarray(mask) > 0
    assert found[12:20, 22:28].all()
    assert found[30:].mean() < 0.02


def test_depths_are_not_mixed(tmp_path):
    source = write(tmp_path / "in", moving(8))
    Image.fromarray(moving(16)[0]).save(source / "900.png")
    done = CliRunner().invoke(app, ["video", str(source), "-o", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "8 and of 16 bits" in done.output
    assert not (tmp_path / "out").exists()


def test_faces_of_many_bits(tmp_path):
    """12 bits stay 12 bits, and what is shown of them is not black."""
    made = heads(8, 32, 28)
    deep = (made.images.astype(np.uint32) * 4095 // 255).astype(np.uint16)
    process(write(tmp_path / "in", deep), tmp_path / "out", 3)
    clean = read_picture(tmp_path / "out" / "clean" / "in" / "000.png", "faces")
    assert clean.dtype == np.uint16
    assert 1500 < clean.max() <= 4095 * 1.5
    with Image.open(tmp_path / "out" / "contact.png") as sheet:
        first = np.asarray(sheet.convert("L"))[4:140, 4:100]
    assert first.max() > 120


# ---- what goes wrong


def damage(path, kind):
    frame = moving(8)[0]
    if kind == "bomb":
        bomb(path, 100_000)
    elif kind == "large":  # Pillow only warns
        bomb(path, 10_000)
    elif kind == "postscript":
        path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 48\n")
    elif kind == "svg":
        path.write_text(
            '<svg xmlns="http://www.w3.org/2000/svg" width="64" height="48"/>'
        )
    elif kind == "floats":
        Image.fromarray(frame.astype(np.float32)).save(path, format="TIFF")
    else:
        Image.fromarray(frame).save(path)
        content = path.read_bytes()
        path.write_bytes(content[: {"header": 20, "half": len(content) // 2}[kind]])


@pytest.mark.parametrize("command", ["video", "faces"])
@pytest.mark.parametrize(
    "kind", ["bomb", "large", "postscript", "svg", "floats", "header", "half"]
)
def test_bad_pictures_are_told_in_a_sentence(command, kind, tmp_path):
    source = write(tmp_path / "in", moving(8)[:4])
    damage(source / "002.png", kind)
    done = CliRunner().invoke(app, [command, str(source), "-o", str(tmp_path / "out")])
    assert done.exit_code == 2, done.output
    assert "002.png cannot be" in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def loop(path):
    path.symlink_to(path)
    return path


def test_links_that_lead_nowhere(tmp_path):
    source = write(tmp_path / "in", moving(8)[:4])
    loop(source / "zzz.png")
    assert [path.name for path in pictures_in(source)] == [
        "000.png",
        "001.png",
        "002.png",
        "003.png",
    ]
    around = loop(tmp_path / "around")
    scenes = [loop(tmp_path / f"{k}.tif") for k in range(3)]
    for command, inputs in (
        ("video", [around]),
        ("faces", [around]),
        ("ultrasound", [around]),
        ("clouds", scenes),
    ):
        done = CliRunner().invoke(
            app, [command, *map(str, inputs), "-o", str(tmp_path / "out")]
        )
        assert done.exit_code == 2, (command, done.output)
        assert len(done.output.strip().splitlines()) == 1
    for command in ("video", "faces"):
        done = CliRunner().invoke(app, [command, str(source), "-o", str(around)])
        assert done.exit_code == 2, (command, done.output)
        assert "leads nowhere" in done.output
    assert not (tmp_path / "out").exists()
    assert around.is_symlink()


@each("turned, suffix", itertools.product(range(1, 9), ["png", "tif", "jpg"]))
def test_pictures_of_a_turned_camera_stand_upright(turned, suffix, tmp_path):
    """As Pillow itself turns them."""
    picture = np.random.default_rng(turned).integers(0, 256, (6, 9, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = turned
    Image.fromarray(picture).save(tmp_path / f"x.{suffix}", exif=exif)
    with Image.open(tmp_path / f"x.{suffix}") as image:
        wanted = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_array_equal(
        read_picture(tmp_path / f"x.{suffix}", "video"), wanted
    )
