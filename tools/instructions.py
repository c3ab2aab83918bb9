"""How many instructions do fixed small solves take, and is that more than before?

    python tools/instructions.py [--against counts.json] [--write counts.json]

Counted by callgrind, so that neither load nor the clock of a machine matters; the same code gives
the same counts to a part in a thousand. With --against, a solve that takes more than 5 % more than
there is an error. Counts of another Python, NumPy, compiler or instruction set say nothing: then,
and where valgrind is not installed, this says so and all is well."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lrmc
from lrmc import _kernels

MOST = 1.05  # times the instructions of before
CALLGRIND = ["--tool=callgrind", "--instr-atstart=no"]
# Python's hashes and the threads of libraries would change from run to run
SAME = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def exact(n1: int, n2: int, p: float, rank: int | None) -> Callable[[], object]:
    """A solve of data without noise."""
    Y = lrmc.synthetic.problem(n1, n2=n2, rank=3, alpha=0.1, p=p, seed=1).Y
    return lambda: lrmc.solve(Y, rank, threads=1)


def noisy() -> Callable[[], object]:
    """A small table with noise, as planned: the layers without their lessons."""
    found = lrmc.synthetic.problem(80, n2=40, rank=2, alpha=0.05, p=0.8, noise=0.1)
    learned = lrmc.Schedule.named("sensors")
    return lambda: lrmc.solve(found.Y, time=None, schedule=learned, threads=1)


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "full": lambda: exact(450, 350, 1.0, 3),
    "sampled": lambda: exact(500, 400, 0.2, 3),
    "rank unknown": lambda: exact(500, 400, 0.2, None),
    "small": lambda: exact(100, 100, 1.0, 3),
    "noisy": noisy,
}


def told(*asked: str) -> None:
    """Tell callgrind, which runs this process, something."""
    order = ["callgrind_control", *asked, str(os.getpid())]
    subprocess.run(order, check=True, capture_output=True)


def counted() -> None:
    """Run each case under callgrind, and have its counts written."""
    warnings.simplefilter("ignore")
    for name, case in CASES.items():
        work = case()
        work()  # what is imported or made only once does not count
        told("--instr=on")
        work()
        told(f"--dump={name}")
        told("--instr=off")


def totals(folder: Path) -> dict[str, int]:
    """The instructions of each case, from callgrind's files."""
    found = {}
    for path in folder.glob("out.*"):  # "out" itself is what was counted last
        text = path.read_text()
        label = re.search(r"^desc: Trigger: dump (.*)$", text, re.MULTILINE)
        count = re.search(r"^totals: (\d+)", text, re.MULTILINE)
        if label and count:
            found[label[1]] = int(count[1])
    if found.keys() != CASES.keys():
        raise SystemExit(f"callgrind told only of {sorted(found)}")
    return {name: found[name] for name in CASES}


def measured() -> dict[str, int]:
    """The instructions of all cases."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"--callgrind-out-file={folder}/out"
        run = [sys.executable, __file__, "--counted"]
        subprocess.run(
            ["valgrind", *CALLGRIND, out, *run],
            check=True,
            env=os.environ | SAME,
            stderr=subprocess.DEVNULL,
        )
        return totals(Path(folder))


def circumstances() -> dict[str, str]:
    """What counts hang on beside the code of lrmc."""
    built = Path(_kernels._native.__file__).read_bytes()
    compiler = re.search(rb"(?:GCC: \([^)]*\)|clang version) [\d.]+", built)
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "vectors": "avx2" if "avx2" in _kernels.instruction_sets() else "baseline",
        "compiler": compiler[0].decode() if compiler else "unknown",
    }


def compared(now: dict[str, int], before: dict[str, int]) -> bool:
    """Print both; whether no case takes far more than before."""
    good = True
    for name, count in now.items():
        ratio = count / before.get(name, count)
        good &= ratio <= MOST
        verdict = "" if ratio <= MOST else f"  more than {MOST} times"
        print(f"{name:<14s} {count / 1e6:9.1f} million, {ratio:.3f} times{verdict}")
    return good


def main() -> None:
    """Count, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="counts that are written before")
    parser.add_argument("--write", type=Path, help="where to write the counts")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.counted:
        counted()
        return
    if not all(map(shutil.which, ("valgrind", "callgrind_control"))):
        print("valgrind is not installed: instructions are not counted")
        return
    sys.exit(0 if compare(asked.write, asked.against) else 1)


def compare(write: Path | None, against: Path | None) -> bool:
    """Count, print and write; whether no case takes far more than those there."""
    here = circumstances()
    before = json.loads(against.read_text()) if against else None
    if before is not None and before["circumstances"] != here:
        print(f"not compared: counted with {before['circumstances']}, here is {here}")
        return True
    now = measured()
    if write:
        text = json.dumps({"circumstances": here, "instructions": now}, indent=2)
        write.write_text(text + "\n")
    return compared(now, before["instructions"] if before else {})


if __name__ == "__main__":
    main()
