"""What lrmc does, shown in a minute: problems with a known answer, and a film that is mostly hidden."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.ndimage as ndi
import scipy.sparse as sp

from .. import _kernels
from .._extras import optional
from .._files import whole
from .._work import Tell, following, silent
from ..formats.sparse import Matrix, Sparse
from ..linalg import Factors
from ..metrics import relative_error
from ..observations._door import as_observations
from ..result import Iterate, Result
from ..solve import solve
from ..synthetic import problem
from ..weights import Array

Axes: TypeAlias = Any  # of matplotlib, which need not be installed
Figure: TypeAlias = Any
RANK = 5  # of the problems of the table; only the paper's LRMC is told
NOISE = 0.05  # of the noisy problem, in parts of a typical entry
SCHEDULE = "paper-r5-a0.1-p0.1"  # trained for just this kind of problem, in the form of the paper
HIDDEN, CORRUPTED = 0.7, 0.05  # fractions of the film's pixels
DAYS = 3  # that the film lasts
TOL = 1e-6  # what `solve` stops at

# ---- problems with a known answer


class Case(NamedTuple):
    """A problem of the table, and what `solve` is told about it: mostly nothing."""

    name: str
    Y: Matrix
    truth: Factors
    options: dict[str, Any]


class Line(NamedTuple):
    """How one problem went. Times in seconds."""

    name: str
    result: Result
    error: float  # |L R' - X| / |X|
    seconds: float
    one_pass: float
    reading: float  # the same data, once, with the same number of threads


def problems(n: int = 3000, seed: int = 0) -> Iterator[Case]:
    """The cases of the table: in each, 10 % of the observed entries are outliers."""
    for name, p, noise in (
        ("all observed", 1.0, 0.0),
        ("half missing (NaN)", 0.5, 0.0),
        (f"the same, {100 * NOISE:.0f} % noise", 0.5, NOISE),
    ):
        made = problem(n, RANK, 0.1, p, seed, noise=noise, form="dense", dtype=np.float32)
        yield Case(name, made.Y, made.X_factors, {})
    yield Case("integers (uint8)", *_integers(n, seed), {})
    made = problem(n, RANK, 0.1, 0.1, seed, form="sparse", dtype=np.float32)
    yield Case("10 % observed (CSR)", made.Y, made.X_factors, {})
    yield Case("the same, paper's LRMC", made.Y, made.X_factors, {"rank": RANK, "method": "lrmc", "schedule": SCHEDULE})


def _integers(n: int, seed: int) -> tuple[Array, Factors]:
    """Small whole factors, so that bytes hold the matrix exactly; 10 % of it replaced by any byte."""
    rng = np.random.default_rng(seed)
    L, R = rng.integers(0, 5, (n, RANK)), rng.integers(0, 5, (n, RANK))  # products of at most 4 * 4 * 5 = 80
    Y = (L @ R.T).astype(np.uint8)
    wrong = rng.random(Y.shape, dtype=np.float32) < 0.1
    Y[wrong] = rng.integers(0, 256, np.count_nonzero(wrong), np.uint8)
    return Y, Factors(L.astype(float), R.astype(float))


def measured(case: Case, progress: Tell = silent) -> Line:
    """Solve one problem and look at the clock."""
    name, Y, truth, options = case
    began = time.perf_counter()
    result = solve(Y, **options, progress=following(progress, TOL))
    seconds = time.perf_counter() - began
    obs = as_observations(Y)
    one_pass = fastest(lambda: obs.pull(result.L, result.R, result.history[-1].zeta))
    return Line(name, result, relative_error(result, truth), seconds, one_pass, reading_time(_stored(Y)))


def _stored(Y: Sparse) -> tuple[Array, ...]:
    return (Y.data, Y.indices) if sp.issparse(Y) else (Y,)


def fastest(work: Callable[[], object], repeats: int = 25) -> float:
    """The shortest of some runs, after one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def reading_time(arrays: tuple[Array, ...]) -> float:
    """How long every byte takes to come from memory: the limit of any method that looks at the data."""
    threads = _kernels.max_threads()
    return fastest(lambda: [_kernels.read_once(x, threads) for x in arrays])


