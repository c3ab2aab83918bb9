"""How long a clip of the size of the paper's Video 1 takes: 320 x 180, 5,000 frames, 10 % of the
pixels observed.

    python benchmarks/video.py [--frames 5000] [--sample 0.1] [--repeats 3]

Asked: less than 5 s on 2 cores from frames in memory to the background of every frame, and less
than 1.5 GB in all. Best of several runs: sampling, learning, and the regression of each frame. The
scene is generated (noise of 4 grey levels, light that changes by 10 %, a bright box that crosses),
so the error of the background is known."""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from lrmc.apps import video


def scene(
    n: int, height: int = 180, width: int = 320, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames, the picture behind, and how bright it is in each frame."""
    rng = np.random.default_rng(seed)
    picture = rng.uniform(40, 200, (height, width)).astype(np.float32)
    light = (1 + 0.1 * np.sin(np.arange(n) / 200)).astype(np.float32)
    noise = 4 * rng.standard_normal((64, height, width), np.float32)
    frames = np.empty((n, height, width), np.uint8)
    for k in range(n):
        frame = light[k] * picture + noise[rng.integers(64)]
        frame[60:100, k % 300 : k % 300 + 20] = 250
        np.clip(np.rint(frame), 0, 255, out=frame)
        frames[k] = frame
    return frames, picture, light


def main() -> None:
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--frames", type=int, default=5000)
    ask.add_argument("--sample", type=float, default=0.1)
    ask.add_argument("--repeats", type=int, default=3)
    asked = ask.parse_args()
    frames, picture, light = scene(asked.frames)
    times, processor = [], []
    for _ in range(asked.repeats):
        began, used = time.perf_counter(), time.process_time()
        found = video.separate(frames, sample=asked.sample)
        times.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    some = slice(0, len(frames), max(1, len(frames) // 50))
    error = found.model.pictures(found.scores[some]) - light[some, None, None] * picture
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{asked.frames} frames of 320 x 180, {asked.sample:.0%} of the pixels")
    print(
        f"solved in {min(times):.2f} s ({min(processor):.2f} s of processor time, all threads together)"
    )
    print(
        f"error of the background {np.sqrt(np.mean(error**2)):.2f} grey levels; {memory:.2f} GB in all"
    )


if __name__ == "__main__":
    main()
