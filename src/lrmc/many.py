"""Many small matrices at once: tiles, patches, windows.

Those without noise are solved, and proven, in a kernel that divides matrices among threads; with a
schedule, another kernel makes all of its layers. What these leave is solved one by one, as `solve`
does it, several at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np

from . import _kernels
from ._answer import shortcomings
from ._arguments import checked_rank, whole_number
from ._job import Asked, checked_job, checked_max_iter, checked_tol
from ._loop import BLOWN_UP, FEW_INLIERS, Ended, ended_at_once
from .linalg import Factors, norm
from .methods.default import Findings
from .methods.in_time.improve import checked_time
from .methods.layered import Ends, Layered, run_layers
from .methods.small import PLACES, Solved, solve_small
from .observations._checks import as_mask, checked_threads, precision, storable
from .observations.base import Part
from .result import Iterate, Record, Result, Status
from .schedule import Schedule
from .solve import ConvergenceWarning, DoubtWarning, answered, finished
from .weights import Array, DType

Quick = Solved | Layered  # what a kernel has found
Answer = Result | Quick


class Matrix(NamedTuple):
    """One of the matrices, as it came."""

    Y: Any
    asked: Asked
    max_iter: int

    def part(self) -> Part | None:
        """As the kernel takes it; None if it does not."""
        Y, mask = self.Y, self.asked.mask
        if type(Y) is not np.ndarray or Y.ndim != 2 or Y.dtype.kind not in "fiub":
            return None
        if not 0 < Y.size <= PLACES:
            return None
        if self.asked.rank is not None:
            checked_rank(self.asked.rank, Y.shape)
        seen = None if mask is None else as_mask(mask, Y.shape).view(np.uint8)
        Y = Y.astype(storable(Y.dtype), copy=False)
        return Part(Y if Y.flags.aligned else Y.copy(), seen, 1.0)

    def solved(self) -> Result:
        """As `solve` does it, with one thread."""
        time = checked_time("auto", "auto", None)
        return answered(self.Y, self.asked, time, self.max_iter)

    def result(self, found: Quick) -> Result:
        """Of what a kernel has found."""
        job = checked_job(self.Y, self.asked)
        if isinstance(found, Solved):
            ended = ended_at_once(job, found)
        else:
            assert isinstance(job.schedule, Schedule)
            zeta, _ = job.schedule.start(job.obs.scale, job.obs.fraction)
            ended = _ended(found, zeta)
        return finished(job, ended, self.max_iter)


def _ended(run: Layered, zeta: float) -> Ended:
    """How a run of layers ended whose start had this threshold."""
    start = Record(0, math.nan, zeta, math.nan, 0.0)
    records = (Record(k, *line) for k, line in enumerate(run.trace.tolist(), 1))
    history = (start, *records)
    last = history[-1]
    it = Iterate(
        last.k,
        *run.X,
        last.change,
        last.zeta,
        last.inliers,
        stage="lrmc" if last.k else "start",
        norm=norm(run.X),
    )
    if run.status is Status.SCHEDULE_ENDED:
        return Ended(it, run.status, history, Findings(run.status, "exact"))
    return Ended(it, run.status, history)


class Results(Sequence[Result]):
    """Results of `lrmc.solve_many`, one for each matrix, in their order.

    Of matrices that a kernel for small ones has solved, a `Result` is made when it is asked for:
    `status`, `rank`, `factors`, and mostly `warnings` and `completed`, do without.

    Attributes
    ----------
    matrices : sequence
        The matrices as they came, with what was asked.
    answers : list of Result, Solved or Layered
        What was found for each.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> stack = np.stack([lrmc.synthetic.problem(n=60, rank=1, p=1, seed=k).Y for k in range(3)])
    >>> results = lrmc.solve_many(stack, rank=1)
    >>> len(results), results[0].regime, results.completed().shape
    (3, 'exact', (3, 60, 60))
    """

    def __init__(self, matrices: Sequence[Matrix], answers: list[Answer]) -> None:
        """Keep them."""
        self.matrices = matrices
        self.answers = answers

    def __len__(self) -> int:
        return len(self.answers)

    @overload
    def __getitem__(self, i: int) -> Result: ...
    @overload
    def __getitem__(self, i: slice) -> list[Result]: ...
    def __getitem__(self, i: int | slice) -> Result | list[Result]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        answer = self.answers[i]
        if not isinstance(answer, Result):
            answer = self.answers[i] = self.matrices[i].result(answer)
        return answer

    def __repr__(self) -> str:
        done = int(self.converged.sum())
        return f"Results({len(self)} matrices, {done} converged)"

    @property
    def status(self) -> tuple[Status, ...]:
        """How each run ended."""
        return tuple(answer.status for answer in self.answers)

    @property
    def converged(self) -> Array:
        """Whether each run converged: an array of bool."""
        return np.array([status is Status.CONVERGED for status in self.status], bool)

    @property
    def rank(self) -> Array:
        """The rank of each model."""
        return np.array([answer.rank for answer in self.answers], np.int64)

    @property
    def warnings(self) -> tuple[tuple[str, ...], ...]:
        """What speaks against each answer, in sentences."""
        return tuple(map(self._warnings_of, range(len(self))))

    def _warnings_of(self, i: int) -> tuple[str, ...]:
        """The same of one, without a `Result`, which takes three times as long."""
        answer = self.answers[i]
        if isinstance(answer, Result):
            return answer.warnings
        if answer.determined or isinstance(answer, Solved):
            return ()
        return tuple(shortcomings(answer.entries, answer.rank, sum(map(len, answer.X))))

    def _is_determined(self, i: int) -> bool:
        """Whether a kernel has seen that nothing is to say of a matrix."""
        answer = self.answers[i]
        return not isinstance(answer, Result) and answer.determined

    def factors(self) -> tuple[Factors, ...]:
        """L and R of each, without what a `Result` has besides."""
        return tuple(
            answer.factors() if isinstance(answer, Result) else answer.X
            for answer in self.answers
        )

    def completed(self) -> Array | list[Array]:
        """The best estimate of all entries, as `Result.completed` has it.

        Returns
        -------
        array of shape (matrices, n1, n2), or list of arrays
            A list where the matrices differ in shape.
        """
        found = [
            (self.answers[i] if self._is_determined(i) else self[i]).completed()
            for i in range(len(self))
        ]
        alike = len({X.shape for X in found}) == 1
        return np.stack(found) if alike else found


def solve_many(
    batch: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    schedule: Schedule | str | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    seed: int = 0,
    threads: int | None = None,
) -> Results:
    """Recover many small low-rank matrices: what `solve` does, for each of them by itself.

    Matrices of up to 131,072 entries and without noise take a kernel each, in parallel: for tiles,
    patches and windows that is many times faster than a loop. So do the layers of a `schedule`, with
    noise or without. All others are solved as `solve` does it, several at a time.

    Parameters
    ----------
    batch : 3-D array of shape (matrices, n1, n2), or sequence of matrices
        NaN is missing. A sequence may hold whatever `solve` takes, of different shapes.
    rank : int, optional
        Rank of each; found for each by itself if not given.
    mask : 3-D array of bool or sequence of masks, optional
        True where an entry is observed.
    schedule : Schedule or str, optional
        Thresholds and steps, or the name of such: the paper's LRMC is run on each matrix, as `solve`
        does it with `method="lrmc"`. The rank must be given. Nothing stands in where the schedule does
        not fit: `status` says what became of each.
    tol, max_iter, seed
        As for `solve`.
    threads : int, optional
        Number of threads; all cores if not given.

    Returns
    -------
    Results
        A sequence of `Result`, one for each matrix.

    Raises
    ------
    ValueError
        If an argument makes no sense; of a matrix that cannot be solved, its number is said.

    Warns
    -----
    ConvergenceWarning, DoubtWarning
        Once, with the number of matrices concerned: `Results.status` and `Results.warnings` have
        what is to say of each.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> stack = np.stack([lrmc.synthetic.problem(n=60, rank=2, p=1, seed=k).Y for k in range(4)])
    >>> results = lrmc.solve_many(stack, rank=2)
    >>> results.converged.all(), results.rank.tolist()
    (np.True_, [2, 2, 2, 2])
    >>> lrmc.solve_many(stack, rank=2, schedule="geometric").converged.all()
    np.True_
    """
    seed = whole_number("seed", seed, 0)
    asked = Asked(
        rank=rank,
        method="auto" if schedule is None else "lrmc",
        schedule=_as_schedule(schedule),
        seed=seed,
        threads=1,
        tol=checked_tol(tol),
    )
    max_iter = checked_max_iter(max_iter)
    matrices = [
        Matrix(Y, asked if seen is None else replace(asked, mask=seen), max_iter)
        for Y, seen in zip(_stack(batch), _masks(batch, mask), strict=True)
    ]
    workers = checked_threads(threads) or _kernels.max_threads()
    answers = _by_kernel(matrices, workers)
    left = [i for i, answer in enumerate(answers) if answer is None]
    with ThreadPoolExecutor(workers) as pool:
        for i, result in zip(left, pool.map(partial(_one, matrices), left)):
            answers[i] = result
    results = Results(matrices, [answer for answer in answers if answer is not None])
    _warn(results)
    return results


def _as_schedule(schedule: Any) -> Schedule | None:
    """With thresholds and steps; None, if none is wanted."""
    if isinstance(schedule, str):
        schedule = Schedule.named(schedule)
    if schedule is None or (isinstance(schedule, Schedule) and schedule.plan is None):
        return schedule
    what = "a plan" if isinstance(schedule, Schedule) else type(schedule).__name__
    raise ValueError(
        f"schedule is {what}; a Schedule with thresholds and steps, or the name of one, is wanted"
    )


def _stack(batch: Any) -> Sequence[Any]:
    """The matrices of a batch."""
    if getattr(batch, "ndim", 3) != 3 or not hasattr(batch, "__len__"):
        what = f"of shape {batch.shape}" if hasattr(batch, "shape") else "came"
        raise ValueError(
            f"a {type(batch).__name__} {what}; a 3-D array (matrices, rows, columns) or"
            " a list of matrices is wanted. One matrix is for lrmc.solve"
        )
    return batch


def _masks(batch: Any, mask: Any) -> Sequence[Any]:
    """One mask for each matrix, or none."""
    if mask is None:
        return [None] * len(batch)
    if len(mask) != len(batch):
        raise ValueError(
            f"mask= holds {len(mask)} masks, and the batch {len(batch)} matrices"
        )
    return mask


@contextmanager
def _numbered(i: int) -> Iterator[None]:
    """What is wrong with a matrix is said with its number."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"matrix {i} of the batch: {error}") from error


