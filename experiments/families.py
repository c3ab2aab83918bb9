"""Schedules learned on matrices of one kind, tried on others of that kind; the default beside.

    python experiments/families.py [--data DIR] [--only faces ratings ...] [--keep]

What is trained on is never tested on: other persons, days, users, fields, scenes. A pass is a look
at all entries of the new matrix; those in parts of it count as parts. With `--keep` the schedules
become those that come with the package."""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from tasks import Problem, Source, errors, faces, jester, ngsim, satellite_scores
from tasks import satellite as pairs_of_dates

import lrmc
from lrmc.observations import native

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "src" / "lrmc" / "schedules"


class Family(NamedTuple):
    """What is trained on, what is tested, and what the card says."""

    name: str
    trained: Callable[[Source], list[Any]]
    tested: Callable[[Source], Iterator[tuple[str, Problem]]]
    about: str
    options: dict[str, Any] = {}  # of training
    finish: Callable[[dict[str, float]], dict[str, float]] = dict


def person_10(source: Source) -> list[Any]:
    """One person with gaps and pasted patches, four times; images of one size."""
    drawn = (
        next(faces(source._replace(seed=100 + k), "yaleB10")).values for k in range(4)
    )
    return list(drawn)


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


def romania(source: Source) -> list[Any]:
    """Another country and sensor setting: dates of two years, clouds by their class missing."""
    content = source.read("satellite/sentinel2_romania_10m.npz")
    data, scl = content["data"].astype(np.float32), content["scl"]
    cloudy = np.isin(scl, (0, 1, 3, 8, 9, 10))
    data = np.where(cloudy[:, None], np.float32(np.nan), data)
    clear = np.flatnonzero(cloudy.mean(axis=(1, 2)) < 0.5)
    stacks = (data[clear[k : k + 25]] for k in range(0, len(clear) - 24, 25))
    return [x.reshape(len(x), -1).T for x in stacks]


def rondonia(source: Source) -> Iterator[tuple[str, Problem]]:
    """Clouds moved onto clear dates."""
    for k, problem in enumerate(pairs_of_dates(source._replace(thin=4))):
        yield f"20LKP {k}", replace(problem, groups=None)


FAMILIES = (
    Family("faces", person_10, persons_01_02, "a face under 64 lights (person 10)"),
    Family("sensors", first_days, last_days, "three days of traffic, half of it hidden"),
    Family("ratings", first_users, last_users, "ratings of jokes by 2,500 users"),
    Family("fields", other_fields, the_field, "speeds on a motorway, by few cars"),
    Family("clouds", romania, rondonia, "two years of a landscape", finish=satellite_scores),
)


def passes_of(run: Callable[[], Any], n_observed: int) -> tuple[Any, float]:
    """What a run gives, and its passes over so many entries: every call of the kernels counts as
    many as it looks at.
    """
    seen, plain = 0, native.products

    def counting(of: Any, *args: Any, **options: Any) -> Any:
        nonlocal seen
        seen += of.n_observed
        return plain(of, *args, **options)

    with mock.patch.object(native, "products", counting):
        return run(), seen / n_observed


def tried(family: Family, source: Source, schedule: Any) -> None:
    """One line per problem: learned elsewhere, and the default."""
    for how, options in (("learned", {"schedule": schedule}), ("default", {})):
        scores, seconds, passes, said = [], [], [], []
        for name, problem in family.tested(source):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                began = time.process_time()
                Y = problem.values
                result, count = passes_of(
                    lambda: lrmc.solve(Y, time=None, **options), int(problem.mask.sum())
                )
                seconds.append(time.process_time() - began)
            scores.append(problem.score(result.low_rank()))
            passes.append(count)
            said += [str(x.message)[:70] for x in caught]
            if family.finish is dict:
                first = next(iter(scores[-1].items()))
                print(f"{family.name:8} {how:8} {name:24} {first[0]} {first[1]:.4g}"
                      f"  {count:.0f} passes, {seconds[-1]:.1f} s, rank {result.rank}", flush=True)
        if family.finish is not dict:
            mean = {k: float(np.mean([s[k] for s in scores])) for k in scores[0]}
            done = {k: f"{v:.4g}" for k, v in family.finish(mean).items()}
            print(f"{family.name:8} {how:8} {done}  {np.mean(passes):.0f} passes, {np.mean(seconds):.1f} s")
        for text in dict.fromkeys(said):
            print("   ", text)


def main() -> None:
    """Train and try."""
    ask = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ask.add_argument("--data", default=os.environ.get("LRMC_DATA") or ROOT.parent / "shared" / "data")
    ask.add_argument("--only", nargs="*", default=[family.name for family in FAMILIES])
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--keep", action="store_true")
    asked = ask.parse_args()
    source = Source(Path(asked.data), asked.seed)
    for family in FAMILIES:
        if family.name not in asked.only:
            continue
        began = time.process_time()
        schedule = lrmc.train(family.trained(source), **family.options)
        card = {**schedule.card, "about": family.about}
        schedule = replace(schedule, card=card)
        print(f"{family.name:8} trained in {time.process_time() - began:.1f} s CPU: rank {card['rank']}, {card['held_out']} {card['learning']}", flush=True)
        if asked.keep:
            schedule.save(SHIPPED / f"{family.name}.json")
        tried(family, source, schedule)


if __name__ == "__main__":
    main()
