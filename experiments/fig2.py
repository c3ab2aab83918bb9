"""Fig. 2 of the paper: the error against the layers of FNN, RNN and FRMNN.

    python experiments/fig2.py [--quick] [--minutes 4]

n = 3000, rank 5, p = 1, alpha = 0.1, K = 10 layers, single precision. Layers:

- *as stated*: the paper's recipe with the numbers that its text and the authors' code have, at the
  paper's size (`as_stated.py`).
- *published*: the first ten of those that the authors trained so at n = 3000, where the file is.
- *fast*: all layers together (`recipe="fast"`), the package's schedule for such problems: it needs 9.

Tails: the paper's grid, judged by the error after layer 15, and ours, which has beta = 1 and is
judged over 40 further layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from as_stated import Recipe, as_stated
from common import (
    Asked,
    Method,
    Sheet,
    asked,
    drawn,
    geometric_mean,
    iterates,
    picture,
    published,
    with_schedule,
)
from fig3 import as_long
from trained import ALPHA, FOLDER

import lrmc
from lrmc import Schedule
from lrmc.training import paper
from lrmc.training.examples import Example, as_examples
from lrmc.training.network import errors
from lrmc.training.tails import FLOOR, best_tail

K, K_BAR = 10, 15
FURTHER = 40  # layers that our tails are judged over
MOST = 60  # that are shown
STEPS = 1000  # of a layer alone, and with those before, at most: as in the paper
# our grid: steps of a tail that falls faster are summable at once, and it ends where it is
WITH_ONE = tuple(product([k / 10 for k in range(1, 10)], (0.9, 1.0)))
STATED, PUBLISHED, FAST = RECIPES = ("as stated", "published", "fast")
THEIR_GRID = "the paper's grid"
OUR_GRID = "with beta = 1"
GRIDS = {THEIR_GRID: "their grid", OUR_GRID: "our grid"}  # in names of files
COLOURS = {"FNN": "C0", "FRMNN": "C1", "RNN": "C2"}

# ---- layers, and their tails


class Model(NamedTuple):
    """One line of the figure."""

    recipe: str
    name: str
    search: str
    schedule: Schedule

    @property
    def method(self) -> Method:
        """What is run."""
        return with_schedule(self.schedule)


class Size(NamedTuple):
    """How large everything is."""

    n: int
    rank: int
    layers: int
    steps: int
    most: int  # iterations
    thin: int  # every which tail of a grid is tried

    @classmethod
    def of(cls, ask: Asked) -> Size:
        """Tiny, or the paper's."""
        if ask.quick:
            return cls(ask.n, ask.rank, 2, 3, most=12, thin=8)
        return cls(ask.n, ask.rank, K, STEPS, most=MOST, thin=1)


def trained(recipe: str, size: Size, folder: Path) -> Schedule:
    """Layers by one of the recipes."""
    if recipe == PUBLISHED:
        return of_the_authors(size)
    if recipe == FAST:
        return replace(Schedule.named("paper-r5-a0.1-p1"), tail=None)
    asked = Recipe(size.n, size.rank, size.layers, size.steps)
    return as_stated(asked, folder / "fig2-begun.json")


def of_the_authors(size: Size) -> Schedule:
    """Their thresholds, relative to the data as ours are."""
    theirs = published(ALPHA, 1.0)
    assert theirs is not None
    schedule = theirs.options["schedule"]
    data = drawn(size.n, size.rank, ALPHA, 1.0, 0).Y
    unit = lrmc.as_observations(data).scale
    zeta = tuple(z / unit for z in schedule.zeta[: size.layers + 1])
    return Schedule(zeta, schedule.eta[: size.layers], card=schedule.card)


def kept(label: str, folder: Path, make: Callable[[], Schedule]) -> Schedule:
    """Found now, or before and kept."""
    file = folder / f"fig2-{label.replace(' ', '-')}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make().save(file)
        print(f"found: {file.name}", flush=True)
    return Schedule.load(file)


Search = Callable[[Schedule, list[Example]], Schedule]


def as_in_the_paper(
    schedule: Schedule, judges: list[Example], *, grid: Any, at: int
) -> Schedule:
    """The tail with the lowest mean squared error after one layer."""

    def height(tail: tuple[float, float]) -> float:
        tried = replace(schedule, tail=tail)
        found = [errors(tried, example, [at])[0] for example in judges]
        return float(np.mean(np.exp(2 * np.maximum(found, FLOOR))))

    return replace(schedule, tail=min(grid, key=height))


def searches(size: Size) -> dict[str, Search]:
    """For a tail after some layers."""
    # with the last, the largest beta
    theirs, ours = (x[:: -size.thin][::-1] for x in (paper.GRID, WITH_ONE))
    at = size.layers + K_BAR - K  # of the fast recipe's, too
    return {
        THEIR_GRID: partial(as_in_the_paper, grid=theirs, at=at),
        OUR_GRID: partial(best_tail, tails=ours, horizon=min(FURTHER, size.most)),
    }