# ---- a film that is mostly hidden


@dataclass(frozen=True, eq=False)
class Film:
    """Frames as the columns of a matrix: pixels and colours down, time across."""

    observed: Array = field(repr=False)  # NaN where hidden
    background: Factors = field(repr=False)  # the truth: pictures x how bright each is in each frame
    outliers: float  # the fraction of the observed entries that does not show the background
    size: tuple[int, int]  # height, width

    def frame(self, column: Array) -> Array:
        """A column as a picture."""
        return column.reshape(*self.size, 3)


def film(height: int = 144, width: int = 216, frames: int = 160, seed: int = 0) -> Film:
    """Three days and nights at a mountain lake, while balloons drift by: its background has rank 3."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, frames)
    pictures = np.stack(_landscape(height, width, rng), axis=-1).reshape(-1, 3).astype(np.float32)
    sun = np.cos(2 * np.pi * DAYS * t)  # its height; the film begins at noon
    day, dusk, night = np.maximum(sun, 0) ** 0.7, np.exp(-((sun / 0.35) ** 2)), np.maximum(-sun, 0) ** 0.7
    light = np.stack([day, dusk, night], axis=1).astype(np.float32)
    Y = pictures @ light.T  # (height * width * 3, frames)
    for k in range(frames):
        scene, daylight = Y[:, k].reshape(height, width, 3), 0.35 + 0.65 * max(0.0, float(sun[k]))
        for balloon in BALLOONS:
            _draw(balloon, scene, float(t[k]), daylight)
    seen, wrong = (np.repeat(rng.random((height * width, frames)) < q, 3, axis=0) for q in (1 - HIDDEN, CORRUPTED))
    salt = np.repeat(rng.random((height * width, frames)) < 0.5, 3, axis=0)
    Y = np.where(wrong, salt.astype(np.float32), Y)
    differs = np.abs(Y - pictures @ light.T) > 1e-6
    fraction = float(np.count_nonzero(differs & seen) / np.count_nonzero(seen))
    return Film(np.where(seen, Y, np.float32(np.nan)), Factors(pictures, light), fraction, (height, width))


def _landscape(height: int, width: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """The same view at noon, at sunset, and what shines at night: each height x width x 3."""
    shore = int(0.68 * height)
    y, x = np.mgrid[0:shore, 0:width] / shore  # y: 0 at the top, 1 at the shore
    aspect = width / shore
    y = y[..., None]
    clouds = _texture(rng, (shore, width), 0.5, stretch=4)
    noon = _blend(y, (0.16, 0.38, 0.72), (0.66, 0.80, 0.90)) + 0.16 * np.clip(clouds, 0, 2)[..., None] * (1 - y)
    sunset = _blend(y**1.5, (0.20, 0.12, 0.34), (0.95, 0.48, 0.20)) + 0.10 * np.clip(clouds, 0, 2)[
        ..., None
    ] * np.array([1.0, 0.45, 0.35])
    away = np.hypot(x - 0.60 * aspect, y[..., 0] - 0.55)
    sunset += np.exp(-((away / 0.30) ** 2))[..., None] * np.array([0.45, 0.30, 0.10])
    sunset[away < 0.055] = (1.0, 0.90, 0.62)
    night = _blend(y, (0.05, 0.09, 0.22), (0.20, 0.30, 0.46)) + 0.05 * np.clip(clouds, 0, 2)[..., None]
    away = np.hypot(x - 0.22 * aspect, y[..., 0] - 0.20)
    night += np.exp(-((away / 0.25) ** 2))[..., None] * np.array([0.16, 0.20, 0.26])
    night[away < 0.06] = sunset[away < 0.06] = (0.96, 0.95, 0.86)
    stars = rng.random((shore, width)) < 0.006
    night[stars] += rng.uniform(0.2, 0.6, (np.count_nonzero(stars), 1))
    ridges = (
        (0.58, 0.26, (0.46, 0.55, 0.66), (0.46, 0.24, 0.34), (0.13, 0.18, 0.29)),
        (0.76, 0.13, (0.28, 0.44, 0.42), (0.26, 0.13, 0.24), (0.09, 0.13, 0.20)),
        (0.91, 0.06, (0.15, 0.30, 0.18), (0.13, 0.07, 0.14), (0.05, 0.08, 0.12)),
    )
    for base, relief, by_day, by_dusk, by_night in ridges:
        crest = base + relief * _skyline(rng, width)
        land = y[..., 0] > crest
        rock = 1 + 0.18 * _texture(rng, (shore, width), 1.0)[..., None]
        haze = np.clip((y[..., 0] - crest) / 0.35, 0, 1)[..., None] * 0.25
        noon = np.where(land[..., None], np.array(by_day) * rock + haze * 0.5, noon)
        sunset = np.where(land[..., None], np.array(by_dusk) * rock + haze * np.array([0.5, 0.25, 0.2]), sunset)
        night = np.where(land[..., None], np.array(by_night) * rock + haze * np.array([0.1, 0.14, 0.2]), night)
    for place in (0.16, 0.20, 0.23, 0.86):  # windows of the village on the shore, lit from dusk to dawn
        j, i = int(place * width), int(0.955 * shore)
        sunset[i : i + 2, j : j + 2] = night[i : i + 2, j : j + 2] = (1.0, 0.72, 0.30)
    ripples = (1.5 * _texture(rng, (height - shore, width), 0.5, stretch=6)).round().astype(int)
    views = (_with_lake(picture, height, ripples) for picture in (noon, sunset, night))
    return tuple(np.clip(view, 0, 1) * 0.9 for view in views)  # type: ignore[return-value]


def _blend(y: Array, top: tuple[float, ...], bottom: tuple[float, ...]) -> Array:
    return np.asarray((1 - y) * np.array(top) + y * np.array(bottom))


def _texture(rng: np.random.Generator, shape: tuple[int, int], roughness: float, stretch: int = 1) -> Array:
    """Noise of all sizes, with mean 0 and variance 1."""
    total = np.zeros(shape)
    for size in (1, 2, 4, 8, 16):
        layer = ndi.gaussian_filter(rng.standard_normal(shape), (size, size * stretch), mode="wrap")
        total += layer / layer.std() * size ** (1 - roughness)
    return np.asarray((total - total.mean()) / total.std())


def _skyline(rng: np.random.Generator, width: int) -> Array:
    """A crest, between -1 and 1."""
    line = np.zeros(width)
    for size in (2, 5, 12, 30):
        layer = ndi.gaussian_filter1d(rng.standard_normal(width), size, mode="wrap")
        line += layer / np.abs(layer).max() * size
    return np.asarray(line / np.abs(line).max())


def _with_lake(picture: Array, height: int, ripples: Array) -> Array:
    """The picture above its own, rippled reflection."""
    shore, width, _ = picture.shape
    depth = np.arange(height - shore)[:, None]
    rows = np.clip(shore - 1 - depth * 1.3 + ripples, 0, shore - 1).astype(int)
    cols = np.clip(np.arange(width) + ripples, 0, width - 1)
    return np.vstack([picture, picture[rows, cols] * np.array([0.62, 0.70, 0.78])])


class Balloon(NamedTuple):
    """Places and speed in parts of the picture's width and height."""

    x: float
    y: float
    radius: float
    speed: float
    colours: tuple[tuple[float, float, float], tuple[float, float, float]]