def _one(matrices: Sequence[Matrix], i: int) -> Result:
    with _numbered(i):
        return matrices[i].solved()


def _by_kernel(matrices: Sequence[Matrix], threads: int) -> list[Answer | None]:
    """What the kernels find for each matrix; None where that is nothing."""
    found: list[Answer | None] = [None] * len(matrices)
    alike: dict[Any, dict[int, Part]] = {}
    for i, matrix in enumerate(matrices):
        with _numbered(i):
            part = matrix.part()
        if part is not None:
            shape = () if matrix.asked.schedule is None else part.Y.shape
            alike.setdefault((precision(part.Y.dtype), shape), {})[i] = part
    for (dtype, _), parts in alike.items():
        asked, max_iter = matrices[0].asked, matrices[0].max_iter
        answers = _found(list(parts.values()), asked, dtype, max_iter, threads)
        for i, answer in zip(parts, answers, strict=True):
            found[i] = answer
    return found


def _found(
    parts: list[Part],
    asked: Asked,
    dtype: DType,
    max_iter: int,
    threads: int,
) -> Sequence[Quick | None]:
    """The same for matrices that one call of a kernel takes."""
    if asked.schedule is None:
        return solve_small(
            parts,
            asked.rank,
            dtype=dtype,
            tol=asked.tol,
            most=max_iter,
            seed=asked.seed,
            threads=threads,
        )
    assert isinstance(asked.schedule, Schedule)
    if asked.rank is None:  # what is wrong is said by the method itself
        return [None] * len(parts)
    return run_layers(
        parts,
        asked.rank,
        asked.schedule,
        Ends(asked.tol, max_iter, BLOWN_UP, FEW_INLIERS),
        dtype=dtype,
        seed=asked.seed,
        threads=threads,
    )


def _warn(results: Results) -> None:
    """Say once what is to say, with the number of matrices concerned."""
    n = len(results)
    doubted = [texts for texts in results.warnings if texts]
    if doubted:
        text = f"{len(doubted)} of {n} matrices: {doubted[0][0]}, for example; see Results.warnings"
        warnings.warn(text, DoubtWarning, stacklevel=3)
    failed = [status for status in results.status if status is not Status.CONVERGED]
    if failed:
        text = f"{len(failed)} of {n} matrices did not converge: {failed[0].meaning}, for example; see Results.status"
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
