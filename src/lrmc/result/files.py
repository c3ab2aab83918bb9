"""Results in .npz files: everything but the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import one_of
from .._files import Format, opened_arrays, save_arrays
from ..evidence.calibration import Calibration
from ..fit import Filling, Kept, Part
from ..linalg import Factors
from ..observations.base import Sample
from ..weights import Array
from .status import Record, Status

if TYPE_CHECKING:
    from .completion import Completion

FORMAT = Format("lrmc-result", "a result")
MISSED = "missed_"  # how arrays begin that tell errors at hidden entries
INTERVALS = "interval_"  # how arrays of a file begin that intervals are made of
# what a file says in words and numbers, by the names that a result has for it
ABOUT = (
    "method",
    "tol",
    "noise_level",
    "outlier_fraction",
    "regime",
    "certificate",
    "warnings",
)


def save(result: Completion, path: str | os.PathLike[str]) -> None:
    """Write everything but the data to an .npz file."""
    about = {name: getattr(result, name) for name in ABOUT}
    about |= {"status": str(result.status), "evidence": _plain(result.evidence)}
    arrays = {
        "L": np.asarray(result.L),
        "R": np.asarray(result.R),
        "history": np.array(result.history, np.float64),
        "undetermined_rows": result.undetermined_rows,
        "undetermined_cols": result.undetermined_cols,
    }
    if result.missed is not None:
        arrays |= {MISSED + name: x for name, x in result.missed._asdict().items()}
    for part in result.beyond:
        if isinstance(part, Filling):
            arrays["time_values"] = part.values
            if part.others is not None:
                arrays["time_others"] = part.others
            about["time"] = part.fills
    made = result.calibrated or vars(result).get("calibration")
    if made is not None:
        arrays |= {INTERVALS + name: x for name, x in made.plain().items()}
    save_arrays(path, FORMAT, arrays, about)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The fields of the result that a file holds, each looked at before it is believed."""
    with opened_arrays(path, FORMAT) as (about, content):
        X = Factors(content["L"], content["R"])
        check_factors(*X)
        certificate = about.get("certificate")
        return {
            "L": X.L,
            "R": X.R,
            "status": Status(about["status"]),
            "history": _history(content["history"]),
            "method": str(about["method"]),
            "tol": float(about["tol"]),
            "undetermined_rows": _lines(content["undetermined_rows"], len(X.L)),
            "undetermined_cols": _lines(content["undetermined_cols"], len(X.R)),
            "noise_level": float(about["noise_level"]),
            "outlier_fraction": float(about["outlier_fraction"]),
            "regime": str(about["regime"]),
            "evidence": dict(about["evidence"]),
            "certificate": None if certificate is None else dict(certificate),
            "warnings": tuple(map(str, about.get("warnings", ()))),
            "beyond": _kept_part(X, about.get("time"), content),
            "calibrated": _intervals(content, (len(X.L), len(X.R))),
            "missed": _missed(content, X),
        }


def _history(lines: Array) -> tuple[Record, ...]:
    history = tuple(Record(int(k), *map(float, rest)) for k, *rest in lines)
    if not history:
        raise ValueError("its history is empty")
    return history


def _lines(indices: Array, n: int) -> Array:
    """Indices of rows or columns, of which there are n."""
    whole = indices.ndim == 1 and indices.dtype.kind in "iu"
    if not whole or np.any((indices < 0) | (indices >= n)):
        raise ValueError("it names rows or columns that are not there")
    return indices


def _missed(content: Mapping[str, Array], X: Factors) -> Sample | None:
    """Errors at entries that were hidden, if the file has any."""
    if MISSED + "values" not in content:
        return None
    rows, cols, values = (content[MISSED + name] for name in Sample._fields)
    # those of complex data are of their real and imaginary parts
    n1, n2 = (len(F) * (1 + np.iscomplexobj(F)) for F in X)
    found = Sample(_lines(rows, n1), _lines(cols, n2), values)
    sound = values.dtype.kind == "f" and np.isfinite(values).all()
    if not sound or {x.shape for x in found} != {rows.shape}:
        raise ValueError("its errors at hidden entries are none")
    return found


def _intervals(
    content: Mapping[str, Array], shape: tuple[int, int]
) -> Calibration | None:
    """What intervals are made of, if they were made before the result was saved."""
    stored = {
        name.removeprefix(INTERVALS): content[name]
        for name in content
        if name.startswith(INTERVALS)
    }
    return Calibration.from_plain(stored, shape) if stored else None


def _kept_part(X: Factors, axis: Any, content: Mapping[str, Array]) -> tuple[Part, ...]:
    """The part in time that a file holds, looked at before it is believed."""
    if axis is None:
        return ()
    one_of("the axis of time", axis, ("rows", "columns"))
    x = _in_time(X, content["time_values"])
    others = content.get("time_others")
    return (Kept(X, x, axis, None if others is None else _in_time(X, others)),)


def _in_time(X: Factors, x: Array) -> Array:
    """Numbers for every entry."""
    if x.shape != (len(X.L), len(X.R)) or x.dtype.kind != "f":
        raise ValueError(
            f"its part in time has shape {x.shape} and type {x.dtype}, its factors {len(X.L)} and {len(X.R)} rows"
        )
    return x


def _plain(x: Any) -> Any:
    """As JSON can hold it: named tuples become dictionaries."""
    if hasattr(x, "_asdict"):
        return _plain(x._asdict())
    if isinstance(x, Mapping):
        return {str(key): _plain(value) for key, value in x.items()}
    return [_plain(value) for value in x] if isinstance(x, list | tuple) else x


def check_factors(L: Array, R: Array) -> None:
    """Refuse factors from a file that are none."""
    if (
        any(X.ndim != 2 or X.dtype.kind not in "fc" for X in (L, R))
        or L.dtype != R.dtype
        or L.shape[1] != R.shape[1]
    ):
        raise ValueError(
            f"its factors have shapes {L.shape} and {R.shape}, types {L.dtype} and {R.dtype}"
        )
    if not (np.isfinite(L).all() and np.isfinite(R).all()):
        raise ValueError("its factors are not finite")