BALLOONS = (
    Balloon(-0.15, 0.24, 0.13, 1.30, ((0.86, 0.16, 0.18), (0.98, 0.93, 0.84))),
    Balloon(0.10, 0.50, 0.085, 0.90, ((0.98, 0.72, 0.12), (0.15, 0.32, 0.62))),
    Balloon(1.10, 0.12, 0.060, -1.20, ((0.20, 0.62, 0.48), (0.96, 0.96, 0.90))),
)


def _draw(balloon: Balloon, scene: Array, t: float, daylight: float) -> None:
    """Put a balloon into a frame, in place."""
    height, width, _ = scene.shape
    y, x = np.mgrid[0:height, 0:width]
    radius = balloon.radius * width * 0.8
    u = (x - (balloon.x + balloon.speed * t) * width) / radius
    v = (y - (balloon.y + 0.02 * np.sin(9 * t + balloon.x)) * height) / radius
    envelope = np.where(v < 0.2, u**2 + v**2 < 1, (np.abs(u) < 1.10 - 0.72 * v) & (v < 1.25))
    basket = (np.abs(u) < 0.20) & (v > 1.45) & (v < 1.75)
    stripe = (np.floor(np.arcsin(np.clip(u, -1, 1)) * 2.6) % 2).astype(int)
    round_ = np.clip(1.05 - 0.55 * (u + 0.35) ** 2 - 0.25 * v**2, 0.35, 1)
    colour = np.array(balloon.colours)[stripe] * round_[..., None] * daylight
    scene[envelope] = colour[envelope]
    scene[basket] = np.array([0.36, 0.22, 0.12]) * daylight


