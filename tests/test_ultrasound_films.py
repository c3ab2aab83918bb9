"""Cines as scanners export them: sectors on black, films, stacks of pictures, and time elsewhere."""

import warnings

import av
import numpy as np
import pytest
from each import each
from made import cine as made
from PIL import Image
from typer.testing import CliRunner

from lrmc.apps.ultrasound.cines import read_cine
from lrmc.apps.ultrasound.model import separate
from lrmc.cli import app


def on_black(frames, room=24):
    return np.pad(frames, ((0, 0), (room, room), (room, room)))


@each("seed", [0, 1])
@each("shape", ["box", "sector"])
def test_tissue_moves_within_a_sector(shape, seed):
    """The edge of the picture stands still, whatever moves in it."""
    tissue, bubbles, _ = made.scene(reach=1.0, seed=seed)
    tissue = 0.3 * tissue + 0.7  # the edge is stronger than all that is within
    if shape == "sector":
        y, x = np.mgrid[: made.SIZE, : made.SIZE]
        inside = np.hypot(y + 10, x - made.SIZE / 2) < made.SIZE
        tissue, bubbles = tissue * inside, bubbles * inside
    tissue, bubbles = on_black(tissue), on_black(bubbles)
    found = separate(tissue + bubbles)
    assert found.motion is not None
    assert found.motion.farthest > 0.7
    error = np.linalg.norm(found.blood - bubbles) / np.linalg.norm(bubbles)
    assert error < 0.6


@pytest.fixture(scope="module")
def cine():
    tissue, bubbles, _ = made.scene()
    return np.clip(255 * (tissue + bubbles), 0, 255).astype(np.uint8)


def test_a_film(cine, tmp_path):
    path = tmp_path / "cine.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = cine.shape[1:]
        stream.pix_fmt = "gray"
        for frame in cine:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, "gray")))
        container.mux(stream.encode(None))
    np.testing.assert_array_equal(read_cine(path).frames, cine)
    done = CliRunner().invoke(
        app, ["ultrasound", str(path), "-o", str(tmp_path / "out")]
    )
    assert done.exit_code in (0, 1), done.output
    assert (tmp_path / "out" / "blood.npz").exists()
    path.write_bytes(b"no film" * 100)
    with pytest.raises(ValueError, match="could not be read as a video"):
        read_cine(path)


@each("kind", [np.uint8, np.uint16])
def test_pictures_keep_their_bits(cine, tmp_path, kind):
    wanted = cine.astype(kind) * (1 if kind is np.uint8 else 200)
    pages = [Image.fromarray(frame) for frame in wanted]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    (tmp_path / "folder").mkdir()
    for k, page in enumerate(pages):
        page.save(tmp_path / "folder" / f"{k}.png")
    for name in ("a.tif", "folder"):
        np.testing.assert_array_equal(read_cine(tmp_path / name).frames, wanted)
    pages[0].resize((40, 40)).save(tmp_path / "folder" / "3.png")
    with pytest.raises(ValueError, match="one size is wanted"):
        read_cine(tmp_path / "folder")


def test_time_that_is_last_is_told(cine):
    still, _, _ = made.scene(reach=0.3)

    def told(frames):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = separate(frames, motion=False)
        return any("is that one time" in x for x in found.warnings)

    assert told(np.moveaxis(still, 0, 2))
    assert not told(still)
    wide = np.concatenate([cine, cine[::-1]] * 3)
    assert not told(wide[:, :, :32])
