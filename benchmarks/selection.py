"""What ScaledGD's thresholds cost: `Observations.magnitudes` against std::nth_element and NumPy's
partition.

    python benchmarks/selection.py [--n 3000] [--threads 2] [--share 0.15]

Wanted are the k-th largest |e| of all rows and of all columns of a residual, k = share of what is
observed there. The C++ below is compiled here with g++ -O3 -march=native. It and NumPy are given
|e| ready made, ours makes it itself. A step of ScaledGD is the thresholds and a pass; "pull" is the
pass of a step of LRMC. To docs/benchmarks/selection.csv."""

from __future__ import annotations

import argparse
import ctypes
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from passes import best

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "experiments"))

from common import Sheet

import lrmc
from lrmc import _kernels
from lrmc.methods.scaled_gd import sparsify
from lrmc.methods.start import spectral
from lrmc.observations.base import how_many

SOURCE = r"""
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

static void lines(int64_t n, const int64_t *from, const float *e, const int64_t *k, float *out, int threads) {
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> line;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < n; i++) {
      line.assign(e + from[i], e + from[i + 1]);
      std::nth_element(line.begin(), line.begin() + k[i] - 1, line.end(), std::greater<float>());
      out[i] = line[k[i] - 1];
    }
  }
}

// Entries by row (CSR) and where each of them stands by column: a gather instead of a transposition, made once.
extern "C" void kth_largest(int64_t n1, int64_t n2, const int64_t *rows, const int64_t *cols, const int32_t *by_column,
                            const float *e, float *turned, const int64_t *row_k, const int64_t *col_k, float *row_out,
                            float *col_out, int threads) {
  lines(n1, rows, e, row_k, row_out, threads);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t j = 0; j < n2; j++)
    for (int64_t t = cols[j]; t < cols[j + 1]; t++) turned[t] = e[by_column[t]];
  lines(n2, cols, turned, col_k, col_out, threads);
}
"""


def compiled(folder: str) -> ctypes.CDLL:
    """The C++ above."""
    source, library = Path(folder, "select.cpp"), Path(folder, "select.so")
    source.write_text(SOURCE)
    command = [
        "g++",
        "-O3",
        "-march=native",
        "-fopenmp",
        "-shared",
        "-fPIC",
        str(source),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


class Selection:
    """The residuals of a problem by row and by column, and nth_element over both."""

    def __init__(
        self, library: ctypes.CDLL, E: np.ndarray, share: float, threads: int
    ) -> None:
        seen = ~np.isnan(E)
        self.library, self.shape, self.threads, self.e = (
            library,
            E.shape,
            threads,
            np.abs(E[seen]),
        )
        self.rows, self.cols = (
            np.concatenate([[0], np.cumsum(seen.sum(axis))]) for axis in (1, 0)
        )
        places = np.where(seen, np.cumsum(seen.ravel()).reshape(E.shape) - 1, -1).T
        self.by_column = places[places >= 0].astype(np.int32)
        self.turned = np.empty_like(self.e)
        self.k = [how_many(share, np.diff(ends)) for ends in (self.rows, self.cols)]
        self.found = [np.empty(n, np.float32) for n in E.shape]

    def run(self) -> list[np.ndarray]:
        """The k-th largest of rows and of columns."""
        arrays = (
            self.rows,
            self.cols,
            self.by_column,
            self.e,
            self.turned,
            *self.k,
            *self.found,
        )
        sizes = (ctypes.c_int64(n) for n in self.shape)
        self.library.kth_largest(
            *sizes,
            *(ctypes.c_void_p(x.ctypes.data) for x in arrays),
            ctypes.c_int(self.threads),
        )
        return self.found


def numpy_selection(E: np.ndarray, share: float) -> list[np.ndarray]:
    """The same by NumPy where all is observed."""
    k = [
        E.shape[axis] - int(how_many(share, np.array([E.shape[axis]]))[0])
        for axis in (1, 0)
    ]
    return [np.partition(E, k[0], 1)[:, k[0]], np.partition(E, k[1], 0)[k[1]]]


def measured(
    n: int, p: float, share: float, threads: int, library: ctypes.CDLL
) -> dict[str, str]:
    """One problem, in single precision: milliseconds, the best of some."""
    made = lrmc.synthetic.problem(n, 5, 0.1, p, 0, form="dense", dtype=np.float32)
    obs = lrmc.as_observations(made.Y, threads=threads)
    L, R = spectral(obs, 5, 4 * obs.scale, 1 / p)
    E = np.abs(made.Y - L @ R.T)
    selection = Selection(library, E, share, threads)
    for ours, theirs in zip(obs.magnitudes(L, R, share), selection.run()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6 * obs.scale)
    found = {
        "pull": best(lambda: obs.pull(L, R, obs.scale)),
        "ours": best(lambda: obs.magnitudes(L, R, share), 8),
        "nth_element": best(selection.run, 5),
        "numpy": best(lambda: numpy_selection(E, share), 3) if p == 1 else math.nan,
        "step": best(lambda: obs.pull(L, R, sparsify(obs, L, R, share)), 8),
    }
    return {name: f"{ms:.3g}" for name, ms in found.items()}


def main() -> None:
    """For few entries, some, and all."""
    ask = argparse.ArgumentParser(description="What ScaledGD's thresholds cost.")
    ask.add_argument("--n", type=int, default=3000)
    ask.add_argument("--threads", type=int, default=_kernels.max_threads())
    ask.add_argument("--share", type=float, default=0.15)
    ask.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks")
    told = ask.parse_args()
    told.output.mkdir(parents=True, exist_ok=True)
    sheet = Sheet(told.output / "selection.csv", ("n", "p", "threads"), ())
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        for p in (0.1, 0.3, 1.0):
            found = measured(told.n, p, told.share, told.threads, library)
            sheet.add({"n": told.n, "p": f"{p:g}", "threads": told.threads, **found})


if __name__ == "__main__":
    main()
