"""The commands `lrmc train` and `lrmc schedules`: they ask, call the library, and show what came
back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from .._progress import Progress, Tell
from ..complete import tables
from ..formats.sparse import Matrix
from ..schedule import Schedule
from ..synthetic import Problems
from ..training import train
from ..training.state import State
from . import console

Card: TypeAlias = Mapping[str, Any]  # free in form


def train_command(
    target: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="A .json file for the schedule."
        ),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="IN",
            help="Train on hidden entries of this matrix: npy npz csv parquet mtx mat. Given"
            " several times, of all of them: a schedule for noisy data of one kind.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Which variable of an npz or mat file.")
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank", "-r", help="Rank of the model; 5, or found for noisy data."
        ),
    ] = None,
    n: Annotated[
        int | None, typer.Option(help="Rows and columns of synthetic problems; 3000.")
    ] = None,
    n2: Annotated[
        int | None, typer.Option(help="Their columns, if not as many.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Share of outliers in them; 0.1.")
    ] = None,
    p: Annotated[
        float | None, typer.Option(help="Share of entries that are observed; 0.1.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Gaussian noise, in units of E|X|; 0.")
    ] = None,
    outlier_scale: Annotated[
        float | None, typer.Option(help="Largest outlier, in units of E|X|; 1.")
    ] = None,
    condition: Annotated[
        float | None, typer.Option(help="Condition number of X; 1.")
    ] = None,
    layers: Annotated[int, typer.Option(help="Layers with numbers of their own.")] = 10,
    model: Annotated[
        Literal["frmnn", "fnn", "rnn", "noisy"] | None,
        typer.Option(
            help="Layers of the paper and a tail, only layers, or only a tail; layers for noisy"
            " data. frmnn, or noisy if --data is given several times."
        ),
    ] = None,
    tangent: Annotated[
        bool,
        typer.Option("--tangent", help="What both factors would move is moved once."),
    ] = False,
    momentum: Annotated[
        bool, typer.Option("--momentum", help="Learn a heavy ball as well.")
    ] = False,
    recipe: Annotated[
        Literal["fast", "paper"],
        typer.Option(help="All layers together, or one after another as in the paper."),
    ] = "fast",
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of gradient descent; 300, or 1000 for the paper's."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the problems to train on.")] = 0,
) -> None:
    """Learn a schedule for LRMC: from synthetic problems, or from your data (with --data).

    Ctrl-C keeps what was learned in OUT.partial, and the same command goes on from there.

    Exit code: 0 if the schedule is written, 2 if something that was given cannot be used, 130 after
    Ctrl-C.
    """
    about = {
        "n": n,
        "n2": n2,
        "alpha": alpha,
        "p": p,
        "noise": noise,
        "outlier_scale": outlier_scale,
    }
    about["condition"] = condition
    partial = target.with_name(target.name + ".partial")
    with console.errors_in_a_sentence(), console.warnings_in_a_sentence():
        _check_target(target)
        source = _source(
            data,
            name,
            {key: value for key, value in about.items() if value is not None},
            noisy=_is_noisy(data, model),
        )
        try:
            with console.progress("training") as tell:
                schedule = train(
                    source,
                    rank,
                    layers=layers,
                    model=model,
                    tangent=tangent,
                    momentum=momentum,
                    recipe=recipe,
                    steps=steps,
                    seed=seed,
                    checkpoint=None if _is_noisy(data, model) else partial,
                    progress=_told_to(tell, layers),
                )
        except KeyboardInterrupt as stop:
            raise console.ended(stop, _how_to_go_on(partial)) from None
        schedule.save(target)
        partial.unlink(missing_ok=True)
    _show(schedule, target)


def schedules_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of them, or a .json file.")
    ] = None,
) -> None:
    """List the schedules that come with lrmc, or show one with its card."""
    with console.errors_in_a_sentence():
        if name is not None:
            _show_one(
                name,
                Schedule.load(name) if name.endswith(".json") else Schedule.named(name),
            )
            return
        # Alpha and p are in the names.
        table = console.table("name", "rank", "layers", "tail", "card")
        table.columns[-1].justify = "left"
        table.columns[-1].no_wrap = False
        for known in Schedule.names():
            schedule = Schedule.named(known)
            numbers = (
                _told(schedule.card, "rank"),
                _count(schedule),
                _tail(schedule),
            )
            table.add_row(known, *numbers, console.plain(_summary(schedule.card)))
        console.out().print(table)
        console.out().print(
            "lrmc schedules NAME shows one; lrmc complete ... --schedule NAME uses it.",
            soft_wrap=True,
        )


# ---- what is asked for


def _is_noisy(data: list[Path] | None, model: str | None) -> bool:
    """Whether what is trained is for noisy data: in seconds, without checkpoints."""
    return model == "noisy" or (model is None and len(data or ()) > 1)


def _source(
    data: list[Path] | None,
    name: str | None,
    about: dict[str, Any],
    *,
    noisy: bool,
) -> Problems | Matrix | list[Matrix]:
    """Problems, or the matrices of files."""
    if not data:
        if name is not None:
            raise ValueError(
                "--name chooses a variable of the file given with --data, and no file"
                " is given"
            )
        return Problems(**about)
    if about:
        given = ", ".join(f"--{key.replace('_', '-')}" for key in about)
        raise ValueError(
            f"{given}: synthetic problems have these, and --data is what it is; give"
            " one or the other"
        )
    found = [tables.read(path, name=name).values for path in data]
    return found if noisy else found[0]


def _check_target(target: Path) -> None:
    """Refuse an output that could not be written, before the work and not after it."""
    if target.suffix != ".json":
        raise ValueError(f"{target}: a schedule is a .json file")
    tables.checked_place(target)


# ---- what is shown


def _told_to(tell: Tell, layers: int) -> Callable[[State], None]:
    """What training calls with each state. The searches before and after the steps are one step
    each.
    """

    def follow(state: State) -> None:
        if state.schedule.plan is not None:  # for noisy data: steps of a stage
            tell(Progress(state.stage, state.step, state.steps))
            return
        share = _share(state, layers)
        stage = "tail" if share == 1 else state.stage
        tell(Progress(stage, share, 1.0, note=f"error {state.error:.1e}"))

    return follow


def _share(state: State, layers: int) -> float:
    """How much of the steps is done."""
    if state.stage.startswith("layer "):
        k = int(state.stage.removeprefix("layer "))
        return (
            0.0
            if k == 0
            else (k - 1 + state.step / max(state.steps, 1)) / max(layers, 1)
        )
    return 0.0 if state.stage == "geometric" else state.step / max(state.steps, 1)


def _how_to_go_on(partial: Path) -> str:
    if partial.exists():
        return (
            f"; the same command goes on from {partial}, and without that file it"
            " begins anew"
        )
    return " before anything was learned; the same command begins anew"


def _show(schedule: Schedule, target: Path) -> None:
    if schedule.plan is not None:
        _show_family(schedule, target)
        return
    card, rank = schedule.card, schedule.card["rank"]
    measure = (
        "of X"
        if "data" not in card["trained_on"]
        else "of hidden entries, in medians of |y|"
    )
    facts = {
        "trained on": _in_words(card["trained_on"]),
        "layers": _layers(schedule),
        "tail": _tail(schedule),
        "error": f"{card['error']:.1e} {measure}",
        "time": f"{card['seconds']:.1f} s",
        "written": f"{target}",
    }
    _show_use(
        facts,
        f"lrmc complete IN -o OUT --rank {rank} --schedule {target}",
        f'lrmc.solve(Y, rank={rank}, schedule=lrmc.Schedule.load("{target}"))',
    )


def _show_family(schedule: Schedule, target: Path) -> None:
    """What was learned of noisy data of one kind."""
    card = schedule.card
    facts = {
        "trained on": _in_words(card["trained_on"]),
        "rank": f"{card['rank']} to begin with: what is not needed goes",
        "hidden entries": _missed(card["held_out"]),
        "time": f"{card['seconds']:.1f} s",
        "written": f"{target}",
    }
    _show_use(
        facts,
        f"lrmc complete IN -o OUT --schedule {target}",
        f'lrmc.solve(Y, schedule=lrmc.Schedule.load("{target}"))',
    )


def _show_use(facts: dict[str, str], *lines: str) -> None:
    """What was learned, and how it is used."""
    out = console.out()
    out.print(console.facts_table(facts))
    out.print("To use it:", highlight=False)
    for line in lines:
        out.print(console.plain(f"  {line}"), soft_wrap=True, highlight=False)


def _missed(held_out: Card) -> str:
    """Mean absolute errors of all models, in typical entries."""
    told = (f"{name} {errors['mae']:.3g}" for name, errors in held_out.items())
    return "missed by " + ", ".join(told) + " (mean, in medians of |y|)"


def _layers(schedule: Schedule) -> str:
    extras = (", tangent", schedule.tangent), (", momentum", bool(schedule.momentum))
    return f"{len(schedule)}" + "".join(text for text, there in extras if there)


def _show_one(name: str, schedule: Schedule) -> None:
    numbers = _of_paper(schedule) if schedule.plan is None else _of_plan(schedule.plan)
    told = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in schedule.card.items()
    }
    console.out().print(console.facts_table({"name": name, **numbers, **told}))


def _of_plan(plan: Card) -> dict[str, str]:
    """The numbers of layers for noisy data, and what was decided."""
    layers = {name: _row(numbers) for name, numbers in plan["layers"].items()}
    others = {
        name: json.dumps(value) for name, value in plan.items() if name != "layers"
    }
    return {**layers, **others}


def _of_paper(schedule: Schedule) -> dict[str, str]:
    return {
        "layers": f"{len(schedule)}",
        "tail": _tail(schedule),
        "tangent": "yes" if schedule.tangent else "no",
        "zeta": _row(schedule.zeta),
        "eta": _row(schedule.eta) or f"{schedule.eta_0:.3g} before the tail",
        "momentum": _row(schedule.momentum) or "none",
        "units": schedule.units,
    }


def _row(numbers: Iterable[float]) -> str:
    return " ".join(f"{x:.3g}" for x in numbers)


def _count(schedule: Schedule) -> str:
    """Of its layers."""
    if schedule.plan is None:
        return f"{len(schedule)}"
    return f"{len(schedule.plan['layers']['eta'])}"


def _tail(schedule: Schedule) -> str:
    return (
        "none"
        if schedule.tail is None
        else f"{schedule.tail[0]:g}, {schedule.tail[1]:g}"
    )


def _in_words(trained_on: Card) -> str:
    """What a card says of the data, as one line."""
    given = trained_on.get("problems", trained_on)
    return ", ".join(
        f"{key.replace('_', ' ')} {value}" if key != "data" else f"{value}"
        for key, value in given.items()
        if value is not None
    )


def _told(card: Card, key: str) -> str:
    """A number that a card has, wherever it has it: cards are free in form."""
    trained = _part(card, "trained_on")
    for place in (card, _part(trained, "problems"), _part(card, "checked_on"), trained):
        if isinstance(value := place.get(key), int | float):
            return f"{value:g}"
    return ""


def _summary(card: Card) -> str:
    """What a card says in one line: how many iterations were counted, or what it is about."""
    trained, checked = _part(card, "trained_on"), _part(card, "checked_on")
    runs = checked.get("iterations_to_1e_6", ())
    counted = [k for k in runs if isinstance(k, int)]
    if runs and not counted:
        return "does not reach 1e-6"
    if counted:
        missed = (
            f", {len(runs) - len(counted)} of {len(runs)} missed"
            if len(counted) < len(runs)
            else ""
        )
        return f"1e-6 in {max(counted)} iterations{missed}"
    return str(card.get("about") or trained.get("about") or trained.get("data") or "")


def _part(card: Card, key: str) -> Card:
    part = card.get(key)
    return part if isinstance(part, Mapping) else {}
