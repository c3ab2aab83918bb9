"""Robust matrix completion: recover a low-rank matrix from data with missing entries and
gross outliers.

    result = lrmc.solve(Y)  # NaN is missing
    result.completed(), result.outliers(), result.warnings
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import _program  # noqa: F401

# At run time `__getattr__` brings these when they are asked for: `import lrmc` takes a hundredth of a
# second, and `lrmc --help` needs none of them. `as` tells type checkers that they are public.
if TYPE_CHECKING:
    from . import apps as apps
    from . import complete as complete
    from . import evidence as evidence
    from . import observations as observations
    from . import outofcore as outofcore
    from . import report as report
    from . import schedule as schedule
    from . import synthetic as synthetic
    from . import torch as torch
    from . import weights as weights
    from . import xarray as xarray
    from .complex_result import ComplexResult as ComplexResult
    from .estimator import RobustImputer as RobustImputer
    from .estimator import RobustPCA as RobustPCA
    from .many import Results as Results
    from .many import solve_many as solve_many
    from .metrics import relative_error as relative_error
    from .observations import as_observations as as_observations
    from .result import Iterate as Iterate
    from .result import Result as Result
    from .result import Status as Status
    from .schedule import Schedule as Schedule
    from .solve import ConvergenceWarning as ConvergenceWarning
    from .solve import DoubtWarning as DoubtWarning
    from .solve import iterates as iterates
    from .solve import solve as solve
    from .training import train as train

__version__ = "0.2.0"
__all__ = [
    "ComplexResult",
    "ConvergenceWarning",
    "DoubtWarning",
    "Iterate",
    "Result",
    "Results",
    "Schedule",
    "Status",
    "as_observations",
    "iterates",
    "observations",
    "relative_error",
    "solve",
    "solve_many",
    "synthetic",
    "train",
    "weights",
]

# where names are
_WHERE = {
    "ComplexResult": "complex_result",
    "ConvergenceWarning": "solve",
    "DoubtWarning": "solve",
    "Iterate": "result",
    "Result": "result",
    "Results": "many",
    "RobustImputer": "estimator",
    "RobustPCA": "estimator",
    "Schedule": "schedule",
    "Status": "result",
    "as_observations": "observations",
    "iterates": "solve",
    "relative_error": "metrics",
    "solve": "solve",
    "solve_many": "many",
    "train": "training",
}
_MODULES = (
    *("apps", "complete", "evidence", "many", "outofcore", "report", "schedule"),
    *("torch", "training", "xarray"),
)


class _Package(ModuleType):
    """`lrmc.solve` is the function, also after somebody imported the module of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "solve" and isinstance(value, ModuleType):
            value = value.solve
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            if _WHERE[name] == "estimator":
                from ._extras import optional

                optional("sklearn", "sklearn")
            found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
            globals()[name] = found
            return found
        if name.startswith("__") or find_spec(f"{__name__}.{name}") is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES, *__all__})
