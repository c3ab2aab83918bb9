"""Robust matrix completion: recover a low-rank matrix from data with missing entries and
gross outliers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# _program comes first: the others take long to import
from . import (
    _program,  # noqa: F401
    observations,
    synthetic,
    weights,
)
from .complex_result import ComplexResult
from .metrics import relative_error
from .observations import as_observations
from .result import Iterate, Result, Status
from .schedule import Schedule
from .solve import ConvergenceWarning, DoubtWarning, iterates, solve

# At run time `__getattr__` brings these: some need other packages (and are not in `__all__`), the
# others take long to import. `as` tells type checkers that they are public.
if TYPE_CHECKING:
    from . import apps as apps
    from . import outofcore as outofcore
    from . import report as report
    from . import torch as torch
    from . import xarray as xarray
    from .estimator import RobustImputer as RobustImputer
    from .estimator import RobustPCA as RobustPCA
    from .many import Results as Results
    from .many import solve_many as solve_many
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

# where names are that are imported when asked for
_LATER = {
    "Results": "many",
    "RobustImputer": "estimator",
    "RobustPCA": "estimator",
    "solve_many": "many",
    "train": "training",
}
_MODULES = ("apps", "many", "outofcore", "report", "torch", "training", "xarray")


if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if _LATER[name] == "estimator":
            from ._extras import optional

            optional("sklearn", "sklearn")
        found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
