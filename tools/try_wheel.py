"""Use an installed lrmc as a stranger would, with no extras or with all: `make wheels` runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

IMPORT_WITHIN = 0.5  # seconds of CPU time
IMPORT_TIMES = 2.0  # what NumPy and SciPy take
COMMANDS = (
    "complete",
    "demo",
    "video",
    "clouds",
    "ultrasound",
    "faces",
    "train",
    "schedules",
    "bench",
)


def main() -> None:
    """Try what should work."""
    import lrmc

    print(
        f"lrmc {lrmc.__version__} on Python {sys.version.split()[0]}: {lrmc.__file__}"
    )
    core()
    if sys.argv[1] == "alone":
        imported_quickly()
        missing_packages_are_named()
    else:
        commands()


def core() -> None:
    """Solve, save, load."""
    import lrmc

    problem = lrmc.synthetic.problem(n=300, rank=3, alpha=0.1, p=0.5)
    result = lrmc.solve(problem.Y)
    assert lrmc.relative_error(result, problem) < 1e-5, result
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "result.npz")
        assert lrmc.Result.load(Path(folder) / "result.npz").rank == 3


def imported_quickly() -> None:
    """In the best of five processes; where the machine is so busy that NumPy and SciPy alone take
    long, in comparison with these.
    """
    alone, all_of_it = cpu_time("numpy, scipy.sparse, scipy.special"), cpu_time("lrmc")
    print(f"import lrmc: {all_of_it:.2f} s; NumPy and SciPy alone: {alone:.2f} s")
    assert all_of_it < max(IMPORT_WITHIN, IMPORT_TIMES * alone)


def cpu_time(modules: str) -> float:
    """Seconds of CPU time that an import takes, at best."""
    code = f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    return min(float(subprocess.check_output(command)) for _ in range(5))


def missing_packages_are_named() -> None:
    """What needs an extra says which."""
    import lrmc

    try:
        _ = lrmc.RobustPCA
    except ImportError as error:
        assert 'pip install "lrmc[sklearn]"' in str(error)
    else:
        raise AssertionError("scikit-learn is here, and should not be")


def commands() -> None:
    """All commands start, one completes a table, and the tour is taken."""
    lrmc = shutil.which("lrmc", path=str(Path(sys.executable).parent))
    assert lrmc is not None
    for command in COMMANDS:
        subprocess.run([lrmc, command, "--help"], check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.csv", Path(folder) / "out.xlsx"
        rng = np.random.default_rng(0)
        X = np.outer(rng.uniform(1, 2, 60), rng.uniform(1, 2, 8))
        X[rng.random(X.shape) < 0.1] = np.nan
        np.savetxt(source, X, delimiter=",", header=",".join("abcdefgh"), comments="")
        began = time.perf_counter()
        subprocess.run([lrmc, "complete", source, "-o", target], check=True)
        print(f"lrmc complete: {time.perf_counter() - began:.1f} s")
        assert target.exists()
        tour = Path(folder) / "tour"
        subprocess.run([lrmc, "demo", "-o", tour], check=True, capture_output=True)
        assert (tour / "report.html").exists()


if __name__ == "__main__":
    main()
