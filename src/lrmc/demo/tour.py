"""The rest of the tour that `lrmc demo` gives: a real table, spoiled and mended, and a page about
everything.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._extras import optional
from .._progress import Tell
from ..complete.in_memory import Completed, complete
from ..complete.places import beside
from ..complete.table import Frame
from ..report import (
    BeforeAfter,
    Facts,
    Files,
    Frames,
    Group,
    Lines,
    Section,
    Series,
    Table,
    Words,
    result_sections,
    write_report,
)
from ..report.images import Lazy
from ..report.text import count, number, percent, plural
from ..weights import Array
from .picture import VISIBLE, any_colour
from .problems import RANK, Line
from .scene import HIDDEN, Film, Recovered

# Fractions of the table: hidden, and with the decimal point in the wrong place.
GAPS, SLIPS = 0.2, 0.02
EXAMPLES = 12  # slips that are shown
BUDGET = 6_000_000  # characters of frames on the page

# ---- a real table


class Spoiled(NamedTuple):
    """A real table, and what was done to it."""

    frame: Frame  # as it goes to the file
    names: list[str]  # of the measurements
    truth: Array
    hidden: Array
    slipped: Array


class Mended(NamedTuple):
    """How well it was put right."""

    table: Spoiled
    done: Completed
    source: Path
    target: Path
    # Mean distance of the filled entries from the truth, in mean distances of a column from its
    # median.
    missed: float
    slips_found: int
    others_found: int  # entries that nobody touched, and that stand out all the same


def has_table() -> bool:
    """Whether the packages are there that bring and read the real table."""
    return all(
        importlib.util.find_spec(name) is not None for name in ("sklearn", "pandas")
    )


def spoiled_table(seed: int = 0) -> Spoiled:
    """569 samples of cells under the microscope, 30 measurements each: the Wisconsin data that
    scikit-learn brings.
    """
    data = optional("sklearn.datasets", "sklearn").load_breast_cancer()
    rng = np.random.default_rng(seed)
    truth = np.asarray(data.data, np.float64)
    hidden, slipped = rng.random(truth.shape) < GAPS, rng.random(truth.shape) < SLIPS
    slipped &= ~hidden & (truth != 0)
    written = np.where(slipped, 10 * truth, truth)
    written[hidden] = np.nan
    names = [str(name) for name in data.feature_names]
    frame = optional("pandas", "tables").DataFrame(written, columns=names)
    frame.insert(0, "sample", [f"sample {i + 1}" for i in range(len(frame))])
    frame["diagnosis"] = [str(data.target_names[k]) for k in data.target]
    return Spoiled(frame, names, truth, hidden, slipped)


def mended_table(directory: Path, progress: Tell | None = None) -> Mended:
    """Write the spoiled table, and do with it what `lrmc complete measured.csv -o completed.csv`
    does.
    """
    table = spoiled_table()
    source, target = directory / "measured.csv", directory / "completed.csv"
    table.frame.to_csv(source, index=False, float_format="%.6g")
    listed, report = beside(target, "outliers.csv"), beside(target, "report.html")
    done = complete(
        source, target, outliers_to=listed, report_to=report, progress=progress
    )
    X = optional("pandas", "tables").read_csv(target)[table.names].to_numpy(np.float64)
    typical = np.abs(table.truth - np.median(table.truth, axis=0)).mean(axis=0)
    missed = float((np.abs(X - table.truth) / typical)[table.hidden].mean())
    found = int(table.slipped[done.outliers.rows, done.outliers.cols].sum())
    return Mended(
        table,
        done,
        source,
        target,
        missed=missed,
        slips_found=found,
        others_found=len(done.outliers.rows) - found,
    )


# ---- the page


def write_tour(
    path: Path,
    race: Sequence[Line],
    scene: Film,
    found: Recovered,
    mended: Mended | None,
) -> Path:
    """A page about the race, the film and the table."""
    sections = [*_film(scene, found), _welcome(mended), *_race(race), *_table(mended)]
    sections += _files(path, mended)
    return write_report(
        path,
        "A tour of lrmc",
        sections,
        subtitle="Made by lrmc demo, on this machine",
        budget=BUDGET,
    )


def _files(page: Path, mended: Mended | None) -> list[Section]:
    """Links to what lies beside the page."""
    written = () if mended is None else (mended.source, *mended.done.files)
    beside_it = [page.with_name("demo.png"), *written]
    links = {file.name: file.name for file in beside_it if file.exists()}
    return [Files("Files", links)] if links else []


def _welcome(mended: Mended | None) -> Section:
    table = (
        ""
        if mended is not None
        else " (The real table needs scikit-learn and pandas, and was left out.)"
    )
    return Words(
        "",
        [
            "Many tables of numbers are simple underneath: a few patterns, mixed. lrmc"
            " finds these patterns although"
            " entries are missing and others are grossly wrong, and says which ones"
            " are wrong.",
            "Here: problems whose answer is known, a film that is mostly hidden, and"
            f" a real table.{table}",
        ],
    )


def _race(race: Sequence[Line]) -> list[Section]:
    if not race:
        return []
    columns = [
        "problem",
        "rank",
        "passes",
        "time, s",
        "error",
    ]
    rows = [
        [
            x.name,
            x.result.rank,
            x.result.n_iter,
            x.seconds,
            x.error,
        ]
        for x in race
    ]
    n1, n2 = race[0].result.shape
    caption = (
        f"{count(n1)} × {count(n2)} matrices of rank {RANK}; 10 % of the observed"
        " entries are outliers. Only the"
        " paper's LRMC was told the rank, and it has a schedule made for this problem."
        " The error is relative to the"
        " truth; all is in single precision."
    )
    steps = [
        Series(
            x.name,
            [r.k for r in x.result.history[1:]],
            [r.change for r in x.result.history[1:]],
        )
        for x in race
    ]
    chart = Lines(
        "",
        steps,
        log=True,
        x_name="pass",
        caption="Change of the answer from pass to pass.",
    )
    return [Table("A race with known answers", columns, rows, caption), chart]


def _film(scene: Film, found: Recovered) -> list[Section]:
    layers = film_layers(scene, found)
    shown = scene.observed.shape[1] // 3
    facts = {
        "hidden": percent(HIDDEN),
        "of the rest wrong": percent(scene.outliers),
        "right to half a grey level": percent(found.exact),
        "error": number(found.errors[-1], 1),
        "time": f"{number(found.seconds, 2)} s",
    }
    pair = (layers["observed"][shown], layers["recovered"][shown])
    k = [record.k for record in found.result.history]
    error = Lines(
        "Error against the truth",
        [Series("error", k, found.errors)],
        log=True,
        x_name="pass",
        caption="Of the whole film, relative. What is left at the end sits in"
        f" {plural(found.lost, 'pixel')} of"
        f" {count(len(scene.observed) // 3)}, which balloons or noise covered for too"
        " long.",
    )
    own: list[Any] = [
        s for s in result_sections(found.result, entries=False) if s.title
    ]
    return [
        BeforeAfter(
            "A film, most of it hidden",
            *pair,
            "Drag, or use the arrow keys.",
            ("observed", "recovered"),
        ),
        Facts("", facts),
        Frames(
            "", layers, caption="Three days and nights at a lake, a generated film."
        ),
        *(
            replace(section, title=f"The film: {section.title.lower()}")
            for section in own[:1]
        ),
        Group(
            "The film: how it went",
            [error, *(chart for group in own[1:] for chart in group.sections)],
        ),
    ]


def film_layers(scene: Film, found: Recovered) -> dict[str, Lazy]:
    """Observed, recovered, outliers and truth, frame by frame."""
    (pictures, light), model = scene.background, found.result

    def observed(k: int) -> Array:
        return scene.observed[:, k]

    def recovered(k: int) -> Array:
        return model.L @ model.R[k]

    def outliers(k: int) -> Array:
        return np.where(
            any_colour(np.abs(observed(k) - recovered(k)) > VISIBLE),
            observed(k),
            np.float32(np.nan),
        )

    def truth(k: int) -> Array:
        return pictures @ light[k]

    layers = {
        "observed": observed,
        "recovered": recovered,
        "outliers": outliers,
        "truth": truth,
    }
    n = scene.observed.shape[1]
    return {
        name: Lazy(_as_pictures(scene, column), n) for name, column in layers.items()
    }


def _as_pictures(scene: Film, column: Callable[[int], Array]) -> Callable[[int], Array]:
    return lambda k: scene.frame(column(k))


def _table(mended: Mended | None) -> list[Section]:
    if mended is None:
        return []
    table, done = mended.table, mended.done
    n1, n2 = table.truth.shape
    slips = int(table.slipped.sum())
    facts = {
        "samples × measurements": f"{count(n1)} × {count(n2)}",
        "hidden": percent(float(table.hidden.mean())),
        "slips planted": slips,
        "of these found": mended.slips_found,
        "error ÷ that of medians": percent(mended.missed),
        "time": f"{number(done.seconds, 2)} s",
    }
    listed, report = (
        beside(mended.target, ending).name for ending in ("outliers.csv", "report.html")
    )
    story = [
        f"A real table comes with scikit-learn: {n1} samples of cells under the"
        f" microscope, {n2} measurements of each,"
        " in quite different units (Wisconsin Diagnostic Breast Cancer)."
        f" {percent(GAPS)} of the entries were hidden, and in {percent(SLIPS)} the"
        " decimal point was put one place too"
        " far to the right.",
        f"lrmc complete {mended.source.name} -o {mended.target.name} found"
        f" {mended.slips_found} of the {slips} slips."
        f" It also lists {mended.others_found} entries that nobody touched, and expected"
        f" about {done.alarms.false:.0f}: real samples can be odd, and the list is"
        " there to be looked at. The error of what it filled in is"
        f" {percent(mended.missed)} of the error that the"
        " medians of the columns would make.",
        f"Beside {mended.target.name} lie the list, {listed}, and a report of its own,"
        f" {report}.",
    ]
    columns = ["sample", "measurement", "written", "expected", "truth", "score"]
    return [
        Facts("A real table, spoiled and mended", facts),
        Words("", story),
        Table(
            "Some of the slips it found",
            columns,
            _examples(mended),
            "The score is in standard deviations of the noise.",
        ),
    ]


def _examples(mended: Mended) -> list[list[object]]:
    """Slips that were found, one per measurement."""
    table, listed, lines = mended.table, mended.done.outliers, dict[int, list[object]]()
    for i, j, value, expected, score in zip(*(x.tolist() for x in listed[:5])):
        if table.slipped[i, j] and j not in lines and len(lines) < EXAMPLES:
            truth = float(table.truth[i, j])
            lines[j] = [
                f"sample {i + 1}",
                table.names[j],
                value,
                expected,
                truth,
                score,
            ]
    return list(lines.values())
