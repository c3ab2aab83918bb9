"""Solve the problems at the edges and count how often a wrong answer is given without a word.

    python tests/silence/count.py [--quick] [--family NAME ...] [--jobs 2] [--csv FILE] [--before FILE]
                                   [--write-allowed]

An answer is right; or said: wrong, but the status is not `converged`, or there was a warning, or a
refusal; or silent; or there was none (crashed). A false alarm is an answer that is right although
the run complained, unless its rank is that of any matrix of the shape: such a model meets whatever
comes, and nobody can know."""

import argparse
import csv
import json
import os
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __package__ in (None, ""):  # run as a script
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np

import lrmc
from silence.problems import PROBLEMS, families, quick

# from good to bad
VERDICTS = ("right", "said", "silent_noisy", "silent_exact", "crashed")
# what allowed.json keeps numbers of: they may not rise
BOUNDED = ("silent_noisy", "false_alarm")
ALLOWED = Path(__file__).with_name("allowed.json")


class Outcome(NamedTuple):
    """What became of one problem."""

    name: str
    family: str
    verdict: str
    false_alarm: bool
    error: float
    limit: float
    status: str
    regime: str
    warned: int
    rank: int
    shape: str
    seconds: float
    words: str  # the first warning, or the exception


class Run(NamedTuple):
    """What was heard and seen of a run: a result, or what went wrong."""

    result: object
    trouble: Exception | None
    words: list[str]
    seconds: float


def outcome(problem, solve=lrmc.solve):
    """Solve it, listen, and judge."""
    case = problem.case()
    run = listened(partial(solve, case.Y, problem.rank, threads=1))
    return (
        without_answer(problem, case, run)
        if run.trouble
        else with_answer(problem, case, run)
    )


def listened(solve):
    """The answer, and all that was said on the way."""
    result, trouble = None, None
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = solve()
        except Exception as error:  # whatever it is, it is counted
            trouble = error
    words = [f"{w.category.__name__}: {w.message}" for w in heard]
    return Run(result, trouble, words, time.perf_counter() - began)


def without_answer(problem, case, run):
    """A refusal, or a crash."""
    refused = type(run.trouble) is ValueError
    return Outcome(
        problem.name,
        problem.family,
        verdict="said" if refused else "crashed",
        false_alarm=False,
        error=np.inf,
        limit=case.limit,
        status="refused" if refused else "crashed",
        regime="",
        warned=len(run.words),
        rank=0,
        shape=shape_of(case),
        seconds=run.seconds,
        words=f"{type(run.trouble).__name__}: {run.trouble}",
    )


def with_answer(problem, case, run):
    """An answer, right or wrong, announced or not."""
    result = run.result
    error, whole_error = errors(case, result)
    complained = bool(run.words) or str(result.status) != "converged"
    honest = case.may_be_exact or result.regime != "exact"
    verdict = judged(error <= case.limit and honest, complained, result.regime)
    sure = whole_error <= case.limit and result.rank < min(case.Y.shape)
    return Outcome(
        problem.name,
        problem.family,
        verdict,
        false_alarm=verdict == "right"
        and complained
        and sure
        and not case.deserves_a_word,
        error=error,
        limit=case.limit,
        status=str(result.status),
        regime=result.regime,
        warned=len(run.words),
        rank=result.rank,
        shape=shape_of(case),
        seconds=run.seconds,
        words=run.words[0] if run.words else "",
    )


def shape_of(case):
    return "x".join(map(str, case.Y.shape))


def errors(case, result):
    """Of what it tells, and of everything: lines that it leaves open (NaN) are told
    apart only with reason.
    """
    if not (np.isfinite(result.L).all() and np.isfinite(result.R).all()):
        return np.inf, np.inf
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not right
        return case.error(result.low_rank()), case.error(result.L @ result.R.T)


def judged(right, complained, regime):
    """One word for it."""
    if right:
        return "right"
    if complained:
        return "said"
    return "silent_exact" if regime == "exact" else "silent_noisy"


def tally(outcomes):
    """For each family how many of each verdict, and false alarms."""
    counts = {family: Counter() for family in families(outcomes)}
    for one in outcomes:
        counts[one.family][one.verdict] += 1
        counts[one.family]["false_alarm"] += one.false_alarm
    return counts


