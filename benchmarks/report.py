"""How long a report takes to make, and how large it is: a matrix with 10 % outliers, and a film of
200 frames.

python benchmarks/report.py [n]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lrmc
from lrmc import report
from lrmc.demo import scene as demo
from lrmc.demo.picture import VISIBLE


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    for p, form in ((1.0, "dense"), (0.5, "dense"), (0.1, "sparse")):
        problem = lrmc.synthetic.problem(n, 5, 0.1, p, form=form, dtype=np.float32)
        result = lrmc.solve(problem.Y)
        solved = result.history[-1].seconds
        say(
            f"{n} x {n}, {p:.0%} observed, {form} (solved in {solved:.2f} s)",
            lambda r=result: report.result_sections(r),
        )
    scene = demo.film(240, 320, 200)
    frames = np.ascontiguousarray(scene.observed.T).reshape(200, *scene.size, 3)
    back = (scene.background.R @ scene.background.L.T).reshape(frames.shape)
    masks = np.nan_to_num(np.abs(frames - back)).max(-1) > VISIBLE
    fore = np.where(masks[..., None], frames, 0)
    say(
        "200 frames of 320 x 240 in colour, 4 layers",
        lambda: report.film_sections(frames, back, fore, masks, white=1),
    )


def say(what: str, sections) -> None:  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        path = report.write_report(Path(folder) / "report.html", what, sections())
        print(
            f"{what}: {time.perf_counter() - began:.2f} s, {path.stat().st_size / 1e6:.2f} MB"
        )


if __name__ == "__main__":
    main()
