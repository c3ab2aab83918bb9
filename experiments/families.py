"""Schedules learned on matrices of one kind, tried on others of that kind; the default beside.

    python experiments/families.py [--data DIR] [--only faces ratings ...] [--seeds 0 1 2] [--keep] [--write]

What is trained on is never tested on: other persons, days, users, fields, scenes. A pass is a look
at all entries of the new matrix; those in parts of it count as parts. With `--keep` the schedules
become those that come with the package."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from page import table
from scipy import ndimage
from tasks import (
    Array,
    Problem,
    Scores,
    Source,
    data_folder,
    errors,
    faces,
    jester,
    ngsim,
    satellite_scores,
    video,
)
from tasks import satellite as pairs_of_dates
from written import write_made

import lrmc
from lrmc.methods.plan import Plan
from lrmc.methods.safety_net import kind_of
from lrmc.observations import native, native_layers
from lrmc.observations._door import as_observations

ROOT = Path(__file__).resolve().parent.parent
LARGER = ("PSNR", "F")  # is better
SHIPPED = ROOT / "src" / "lrmc" / "schedules"


class Family(NamedTuple):
    """What is trained on, what is tested, and what the card says."""

    name: str
    trained: Callable[[Source], list[Any]]
    tested: Callable[[Source], Iterator[tuple[str, Problem]]]
    about: str
    groups: Callable[[Source], list[Any]] | None = (
        None  # rows that are weighed together
    )
    # from mean scores over many problems to those that are shown; without, each is shown
    finish: Callable[[Scores], Scores] | None = None
    ships: bool = True
    # others of the kind: nothing is learned from them but what matrices of it look like
    alike: Callable[[Source], list[Any]] | None = None


def person_10(source: Source) -> list[Any]:
    """One person with gaps and pasted patches, four times; images of one size."""
    drawn = (
        next(faces(source._replace(seed=100 + k), "yaleB10")).values for k in range(4)
    )
    return list(drawn)


def as_they_came(source: Source) -> list[Any]:
    """The same person without gaps and patches, as `lrmc faces` mostly gets pictures."""
    images = source.read("faces/extyaleb_yaleB10.npz")["images"]
    return [columns(images).astype(np.float32)]


def persons_01_02(source: Source) -> Iterator[tuple[str, Problem]]:
    """Two others."""
    for person in ("yaleB01", "yaleB02"):
        yield person, next(faces(source, person))


def speeds(source: Source, days: range, seed: int) -> Problem:
    """METR-LA on some days: half hidden, a tenth of the others stuck at 0 or at 70."""
    rng = np.random.default_rng(seed)
    speed = source.read("traffic/metr_la_week_speed.npz")["speed"]
    speed = speed.reshape(len(speed), 7, -1)[:, days].reshape(len(speed), -1)
    mask = rng.random(speed.shape) >= 0.5
    wrong = rng.choice(np.float32([0, 70]), speed.shape)
    Y = np.where(rng.random(speed.shape) < 0.1, wrong, speed)
    return Problem(Y, mask, lambda X: errors(X[~mask], speed[~mask]))


def first_days(source: Source) -> list[Any]:
    """The first three days, each a matrix, with two masks."""
    return [
        speeds(source, range(day, day + 1), 100 + 10 * k + day).values
        for k in range(2)
        for day in range(3)
    ]


def last_days(source: Source) -> Iterator[tuple[str, Problem]]:
    """The other four, at once."""
    yield "METR-LA, days 4-7", speeds(source, range(3, 7), source.seed)


def first_users(source: Source) -> list[Any]:
    """Half of the users, in three groups."""
    problem = next(jester(source._replace(seed=100)))
    return list(np.array_split(problem.values[:2500], 3))


def last_users(source: Source) -> Iterator[tuple[str, Problem]]:
    """The other half."""
    rng = np.random.default_rng(source.seed)
    ratings = source.read("ratings/jester5k.npz")["ratings"][2500:]
    rated, hidden = ~np.isnan(ratings), rng.random(ratings.shape) < 0.2
    test = rated & hidden

    def score(X: Any) -> dict[str, float]:
        return {"NMAE": errors(X[test], ratings[test])["MAE"] / 20}

    yield "Jester, users 2501-5000", Problem(ratings, rated & ~hidden, score)


def other_fields(source: Source) -> list[Any]:
    """What fewer cars saw of the motorway, where it is known at all."""
    content = source.read("traffic/ngsim_speed_field.npz")
    found = []
    for name in ("speed_90missing", "speed_95missing"):
        Y = content[name]
        found.append(Y[:, ~np.isnan(Y).all(axis=0)])
    return found


def the_field(source: Source) -> Iterator[tuple[str, Problem]]:
    """What one in five saw."""
    yield "NGSIM", next(ngsim(source))


def bands_as_groups(stack: Array) -> tuple[Array, Array]:
    """(date, band, y, x) as pixels of bands x dates, and which rows are one pixel."""
    pixels = np.arange(stack[0, 0].size)
    return stack.reshape(len(stack), -1).T, np.tile(pixels, stack.shape[1])


def romania(source: Source) -> list[Any]:
    """Another country: stacks of 25 dates, of which what is surely cloud is missing and what may
    be is not.
    """
    content = source.read("satellite/sentinel2_romania_10m.npz")
    data, scl = (content[name][..., ::2, ::2] for name in ("data", "scl"))
    missing = np.isin(scl, (0, 9))
    data = np.where(missing[:, None], np.float32(np.nan), data.astype(np.float32))
    dates = np.flatnonzero(missing.mean(axis=(1, 2)) < 0.8)
    return [
        bands_as_groups(data[dates[k : k + 25]])[0]
        for k in range(0, len(dates) - 24, 25)
    ]


def romanian_groups(source: Source) -> list[Any]:
    """Which rows of those are one pixel."""
    pixels = np.arange(50 * 50)
    return [np.tile(pixels, 4) for _ in romania(source)]


def rondonia(source: Source) -> Iterator[tuple[str, Problem]]:
    """Clouds moved onto clear dates, a pair at a time."""
    for k, problem in enumerate(pairs_of_dates(source._replace(thin=4))):
        yield f"20LKP {k}", problem


def columns(X: Array) -> Array:
    """Images as columns."""
    return X.reshape(len(X), -1).T


def street(
    height: int = 120, width: int = 160, frames: int = 150, seed: int = 0
) -> Array:
    """Boxes that pass before a still background, in changing light and with the noise of
    a camera.
    """
    rng = np.random.default_rng(seed)
    still = ndimage.gaussian_filter(rng.standard_normal((height, width)), 4)
    still = 110 + 45 * still / np.abs(still).max()
    film = still * (1 + 0.03 * np.sin(np.arange(frames) / 20))[
        :, None, None
    ] + rng.normal(0, 2, (frames, height, width))
    for _ in range(14):
        first, speed, y, grey = (
            rng.integers(0, frames),
            rng.uniform(1, 4),
            rng.integers(0, height - 24),
            rng.uniform(0, 255),
        )
        tall, wide = rng.integers(10, 24), rng.integers(10, 40)
        for k in range(first, frames):
            x = int(speed * (k - first))
            film[k, y : y + tall, x : x + wide] = grey + rng.normal(0, 3)
    return columns(np.clip(film, 0, 255).astype(np.uint8))


def streets(source: Source) -> list[Any]:
    """Generated: boxes that pass before still backgrounds."""
    return [street(seed=k) for k in range(4)]


def clips(source: Source) -> Iterator[tuple[str, Problem]]:
    """Real ones."""
    for name in ("sbi2015_ibmtest2", "sbi2015_hall_and_monitor", "cdnet2014_highway"):
        yield name, next(video(source, name))


def echoes(source: Source) -> list[Any]:
    """Patches of the echocardiogram that comes with pydicom."""
    frames = source.read("ultrasound/echo_cine_pydicom.npz")["frames"]
    return [
        np.float32(frames[:, i : i + 32, j : j + 32]).reshape(len(frames), -1).T
        for i, j in product((64, 112, 160), (96, 144, 192))
    ]


def bubbles(source: Source) -> Iterator[tuple[str, Problem]]:
    """Real tissue and real bubbles, patch by patch: the error of S."""
    tissue = source.read("ultrasound/bmode_abdomen_b.npz")["frames"] / np.float32(255)
    sparse = source.read("ultrasound/ceus_rat_kidney_upper.npz")["bubbles"] / 2
    middle = (
        X[:, at : at + 160, left : left + 160]
        for X, at, left in ((tissue, 40, 5), (sparse, 0, 35))
    )
    T, S = middle
    for i, j in product(range(0, 160, 32), repeat=2):
        t, s = (
            np.ascontiguousarray(X[:, i : i + 32, j : j + 32].reshape(len(X), -1).T)
            for X in (T, S)
        )
        if np.mean(s > 0) > 0.01:
            yield (
                f"patch {i} {j}",
                Problem(
                    t + s,
                    np.ones(t.shape, bool),
                    lambda X, t=t, s=s: {
                        "error of S": float(np.linalg.norm(t - X) / np.linalg.norm(s))
                    },
                ),
            )


FAMILIES = (
    Family(
        "faces",
        person_10,
        persons_01_02,
        "a face under 64 lights, with gaps and patches of others (Extended Yale B, person 10)",
        alike=as_they_came,
    ),
    Family(
        "sensors",
        first_days,
        last_days,
        "three days of traffic speeds, half of them hidden, a tenth of the others wrong (METR-LA)",
    ),
    Family(
        "ratings", first_users, last_users, "ratings of jokes by 2,500 people (Jester)"
    ),
    Family("fields", other_fields, the_field, "", ships=False),
    Family(
        "clouds",
        romania,
        rondonia,
        "Sentinel-2, Romania: stacks of 25 dates, four bands",
        romanian_groups,
        satellite_scores,
    ),
    Family("video", streets, clips, "four generated street scenes"),
    Family(
        "ultrasound",
        echoes,
        bubbles,
        "",
        finish=lambda scores: scores,
        ships=False,  # motion has to be undone first: `lrmc ultrasound` does better without it
    ),
)


def passes_of(run: Callable[[], Any], n_observed: int) -> tuple[Any, float]:
    """What a run gives, and its passes over so many entries: every call of the kernels counts as
    many as it looks at. Layers are called one by one: the kernel for all does not say how many it made.
    """
    seen = 0

    def counted(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def counting(of: Any, *args: Any, **options: Any) -> Any:
            nonlocal seen
            found = kernel(of, *args, **options)
            seen += 0 if found is None else of.n_observed
            return found

        return counting

    with (
        mock.patch.object(native, "products", counted(native.products)),
        mock.patch.object(native_layers, "refit", counted(native_layers.refit)),
        mock.patch.object(native_layers, "settle", return_value=None),
    ):
        return run(), seen / n_observed


class Run(NamedTuple):
    """One solve."""

    name: str
    scores: Scores
    passes: float
    seconds: float  # of the processor
    rank: float
    said: list[str]


def run(name: str, problem: Problem, options: dict[str, Any]) -> Run:
    """Solve a problem without a model of time."""
    Y, groups = problem.values, problem.groups
    solve = partial(lrmc.solve, Y, groups=groups, time=None, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        result = solve()
        seconds = time.process_time() - began
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, passes = passes_of(solve, int(problem.mask.sum()))
    said = [str(x.message) for x in caught if "schedule" in str(x.message)]
    scores = problem.score(result.completed(undetermined="keep"))
    return Run(name, scores, passes, seconds, result.rank, said)


def pooled(runs: list[Run], finish: Callable[[Scores], Scores]) -> Run:
    """Many problems as one line."""
    scores = {k: float(np.mean([x.scores[k] for x in runs])) for k in runs[0].scores}
    passes, seconds, rank = (
        float(np.mean([getattr(x, k) for x in runs]))
        for k in ("passes", "seconds", "rank")
    )
    said = [text for x in runs for text in x.said]
    return Run(f"{len(runs)} problems", finish(scores), passes, seconds, rank, said)


def tried(family: Family, source: Source, schedule: lrmc.Schedule) -> list[Row]:
    """Learned elsewhere, and the default, on what was not learned from."""
    rows: list[Row] = []
    for how, options in (("learned", {"schedule": schedule}), ("default", {})):
        runs = [run(*given, options) for given in family.tested(source)]
        if family.finish is not None:
            runs = [pooled(runs, family.finish)]
        for x in runs:
            measure, score = next(iter(x.scores.items()))
            row = Row(
                family.name, x.name, how, measure, score, x.passes, x.seconds, x.rank
            )
            rows.append(row)
            print(row, *x.said, flush=True)
    return rows


class Row(NamedTuple):
    """A line of the table."""

    family: str
    tested: str
    how: str
    measure: str
    score: float
    passes: float
    seconds: float
    rank: float


def trained(family: Family, source: Source) -> lrmc.Schedule:
    """The schedule of a family."""
    groups = None if family.groups is None else family.groups(source)
    schedule = lrmc.train(family.trained(source), groups=groups)
    if family.alike is not None:
        schedule = of_kind(schedule, family.trained(source) + family.alike(source))
    return replace(schedule, card={**schedule.card, "about": family.about})


def of_kind(schedule: lrmc.Schedule, matrices: list[Any]) -> lrmc.Schedule:
    """The same numbers, for data that look like these."""
    assert schedule.plan is not None
    plan = Plan.from_plain(schedule.plan)
    kind = kind_of([as_observations(Y) for Y in matrices], plan, 0)
    return replace(schedule, plan=replace(plan, kind=kind).plain())


def line(rows: list[Row], default: list[Row]) -> tuple[str, ...]:
    """Of one family and problem: means over the masks, the worst in brackets."""
    first, better = rows[0], max if rows[0].measure in LARGER else min
    worst = min if better is max else max
    scores, others = ([x.score for x in some] for some in (rows, default))
    cost = np.mean([x.seconds for x in rows]) / np.mean([x.seconds for x in default])
    return (
        first.family,
        first.tested,
        first.measure,
        f"{np.mean(scores):.4g} ({worst(scores):.4g})",
        f"{np.mean([x.passes for x in rows]):.0f}",
        f"{np.mean(others):.4g} ({worst(others):.4g})",
        f"{np.mean([x.passes for x in default]):.0f}",
        f"{cost:.2f}",
    )


def page(rows: list[Row]) -> str:
    """What was measured."""
    keys = dict.fromkeys((x.family, x.tested) for x in rows)
    lines = []
    for key in keys:
        here = [x for x in rows if (x.family, x.tested) == key]
        ways = ([x for x in here if x.how == how] for how in ("learned", "default"))
        lines.append(line(*ways))
    head = ("family", "tested on", "measure", "learned (worst)", "passes")
    head += ("default (worst)", "passes", "time, learned / default")
    return (
        table(head, lines)
        + "\n\nTrained on: "
        + "; ".join(f"{x.name}: {x.about or 'not shipped'}" for x in FAMILIES)
        + ".\n"
    )


def main() -> None:
    """Train and try."""
    ask = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ask.add_argument("--data", help="otherwise LRMC_DATA, or ../shared/data")
    ask.add_argument("--only", nargs="*", default=[family.name for family in FAMILIES])
    ask.add_argument("--seeds", type=int, nargs="*", default=[0])
    ask.add_argument("--keep", action="store_true", help="ship the schedules")
    ask.add_argument("--write", action="store_true", help="write docs/families.md")
    asked = ask.parse_args()
    folder = data_folder(asked.data)
    rows: list[Row] = []
    for family in FAMILIES:
        if family.name not in asked.only:
            continue
        source = Source(folder, 0)
        schedule = trained(family, source)
        card = schedule.card
        print(family.name, "rank", card["rank"], card["learning"], card["seconds"], "s")
        found = [
            row
            for seed in asked.seeds
            for row in tried(family, source._replace(seed=seed), schedule)
        ]
        if asked.keep and family.ships:
            shipped(family, schedule, found)
        rows += found
    print(text := page(rows))
    if asked.write:
        write_made(ROOT / "docs" / "families.md", text)


def shipped(family: Family, schedule: lrmc.Schedule, rows: list[Row]) -> None:
    """Write a schedule to the package, with what it scored."""
    tested = [
        {"on": x.tested, x.measure: float(f"{x.score:.4g}"), "passes": round(x.passes)}
        for x in rows
        if x.how == "learned"
    ]
    card = {**schedule.card, "tested_on": tested}
    replace(schedule, card=card).save(SHIPPED / f"{family.name}.json")


if __name__ == "__main__":
    main()
