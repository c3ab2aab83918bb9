"""Where training is: plain data, so that it can be shown, kept and taken up again."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._files import Format, from_json, to_json, write_whole
from ..schedule import Schedule

FORMAT = Format(
    "lrmc-training",
    "a checkpoint of training",
    unsaid=1,
    hint="; remove it to begin anew",
)


@dataclass(frozen=True)
class Plan:
    """What is to be trained, and how."""

    recipe: str  # "fast" or "paper"
    model: str  # "fnn", "rnn" or "frmnn"
    layers: int
    tangent: bool
    momentum: bool
    # of gradient descent; for the paper's recipe, of each of its two phases of each layer
    steps: int
    seed: int
    rank: int
    # what the card says of the data
    trained_on: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """After some step of a stage. `error` is the mean error after layer K that the step saw."""

    stage: str
    step: int
    steps: int
    error: float
    schedule: Schedule
    moments: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())  # of the optimiser
    # examples by number, with their last log errors
    hardest: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0  # since training began

    def save(self, path: str | os.PathLike[str], plan: Plan) -> None:
        """Write it as JSON, whole or not at all."""
        content = {"plan": asdict(plan), **asdict(self)}
        content["schedule"] = json.loads(self.schedule.to_json())
        content["error"] = None if not math.isfinite(self.error) else self.error
        write_whole(path, to_json(FORMAT, content).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], plan: Plan) -> State | None:
        """What was saved there for the same plan; None if there is nothing."""
        if not Path(path).parent.is_dir():
            raise FileNotFoundError(
                2, "there is no such directory", str(Path(path).parent)
            )
        if not Path(path).exists():
            return None
        with FORMAT.reading(path):
            content = from_json(FORMAT, Path(path).read_bytes())
            same = content.pop("plan") == asdict(plan)
            schedule = Schedule.from_json(json.dumps(content.pop("schedule")))
            first, second = (
                tuple(float(x) for x in moment) for moment in content.pop("moments")
            )
            error = content.pop("error")
            error = math.nan if error is None else error
            hardest = tuple((number, float(x)) for number, x in content.pop("hardest"))
            state = cls(
                schedule=schedule,
                moments=(first, second),
                error=error,
                hardest=hardest,
                **content,
            )
            state._check(plan if same else None)
        if not same:
            raise ValueError(
                f"{path} is a checkpoint of other training; remove it, or give the same arguments again"
            )
        return state

    def _check(self, plan: Plan | None) -> None:
        """Whether a file held what `save` writes."""
        numbers = (self.error, self.seconds, *self.moments[0], *self.moments[1])
        whole = all(
            type(x) is int and x >= 0
            for x in (self.step, self.steps, *(n for n, _ in self.hardest))
        )
        if not (
            whole
            and isinstance(self.stage, str)  # type: ignore[redundant-expr]
            and all(type(x) in (int, float) for x in numbers)
        ):
            raise ValueError("it holds something that is not a number")
        # the error may be unknown: NaN
        known = (*numbers[1:], *(x for _, x in self.hardest))
        if math.isinf(self.error) or not all(map(math.isfinite, known)):
            raise ValueError("it holds a number that is not finite")
        if plan is not None:
            self._check_fit(plan)

    def _check_fit(self, plan: Plan) -> None:
        """Whether training of this plan comes through such a state."""
        stages = _stages(plan)
        if self.stage not in stages:
            raise ValueError(
                f"its stage is {self.stage!r:.40}; one of {', '.join(stages)} is wanted"
            )
        layers, steps = stages[self.stage]
        if self.steps != steps or self.step > steps:
            raise ValueError(
                f"it is at step {self.step} of {self.steps}; at most {steps} of {steps} is wanted"
            )
        moments = {len(moment) for moment in self.moments}
        momentum = layers if plan.momentum else 0
        if (
            len(self.schedule) != layers
            or len(self.schedule.momentum) != momentum
            or len(moments) != 1
        ):
            raise ValueError("its numbers are not as many as its layers need")
        if (
            not moments <= {0, (2 + plan.momentum) * plan.layers}
            or self.schedule.tangent != plan.tangent
        ):
            raise ValueError("its numbers are not those of its plan")


def _stages(plan: Plan) -> dict[str, tuple[int, int]]:
    """Through which stages training comes: of each the number of layers that there are,
    and of steps.
    """
    stages = {"tail": (plan.layers, 1)}
    if plan.recipe == "fast":
        return stages | {
            "geometric": (plan.layers, 1),
            "refine": (plan.layers, plan.steps),
        }
    return stages | {
        f"layer {k}": (k, 2 * plan.steps if k else 1) for k in range(plan.layers + 1)
    }


def card(plan: Plan, state: State) -> dict[str, Any]:
    """What is written on a schedule about how it was made."""
    names = ("recipe", "model", "steps", "seed", "rank", "trained_on")
    seconds = round(state.seconds, 1)
    return {
        **{name: getattr(plan, name) for name in names},
        "error": state.error,
        "seconds": seconds,
    }
