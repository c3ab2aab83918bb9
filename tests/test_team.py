"""Threads: of other processes, too many of them, and too little memory for them."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
from each import each

import lrmc
from lrmc import _kernels, as_observations

LIMIT = 60  # seconds: what hangs is a failure


def pull(threads=2):
    """The bits of a pass by several threads, and how many there would be by default."""
    _kernels.WORTH_A_THREAD = 1  # also where another process reads this
    rng = np.random.default_rng(0)
    Y, L, R = (rng.standard_normal(shape) for shape in ((300, 200), (300, 3), (200, 3)))
    got = as_observations(Y, threads=threads).pull(L, R, 0.7)
    return got[0].tobytes() + got[1].tobytes(), _kernels.max_threads()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, marks=pytest.mark.slow if start == "spawn" else [])
        for start in multiprocessing.get_all_start_methods()
        if start in ("fork", "spawn")
    ],
)
def test_in_another_process(start):
    """Threads do not come along when a process is forked."""
    want, _ = pull()
    pool = multiprocessing.get_context(start).Pool(2)
    try:
        answers = [pool.apply_async(pull).get(LIMIT) for _ in range(3)]
    finally:
        pool.terminate()
    assert {bits for bits, _ in answers} == {want}
    if start == "fork":
        assert {threads for _, threads in answers} == {1}
    assert pull()[0] == want


def run(code, **options):
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        **options,
    )


@pytest.mark.parametrize(
    "threads", [pytest.param(50_000, marks=pytest.mark.slow), 2**40]
)
def test_more_threads_than_any_machine_has(threads):
    code = (
        "import numpy as np, lrmc; rng = np.random.default_rng(0);"
        "Y = rng.standard_normal((300, 1)) @ rng.standard_normal((1, 200));"
        f"print(lrmc.solve(Y, 1, threads={threads}).status)"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == f"{lrmc.solve(np.outer(np.arange(1, 301), np.arange(1.0, 201)), 1).status}\n"
    )


def test_the_kernels_themselves_bear_it():
    Y = np.ones((50, 40))
    rows, cols = np.zeros(50, np.int64), np.zeros(40, np.int64)
    for threads in (-3, 0, 10**6, 2**31 - 1):
        _kernels.survey(_kernels.DenseData(Y), rows=rows, cols=cols, threads=threads)
        assert _kernels.read_once(Y, threads) == _kernels.read_once(Y, 1)
    assert (rows == 4 * 40).all()


@each("threads", [0, -1, 1.5, float("nan"), float("inf"), "2", [2]])
def test_what_is_no_number_of_threads(threads):
    with pytest.raises(ValueError, match="a whole number of at least 1 is wanted"):
        as_observations(np.ones((4, 4)), threads=threads)


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize(
    "data",
    [
        "np.ones((20, 3_000_000), np.float32)",
        "sp.csr_array((np.ones(30), (np.arange(30) * 33_333,) * 2))",
    ],
    ids=["dense", "sparse"],
)
def test_too_little_memory_is_a_memory_error(data):
    """Inside the threads: the process goes on."""
    code = f"""
import resource, numpy as np, scipy.sparse as sp, lrmc
obs = lrmc.as_observations({data}, threads=2)
obs.products(None, None, 1.0, P=np.ones((obs.shape[0], 1), obs.dtype))  # the threads are there
P = np.ones((obs.shape[0], 60), obs.dtype)
room = 60 * obs.shape[1] * obs.dtype.itemsize  # of the answer, which is made first
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room + (64 << 20),) * 2)
try:
    obs.products(None, None, 1.0, P=P)
except MemoryError as error:
    print(error)
print(obs.products(None, None, 1.0, P=P[:, :1])[1].sum())
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    said, total = done.stdout.splitlines()
    assert "fewer threads need less" in said
    assert float(total) > 0
