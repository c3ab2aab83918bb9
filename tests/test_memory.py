"""Nothing of the size of the data comes into being."""

import subprocess
import sys

import pytest

# The peak is that of the whole process, so the data are made in place and measured in a process of
# its own, which forgets its peak before each solve.
MEASURE = """
import sys, warnings
import numpy as np, lrmc
n, kind = 3000, sys.argv[1]
rng = np.random.default_rng(0)
L, R = (rng.standard_normal((n, 5), dtype=np.float32) for _ in range(2))
Y = np.empty((n, n), np.float32, order="F" if kind == "Fortran order" else "C")
for i in range(0, n, 100):
    Y[i : i + 100] = L[i : i + 100] @ R.T
    hit = rng.integers(0, n, (2, 10_000))
    Y[i + hit[0] % 100, hit[1]] = 10 * rng.standard_normal(10_000)
    if kind == "NaN":
        Y[i + hit[1] % 100, hit[0]] = np.nan
def kilobytes(what):  # of /proc, not of getrusage: that remembers the peak of the process which started this one
    return int(open("/proc/self/status").read().split(what + ":")[1].split()[0])
for method in ("auto", "lrmc"):
    open("/proc/self/clear_refs", "w").write("5")
    before = kilobytes("VmRSS")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrmc.ConvergenceWarning)
        result = lrmc.solve(Y, rank=5, method=method, max_iter=20, threads=2)
    print(before, kilobytes("VmHWM"), result.n_iter, np.isfinite(result.L).all())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["plain", "Fortran order", "NaN"])
def test_peak_memory_of_a_dense_solve(kind):
    """The data plus at most 64 MB at n = 3000, by either method: one more copy of the data (36 MB)
    and S would already be too much.
    """
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, kind],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        before, peak, n_iter, finite = line.split()
        assert 2 <= int(n_iter) <= 20
        assert finite == "True"
        # the data are there before the solve
        assert 1024 * int(before) > 36_000_000
        assert int(peak) - int(before) <= 64 * 1024
