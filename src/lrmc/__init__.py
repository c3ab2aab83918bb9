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
from .many import Results, solve_many
from .metrics import relative_error
from .observations import as_observations
from .result import Iterate, Result, Status
from .schedule import Schedule
from .solve import ConvergenceWarning, DoubtWarning, iterates, solve
from .training import train

# At run time `__getattr__` brings these, as some need other packages; so they are not in
# `__all__` either. `as` tells type checkers that they are public.
if TYPE_CHECKING:
    from . import apps as apps
    from . import outofcore as outofcore
    from . import report as report
    from . import torch as torch
    from . import xarray as xarray
    from .estimator import RobustImputer as RobustImputer
    from .estimator import RobustPCA as RobustPCA

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

# scikit-learn is imported when one of these is asked for
_FROM_SKLEARN = ("RobustImputer", "RobustPCA")
# imported when asked for: some bring other packages
_MODULES = ("apps", "outofcore", "report", "torch", "xarray")


if not TYPE_CHECKING:  # a type checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _FROM_SKLEARN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ._extras import optional

        optional("sklearn", "sklearn")
        from . import estimator

        return getattr(estimator, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM_SKLEARN, *_MODULES})
