"""The picture of the demo: what was observed of the film, what was found, and how the run went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .. import _kernels
from .._extras import optional
from .._files import whole
from ..weights import Array
from .scene import HIDDEN, Film, Recovered

Axes: TypeAlias = Any  # of matplotlib, which need not be installed
Figure: TypeAlias = Any
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
    above = figure.add_gridspec(
        2, 4, left=0.03, right=0.985, top=0.878, bottom=0.355, hspace=0.04, wspace=0.025
    )
    below = figure.add_gridspec(
        1, 2, left=0.06, right=0.985, top=0.30, bottom=0.075, wspace=0.06
    )
    figure.text(
        0.03, 0.945, "A film, most of it hidden", size=19, weight="bold", color=INK
    )
    for j, (title, pictures) in enumerate(
        _panels(scene, found, (frames // 3, frames * 3 // 5))
    ):
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


def _panels(
    scene: Film,
    found: Recovered,
    when: tuple[int, ...],
) -> Iterator[tuple[str, list[tuple[int, Array]]]]:
    outliers, (pictures, light) = (
        found.result.outliers(threshold=VISIBLE),
        scene.background,
    )

    def shown(column: Callable[[int], Array]) -> list[tuple[int, Array]]:
        return [(k, scene.frame(column(k))) for k in when]

    def seen(k: int) -> Array:
        return scene.observed[:, k]

    nothing = np.tile(np.array(NOTHING, np.float32), len(pictures) // 3)
    yield (
        f"observed: {1 - HIDDEN:.0%} of the pixels",
        shown(lambda k: np.where(np.isnan(seen(k)), nothing, seen(k))),
    )
    yield (
        "recovered: the low-rank part",
        shown(lambda k: found.result.L @ found.result.R[k]),
    )
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
    axes.semilogy(
        k, [record.zeta for record in history], color=GOLD, lw=1.6, ls=(0, (4, 2))
    )
    for place, (label, colour) in enumerate(
        (
            ("error against the truth", RED),
            ("change per iteration", BLUE),
            ("threshold ζ", GOLD),
        )
    ):
        axes.text(
            0.34 * place, 1.04, label, transform=axes.transAxes, color=colour, size=10
        )
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
        (
            f"{found.exact:.2%}",
            "of the background is right to half a grey level of 255",
        ),
        (
            f"{scene.outliers:.0%}",
            "of what was observed is wrong: balloons, salt and pepper",
        ),
        (
            f"{found.seconds:.1f} s",
            f"{result.n_iter} iterations on {_kernels.max_threads()} threads:"
            f" {result.status}",
        ),
        (
            f"{n1:,} × {n2}".replace(",", " "),
            f"numbers, a column per frame; the model has rank {result.rank}",
        ),
        (
            f"{found.errors[-1]:.0e}",
            f"relative error: {found.lost} of {n1 // 3} pixels are not right",
        ),
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
    image.quantize(
        256, method=pillow.Quantize.MEDIANCUT, dither=pillow.Dither.NONE
    ).save(path, format="png", optimize=True)


def checked_directory(directory: Path) -> Path:
    """Make the directory of the picture, and see that the picture can be made, before the work and
    not after it.
    """
    optional("matplotlib", "plot")
    directory.mkdir(parents=True, exist_ok=True)
    return directory
