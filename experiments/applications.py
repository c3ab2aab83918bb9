"""Tables III, V and VI of the paper: how long the solvers take on stacks as large as its videos,
faces and scenes.

    python experiments/applications.py [--quick] [--only video faces clouds]

The paper's data are not available, so stacks of the same size are made here: a ground of low rank
in bytes, a tenth of which is covered. LRMC runs with a schedule of ours. Both make 32 iterations,
the most that the paper allows (it stops earlier where the change falls below 1e-2 or 1e-4): so the
times here are upper bounds. What the applications reach on real data is in the pages of each:
docs/video.md, clouds.md, faces.md, ultrasound.md."""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lrmc
from lrmc._files import write_whole
from lrmc.apps.stack import Stack
from lrmc.schedule import Tuning
from lrmc.weights import Array

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "applications.md"
MOST = 32
HEAD = """# Time on stacks of the paper's size

Tables III, V and VI of the paper: how long the solvers take on stacks as large as its videos, faces and scenes.

Made by `python experiments/applications.py`. Rank 2, bytes, a tenth covered; seconds for 32 iterations, on 2 cores.
The paper's seconds are from another machine and its own data, which are not available here. Real data:
[video](video.md), [clouds](clouds.md), [faces](faces.md), [ultrasound](ultrasound.md).
"""


class Size(NamedTuple):
    """A stack, and the paper's seconds for LRMC and ScaledGD (p = 100 %, then less);
    None: out of memory.
    """

    name: str
    frames: int
    pixels: int
    share: float  # observed in the second case
    lrmc: tuple[float | None, float]
    scaled_gd: tuple[float | None, float]


VIDEO, FACE = 320 * 180, 165 * 120
SIZES = {
    "video": [
        Size("video 1", 5482, VIDEO, 0.1, (26.94, 10.39), (193.65, 93.29)),
        Size("video 2", 2024, VIDEO, 0.1, (8.76, 3.45), (66.63, 32.21)),
        Size("video 3", 1038, VIDEO, 0.1, (4.03, 1.68), (31.30, 17.61)),
    ],
    "faces": [Size("one subject", 26, FACE, 0.3, (0.29, 0.16), (3.26, 1.97))],
    "clouds": [
        Size("400 x 400", 60, 480_000, 0.3, (3.27, 1.65), (48.61, 28.54)),
        Size("1000 x 1000", 60, 3_000_000, 0.3, (26.31, 16.07), (198.89, 104.39)),
        Size("2000 x 2000", 60, 12_000_000, 0.3, (None, 68.24), (None, 536.09)),
    ],
}


def made(frames: int, pixels: int, seed: int = 0) -> Array:
    """Bytes of rank 2 and a little noise; a tenth is covered, with any value."""
    rng = np.random.default_rng(seed)
    ground, light = (
        rng.uniform(40, 160, pixels).astype(np.float32),
        rng.uniform(0, 60, pixels).astype(np.float32),
    )
    out = np.empty((frames, pixels), np.uint8)
    for k in range(frames):
        some = (
            ground
            + light * np.float32(np.sin(k / 9) ** 2)
            + 2 * rng.standard_normal(pixels, np.float32)
        )
        covered = rng.integers(0, pixels, pixels // 10)
        some[covered] = rng.integers(0, 256, len(covered))
        out[k] = some
    return out


def seconds(Y: object, method: str) -> float:
    """From the array to the factors."""
    schedule = Tuning(0.1) if method == "scaled_gd" else "geometric"
    began = time.perf_counter()
    lrmc.solve(Y, 2, method=method, schedule=schedule, tol=1e-12, max_iter=MOST)
    return time.perf_counter() - began


def lines(size: Size) -> list[str]:
    """Both observed fractions of a stack."""
    stack = Stack(made(size.frames, size.pixels))
    out = []
    for k, p in enumerate((1.0, size.share)):
        Y = stack.matrix if p == 1 else stack.sampled(p)
        cells = [
            size.name,
            f"{size.pixels:,} x {size.frames}".replace(",", " "),
            f"{p:.0%}",
        ]
        for method, paper in (("lrmc", size.lrmc[k]), ("scaled_gd", size.scaled_gd[k])):
            cells += [
                "out of memory" if paper is None else f"{paper}",
                f"{seconds(Y, method):.2f}",
            ]
        out.append(f"| {' | '.join(cells)} |")
        print(out[-1], flush=True)
    return out


def main() -> None:
    """Measure, print, write docs/applications.md."""
    ask = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ask.add_argument(
        "--quick", action="store_true", help="small stacks, and nothing is written"
    )
    ask.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES))
    asked = ask.parse_args()
    warnings.simplefilter("ignore")  # that 32 iterations were not enough for 1e-12
    for name in asked.only:
        sizes = (
            [size._replace(frames=12, pixels=2000) for size in SIZES[name]]
            if asked.quick
            else SIZES[name]
        )
        found = [line for size in sizes for line in lines(size)]
        if not asked.quick:
            write(name, found)


def write(name: str, found: list[str]) -> None:
    """Put one section of the page in its place, beside those that are there."""
    _, *parts = PAGE.read_text().split("\n## ") if PAGE.exists() else [""]
    sections = {
        part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts
    }
    heads = [
        "| stack | matrix | p | LRMC, paper | here | ScaledGD, paper | here |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    sections[name] = "\n".join([*heads, *found])
    text = HEAD + "".join(
        f"\n## {name}\n\n{sections[name]}\n" for name in SIZES if name in sections
    )
    write_whole(PAGE, text.encode())


if __name__ == "__main__":
    main()
