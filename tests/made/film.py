"""A box that crosses before a wall under changing light, made up, and files of it."""

import av
import numpy as np
from PIL import Image


def scene(n=40, height=48, width=64, colour=False, seed=0, picture=0):
    """A textured wall under changing light with some noise, a bright box that crosses;
    and the true masks.
    """
    rng = np.random.default_rng(picture)
    wall = np.kron(
        rng.uniform(40, 150, (height // 8, width // 8, 3)), np.ones((8, 8, 1))
    )
    rng = np.random.default_rng(seed)
    light = 1 + 0.1 * np.sin(np.arange(n) / 5)
    frames = light[:, None, None, None] * wall + rng.normal(0, 2, (n, height, width, 3))
    truth = np.zeros((n, height, width), bool)
    for k in range(n):
        x = 2 + (k * (width - 16)) // n
        truth[k, 16:32, x : x + 12] = True
    frames[truth] = (250, 240, 20)
    frames = np.clip(np.rint(frames), 0, 255).astype(np.uint8)
    return (frames if colour else frames[..., 1].copy()), truth


def write_clip(path, frames, codec="libx264", rate=25):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "5"} if codec == "libx264" else {"qscale": "1"}
        for frame in frames:
            form = "rgb24" if frame.ndim == 3 else "gray"
            for packet in stream.encode(av.VideoFrame.from_ndarray(frame, format=form)):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path


def write_pictures(folder, frames):
    folder.mkdir()
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"{k:03d}.png")
    return folder
