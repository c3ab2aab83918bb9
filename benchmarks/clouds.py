"""The stack where the paper runs out of memory: 2000 x 2000 pixels x 3 bands x 60 dates, u16, 12
million rows.

    python benchmarks/clouds.py [--size 2000] [--dates 60] [--samples 1.0 0.3]

Seconds and the largest memory of the whole process, the stack (1.44 GB), its answer (as much) and
the mask included."""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from made.landscape import landscape

from lrmc.apps.clouds.model import remove_clouds


def main() -> None:
    ask = argparse.ArgumentParser(
        description="Clouds out of 12 million rows: seconds, memory, error."
    )
    ask.add_argument("--size", type=int, default=2000)
    ask.add_argument("--dates", type=int, default=60)
    ask.add_argument("--samples", type=float, nargs="+", default=[1.0, 0.3])
    asked = ask.parse_args()
    began = time.perf_counter()
    data, ground, clouds, dates = landscape(
        asked.dates, asked.size, asked.size, cover=0.25
    )
    assert ground is not None
    some = slice(None), slice(None), slice(None, None, 10), slice(None, None, 10)
    truth, covered = ground[some].astype(np.float32), clouds[:, ::10, ::10] > 0.1
    T, bands, height, width = data.shape
    del ground, clouds
    print(
        f"{height} x {width} x {bands} x {T}, {data.nbytes / 1e9:.2f} GB, made in {time.perf_counter() - began:.0f} s"
    )
    for sample in asked.samples:
        began, worked = time.perf_counter(), time.process_time()
        done = remove_clouds(data, dates=dates, sample=sample)
        seconds, busy = time.perf_counter() - began, time.process_time() - worked
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        error = np.moveaxis(done.scenes[some] - truth, 1, -1)[covered]
        psnr = 20 * np.log10(3000 / np.sqrt(np.mean(error**2)))
        cloud = np.mean(done.mask == 1)
        print(
            f"p = {sample:.0%}: {seconds:.1f} s ({busy:.0f} s of processors), at most {memory:.2f} GB so far",
            end=", ",
        )
        print(f"rank {done.ground.rank}, ", end="")
        print(f"{cloud:.1%} cloud, {psnr:.1f} dB under clouds", flush=True)
        del done


if __name__ == "__main__":
    main()
