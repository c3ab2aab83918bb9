"""Strange matrices, masks and arguments, drawn at random: every kind of array that there
is, and some damage.
"""

import datetime
import decimal
import fractions
import warnings

import numpy as np
import scipy.sparse as sp

DTYPES = (
    *(
        "?",
        "b",
        "B",
        "h",
        "H",
        "i",
        "I",
        "l",
        "L",
        "q",
        "Q",
        "e",
        "f",
        "d",
        "g",
        "F",
        "D",
        "G",
    ),
    *(">f8", ">f4", ">i2", ">u2", ">i4", "S3", "U3", "V4", "O", "M8[s]", "m8[D]"),
    *([("a", "f8"), ("b", "i4")], [("a", "f8", (2,))]),
)
NUMBERS = ("d", "d", "d", "f", "h", "B", "H", "i", ">f8")
HUGE, TINY = np.finfo(float).max, 5e-324
VALUES = (0.0, -0.0, 1.0, 1e-9, 1e6, 1e9, np.nan, np.inf, -np.inf)
# far from all others
EXTREMES = (HUGE, -HUGE, TINY, 1e-310, 1e-300, 1e-30, 1e30, -1e140, 1e150, 1e300)
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


def pick(rng, *some):
    return some[rng.integers(len(some))]


def shape_of(rng, least=0):
    if rng.random() < 0.15:
        return tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 7)))
    return tuple(int(n) for n in rng.integers(least, 9, 2))


def numbers(rng, shape, extremes=False):
    """Floats of some pattern, with gaps and strange values here and there."""
    if len(shape) == 2 and rng.random() < 0.5:
        X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    else:
        X = rng.integers(-3, 4, shape).astype(float)
    X = np.array(X * pick(rng, 1, 1, 1, 0) + pick(rng, 0, 0, 0, 1, 1e9))
    for values, share in (
        (VALUES, 0.3),
        ((np.nan,), 0.5),
        (EXTREMES if extremes else (7.0,), 0.3),
    ):
        if rng.random() < share and X.size:
            X[rng.random(shape) < pick(rng, 0.05, 0.3, 1.0)] = pick(rng, *values)
    return X if extremes else np.asarray(X * pick(rng, 1, 1, 1, 1e-25, 1e25))


