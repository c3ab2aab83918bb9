"""Packages that only some users need, imported where they are used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
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


@contextmanager
def one_blas_thread() -> Iterator[bool]:
    """Products and eigenvectors in the thread that asks; whether that could be had. Threads of BLAS
    wait for each other, busily: beside other programs a product took fifty times as long.
    """
    pools = _pools()
    if pools is None:
        yield False
        return
    with pools.limit(limits=1, user_api="blas"):
        yield True


@lru_cache(1)
def _pools() -> Any:
    """The thread pools of this process, if threadpoolctl is there: finding them takes some
    milliseconds.
    """
    try:
        return importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
