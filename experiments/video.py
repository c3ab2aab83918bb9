"""Masks of five clips with known masks: `lrmc video` against the temporal median, OpenCV and
ScaledGD.

    python experiments/video.py [--data DIR] [--clips ibm] [--methods lrmc] [--write]

The clips are no part of this repository: they are looked for in --data, in LRMC_DATA and in
../shared/data. Each clip is written as a folder of pictures, `lrmc.apps.video.process` is run on it
with nothing but the share of pixels, and the masks that it wrote are read back and scored. The
others get the same clean-up. The metric is that of the data's README: F of pixels whose code is
255, pooled over all frames, over pixels that are neither outside nor unknown."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from written import write_made, write_rows

import lrmc
from lrmc.apps import video
from lrmc.apps.stack import Stack
from lrmc.apps.video.foreground import cleaned
from lrmc.apps.video.thresholds import DEVIATIONS, LEAST, MOST
from lrmc.methods.noisy import two_groups
from lrmc.schedule import Tuning

ROOT = Path(__file__).resolve().parent.parent
Array = np.ndarray[Any, np.dtype[Any]]
CLIPS = {
    "highway": "cdnet2014_highway",
    "hall": "sbi2015_hall_and_monitor",
    "ibm": "sbi2015_ibmtest2",
    "human": "sbi2015_humanbody2",
    "candela": "sbi2015_candela",
}
SCALED_GD: dict[str, Any] = {"method": "scaled_gd", "schedule": Tuning(alpha=0.1)}
TABLE = ROOT / "docs" / "video.csv"
ASKED = {"highway": 0.945, "hall": 0.87, "ibm": 0.955, "human": 0.93, "candela": 0.60}


class Line(NamedTuple):
    """What a method reached on a clip."""

    clip: str
    method: str
    observed: float
    F: float
    seconds: float  # of a processor, for background and masks


def score(found: Array, codes: Array) -> float:
    """F over all pixels that count."""
    counts = (codes != 85) & (codes != 170)
    moving, found = (codes == 255) & counts, found & counts
    return float(2 * np.sum(found & moving) / (np.sum(found) + np.sum(moving)))


def written(frames: Array, sample: float) -> Array:
    """The masks that `process` writes, read back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for k, frame in enumerate(frames):
            Image.fromarray(frame).save(folder / "in" / f"{k:06d}.png")
        video.process(folder / "in", folder / "out", sample=sample)
        return np.stack(
            [
                np.asarray(Image.open(path)) == 255
                for path in sorted((folder / "out/masks").iterdir())
            ]
        )


def by_threshold(frames: Array, background: Array) -> Array:
    """Masks from a background with the threshold and clean-up of `lrmc.apps.video`."""
    size = (
        np.abs(frames[:, ::5, ::5] - background[:, ::5, ::5]).astype(np.float64).ravel()
    )
    noise, _, _ = two_groups(size, float(np.quantile(size, 0.3)))
    return video.masks(
        frames, background, float(np.clip(DEVIATIONS * noise, LEAST, MOST))
    )


def median(frames: Array, sample: float) -> Array:
    """Of what is observed of each pixel; 0 where nothing is."""
    seen = frames.astype(np.float32)
    seen[np.random.default_rng(0).random(frames.shape, np.float32) >= sample] = np.nan
    return np.broadcast_to(np.nan_to_num(np.nanmedian(seen, axis=0)), frames.shape)


def solved(frames: Array, sample: float, **options: Any) -> Array:
    """The background by a method of `lrmc.solve` at rank 1."""
    stack = Stack(frames)
    result = lrmc.solve(
        stack.matrix if sample == 1 else stack.sampled(sample), 1, **options
    )
    return (result.R @ result.L.T).reshape(frames.shape)


def opencv(frames: Array, kind: str) -> Array:
    """MOG2 or KNN with their own thresholds, shadows left out, and our clean-up."""
    import cv2

    cv2.setNumThreads(1)
    model = getattr(cv2, f"createBackgroundSubtractor{kind}")(history=len(frames))
    return np.stack([model.apply(frame) == 255 for frame in frames])


