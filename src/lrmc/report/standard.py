"""The usual sections of a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..formats.sparse import Matrix
from ..linalg import balanced
from ..observations._door import as_observations
from ..observations.base import Observations
from ..result import Result, Undetermined
from ..units import Units
from . import words
from .charts import Series
from .sections import (
    Bars,
    Facts,
    Group,
    Lines,
    Map,
    Section,
    Table,
    Values,
    Words,
)
from .survey import Survey, survey
from .text import count, number, percent, plural

WORST = 100  # outliers in the table
MOST_LINES = 4  # fits in the chart of trials
Names = tuple[Sequence[str] | None, Sequence[str] | None]  # of rows and columns
# What distances are measured in.
DATA, SPREAD = "the units of the data", "column spreads"


def result_sections(
    result: Result,
    Y: Matrix | None = None,
    *,
    mask: ArrayLike | None = None,
    row_names: Sequence[str] | None = None,
    col_names: Sequence[str] | None = None,
    units: Units | None = None,
    worst: int = WORST,
    entries: bool = True,
    undetermined: Undetermined = "nan",
) -> list[Section]:
    """Sections of a report on a result: key numbers, what was done in words, convergence, singular
    values, a map of the matrix, and the worst outliers.

    It takes one pass over the observed entries, in blocks.

    Parameters
    ----------
    result : Result
        Of `lrmc.solve`.
    Y, mask : optional
        The data, which a loaded result needs again; without them, maps and lists of entries are
        left out.
    row_names, col_names : sequence of str, optional
        Labels.
    units : Units, optional
        Units of columns that were removed before the fit: single entries are shown in those of the
        data.
    worst : int, default 100
        Number of outliers that are listed.
    entries : bool, default True
        Whether single entries are shown; in a film they say little.
    undetermined : {"nan", "keep"}, default "nan"
        What became of rows and columns that are not determined, as in `Result.low_rank`.

    Returns
    -------
    list of Section
        For `write_report`.

    Examples
    --------
    >>> import lrmc
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=60, rank=2, p=0.8).Y)
    >>> sections = lrmc.report.result_sections(result)
    >>> "Convergence" in [section.title for section in sections]
    True
    """
    obs = result.observations if Y is None else as_observations(Y, mask)
    _check(result, obs, (row_names, col_names))
    spread = SPREAD if units is not None else ""
    seen = None if obs is None else survey(obs, result.fit, result.listing(obs), worst)
    sections: list[Section] = [Facts("", _key_numbers(result, obs, seen, spread))]
    sections.append(
        Words("", words.ended(result), "good" if result.converged else "warning")
    )
    if result.warnings:
        sections.append(Words("", words.cautions(result), "warning"))
    unknown = words.unknown(result, row_names, col_names, undetermined)
    if unknown:
        sections.append(Words("", unknown, "warning"))
    sections.append(Words("What was done", words.done(result, obs, seen, spread)))
    records = _beside_simple(result)
    if records:
        sections.append(
            Words(
                "What was decided, and why",
                [words.decided(records), *words.in_time(result)],
            )
        )
        sections.append(_contest(records, spread or DATA))
    if words.sure(result):
        sections.append(Words("How sure", words.sure(result)))
    sections += [
        _convergence(result, spread or DATA),
        _components(result, obs, spread or DATA),
    ]
    if entries and obs is not None and seen is not None:
        sections += [
            _map(obs, seen, spread),
            _table(result, obs, seen, (row_names, col_names), units),
        ]
    return sections


def _check(result: Result, obs: Observations | None, given: Names) -> None:
    if obs is not None and obs.shape != result.shape:
        raise ValueError(f"the data have shape {obs.shape}, this result {result.shape}")
    for names, n, what in zip(given, result.shape, ("row_names", "col_names")):
        if names is not None and len(names) != n:
            raise ValueError(f"{what} has {len(names)} names; {n} are wanted")


def _key_numbers(
    result: Result,
    obs: Observations | None,
    seen: Survey | None,
    spread: str,
) -> dict[str, object]:
    n1, n2 = result.shape
    facts: dict[str, object] = {"rows × columns": f"{count(n1)} × {count(n2)}"}
    if obs is not None:
        facts["observed"] = percent(obs.fraction)
    facts["rank"] = result.rank
    facts["outliers"] = percent(
        seen.n_outliers / obs.n_observed if seen and obs else result.outlier_fraction
    )
    facts["noise, in spreads" if spread else "noise"] = (
        "none" if result.regime == "exact" else number(result.noise_level, 3)
    )
    facts["passes"] = result.n_iter
    facts["time"] = f"{number(result.history[-1].seconds, 2)} s"
    return facts


# ---- how the run went


def _convergence(result: Result, unit: str) -> Group:
    steps = result.history[1:]
    k = [record.k for record in steps]
    change = Lines(
        "Change from pass to pass",
        [Series("change", k, [record.change for record in steps])],
        log=True,
        x_name="pass",
        marks={} if result.regime == "noisy" else {"tol": result.tol},
        caption="How much the whole pattern changed, relative to itself. A gap is where"
        " its rank changed.",
    )
    noisy = result.regime == "noisy" and math.isfinite(result.noise_level)
    threshold = Lines(
        "Threshold",
        [Series("threshold", k, [record.zeta for record in steps])],
        log=True,
        x_name="pass",
        marks={"noise": result.noise_level} if noisy else {},
        caption="Entries farther than this from the pattern had little or no say, in"
        f" {unit}.",
    )
    inliers = Lines(
        "Entries within the threshold",
        [Series("within, %", k, [100 * record.inliers for record in steps])],
        x_name="pass",
        bounds=(0.0, 100.0),
        caption="In percent of the observed entries.",
    )
    return Group("Convergence", [change, threshold, inliers])


def _components(result: Result, obs: Observations | None, unit: str) -> Group:
    sections: list[Section] = [_singular_values(result, obs)]
    tests, trials = (
        list(result.evidence.get(name, ())) for name in ("rank_tests", "trials")
    )
    if tests:
        sections.append(_first_look(tests[0]))
    if trials:
        sections.append(_trials(trials, unit))
    return Group("Components and noise", sections)


def _singular_values(result: Result, obs: Observations | None) -> Values:
    values = (
        np.linalg.norm(balanced(*result.factors()).L.astype(np.float64), axis=0) ** 2
    )
    level = (
        None
        if obs is None or result.regime == "exact"
        else noise_norm(result.noise_level, obs)
    )
    if level is None:
        caption = "How strong each component of the pattern is."
    else:
        caption = (
            "How strong each component of the pattern is. The level is the largest"
            " singular value that noise of"
            " standard deviation σ alone would have: σ (√rows + √columns) / √p, where p"
            " is the observed share. What is"
            " below it could not be told from noise by its strength alone."
        )
    return Values("Singular values", values.tolist(), level, caption=caption)


def noise_norm(sigma: float, obs: Observations) -> float:
    """The largest singular value that noise of this standard deviation would show, where a share p
    is observed.

    An n1 x n2 matrix of independent entries of variance v has norm sqrt(v) (sqrt(n1) + sqrt(n2)),
    nearly. Noise that is seen on a share p only, and scaled by 1/p as a matrix with gaps has to be,
    has v = p sigma^2 / p^2.
    """
    n1, n2 = obs.shape
    return float(sigma * (math.sqrt(n1) + math.sqrt(n2)) / math.sqrt(obs.fraction))


def _first_look(test: words.Record) -> Values:
    return Values(
        "First look at the data",
        [float(value) for value in words.field(test, "singular_values")],
        float(words.field(test, "noise")),
        level_name="chance",
        caption="Singular values of the data with large entries clipped, before any"
        " fit, and the most that chance"
        " could give. The search for the rank began with those above.",
    )


def _trials(trials: list[words.Record], unit: str) -> Lines:
    """Held-out error against rank: a line for each way of fitting, the best ones."""
    ways: dict[str, list[tuple[int, float]]] = {}
    for trial in trials:
        loss, shrink, rank, error, way = (
            words.field(trial, name)
            for name in ("loss", "shrink", "rank", "error", "way")
        )
        name = f"{loss}, prior × {number(shrink)}" + (
            ", polished" if way == "polished" else ""
        )
        ways.setdefault(name, []).append((rank, error))
    best = sorted(ways.items(), key=lambda item: min(error for _, error in item[1]))[
        :MOST_LINES
    ]
    series = [Series(name, *zip(*sorted(points))) for name, points in best]
    return Lines(
        "Trials on hidden entries",
        series,
        x_name="rank",
        caption="Mean absolute error on known entries that were hidden from the fit,"
        f" in {unit}.",
    )


def _beside_simple(result: Result) -> list[Mapping[str, Any]]:
    """Errors on hidden entries, what was taken first."""
    records = [
        line if isinstance(line, dict) else line._asdict()
        for part in ("table", "opinions")
        for line in result.evidence.get(part, ())
    ]
    return sorted(records, key=lambda record: not record["chosen"])


def _contest(records: list[Mapping[str, Any]], unit: str) -> Bars:
    """Mean absolute errors of models on hidden entries."""
    return Bars(
        "Errors on hidden entries",
        [str(record["name"]) for record in records],
        [float(record["mae"]) for record in records],
        [float(record.get("standard_error", 0.0)) for record in records],
        caption="Mean absolute error on known entries that were hidden from the fits, in"
        f" {unit}, the one that was taken first; a line is a standard error.",
    )


# ---- what was found


def _map(obs: Observations, seen: Survey, spread: str) -> Map:
    rows, cols = seen.step
    blocks = (
        ""
        if seen.step == (1, 1)
        else f" A cell of the map stands for {plural(rows, 'row')} × {plural(cols, 'column')}."
    )
    limit = f"{number(seen.threshold, 3)}{spread and f' {spread}'}"
    told = f"Outliers are farther than {limit} from the pattern."
    caption = f"{told if seen.n_outliers else 'No outliers are listed.'}{blocks}"
    return Map(
        "Missing and outlying entries",
        obs.shape,
        seen.step,
        seen.observed,
        seen.outliers,
        caption,
    )


def _table(
    result: Result,
    obs: Observations,
    seen: Survey,
    names: Names,
    units: Units | None,
) -> Table:
    noisy = result.regime == "noisy" and result.noise_level > 0
    columns = ["row", "column", "observed", "expected", "difference"] + (
        ["× noise"] if noisy else []
    )
    rows = [list(cells) for cells in _worst(result, obs, seen, names, units)]
    if not noisy:
        rows = [cells[:-1] for cells in rows]
    shown = (
        f"The {count(len(rows))} largest of {count(seen.n_outliers)}"
        if len(rows) < seen.n_outliers
        else "All"
    )
    unnamed = [what for what, of in zip(("rows", "columns"), names) if of is None]
    counted = (
        f" {' and '.join(unnamed).capitalize()} are counted from 0." if unnamed else ""
    )
    counted += f" {words.false_alarms(seen.alarms)}" if rows else ""
    measured = "" if units is None else ", measured by the spread of its column"
    how = " Click on a heading to sort."
    caption = (
        f"{shown}, by the size of the difference{measured}.{how}{counted}"
        if rows
        else "No entry stands out."
    )
    return Table("The worst outliers", columns, rows, caption)


def _worst(
    result: Result,
    obs: Observations,
    seen: Survey,
    names: Names,
    units: Units | None,
) -> Iterator[tuple[object, ...]]:
    observed = obs.lookup(seen.rows, seen.cols).astype(np.float64)
    expected = observed - seen.differences
    if units is not None:
        observed, expected = (
            units.put_back(x, seen.cols) for x in (observed, expected)
        )
    places = zip(seen.rows.tolist(), seen.cols.tolist())
    for (i, j), y, x, off in zip(
        places, observed.tolist(), expected.tolist(), np.abs(seen.differences).tolist()
    ):
        row, col = (k if of is None else str(of[k]) for k, of in zip((i, j), names))
        yield row, col, y, x, y - x, off / (result.noise_level or 1.0)


# ---- films
