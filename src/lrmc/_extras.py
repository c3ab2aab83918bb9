"""Packages that only some users need, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any


class MissingPackage(ImportError):
    """An optional package is not installed; the message says how to get it."""


def optional(module: str, extra: str) -> Any:
    """Import `module`, which comes with `pip install "lrmc[extra]"`."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingPackage(
            f'this needs {package}, which is not installed: pip install "lrmc[{extra}]"'
        ) from None
