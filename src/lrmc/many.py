"""Many small matrices at once: tiles, patches, windows.

Those without noise are solved, and proven, in a kernel that divides matrices among threads. The
others are solved one by one, as `solve` does it, several at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, overload

import numpy as np

from . import _kernels
from ._arguments import checked_rank, whole_number
from ._job import Asked, checked_job, checked_max_iter, checked_tol
from ._loop import ended_at_once
from .methods.in_time.improve import checked_time
from .methods.small import PLACES, Solved, solve_small
from .observations._checks import as_mask, checked_threads, precision, storable
from .observations.base import Part
from .result import Result, Status
from .solve import ConvergenceWarning, DoubtWarning, answered, finished
from .weights import Array


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

    def result(self, solved: Solved) -> Result:
        """Of what the kernel has proven."""
        job = checked_job(self.Y, self.asked)
        return finished(job, ended_at_once(job, solved), self.max_iter)


class Results(Sequence[Result]):
    """Results of `lrmc.solve_many`, one for each matrix, in their order.

    Of matrices that the kernel for small ones has proven, a `Result` is made when it is asked for:
    `status`, `rank`, `warnings` and `completed` do without.

    Attributes
    ----------
    matrices : sequence
        The matrices as they came, with what was asked.
    answers : list of Result or Solved
        What was found for each.

    Examples
    --------
    >>> import lrmc, numpy as np
    >>> stack = np.stack([lrmc.synthetic.problem(n=60, rank=1, p=1, seed=k).Y for k in range(3)])
    >>> results = lrmc.solve_many(stack, rank=1)
    >>> len(results), results[0].regime, results.completed().shape
    (3, 'exact', (3, 60, 60))
    """

    def __init__(
        self, matrices: Sequence[Matrix], answers: list[Result | Solved]
    ) -> None:
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
        if isinstance(answer, Solved):
            answer = self.answers[i] = self.matrices[i].result(answer)
        return answer

    def __repr__(self) -> str:
        done = int(self.converged.sum())
        return f"Results({len(self)} matrices, {done} converged)"

    @property
    def status(self) -> tuple[Status, ...]:
        """How each run ended."""
        return tuple(
            Status.CONVERGED if isinstance(answer, Solved) else answer.status
            for answer in self.answers
        )

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
        """What speaks against each answer, in sentences: nothing, where it is proven."""
        return tuple(
            () if isinstance(answer, Solved) else answer.warnings
            for answer in self.answers
        )

    def completed(self) -> Array | list[Array]:
        """The best estimate of all entries, as `Result.completed` has it.

        Returns
        -------
        array of shape (matrices, n1, n2), or list of arrays
            A list where the matrices differ in shape.
        """
        found = [answer.completed() for answer in self.answers]
        alike = len({X.shape for X in found}) == 1
        return np.stack(found) if alike else found


def solve_many(
    batch: Any,
    rank: int | None = None,
    *,
    mask: Any = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    seed: int = 0,
    threads: int | None = None,
) -> Results:
    """Recover many small low-rank matrices: what `solve` does, for each of them by itself.

    Matrices of up to 131,072 entries and without noise take a kernel each, in parallel: for tiles,
    patches and windows that is tens of times faster than a loop. All others are solved as `solve`
    does it, several at a time.

    Parameters
    ----------
    batch : 3-D array of shape (matrices, n1, n2), or sequence of matrices
        NaN is missing. A sequence may hold whatever `solve` takes, of different shapes.
    rank : int, optional
        Rank of each; found for each by itself if not given.
    mask : 3-D array of bool or sequence of masks, optional
        True where an entry is observed.
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
    """
    seed = whole_number("seed", seed, 0)
    asked = Asked(rank=rank, seed=seed, threads=1, tol=checked_tol(tol))
    max_iter = checked_max_iter(max_iter)
    matrices = [
        Matrix(Y, asked if seen is None else replace(asked, mask=seen), max_iter)
        for Y, seen in zip(_stack(batch), _masks(batch, mask), strict=True)
    ]
    workers = checked_threads(threads) or _kernels.max_threads()
    answers = _proven(matrices, workers)
    left = [i for i, answer in enumerate(answers) if answer is None]
    with ThreadPoolExecutor(workers) as pool:
        for i, result in zip(left, pool.map(partial(_one, matrices), left)):
            answers[i] = result
    results = Results(matrices, [answer for answer in answers if answer is not None])
    _warn(results)
    return results


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


def _proven(matrices: Sequence[Matrix], threads: int) -> list[Result | Solved | None]:
    """What the kernel proves of each matrix; None where it proves nothing."""
    found: list[Result | Solved | None] = [None] * len(matrices)
    by_precision: dict[Any, dict[int, Part]] = {}
    for i, matrix in enumerate(matrices):
        with _numbered(i):
            part = matrix.part()
        if part is not None:
            by_precision.setdefault(precision(part.Y.dtype), {})[i] = part
    for dtype, parts in by_precision.items():
        asked, max_iter = matrices[0].asked, matrices[0].max_iter
        answers = solve_small(
            list(parts.values()),
            asked.rank,
            dtype=dtype,
            tol=asked.tol,
            most=max_iter,
            seed=asked.seed,
            threads=threads,
        )
        for i, answer in zip(parts, answers, strict=True):
            found[i] = answer
    return found


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
