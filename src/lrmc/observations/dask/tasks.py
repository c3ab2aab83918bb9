"""Tasks: what runs where the blocks are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._rows import Lines, added, like, wide
from ..reading import Reading
from .made import Read


@dataclass(frozen=True)
class Same:
    """Something that Dask must not look into."""

    value: Any


@dataclass(frozen=True)
class Answer:
    """What came of one block: for its rows, and to be added up."""

    rows: Any
    told: Any


@dataclass(frozen=True)
class Several:
    """What a task needs for one of its blocks."""

    slots: list[Any]
    n: int


@dataclass(frozen=True)
class Total:
    """What several blocks told, and arrays without rows like those that stay where they are."""

    told: Any
    like: Any


@dataclass(frozen=True)
class Kept:
    """What stays on a worker for the rows of a block."""

    rows: Lines


@dataclass(frozen=True)
class Place:
    """Where the lines of an array are, among what a task is given: a slot, or an array
    of what is kept there.
    """

    slot: int
    number: int | None = None
    factor: float = 1.0  # the array is read in other units


@dataclass(frozen=True)
class Constant:
    """A line that is the same for every row."""

    value: Any


@dataclass(frozen=True)
class Job:
    """What every task of a graph does: the work, what it shares, and how a block of the
    data is read, if it is.
    """

    task: Callable[..., Any]
    work: Callable[..., Any]
    shared: Any
    reading: Reading | None = None
    data: int = 0  # slots that hold the block of data
    places: tuple[Place | None, ...] = ()
    make: Callable[..., Any] = tuple

    def arguments(self, slots: list[Any], n: int) -> tuple[Any, ...]:
        """The block of data, if there is one, and its rows."""
        slots = [slot.now() if isinstance(slot, Read) else slot for slot in slots]
        rows = self.make([_found(place, slots, n) for place in self.places])
        if self.reading is None:
            return (rows,)
        return self.reading.block(*slots[: self.data]), rows


def _found(place: Place | None, slots: list[Any], n: int) -> Any:
    if place is None:
        return None
    x = slots[place.slot]
    if place.number is not None:
        return row_part(x, place.number, place.factor)
    if isinstance(x, Constant):
        return np.broadcast_to(x.value, (n, *np.shape(x.value)))
    return x


def apply(job: Same, slots: list[Any], n: int, own: Same) -> Any:
    """One task of a graph."""
    return job.value.task(job.value, slots, n, own.value)


def worked(job: Job, slots: list[Any], n: int, _: None) -> Answer:
    """What the work gives for one block."""
    return Answer(*job.work(*job.arguments(slots, n), job.shared))


def asked(job: Job, slots: list[Any], n: int, question: Any) -> Any:
    """What one block answers to a question of its own."""
    return job.work(*job.arguments(slots, n), job.shared, question)


def one_by_one(job: Same, several: list[Several]) -> tuple[list[Kept], Total]:
    """What some blocks keep, and what they tell together."""
    answers = [worked(job.value, block.slots, block.n, None) for block in several]
    return [Kept(answer.rows) for answer in answers], totalled(answers)


def together(answers: Sequence[Answer | Kept]) -> Any:
    """What blocks keep, one after another."""
    columns = zip(*(answer.rows for answer in answers), strict=True)
    return like(
        answers[0].rows,
        [None if parts[0] is None else np.concatenate(parts) for parts in columns],
    )


def totalled(answers: Sequence[Any]) -> Total:
    """What answers tell, or sums of answers, added up."""
    first, *others = (alone(a) if isinstance(a, Answer) else a for a in answers)
    told = first.told
    for other in others:
        told = like(told, added(told, other.told))
    return Total(told, first.like)


def alone(answer: Answer) -> Total:
    """What one block tells, without its rows."""
    told = like(answer.told, [wide(x) for x in answer.told])
    shapes = [None if x is None else x[:0] for x in answer.rows]
    return Total(told, like(answer.rows, shapes))


def rows_of(answer: Answer) -> Kept:
    """What one block keeps, without what it tells."""
    return Kept(answer.rows)


def everything(rows: list[Any], total: Any) -> tuple[list[Any], Total]:
    """What all blocks keep, and what they tell together."""
    return rows, totalled([total])


def row_part(kept: Kept, k: int, factor: float) -> Any:
    """One of the arrays that are kept, in other units."""
    x = kept.rows[k]
    return x if factor == 1 else x * x.dtype.type(factor)