def cast(X, dtype):
    """The same array in another type, however little sense it makes."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if np.dtype(dtype).kind in "VMm" or not isinstance(dtype, str):
            return np.zeros(X.shape, dtype)
        return X.astype(dtype)


def laid_out(rng, X):
    """The same numbers otherwise in memory."""
    how = rng.integers(9)
    if how == 0:
        return np.asfortranarray(X)
    if how == 1 and X.ndim:
        return X[::-1].copy()[::-1]
    if how == 2 and X.ndim == 2:
        return np.repeat(np.repeat(X, 2, 0), 3, 1)[::2, ::3]
    if how == 3 and X.ndim == 2:
        return X[:, ::-1].copy()[:, ::-1]
    if how == 4 and X.ndim and len(X):
        return np.broadcast_to(X[:1], X.shape)
    if how == 5:
        X = np.array(X)
        X.flags.writeable = False
    if how == 6 and X.ndim == 2 and not X.dtype.hasobject:  # not aligned
        raw = np.empty(X.nbytes + 1, np.uint8)
        odd = raw[1:].view(X.dtype).reshape(X.shape)
        odd[...] = X
        return odd
    return X


def array(rng):
    return laid_out(
        rng, cast(numbers(rng, shape_of(rng)), pick(rng, *NUMBERS, *NUMBERS, *DTYPES))
    )


def masked(rng):
    X = array(rng)
    if X.dtype.names:
        return np.ma.array(X)
    mask = pick(rng, np.ma.nomask, rng.random(X.shape) < 0.3, np.ones(X.shape, bool))
    return np.ma.array(X, mask=mask, hard_mask=bool(rng.integers(2)), shrink=False)


def nested(rng):
    X = numbers(rng, shape_of(rng))
    rows = X.tolist()
    if X.ndim == 2 and len(X) and rng.random() < 0.4:
        odd = (
            "a",
            None,
            10**30,
            1j,
            [1.0],
            {},
            datetime.date(2020, 1, 1),
            decimal.Decimal(1),
            fractions.Fraction(1, 3),
        )
        rows[rng.integers(len(rows))] = pick(
            rng, pick(rng, *odd), [pick(rng, *odd)] * X.shape[1]
        )
    return tuple(rows) if X.ndim and rng.random() < 0.2 else rows


THINGS = (
    None,
    3,
    "matrix",
    b"bytes",
    {},
    {"a": [1.0]},
    set(),
    range(4),
    object(),
    int,
    np.float64(2),
    iter([[1.0]]),
)


def thing(rng):
    """No matrix at all."""
    return pick(
        rng,
        *THINGS,
        lambda: 0,
        [[1.0, 2.0], [3.0]],
        [],
        [[]],
        memoryview(b"12345678"),
        ...,
    )


class Posing:
    """Looks like an array on disk, and is none."""

    def __init__(self, rng):
        self.shape, self.ndim = (
            pick(rng, (3, 3), (0, 3), (3,), (-1, 3), None, (2.5, 3)),
            2,
        )
        self.dtype = pick(rng, np.dtype(float), "f8", None)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("nothing to read")


def sparse(rng):
    X = np.nan_to_num(
        cast(numbers(rng, shape_of(rng)), pick(rng, *NUMBERS, "D", "?")),
        posinf=1,
        neginf=-1,
    )
    if X.ndim != 2 or 0 in X.shape or X.dtype.str[0] == ">":
        X = np.atleast_2d(np.ones(pick(rng, 3, (3, 4))))
    Y = sp.coo_array(X).asformat(pick(rng, *FORMATS))
    return damaged(rng, Y) if rng.random() < 0.6 else Y


def damaged(rng, Y):
    """A sparse matrix whose arrays do not fit together, or hold what they must not."""
    if Y.format == "dok":
        Y._dict[pick(rng, (-1, 0), (0, 100), (2**40, 0), (0,), ("a", 0), (0.5, 0))] = (
            pick(rng, 1.0, "x", None)
        )
        return Y
    if Y.format == "lil":
        part, odd = (
            pick(rng, Y.rows, Y.data),
            ([0] * 9, [100], [-1], ["x"], [None], [[1]], [0.5], [2**70], None, 3),
        )
        part[rng.integers(len(part))] = pick(rng, *odd)
        return Y
    names = [
        name
        for name in ("indices", "indptr", "offsets", "row", "col", "data")
        if hasattr(Y, name)
    ]
    name = pick(rng, *names)
    part = np.array(getattr(Y, name))
    how = rng.integers(5)
    if how == 0 and part.size and part.dtype != object:
        wrong = np.int64(pick(rng, -1, -(2**31), 2**31 - 1, 100, 0, 3))
        part.flat[rng.integers(part.size)] = wrong.astype(part.dtype)
    elif how == 1 and part.ndim:
        part = part[: rng.integers(0, len(part) + 1)]
    elif how == 2 and part.dtype != object:
        part = part.astype(pick(rng, float, "i8", "u1", "U3", complex, object))
    elif how == 3:
        part = part[None]
    else:
        part = np.concatenate([part, part])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            setattr(Y, name, part)
    except (ValueError, AttributeError):  # scipy notices some
        Y._shape = pick(rng, (2, 2), (0, 3), (100, 100), (3,), (-1, 4))
    return Y


def frame(rng):
    import pandas

    n = int(rng.integers(0, 7))
    columns = [column(rng, n, pandas) for _ in range(rng.integers(0, 6))]
    names = [pick(rng, "a", "b", "c", 1, None, "", ("x", 1), 2.5) for _ in columns]
    table = (
        pandas.concat(columns, axis=1) if columns else pandas.DataFrame(index=range(n))
    )
    if columns and rng.random() < 0.2:
        table.columns = pandas.MultiIndex.from_arrays(
            [[str(x) for x in names], range(len(names))]
        )
    elif columns:
        table.columns = pandas.Index(names, dtype=object)
    if rng.random() < 0.2:
        table.index = pandas.MultiIndex.from_arrays([range(n), range(n)])
    return table if rng.random() < 0.9 or not columns else columns[0]


def column(rng, n, pandas):
    X = numbers(rng, (n,))
    whole = rng.integers(0, 5, n)
    makes = (
        *(
            lambda: X,
            lambda: X.astype("f4"),
            lambda: whole,
            lambda: whole.astype("u1"),
            lambda: whole > 2,
        )
        * 3,
        lambda: pandas.array(whole, "Int64"),
        lambda: pandas.array(np.where(whole > 2, None, whole), "Int16"),
        lambda: pandas.array([None, 1.5, 2.5, 3.5, 4.5, 5.5][:n], "Float64"),
        lambda: pandas.array([None, True, False, True, False, True][:n], "boolean"),
        lambda: pandas.Categorical(whole),
        lambda: pandas.Categorical(["x"] * n),
        lambda: pandas.date_range("2024", periods=n),
        lambda: pandas.date_range("2024", periods=n, tz="UTC"),
        lambda: pandas.to_timedelta(whole, "s"),
        lambda: pandas.period_range("2024", periods=n),
        lambda: pandas.interval_range(0, n) if n else [],
        lambda: pandas.array(["x"] * n, "string"),
        lambda: ["x"] * n,
        lambda: pandas.Series(
            [pick(rng, 1, 2.5, None, "x", True, [1]) for _ in range(n)], dtype=object
        ),
        lambda: pandas.Series(
            [decimal.Decimal(1), None, 10**40, 1.5, 2, True][:n], dtype=object
        ),
        lambda: pandas.Series([decimal.Decimal("sNaN")] * n, dtype=object),
        lambda: whole * 1j,
        lambda: pandas.arrays.SparseArray(X),
        lambda: pandas.array(whole, "int64[pyarrow]"),
        lambda: pandas.array([None, 1.5, 2.5, 3.5, 4.5, 5.5][:n], "double[pyarrow]"),
        lambda: pandas.array(["x"] * n, "string[pyarrow]"),
    )
    return pandas.Series(pick(rng, *makes)())


def tensor(rng):
    import torch

    X = numbers(rng, shape_of(rng))
    Y = torch.from_numpy(np.array(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        change = pick(
            rng,
            *(
                lambda: Y,
                lambda: Y.float(),
                lambda: Y.half(),
                lambda: Y.bfloat16(),
                lambda: Y.to(torch.complex64),
            ),
            *(
                lambda: Y.bool(),
                lambda: Y.T if Y.ndim == 2 else Y,
                lambda: Y.requires_grad_(),
                lambda: Y.to("meta"),
            ),
            *(
                lambda: Y.to_sparse(),
                lambda: Y.to_sparse_csr(),
                lambda: Y.to_sparse_csc(),
                lambda: Y.to(torch.uint8),
            ),
            *(
                lambda: Y.to(torch.float8_e5m2),
                lambda: torch.quantize_per_tensor(Y.float(), 0.1, 0, torch.quint8),
            ),
        )
        try:
            return change()
        except (RuntimeError, IndexError):  # torch cannot make this one
            return Y


def data_array(rng):
    import xarray

    X = array(rng)
    if X.dtype.names:
        X = numbers(rng, (3, 4))
    attributes = pick(
        rng,
        {},
        {"_FillValue": 1.0},
        {"nodata": "none"},
        {"missing_value": [1, 2]},
        {"_FillValue": None},
    )
    made = xarray.DataArray(X, dims=[f"d{i}" for i in range(X.ndim)], attrs=attributes)
    return made if rng.random() < 0.9 else made.to_dataset(name="Y")


def dask_array(rng):
    from dask import array as da

    X = cast(numbers(rng, shape_of(rng)), pick(rng, *NUMBERS, "D", "U3", "O", "M8[s]"))
    sizes = pick(rng, -1, 2, 3)
    Y = da.from_array(X, chunks=sizes)
    if rng.random() < 0.2 and Y.ndim == 2 and Y.shape[1]:
        # of a length that nobody knows
        return Y[da.from_array(rng.random(len(X)) < 0.8, chunks=Y.chunks[0])]
    return Y


def memmap(rng, folder):
    X = numbers(rng, shape_of(rng, least=1))
    X = X if X.size else np.ones((2, 3))
    path = folder / "matrix.raw"
    path.unlink(missing_ok=True)
    X.tofile(path)
    return np.memmap(path, X.dtype, pick(rng, "r", "c", "r+"), shape=X.shape)


def zarr_array(rng, folder):
    import zarr

    X = numbers(rng, shape_of(rng))
    chunks = tuple(max(1, n // 2) for n in X.shape)
    Y = zarr.create_array({}, shape=X.shape, dtype=X.dtype, chunks=chunks)
    if X.size:
        Y[...] = X
    return Y


def plain(rng, extremes=False):
    """A matrix of numbers with gaps: what most have."""
    X = numbers(rng, tuple(int(n) for n in rng.integers(2, 12, 2)), extremes)
    return laid_out(rng, cast(np.where(np.isinf(X), 1, X), pick(rng, "d", "f")))


def a_mask(rng, shape):
    """For a matrix of this shape, most of them."""
    shape = shape if rng.random() < 0.9 else shape_of(rng)
    mask = rng.random(shape) < 0.8
    whole = cast(np.asarray(mask, float), pick(rng, "?", "?", "?", *DTYPES))
    ways = (
        lambda: laid_out(rng, whole),
        whole.tolist,
        lambda: np.ma.array(mask),
        lambda: sp.csr_array(mask),
    )
    if len(shape) == 2 and 0 not in shape and rng.random() < 0.3:
        return damaged(rng, sp.csr_array(mask)) if rng.random() < 0.3 else ways[3]()
    return ways[rng.integers(3)]() if rng.random() < 0.95 else thing(rng)


def arguments(rng, shape):
    """Of `solve`: most as they should be, one or two of any kind."""
    n1, n2 = shape if len(shape) == 2 else (3, 3)
    import lrmc
    from lrmc.schedule import Tuning

    odd = (
        None,
        True,
        -1,
        0,
        1.5,
        "x",
        "",
        [],
        (1,),
        np.nan,
        np.inf,
        10**400,
        np.ones(3),
        np.array(2),
        object(),
        1j,
    )
    odd += (
        b"x",
        np.datetime64("2020"),
        decimal.Decimal(2),
        fractions.Fraction(1, 2),
        np.array([[1]]),
        2**63,
        {},
    )
    good = {
        "rank": (None, 1, 2, np.int64(1)),
        "method": ("auto", "closed_loop", "lrmc", "scaled_gd", "gd"),
        "schedule": (
            None,
            "geometric",
            "nearest",
            Tuning(0.1),
            Tuning(0),
            lrmc.Schedule((1.0,), (), (0.5, 1.0)),
        ),
        "loss": ("auto", "mixture", "cauchy", "huber", "squares"),
        "outliers": ("both", "positive", "negative"),
        "groups": (
            None,
            np.arange(n1) // 2,
            ["a"] * n1,
            [None] * n1,
            np.zeros(n1, "U1"),
            list(range(n1)),
        ),
        "row_noise": (
            None,
            np.ones(n1),
            10.0 ** rng.integers(-3, 4, n1),
            np.full(n1, 1e-300),
            np.full(n1, 1e300),
        ),
        "col_noise": (
            None,
            np.ones(n2),
            [1] * n2,
            np.full(n2, 5e-324),
            np.linspace(0.1, 1, n2),
        ),
        "start": ("spectral", "cur"),
        "tol": (1e-6, 1e-300, 1.0, 1e300, np.float32(0.1)),
        "seed": (0, 1, 2**200),
        "threads": (None, 1, 2, 10**9),
    }
    chosen = {
        name: pick(rng, *values) for name, values in good.items() if rng.random() < 0.15
    }
    if rng.random() < 0.3:
        chosen[pick(rng, *good)] = pick(rng, *odd)
    return chosen | {
        "max_iter": pick(rng, 1, 3, 10, 10, 10, *odd) if rng.random() < 0.2 else 5
    }


def rank_and_passes(rng):
    """Arguments of `solve` that keep it short."""
    return {
        "rank": pick(rng, None, None, 1),
        "max_iter": int(rng.integers(1, 8)),
        "threads": 1,
    }
