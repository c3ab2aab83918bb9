"""The real tasks of the data folder's README: what is observed, what is scored, which baselines."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lrmc.observations import as_observations
from lrmc.observations.base import Observations
from lrmc.observations.transposed import transposed
from lrmc.row_systems import pairs, solve_rows
from lrmc.weights import Huber

Array = np.ndarray[Any, np.dtype[Any]]
Scores = dict[str, float]


def data_folder(given: str | os.PathLike[str] | None) -> Path:
    """Where the data are: as `--data` says, as LRMC_DATA says, or beside the repository. A script ends
    where they are not.
    """
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(given or os.environ.get("LRMC_DATA") or beside)
    if not (folder / "traffic").is_dir():
        print(
            "The data folder was not found: give it with --data DIR or in LRMC_DATA.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return folder


class Source(NamedTuple):
    """Where the data are, the seed of what is random, and (satellite only) every which
    pixel is taken in x and y.
    """

    folder: Path
    seed: int = 0
    thin: int = 1

    def read(self, path: str) -> dict[str, Array]:
        """All arrays of a file."""
        return dict(np.load(self.folder / path))


@dataclass(frozen=True, eq=False)
class Problem:
    """A matrix, True where it is observed, and how an answer, an array of the same
    shape, is scored.
    """

    Y: Array
    mask: Array
    score: Callable[[Array], Scores]
    columns: Array | None = None  # those that a median may look at; None is all
    groups: Array | None = None  # rows that share their weights: the bands of a pixel

    @cached_property
    def values(self) -> Array:
        """With NaN where nothing is observed."""
        return np.where(self.mask, self.Y, np.float32(np.nan))


Baseline = Callable[[Problem], Array]


class Task(NamedTuple):
    """Problems, baselines, and what is to be reached."""

    name: str
    problems: Callable[[Source], Iterator[Problem]]
    ranks: tuple[int, ...]  # those that are given, where one is
    baselines: dict[str, Baseline]
    bar: float | str  # for the first score: a number, or the baseline that sets it
    larger_is_better: bool = False
    # from mean scores over the problems to those that are shown
    finish: Callable[[Scores], Scores] = dict


def errors(X: Array, truth: Array) -> Scores:
    """Root mean square, mean absolute, and mean absolute percentage error."""
    e, size = np.abs(X - truth, dtype=np.float64), np.abs(truth)
    mape = 100 * np.mean(e[size > 0] / size[size > 0])
    return {
        "RMSE": float(np.sqrt(np.mean(e**2))),
        "MAE": float(e.mean()),
        "MAPE": float(mape),
    }


def traffic(source: Source) -> Iterator[Problem]:
    """METR-LA: half of the entries hidden, a tenth of the others stuck at 0 or at 70."""
    rng, speed = (
        np.random.default_rng(source.seed),
        source.read("traffic/metr_la_week_speed.npz")["speed"],
    )
    mask = rng.random(speed.shape) >= 0.5
    wrong = rng.choice(np.float32([0, 70]), speed.shape)
    Y = np.where(rng.random(speed.shape) < 0.1, wrong, speed)
    yield Problem(Y, mask, lambda X: errors(X[~mask], speed[~mask]))


def jester(source: Source) -> Iterator[Problem]:
    """Jokes: a fifth of the ratings hidden; the error as a part of their range, 20."""
    rng, ratings = (
        np.random.default_rng(source.seed),
        source.read("ratings/jester5k.npz")["ratings"],
    )
    rated, hidden = ~np.isnan(ratings), rng.random(ratings.shape) < 0.2
    test = rated & hidden
    yield Problem(
        ratings,
        rated & ~hidden,
        lambda X: {"NMAE": errors(X[test], ratings[test])["MAE"] / 20},
    )


def ngsim(source: Source) -> Iterator[Problem]:
    """A motorway seen by one car in five: the speeds where no car was."""
    content = source.read("traffic/ngsim_speed_field.npz")
    Y, full = content["speed_80missing"], content["speed_full"]
    test = np.isnan(Y) & ~np.isnan(full)
    yield Problem(
        Y, ~np.isnan(Y), lambda X: {"RMSE": errors(X[test], full[test])["RMSE"]}
    )


def faces(
    source: Source, person: str, patch: int = 40, hidden: float = 0.3
) -> Iterator[Problem]:
    """One person under 64 lights; on the well-lit images a patch of another one and
    random pixels; gaps everywhere.
    """
    rng, content = (
        np.random.default_rng(source.seed),
        source.read(f"faces/extyaleb_{person}.npz"),
    )
    images = content["images"]
    well_lit = (np.abs(content["azimuth"]) <= 25) & (np.abs(content["elevation"]) <= 20)
    pasted = images.copy()
    for at in np.flatnonzero(well_lit):
        donor = rng.choice(np.delete(np.arange(len(images)), at))
        (i, j), (k, m) = (
            rng.integers(0, np.array(images.shape[1:]) - patch + 1) for _ in range(2)
        )
        pasted[at, i : i + patch, j : j + patch] = images[
            donor, k : k + patch, m : m + patch
        ]
        spots = rng.random(images.shape[1:]) < 0.1
        pasted[at][spots] = rng.integers(0, 256, int(spots.sum()))
    truth, Y = (X.reshape(len(X), -1).T for X in (images, pasted))  # pixels x lights
    mask = rng.random(Y.shape) >= hidden
    test = (~mask | (truth != Y)) & well_lit

    def score(X: Array) -> Scores:
        return {
            "PSNR": 20
            * np.log10(255 / errors(np.clip(X, 0, 255)[test], truth[test])["RMSE"])
        }

    yield Problem(Y, mask, score, well_lit)


# a clear date, and a cloudy one
PAIRS = ((1, 0), (2, 10), (5, 12), (7, 15), (13, 17), (21, 20), (24, 23), (26, 19))


def satellite(source: Source) -> Iterator[Problem]:
    """Task A: clouds of one date moved onto a clear one, which is to be got back; bands
    stacked, a pair at a time.
    """
    content = source.read("satellite/sentinel2_rondonia_20LKP_256.npz")
    data = content["data"][..., :: source.thin, :: source.thin]  # date, band, y, x
    valid = data != content["nodata"]
    blue = np.where(valid[:, 0], data[:, 0], np.float32(np.nan))
    ordinary = np.nanmedian(blue[[clear for clear, _ in PAIRS]], axis=0)
    for clear, cloudy in PAIRS:
        missing = ~valid[cloudy].all(axis=0)
        bright = ~missing & (blue[cloudy] > ordinary + 400)
        stack, seen = data.copy(), valid.copy()
        stack[clear][:, bright] = data[cloudy][:, bright]
        seen[clear][:, missing] = False
        # the donor would show the same outlier twice
        dates = np.delete(np.arange(len(data)), cloudy)
        Y, mask = (
            np.ascontiguousarray(X[dates].reshape(len(dates), -1).T)
            for X in (stack, seen)
        )
        here, test = dates == clear, (missing | bright) & valid[clear].all(axis=0)

        def score(
            X: Array, here: Array = here, test: Array = test, truth: Array = data[clear]
        ) -> Scores:
            squares = (X[:, here].reshape(truth.shape) - truth)[:, test].astype(
                np.float64
            ) ** 2
            return dict(zip(("B02", "B8A", "B11"), squares.mean(axis=1).tolist()))

        pixels = np.tile(np.arange(len(Y) // data.shape[1]), data.shape[1])
        yield Problem(Y, mask, score, ~here, pixels)


def satellite_scores(squares: Scores) -> Scores:
    """From the squared errors of the bands, averaged over the pairs."""
    root = np.sqrt(np.mean(list(squares.values())))
    return {"PSNR": 20 * np.log10(3000 / root)} | {
        f"RMSE {band}": float(np.sqrt(s)) for band, s in squares.items()
    }


def video(source: Source, clip: str, kept: float = 1.0) -> Iterator[Problem]:
    """The background of a clip, and from it what moves: |frame - background| > 30,
    scored on all pixels.
    """
    rng, content = np.random.default_rng(source.seed), source.read(f"video/{clip}.npz")
    # pixels x frames
    Y, codes = (
        content[name].reshape(len(content[name]), -1).T for name in ("frames", "masks")
    )
    moving, counts = codes == 255, (codes != 85) & (codes != 170)

    def score(X: Array) -> Scores:
        found = (np.abs(Y - X) > 30) & counts
        return {
            "F": float(2 * np.sum(found & moving) / (np.sum(found) + np.sum(moving)))
        }

    yield Problem(Y, rng.random(Y.shape, np.float32) < kept, score)


def row_mean(Y: Array) -> Array:
    """The mean of what is observed (not NaN) of a row; the mean of all where nothing is."""
    count = np.sum(~np.isnan(Y), axis=1)
    mean = np.where(
        count > 0,
        np.nansum(Y, axis=1, dtype=np.float64) / np.maximum(count, 1),
        np.nanmean(Y),
    )
    return np.broadcast_to(mean[:, None], Y.shape)


def row_median(Y: Array, columns: Array | None = None) -> Array:
    """The median of what was seen of a row (in some of its columns): for a video, the
    temporal median.
    """
    ordered = np.sort(Y if columns is None else Y[:, columns], axis=1)  # NaN come last
    count = np.sum(~np.isnan(ordered), axis=1)
    low, high = (
        np.take_along_axis(ordered, at[:, None], axis=1)
        for at in (np.maximum(count - 1, 0) // 2, count // 2)
    )
    median = np.where(
        count[:, None] > 0, (low + high) / 2, np.nanmedian(Y[:: len(Y) // 1000 + 1])
    )
    return np.broadcast_to(median, Y.shape)


def hard_impute(Y: Array, rank: int, rounds: int = 100) -> Array:
    """Fill the gaps with the leading rank-r part, again and again; one power iteration
    each time.
    """
    seen, X = ~np.isnan(Y), row_mean(Y).astype(np.float32)
    V = np.random.default_rng(0).standard_normal((Y.shape[1], rank)).astype(np.float32)
    moved = 1.0
    while moved > 1e-3 and (rounds := rounds - 1) > 0:
        filled = np.where(seen, Y, X)
        old, V = V, np.linalg.qr(filled.T @ (filled @ V))[0]
        X, moved = (filled @ V) @ V.T, np.linalg.norm(old - V @ (V.T @ old))
    return X


def ridge_als(Y: Array, rank: int, ridge: float, sweeps: int = 30) -> Array:
    """Least squares with the model mean + row bias + column bias + A B', and a ridge on
    all but the mean.
    """
    rng, mean = np.random.default_rng(0), float(np.nanmean(Y))
    obs = as_observations((Y - mean).astype(np.float32))
    A, B = (rng.standard_normal((n, rank + 1)).astype(np.float32) for n in Y.shape)
    A[:, -1], B[:, -1] = 0, 0  # the biases
    for _ in range(sweeps):
        A = A + ridge_step(obs, A, B, ridge)
        B = B + ridge_step(transposed(obs), B, A, ridge)
    return mean + A[:, :-1] @ B[:, :-1].T + A[:, -1:] + B[:, -1]


def ridge_step(obs: Observations, A: Array, B: Array, ridge: float) -> Array:
    """From A to its least-squares value given B: one pass, and all rows at once."""
    one, other = (np.ones((len(X), 1), X.dtype) for X in (A, B))
    design = np.hstack([B[:, :-1], other])
    # nothing is beyond it: least squares
    plain = Huber(np.full(obs.shape[0], 1e15), np.ones(obs.shape[1]))
    # [A a 1] [B 1 b]' = A B' + a + b
    model = np.hstack([A, one]), np.hstack([design, B[:, -1:]])
    pull = obs.products(*model, plain, Q=design, Qw=pairs(design))
    pulled, penalty = pull[0] - np.float32(ridge) * A, ridge * np.eye(A.shape[1])
    return solve_rows(pull.grams[0], pulled, penalty, obs.row_observed > 0, obs.threads)


def opencv(problem: Problem, kind: str) -> Array:
    """MOG2 or KNN, which look at each pixel alone: a "background" that differs by 255
    where they see foreground.
    """
    import cv2

    model = getattr(cv2, f"createBackgroundSubtractor{kind}")(
        history=problem.Y.shape[1]
    )
    moving = [
        model.apply(np.ascontiguousarray(frame)[:, None])[:, 0] == 255
        for frame in problem.Y.T
    ]
    return problem.Y - 255.0 * np.stack(moving, axis=1)


def best_ridge_als(problem: Problem) -> Array:
    """The best of nine settings by the score itself, which flatters it."""
    tries = (
        ridge_als(problem.values, rank, ridge)
        for rank in (3, 5, 10)
        for ridge in (10, 30, 100)
    )
    return min(tries, key=lambda X: next(iter(problem.score(X).values())))


TABLES: dict[str, Baseline] = {
    "row mean": lambda problem: row_mean(problem.values),
    "column mean": lambda problem: row_mean(problem.values.T).T,
    "row + column median": lambda problem: (
        (rows := row_median(problem.values)) + row_median((problem.values - rows).T).T
    ),
    "row + column bias": lambda problem: ridge_als(problem.values, 0, 1.0),
    "hard-impute SVD, rank 5": lambda problem: hard_impute(problem.values, 5),
    "ridge ALS, rank 5, ridge 10": lambda problem: ridge_als(problem.values, 5, 10.0),
    "ridge ALS, best of 9 by the score": best_ridge_als,
}
PICTURES: dict[str, Baseline] = {
    "median of each pixel": lambda problem: row_median(problem.values, problem.columns),
    "hard-impute SVD, rank 1": lambda problem: hard_impute(problem.values, 1),
    "hard-impute SVD, rank 5": TABLES["hard-impute SVD, rank 5"],
}
OPENCV = {
    f"OpenCV {k}": partial(opencv, kind=k)
    for k in ("MOG2", "KNN")
    if importlib.util.find_spec("cv2")
}
CLIPS = {
    "ibm": "sbi2015_ibmtest2",
    "hall": "sbi2015_hall_and_monitor",
    "highway": "cdnet2014_highway",
}
TASKS = (
    Task("traffic", traffic, (5, 10), TABLES, 6.7),
    Task("jester", jester, (5,), TABLES, 0.158),
    Task("ngsim", ngsim, (2, 5), TABLES, 2.4),
    Task(
        "faces yaleB01", partial(faces, person="yaleB01"), (5, 9), PICTURES, 29.0, True
    ),
    Task(
        "faces yaleB02", partial(faces, person="yaleB02"), (5, 9), PICTURES, 25.5, True
    ),
    Task("satellite", satellite, (2, 3, 4), PICTURES, 23.0, True, satellite_scores),
    *(
        Task(
            f"video {k}{note}",
            partial(video, clip=clip, kept=kept),
            (1, 2),
            rivals,
            "median of each pixel",
            True,
        )
        for kept, note, rivals in (
            (1.0, "", PICTURES | OPENCV),
            (0.1, ", 10 % of the pixels", PICTURES),
        )
        for k, clip in CLIPS.items()
    ),
)
QUICK = ("traffic", "jester", "ngsim", "video ibm")  # how their names begin