class Recovered(NamedTuple):
    """The film's background as it was found."""

    result: Result
    errors: tuple[float, ...]  # after each iteration, against the truth
    exact: float  # the fraction of entries within half a grey level of the truth
    lost: int  # pixels with an entry that is not
    seconds: float


def recovered(scene: Film, progress: Tell = silent) -> Recovered:
    """Find the background, and note the error on the way.

    It is told the rank: looked for, it comes out as 4 here, and the run does not come to rest in 100 passes.
    """
    errors: list[float] = []
    follow = following(progress, TOL)

    def watch(it: Iterate) -> None:
        errors.append(relative_error(it, scene.background))
        follow(it)

    began = time.perf_counter()
    result = solve(scene.observed, scene.background.R.shape[1], progress=watch)
    seconds = time.perf_counter() - began
    off = np.abs(result.low_rank() - scene.background.L @ scene.background.R.T) > 0.5 / 255
    lost = off.any(axis=1).reshape(-1, 3).any(axis=1)
    return Recovered(result, tuple(errors), float(1 - off.mean()), int(lost.sum()), seconds)


# ---- the picture

VISIBLE = 0.02  # a difference that an eye sees, where white is 1
PAPER, INK, FAINT, NOTHING = "#fbfaf7", "#22262b", "#8b8f94", (0.13, 0.14, 0.16)
RED, BLUE, GOLD = "#c8352b", "#2b5f94", "#d09a1e"