def shown(counts):
    """As a table with a line for each family, and the totals."""
    names = (*VERDICTS, "false_alarm")
    lines = [f"{'family':10}" + "".join(f"{name:>14}" for name in names)]
    total = sum(counts.values(), Counter())
    for family, count in [*counts.items(), ("all", total)]:
        lines.append(f"{family:10}" + "".join(f"{count[name]:14}" for name in names))
    return "\n".join(lines)


def silent(outcomes):
    """What the totals hide: each answer that was wrong and unannounced, the worst kinds first."""
    bad = VERDICTS[:1:-1]  # crashed, silent_exact, silent_noisy
    found = sorted(
        (one for one in outcomes if one.verdict in bad),
        key=lambda one: bad.index(one.verdict),
    )
    return [
        f"{one.verdict:12} {one.name:45} {one.shape:>10} error {one.error:.1e} {one.words}"
        for one in found
    ]


def bounds(outcomes):
    """What `allowed.json` keeps of a run."""
    return {
        family: {name: count[name] for name in BOUNDED}
        for family, count in tally(outcomes).items()
    }


def above(outcomes, allowed):
    """The sentences that a run deserves which is worse than what is allowed."""
    found = []
    for family, count in tally(outcomes).items():
        for name in ("silent_exact", "crashed", *BOUNDED):
            most = allowed.get(family, {}).get(name, 0)
            if count[name] > most:
                found.append(f"{family}: {count[name]} {name}, at most {most} allowed")
    return found


def allowed(form):
    """The bounds of the quick or the full run."""
    return json.loads(ALLOWED.read_text()).get(form, {}) if ALLOWED.exists() else {}


def write_allowed(outcomes, form):
    """Keep the counts of this run as the bounds of its families; a full run holds the quick one."""
    content = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    few = {problem.name for problem in quick(PROBLEMS)}
    content.setdefault("quick", {}).update(
        bounds([one for one in outcomes if one.name in few])
    )
    if form == "full":
        content.setdefault("full", {}).update(bounds(outcomes))
    ALLOWED.write_text(json.dumps(content, indent=2) + "\n")


def outcomes_of(problems, jobs=1):
    """Outcomes in the order of the problems."""
    if jobs == 1:
        return [outcome(problem) for problem in problems]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(outcome, problems))


def write_csv(outcomes, path):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Outcome._fields)
        writer.writerows(outcomes)


def changes(outcomes, path):
    """What is judged otherwise than in the run that wrote this file: first what became worse."""
    with open(path, newline="") as file:
        before = {line["name"]: line["verdict"] for line in csv.DictReader(file)}
    moved = [
        (VERDICTS.index(before[one.name]) - VERDICTS.index(one.verdict), one)
        for one in outcomes
        if before.get(one.name, one.verdict) != one.verdict
    ]
    return [
        f"{'worse' if by < 0 else 'better':8} {one.name:45} {before[one.name]} -> {one.verdict}, error {one.error:.1e}"
        for by, one in sorted(moved, key=lambda pair: pair[0])
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="only the subset that `make test` runs"
    )
    parser.add_argument("--family", nargs="*", help="only these families")
    parser.add_argument("--csv", help="write a line for each problem to this file")
    parser.add_argument(
        "--before", help="say what changed since the run that wrote this CSV file"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--write-allowed",
        action="store_true",
        help="keep the counts of this run as what is allowed",
    )
    asked = parser.parse_args()
    problems = quick(PROBLEMS) if asked.quick else PROBLEMS
    problems = [
        problem
        for problem in problems
        if not asked.family or problem.family in asked.family
    ]
    problems = [problem for problem in problems if problem.available()]
    outcomes = outcomes_of(problems, asked.jobs)
    print("\n".join(silent(outcomes)))
    print(shown(tally(outcomes)))
    if asked.before:
        print("\n".join(changes(outcomes, asked.before)))
    if asked.csv:
        write_csv(outcomes, asked.csv)
    form = "quick" if asked.quick else "full"
    if asked.write_allowed:
        write_allowed(outcomes, form)
    worse = above(outcomes, allowed(form))
    print("\n".join(worse))
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