def methods(frames: Array) -> Iterator[tuple[str, float, Callable[[], Array]]]:
    """What is run, in this order."""
    for p in (1.0, 0.1):
        yield "lrmc video, as written", p, lambda p=p: written(frames, p)
        for rank in (1, 2):
            yield (
                f"lrmc video, rank {rank}",
                p,
                lambda p=p, r=rank: video.separate(frames, rank=r, sample=p).masks(),
            )
        yield "temporal median", p, lambda p=p: by_threshold(frames, median(frames, p))
        yield (
            "ScaledGD",
            p,
            lambda p=p: by_threshold(frames, solved(frames, p, **SCALED_GD)),
        )
    for kind in ("MOG2", "KNN") if importlib.util.find_spec("cv2") else ():
        yield f"OpenCV {kind}", 1.0, lambda kind=kind: opencv(frames, kind)
        yield (
            f"OpenCV {kind}, our clean-up",
            1.0,
            lambda kind=kind: cleaned(opencv(frames, kind)),
        )


def run(folder: Path, clips: list[str], begins: tuple[str, ...]) -> Iterator[Line]:
    """The methods whose names begin so, on some clips."""
    for clip in clips:
        content = np.load(folder / "video" / f"{CLIPS[clip]}.npz")
        frames, codes = content["frames"], content["masks"]
        for method, p, work in methods(frames):
            if method.startswith(begins):
                began = time.process_time()
                found = work()
                yield Line(
                    clip, method, p, score(found, codes), time.process_time() - began
                )


def table(lines: list[Line]) -> str:
    """In markdown, a row per method."""
    rows = [
        "| method | observed | " + " | ".join(f"{c} F | s" for c in CLIPS) + " |",
        "|---|---:|" + "---:|" * 2 * len(CLIPS),
    ]
    asked = " | ".join(f"{ASKED[c]} | " for c in CLIPS)
    rows.append(f"| *asked* | 100 % | {asked}|")
    for method, p, _ in methods(np.empty(0)):
        here = {x.clip: x for x in lines if (x.method, x.observed) == (method, p)}
        cells = " | ".join(
            f"{here[c].F:.3f} | {here[c].seconds:.1f}" if c in here else " | "
            for c in CLIPS
        )
        rows.append(f"| {method} | {p:.0%} | {cells} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Run, print, and write if asked to."""
    ask = argparse.ArgumentParser(
        description="Masks of five clips against the temporal median, OpenCV and ScaledGD."
    )
    ask.add_argument(
        "--data", help="the folder of the data; otherwise LRMC_DATA, or ../shared/data"
    )
    ask.add_argument(
        "--write",
        action="store_true",
        help="write the table into docs/video.md, and docs/video.csv",
    )
    ask.add_argument(
        "--clips",
        nargs="+",
        choices=list(CLIPS),
        default=list(CLIPS),
        help="others keep their lines",
    )
    ask.add_argument(
        "--methods", nargs="+", default=[""], help="only those whose names begin so"
    )
    asked = ask.parse_args()
    folder = Path(
        asked.data or os.environ.get("LRMC_DATA") or ROOT.parent / "shared" / "data"
    )
    if not (folder / "video").is_dir():
        print(
            "The data folder was not found: give it with --data DIR or in LRMC_DATA.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    warnings.simplefilter("ignore")
    lines = []
    for line in run(folder, asked.clips, tuple(asked.methods)):
        lines.append(line)
        print(*line, flush=True)
    lines = [*lines, *kept({line[:3] for line in lines})]
    if asked.write:
        write(lines)
    print(table(lines))


def kept(done: set[tuple[Any, ...]]) -> list[Line]:
    """What an earlier run measured and this one did not."""
    if not TABLE.exists():
        return []
    with TABLE.open() as file:
        old = [
            Line(x["clip"], x["method"], *(float(x[k]) for k in Line._fields[2:]))
            for x in csv.DictReader(file)
        ]
    return [line for line in old if line[:3] not in done]


def write(lines: list[Line]) -> None:
    """The table into the page, and all lines into a file."""
    write_made(ROOT / "docs" / "video.md", table(lines))
    lines = sorted(lines, key=lambda x: (list(CLIPS).index(x.clip), -x.observed))
    rows = (
        (x.clip, x.method, x.observed, f"{x.F:.4f}", f"{x.seconds:.2f}") for x in lines
    )
    write_rows(TABLE, Line._fields, rows)


if __name__ == "__main__":
    main()