def picture(scene: Film, found: Recovered, path: Path) -> None:
    """Observed, recovered, outliers and truth of two frames, and how the run went."""
    make = optional("matplotlib.figure", "plot").Figure
    canvas = optional("matplotlib.backends.backend_agg", "plot").FigureCanvasAgg
    frames = scene.observed.shape[1]
    figure = make(figsize=(12.8, 8.0), facecolor=PAPER)
    canvas(figure)
    above = figure.add_gridspec(2, 4, left=0.03, right=0.985, top=0.878, bottom=0.355, hspace=0.04, wspace=0.025)
    below = figure.add_gridspec(1, 2, left=0.06, right=0.985, top=0.30, bottom=0.075, wspace=0.06)
    figure.text(0.03, 0.945, "A film, most of it hidden", size=19, weight="bold", color=INK)
    for j, (title, pictures) in enumerate(_panels(scene, found, (frames // 3, frames * 3 // 5))):
        for i, (when, image) in enumerate(pictures):
            axes = figure.add_subplot(above[i, j])
            axes.imshow(np.clip(image, 0, 1), interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if i == 0:
                axes.set_title(title, loc="left", size=11.5, color=INK, pad=6)
            if j == 0:
                axes.set_ylabel(f"frame {when + 1}", size=9.5, color=FAINT)
    _plot_convergence(figure.add_subplot(below[0]), found)
    _write_facts(figure.add_subplot(below[1]), scene, found)
    with whole(path) as temporary:
        _save(figure, temporary)


def _panels(scene: Film, found: Recovered, when: tuple[int, ...]) -> Iterator[tuple[str, list[tuple[int, Array]]]]:
    outliers, (pictures, light) = found.result.outliers(threshold=VISIBLE), scene.background

    def shown(column: Callable[[int], Array]) -> list[tuple[int, Array]]:
        return [(k, scene.frame(column(k))) for k in when]

    def seen(k: int) -> Array:
        return scene.observed[:, k]

    nothing = np.tile(np.array(NOTHING, np.float32), len(pictures) // 3)
    yield f"observed: {1 - HIDDEN:.0%} of the pixels", shown(lambda k: np.where(np.isnan(seen(k)), nothing, seen(k)))
    yield "recovered: the low-rank part", shown(lambda k: found.result.L @ found.result.R[k])
    yield (
        f"outliers: off by more than {VISIBLE:.0%}",
        shown(lambda k: np.where(any_colour(outliers[:, k]), seen(k), nothing)),
    )
    yield "truth, never shown to it", shown(lambda k: pictures @ light[k])


def any_colour(outlier: Array) -> Array:
    """Pixels that stand out in one colour at least."""
    return np.repeat((np.nan_to_num(outlier.reshape(-1, 3)) != 0).any(axis=1), 3)


def _plot_convergence(axes: Axes, found: Recovered) -> None:
    history = found.result.history
    k = [record.k for record in history]
    axes.set_facecolor(PAPER)
    axes.semilogy(k, found.errors, color=RED, lw=2.2)
    axes.semilogy(k[1:], [record.change for record in history[1:]], color=BLUE, lw=1.6)
    axes.semilogy(k, [record.zeta for record in history], color=GOLD, lw=1.6, ls=(0, (4, 2)))
    for place, (label, colour) in enumerate(
        (("error against the truth", RED), ("change per iteration", BLUE), ("threshold ζ", GOLD))
    ):
        axes.text(0.34 * place, 1.04, label, transform=axes.transAxes, color=colour, size=10)
    axes.set_xlim(0, k[-1])
    axes.set_xlabel("iterations, each one pass over the data", color=INK, size=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(which="both", colors=FAINT, labelsize=9)
    axes.grid(axis="y", color="#e4e1da", lw=0.7)
    axes.set_axisbelow(True)


def _write_facts(axes: Axes, scene: Film, found: Recovered) -> None:
    axes.axis("off")
    result, (n1, n2) = found.result, scene.observed.shape
    facts = (
        (f"{found.exact:.2%}", "of the background is right to half a grey level of 255"),
        (f"{scene.outliers:.0%}", "of what was observed is wrong: balloons, salt and pepper"),
        (f"{found.seconds:.1f} s", f"{result.n_iter} iterations on {_kernels.max_threads()} threads: {result.status}"),
        (f"{n1:,} × {n2}".replace(",", " "), f"numbers, a column per frame; the model has rank {result.rank}"),
        (f"{found.errors[-1]:.0e}", f"relative error: {found.lost} of {n1 // 3} pixels are not right"),
    )
    for i, (number, words) in enumerate(facts):
        height = 0.87 - 0.2 * i
        axes.text(0.27, height, number, ha="right", size=15, weight="bold", color=INK)
        axes.text(0.305, height, words, ha="left", size=10, color=INK)


def _save(figure: Figure, path: Path) -> None:
    """A PNG of 256 colours: a third of the size, and no difference that an eye would see."""
    pillow = optional("PIL.Image", "report")
    figure.canvas.draw()
    image = pillow.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3].copy())
    image.quantize(256, method=pillow.Quantize.MEDIANCUT, dither=pillow.Dither.NONE).save(
        path, format="png", optimize=True
    )


def checked_directory(directory: Path) -> Path:
    """Make the directory of the picture, and see that the picture can be made, before the work and not after it."""
    optional("matplotlib", "plot")
    directory.mkdir(parents=True, exist_ok=True)
    return directory
