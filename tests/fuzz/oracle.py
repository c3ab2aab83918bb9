"""What a call may do with whatever it is given: answer, or refuse in a sentence of our
own. Nothing else.
"""

import linecache
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import lrmc
from fuzz.effort import within
from lrmc._extras import MissingPackage

OURS = str(Path(lrmc.__file__).parent)
REFUSALS = (
    ValueError,
    TypeError,
    MemoryError,
    FloatingPointError,
    MissingPackage,
    OSError,
)
SECONDS = 20.0  # for a call that takes milliseconds, on a machine that is busy


class RawError(AssertionError):
    """An error that is none of ours: its message says nothing to those who called."""


def answered(call):
    """What the call gives; None where it refuses. Other errors, and those that come from
    within, are raised.
    """
    try:
        with within(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            return call()
    except Exception as error:
        if isinstance(error, REFUSALS) and said_by_us(error) and len(str(error)) > 10:
            return None
        raise RawError(f"{type(error).__name__}: {error}") from error


def said_by_us(error):
    """Whether an error was raised by a `raise` of this package, and not by something
    that it called.
    """
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    return file.startswith(OURS) and linecache.getline(file, line).lstrip().startswith(
        "raise"
    )


def look(x):
    """All of an input, so that a later look shows whether it was changed."""
    if isinstance(x, np.ma.MaskedArray):
        return look(x.data), look(np.ma.getmaskarray(x)), x.hardmask
    if isinstance(x, np.ndarray):
        content = repr(x.tolist()) if x.dtype.hasobject else x.tobytes()
        return x.dtype.str, x.shape, x.strides, x.flags.writeable, content
    if sp.issparse(x) and x.format == "dok":
        return x.shape, repr(x._dict)
    if sp.issparse(x):
        names = ("data", "indices", "indptr", "coords", "offsets", "rows")
        return (
            x.format,
            x.shape,
            {name: look(getattr(x, name)) for name in names if hasattr(x, name)},
        )
    if isinstance(x, list | tuple):
        return type(x), [look(item) for item in x]
    if isinstance(x, dict):
        return [(look(key), look(value)) for key, value in x.items()]
    if hasattr(x, "iloc"):
        x = x.to_frame() if x.ndim == 1 else x
        cells = [x.iloc[:, i].tolist() for i in range(x.shape[1])]
        return repr((x.index.tolist(), list(x.columns), list(x.dtypes), cells))
    if type(x).__module__.startswith("xarray"):
        return look(x.values), repr(x.attrs), repr(x.coords)
    return repr(x)


def check_sound(result):
    """An answer has a status, and factors that are finite; so is the completion, where
    something determines it.
    """
    assert isinstance(result.status, lrmc.Status)
    L, R = np.asarray(result.L), np.asarray(result.R)
    for F, n in zip((L, R), result.shape):
        assert F.shape == (n, result.rank)
        assert np.isfinite(F).all(), f"{result}: a factor is not finite"
    assert 1 <= result.rank <= min(result.shape)
    known = np.ones(result.shape, bool)
    known[result.undetermined_rows] = False
    known[:, result.undetermined_cols] = False
    X = np.asarray(result.low_rank())
    assert np.isfinite(X[known]).all(), f"{result}: the completion is not finite"
    assert np.isnan(X[~known]).all()
