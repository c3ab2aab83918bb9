"""A result in plain English, for readers who know their data and not the mathematics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..evidence.alarms import Alarms
from ..observations.base import Observations
from ..result import Result, Status, Undetermined
from .survey import Survey
from .text import count, number, percent, plural

# of the evidence: a named tuple, or a dictionary if the result comes from a file
Record: TypeAlias = object

ADVICE = {
    Status.MAX_ITER: "Give it more passes (max_iter), or be content with less (a larger tol). If the change in the"
    " chart below does not fall, the rank may be too high, or the data may not follow"
    " such a pattern.",
    Status.SCHEDULE_ENDED: "Take a schedule with a tail, or leave the schedule out.",
    Status.STALLED: "Leave the schedule out: the default notices noise, and needs no schedule.",
    Status.DIVERGED: "Leave the schedule out, or take one that was made for data like these.",
    Status.UNDETERMINED: "Give a smaller rank, or more data.",
}
CONVERGED = {
    "noisy": "to the noise level",
    "exact": "to a pattern that fits all entries except the outliers",
}
MOST_NAMED = 12  # rows or columns without data that are named
# A fraction of outliers that is worth a word where none is listed: less is what tails of noise
# give.
LEAST_ESTIMATE = 0.01


def done(
    result: Result,
    obs: Observations | None,
    seen: Survey | None,
    unit: str = "",
) -> list[str]:
    """What was done and found, a paragraph for each idea. `unit`: of distances, if not that of the
    data.
    """
    unit = unit and f" {unit}"
    paragraphs = [
        _given(result, obs),
        _rank(result),
        _outliers(result, obs, seen, unit),
        _repeated(result, unit),
        _beyond_reason(result),
        _noise(result, unit),
    ]
    return [p for p in paragraphs if p]


def ended(result: Result) -> list[str]:
    """How the run ended, and what to do if that was not well."""
    how = (
        f"{plural(result.n_iter, 'pass', 'passes')} over the data,"
        f" {number(result.history[-1].seconds, 2)} s"
    )
    if result.converged:
        where = CONVERGED.get(result.regime, "within the tolerance")
        return [f"Converged {where} after {how}."]
    return [
        f"Did not converge ({how}): {result.status.meaning}.",
        f"What to do: {ADVICE[result.status]}",
    ]


def unknown(
    result: Result,
    row_names: Sequence[str] | None,
    col_names: Sequence[str] | None,
    undetermined: Undetermined = "nan",
) -> list[str]:
    """Rows and columns about which nothing can be said, and what became of them."""
    paragraphs = []
    became = (
        "values stay empty"
        if undetermined == "nan"
        else "what was filled in is a guess"
    )
    for which, names, word in (
        (result.undetermined_rows, row_names, "row"),
        (result.undetermined_cols, col_names, "column"),
    ):
        if len(which):
            some = [
                str(names[i]) if names is not None else str(i)
                for i in which[:MOST_NAMED]
            ]
            more = ", …" if len(which) > MOST_NAMED else ""
            have = "has" if len(which) == 1 else "have"
            text = (
                f"{plural(len(which), word)} {have} no observed entry at all, or too"
                " few that agree with the pattern,"
                f" so nothing can be said: {became}"
            )
            paragraphs.append(f"{text} ({', '.join(some)}{more}).")
    return paragraphs


def cautions(result: Result) -> list[str]:
    """What was said about the answer while it was made."""
    return [f"{text[0].upper()}{text[1:]}." for text in result.warnings]


def field(record: Record, name: str) -> Any:
    """Of a test or trial."""
    return record[name] if isinstance(record, dict) else getattr(record, name)


def _given(result: Result, obs: Observations | None) -> str:
    n1, n2 = result.shape
    size = f"The matrix has {plural(n1, 'row')} and {plural(n2, 'column')}"
    if obs is None:
        return (
            f"{size}. The data are not part of this result, so their entries are not"
            " looked at here."
        )
    missing = n1 * n2 - obs.n_observed
    if not missing:
        return f"{size}, {count(n1 * n2)} entries. All of them are observed."
    return (
        f"{size}, {count(n1 * n2)} entries. {percent(obs.fraction)} of them"
        f" ({count(obs.n_observed)}) are observed;"
        f" the other {count(missing)} are missing, and are estimated from the pattern"
        " that the rest follows."
    )


def _rank(result: Result) -> str:
    r = result.rank
    means = (
        "every row is a multiple of one profile"
        if r == 1
        else f"every row is a mixture of the same {r} profiles"
    )
    return f"The pattern has rank {r}: {means}. {_why(result)}".strip()


def _why(result: Result) -> str:
    """Why this rank."""
    tests, trials = (
        list(result.evidence.get(name, ())) for name in ("rank_tests", "trials")
    )
    if result.method == "closed_loop" and "rank_tests" not in result.evidence:
        return ""  # it ended before it could say
    given = "This rank was given, not found." if not tests else ""
    if trials and "why" not in result.evidence:
        return " ".join(
            filter(None, (given, _by_trial(result, trials, searched=not given)))
        )
    if "plan" in result.evidence:
        return _by_layers(result, given)
    if given:
        return given
    last = tests[-1]
    values, noise, added = (
        field(last, name) for name in ("singular_values", "noise", "added")
    )
    looks = (
        "It was found by looking for parts that stand out from what chance alone could"
        " give"
    )
    dropped = field(last, "rank") + added > result.rank
    again = (
        "; parts that turned out not to be needed were dropped again" if dropped else ""
    )
    checked = f" {_confirmed(result, trials)}" if trials else ""
    if len(values) <= added or not noise > 0:
        return f"{looks}{again}.{checked}"
    left_out = (
        f"the strongest part that was left out reached {percent(values[added] / noise)}"
        " of that level"
    )
    return f"{looks}{again}: {left_out}.{checked}"


def _by_layers(result: Result, given: str) -> str:
    """What was learned on hidden entries, and how well these are found again."""
    found = given or (
        "The fit began with more components than needed, and dropped those that are"
        " mostly noise."
    )
    missed = result.evidence.get("held_out")
    if not missed:
        return found
    return (
        f"{found} The mean absolute error on hidden entries is"
        f" {number(missed['error'], 3)}; that of row or column medians is"
        f" {number(missed['medians'], 3)}."
    )


def _confirmed(result: Result, trials: list[Record]) -> str:
    """What entries that were hidden say about a rank that was found."""
    first = field(trials[0], "rank")
    if result.rank == first:
        return (
            "Entries that were hidden are predicted no better by a higher rank"
            f" ({len(trials)} were compared)."
        )
    return (
        f"Entries that were hidden are predicted better by rank {result.rank} than by"
        f" {first}, which stood out."
    )


def _by_trial(result: Result, trials: list[Record], searched: bool) -> str:
    best = min(
        (t for t in trials if searched or field(t, "rank") == result.rank),
        key=lambda t: field(t, "error"),
        default=None,
    )
    if best is None:
        return ""
    what = (
        "The rank, and how differences are weighed,"
        if searched
        else "How differences are weighed"
    )
    return (
        f"{what} {'were' if searched else 'was'} chosen by trial: some known entries"
        " were hidden,"
        f" {plural(len(trials), 'fit')} tried to predict them,"
        f" and the one that did best was taken (loss {field(best, 'loss')}, rank"
        f" {field(best, 'rank')})."
    )


def _outliers(
    result: Result,
    obs: Observations | None,
    seen: Survey | None,
    unit: str,
) -> str:
    estimate = percent(result.outlier_fraction)
    if seen is None or obs is None:
        return (
            f"About {estimate} of the observed entries are outliers."
            if math.isfinite(result.outlier_fraction)
            else ""
        )
    if not seen.n_outliers:
        return (
            "No observed entry stands out so far that few false alarms would be"
            " expected, so none is listed as an outlier."
        )
    share = percent(seen.n_outliers / obs.n_observed)
    is_ = "entry does" if seen.n_outliers == 1 else "entries do"
    text = (
        f"{count(seen.n_outliers)} observed {is_} not follow the pattern ({share} of"
        " the observed): they are farther"
        f" than {number(seen.threshold, 3)}{unit} from it (more in noisy rows and"
        f" columns), and did not influence it. {false_alarms(seen.alarms)}"
    )
    return text + _hidden_in_noise(result, seen.n_outliers / obs.n_observed)


def _hidden_in_noise(result: Result, listed: float) -> str:
    """What the fit estimates beyond the fraction that is listed, if that is clearly more."""
    estimate = result.outlier_fraction
    if not (math.isfinite(estimate) and estimate > max(1.1 * listed, LEAST_ESTIMATE)):
        return ""
    return (
        f" Counting also those that cannot be told from noise one by one, about"
        f" {percent(estimate)} are estimated to be wrong."
    )


def false_alarms(alarms: Alarms) -> str:
    """How many of a list of outliers are expected to be none."""
    if alarms.most < 1:
        return "None of them is expected to be a good entry."
    about, most = (count(round(x)) for x in (alarms.false, alarms.most))
    return (
        "How many of them are good entries can be told roughly:"
        f" {about} by the shape of the residuals, at most {most}."
    )


def sure(result: Result) -> list[str]:
    """How far the filled-in entries may be off: what intervals held, where they were made."""
    found = result.calibrated or vars(result).get("calibration")
    if found is None:
        return []
    why_not = found.gaps.why_not()
    if why_not:
        return [f"{why_not[0].upper()}{why_not[1:]}."]
    held = " and ".join(
        f"{percent(x.value)} at a level of {percent(x.level)}" for x in found.coverage
    )
    return [
        "Intervals around the filled-in entries were learned from known entries that were"
        " hidden from five more fits. Held against hidden entries that they were not"
        f" learned from, they hold {held} of those that are no gross errors."
    ]


def decided(records: Sequence[Mapping[str, Any]]) -> str:
    """What was taken and why, from the errors of models on hidden entries, the one taken first."""
    first, *others = records
    best = min(others, key=lambda record: float(record["mae"]), default=None)
    taken = (
        f"The chosen model ({first['name']}) has a mean absolute error of"
        f" {number(float(first['mae']), 3)} on known entries that were hidden from it"
    )
    if best is None:
        return f"{taken}."
    ratio = float(first["mae"]) / max(float(best["mae"]), 1e-300)
    return (
        f"{taken}, {percent(ratio)} of the error of the best simpler one ({best['name']},"
        f" {number(float(best['mae']), 3)})."
    )


def in_time(result: Result) -> list[str]:
    """What the order of the table adds to that, by entries set aside in the shape of the gaps."""
    told = result.evidence.get("time")
    if told is None or not any(part.name == "time" for part in result.beyond):
        return []
    missed = told["held_out"]
    lines = "rows" if told["axis"] == "rows" else "columns"
    period = f", with a period of {told['period']} steps" if told["period"] else ""
    without = missed.get("without time")
    beside = f"; without it they are missed by {number(without, 3)}" if without else ""
    return [
        f"The {lines} are times{period}: what is filled in weighs this model and each series' own"
        f" course. Entries that were hidden in the shape of the gaps are missed by"
        f" {number(missed['blend'], 3)}{beside}."
    ]


def _repeated(result: Result, unit: str) -> str:
    """Values that were left out because they stand in too many places."""
    records = result.evidence.get("taken_as_missing", ())
    places = [
        (number(field(record, "value"), 4), percent(field(record, "share")))
        for record in records
    ]
    return " ".join(
        f"The value {value}{unit} stands in {share} of the entries and disagrees with"
        " the pattern: taken as missing."
        for value, share in places
    )


def _beyond_reason(result: Result) -> str:
    """How many entries were left out because nothing in their columns is near them."""
    n = result.evidence.get("beyond_reason", 0)
    if not n:
        return ""
    return (
        f"{plural(n, 'entry is', 'entries are')} far beyond everything else in the same"
        " column, as codes for missing values are: taken as missing."
    )


def _noise(result: Result, unit: str) -> str:
    if result.regime == "exact":
        return (
            "All other entries follow the pattern as exactly as the numbers are stored:"
            " there is no noise."
        )
    if not math.isfinite(result.noise_level):
        return ""
    sigma = number(result.noise_level, 3)
    return (
        "All other entries scatter around the pattern with a standard deviation of"
        f" {sigma}{unit} (noise)."
    )