def with_layers(recipe: str, size: Size, folder: Path) -> list[Model]:
    """FNN and FRMNN."""
    judges = judging(size)
    layers = kept(recipe, folder, lambda: trained(recipe, size, folder))
    found = [Model(recipe, "FNN", "", layers)]
    for name, search in searches(size).items():
        label = f"{recipe} {GRIDS[name]}"
        tailed = kept(label, folder, partial(search, layers, judges))
        found.append(Model(recipe, "FRMNN", name, tailed))
    return found


def recurrent(first: Schedule, size: Size, folder: Path) -> list[Model]:
    """K = 0: a tail from the threshold of the start and eta_0 on, which is searched, too."""
    judges = judging(size)

    def searched(name: str) -> Schedule:
        search = searches(size)[name]
        sizes = paper.FIRST_STEP_SIZES
        tried = [search(replace(first, eta_0=eta), judges) for eta in sizes]
        at = (
            [size.layers + K_BAR - K]
            if name == THEIR_GRID
            else [min(FURTHER, size.most)]
        )
        return min(tried, key=lambda s: np.mean([errors(s, x, at) for x in judges]))

    return [
        Model("", "RNN", name, kept(f"rnn {grid}", folder, partial(searched, name)))
        for name, grid in GRIDS.items()
    ]


def judging(size: Size) -> list[Example]:
    """The problem that a tail is chosen by, where the paper takes 20. Not a smaller one: there, rows
    that layers leave behind hide how fast the others go on.
    """
    problem = drawn(size.n, size.rank, ALPHA, 1.0, 10_000_000)
    return [as_examples([(problem.Y, problem.X_factors)], size.rank, threads=1)(0)]


def models(size: Size, folder: Path) -> Iterator[Model]:
    """All lines of the figure."""
    for recipe in RECIPES:
        if recipe != PUBLISHED or (size.layers == K and published(ALPHA, 1.0)):
            yield from (found := with_layers(recipe, size, folder))
    layers = found[0].schedule
    first = replace(layers, zeta=layers.zeta[:1], eta=(), card={})
    yield from recurrent(first, size, folder)


def path_of(model: Model, size: Size, seed: int) -> str:
    """The errors of a run in single precision."""
    problem = drawn(size.n, size.rank, ALPHA, 1.0, seed)
    run = islice(iterates(model.method, problem), size.most + 1)
    return " ".join(f"{lrmc.relative_error(it, problem):.2e}" for it in run)


# ---- what is shown


def curves(rows: list[dict[str, str]]) -> dict[tuple[str, str, str], list[float]]:
    """Geometric means over the instances, by recipe, model and search."""
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    for row in rows:
        key = row["recipe"], row["model"], row["search"]
        found.setdefault(key, []).append([float(x) for x in row["errors"].split()])
    return {
        key: [geometric_mean(some) for some in zip(*as_long(paths))]
        for key, paths in found.items()
    }


def shown(rows: list[dict[str, str]]) -> list[str]:
    """The recipes that were run."""
    return [name for name in RECIPES if any(row["recipe"] == name for row in rows)]


def draw(axes: Any, rows: list[dict[str, str]]) -> None:
    """A panel for each recipe; the RNN, which has no layers, in all."""
    for one, recipe in zip(axes, shown(rows), strict=True):
        for (of, name, search), path in curves(rows).items():
            if of not in ("", recipe):
                continue
            one.semilogy(
                path,
                "--" if search == THEIR_GRID else "-",
                color=COLOURS[name],
                marker="o" if name == "FNN" else "",
                markersize=4,
                zorder=3 if name == "FNN" else 2,
                label=f"{name}, {search}" if search else name,
            )
        one.set(xlabel="layer", title=f"layers: {recipe}", ylim=(1e-8, 2))
    axes[0].set_ylabel("relative error")
    axes[0].legend(fontsize=7)


def main() -> None:
    """Measure what is missing, and draw."""
    ask = asked(__doc__ or "", instances=5)
    sheet = Sheet(ask.folder / "fig2.csv", ("recipe", "model", "search", "seed"))
    size = Size.of(ask)
    every = models(size, ask.folder if ask.quick else FOLDER)
    for model, seed in ask.within_time(product(every, range(ask.instances))):
        tail = model.schedule.tail
        row: dict[str, Any] = {
            "recipe": model.recipe,
            "model": model.name,
            "search": model.search,
            "tail": f"{tail[0]:g} {tail[1]:g}" if tail and model.search else "",
            "seed": seed,
            "numbers": model.method.numbers,
        }
        if sheet.missing([row]):
            sheet.add(row | {"errors": path_of(model, size, seed)})
    panels = len(shown(sheet.rows()))
    picture(ask.folder / "fig2.png", lambda x: draw(x, sheet.rows()), panels, 4.2)


if __name__ == "__main__":
    main()
