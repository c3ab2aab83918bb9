"""Every way in which the same small matrix can be handed over. A new kind of input is one new line
in `inputs`; one that is stored in a new way is named in `storages` as well.

Values are whole numbers from 0 to 255, so that every type holds them exactly.
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pytest
import scipy.sparse as sp


@dataclass(frozen=True)
class Small:
    """A small problem: what is there, and which of it is observed."""

    values: np.ndarray  # float64
    mask: np.ndarray  # bool
    X: np.ndarray  # the low-rank part

    @property
    def nan(self):
        return np.where(self.mask, self.values, np.nan)


def small(n1=23, n2=37, p=0.6, rank=2, alpha=0.05, seed=0):
    """A low-rank matrix of whole numbers with gross outliers; every row and column has
    an observation.
    """
    rng = np.random.default_rng(seed)
    X = (rng.integers(1, 8, (n1, rank)) @ rng.integers(1, 8, (n2, rank)).T).astype(
        float
    )
    values = np.where(rng.random((n1, n2)) < alpha, rng.integers(150, 256, (n1, n2)), X)
    mask = rng.random((n1, n2)) < p
    mask[np.arange(max(n1, n2)) % n1, np.arange(max(n1, n2)) % n2] = True
    return Small(values, mask, X)


class Given(NamedTuple):
    """The arguments of as_observations."""

    Y: Any
    mask: Any = None


def memmap(s, folder):
    path = folder / f"{uuid4()}.dat"
    s.nan.tofile(path)
    return Given(np.memmap(path, float, "r", shape=s.values.shape))


def read_only(s, folder):
    Y = s.nan.copy()
    Y.flags.writeable = False
    return Given(Y)


def slice_of_larger(s, folder):
    large = np.full((2 * s.values.shape[0], 3 * s.values.shape[1]), 7.0)
    large[::2, ::3] = s.nan
    return Given(large[::2, ::3])


def rows_of_larger(s, folder):
    large = np.full((s.values.shape[0], s.values.shape[1] + 5), 7.0)
    large[:, 2:-3] = s.nan
    return Given(large[:, 2:-3])


def unsorted_duplicates(s, folder):
    """Each value in two parts, in random order within its row."""
    rows, cols = np.nonzero(s.mask)
    parts = np.random.default_rng(1).integers(0, 99, len(rows)).astype(float)
    values = np.concatenate([parts, s.values[rows, cols] - parts])
    rows, cols = np.tile(rows, 2), np.tile(cols, 2)
    order = np.random.default_rng(2).permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    indptr = np.searchsorted(rows[order], np.arange(len(s.values) + 1))
    return Given(
        sp.csr_array((values[order], cols[order], indptr), shape=s.values.shape)
    )


def sparse(s, kind=sp.coo_array):
    """Stored zeros stay: they are observations."""
    rows, cols = np.nonzero(s.mask)
    return kind(
        sp.coo_array((s.values[rows, cols], (rows, cols)), shape=s.values.shape)
    )


def dataframe(s, folder):
    return Given(pytest.importorskip("pandas").DataFrame(s.nan))


def xarray(s, folder):
    return Given(
        pytest.importorskip("xarray").DataArray(s.nan, dims=("time", "station"))
    )


def dask(s, folder):
    return Given(pytest.importorskip("dask.array").from_array(s.nan, chunks=(10, 20)))


def dask_by_columns(s, folder):
    chunks = (s.values.shape[0], 9)
    da = pytest.importorskip("dask.array")
    return Given(
        da.from_array(s.values.astype(np.uint8), chunks=chunks),
        da.from_array(s.mask, chunks=(7, 7)),
    )


def xarray_of_dask(s, folder):
    data = pytest.importorskip("dask.array").from_array(
        s.nan.astype(np.float32), chunks=(8, -1)
    )
    return Given(
        pytest.importorskip("xarray").DataArray(data, dims=("time", "station"))
    )


def dask_of_sparse(s, folder):
    """Blocks that are sparse matrices, as readers of logs make them."""
    da = pytest.importorskip("dask.array")
    Y = sparse(s, sp.csr_array)
    parts = [
        da.from_array(np.arange(i, min(i + 6, len(s.values))), chunks=-1)
        for i in range(0, len(s.values), 6)
    ]
    blocks = [
        part.map_blocks(
            lambda rows: Y[rows],
            dtype=float,
            chunks=((len(part),), (Y.shape[1],)),
            new_axis=1,
            meta=Y[:0],
        )
        for part in parts
    ]
    return Given(da.concatenate(blocks))


def on_disk(values, folder, chunks, **attributes):
    """A zarr array."""
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        folder / f"{uuid4()}.zarr",
        shape=values.shape,
        dtype=values.dtype,
        chunks=chunks,
    )
    array[:] = values
    array.attrs.update(attributes)
    return array


def stored(s, folder):
    return Given(on_disk(s.nan, folder, (10, 20)))


def in_blocks(make, memory=4000):
    """Read from disk block by block: so little memory that there are several blocks."""

    def present(s, folder):
        from lrmc import outofcore

        return Given(outofcore.blocks(*make(s, folder), memory=memory * len(s.values)))

    return present


def integers_with_fill(s, folder):
    values = np.where(s.mask, s.values, 999).astype(np.int16)
    return Given(on_disk(values, folder, (7, 40), _FillValue=999))


def hdf5(s, folder):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = folder / f"{uuid4()}.nc"
    encoding = {"Y": {"chunksizes": (5, s.values.shape[1])}}
    xr.Dataset({"Y": (("time", "station"), s.nan)}).to_netcdf(
        path, engine="h5netcdf", encoding=encoding
    )
    return Given(xr.open_dataset(path, engine="h5netcdf")["Y"])


def torch(s, folder):
    return Given(pytest.importorskip("torch").tensor(s.nan))


def tensor(function):
    """A tensor that torch reads, as it would on a GPU: `function` makes it (and a mask)
    of torch and a Small.
    """

    def present(s, folder):
        torch = pytest.importorskip("torch")
        # small matrices: threads would only wait for each other
        torch.set_num_threads(1)
        from lrmc.torch import as_torch_observations

        return Given(as_torch_observations(*function(torch, s)))

    return present


def sparse_tensor(kind):
    """Stored zeros stay here too."""

    def present(s, folder):
        torch, Y = pytest.importorskip("torch"), sparse(s, kind)
        if kind is sp.coo_array:
            return Given(
                torch.sparse_coo_tensor(
                    np.stack(Y.coords), Y.data, Y.shape, check_invariants=True
                )
            )
        make = (
            torch.sparse_csr_tensor if kind is sp.csr_array else torch.sparse_csc_tensor
        )
        with warnings.catch_warnings():  # torch says that its CSR is new
            warnings.simplefilter("ignore", UserWarning)
            parts = (torch.tensor(x) for x in (Y.indptr, Y.indices, Y.data))
            return Given(make(*parts, Y.shape, check_invariants=True))

    return present


def typed(dtype):
    return lambda s, folder: Given(s.values.astype(dtype), s.mask)


inputs = [
    ("NaN", lambda s, folder: Given(s.nan)),
    ("Fortran order", lambda s, folder: Given(np.asfortranarray(s.nan))),
    ("masked array", lambda s, folder: Given(np.ma.array(s.values, mask=~s.mask))),
    (
        "masked array, Fortran order",
        lambda s, folder: Given(np.ma.array(np.asfortranarray(s.values), mask=~s.mask)),
    ),
    (
        "masked array of garbage",
        lambda s, folder: Given(
            np.ma.array(np.where(s.mask, s.values, np.inf), mask=~s.mask)
        ),
    ),
    ("mask", lambda s, folder: Given(s.values, s.mask)),
    ("mask of integers", lambda s, folder: Given(s.values, s.mask.astype(np.int32))),
    (
        "mask, Fortran order",
        lambda s, folder: Given(np.asfortranarray(s.values), s.mask),
    ),
    (
        "mask over garbage",
        lambda s, folder: Given(
            np.where(s.mask, s.values, np.inf), np.asfortranarray(s.mask)
        ),
    ),
    ("mask, sparse", lambda s, folder: Given(s.values, sp.csr_array(s.mask))),
    ("CSR", lambda s, folder: Given(sparse(s, sp.csr_array))),
    ("CSC", lambda s, folder: Given(sparse(s, sp.csc_array))),
    ("COO", lambda s, folder: Given(sparse(s))),
    ("CSR matrix", lambda s, folder: Given(sparse(s, sp.csr_matrix))),
    (
        "CSR, float32",
        lambda s, folder: Given(sparse(s, sp.csr_array).astype(np.float32)),
    ),
    ("CSR, uint8", lambda s, folder: Given(sparse(s, sp.csr_array).astype(np.uint8))),
    ("CSC, int16", lambda s, folder: Given(sparse(s, sp.csc_array).astype(np.int16))),
    ("CSR, unsorted with duplicates", unsorted_duplicates),
    ("memmap", memmap),
    ("read-only", read_only),
    ("slice with steps", slice_of_larger),
    ("rows of a larger array", rows_of_larger),
    ("reversed", lambda s, folder: Given(s.nan[::-1, ::-1].copy()[::-1, ::-1])),
    ("rows reversed", lambda s, folder: Given(s.nan[::-1].copy()[::-1])),
    ("big-endian", lambda s, folder: Given(s.nan.astype(">f8"))),
    ("float32", lambda s, folder: Given(s.nan.astype(np.float32))),
    ("float16", lambda s, folder: Given(s.nan.astype(np.float16))),
    *(
        (np.dtype(t).name, typed(t))
        for t in (np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64)
    ),
    (
        "uint8, Fortran order",
        lambda s, folder: Given(np.asfortranarray(s.values.astype(np.uint8)), s.mask),
    ),
    ("uint16, big-endian", typed(">u2")),
    ("list", lambda s, folder: Given(s.nan.tolist())),
    ("DataFrame", dataframe),
    ("DataArray", xarray),
    ("dask", dask),
    ("dask, uint8 and mask, by columns", dask_by_columns),
    ("dask of sparse blocks", dask_of_sparse),
    ("DataArray of dask", xarray_of_dask),
    ("zarr", stored),
    (
        "blocks of zarr",
        in_blocks(lambda s, folder: Given(on_disk(s.nan, folder, (6, 40))), 400),
    ),
    (
        "blocks of zarr, by columns",
        in_blocks(lambda s, folder: Given(on_disk(s.nan, folder, (40, 6))), 400),
    ),
    (
        "blocks of zarr, in a grid",
        in_blocks(
            lambda s, folder: Given(on_disk(s.nan.astype("f4"), folder, (5, 9))), 400
        ),
    ),
    ("blocks of integers with a fill value", in_blocks(integers_with_fill, 400)),
    (
        "blocks of uint8 and mask",
        in_blocks(
            lambda s, folder: Given(
                on_disk(s.values.astype(np.uint8), folder, (4, 40)),
                on_disk(s.mask, folder, (9, 40)),
            ),
            100,
        ),
    ),
    ("blocks of a memmap", in_blocks(memmap, 400)),
    ("blocks of HDF5", in_blocks(hdf5, 400)),
    ("torch", torch),
    ("torch, COO", sparse_tensor(sp.coo_array)),
    ("torch, CSR", sparse_tensor(sp.csr_array)),
    ("torch, CSC", sparse_tensor(sp.csc_array)),
    ("tensor", tensor(lambda torch, s: (torch.tensor(s.nan),))),
    (
        "tensor, by columns",
        tensor(lambda torch, s: (torch.tensor(s.nan.T.copy()).T, torch.tensor(s.mask))),
    ),
    (
        "tensor, float32",
        tensor(lambda torch, s: (torch.tensor(s.nan, dtype=torch.float32),)),
    ),
    (
        "tensor, bfloat16",
        tensor(lambda torch, s: (torch.tensor(s.nan, dtype=torch.bfloat16),)),
    ),
    (
        "tensor, uint8 and mask",
        tensor(lambda torch, s: (torch.tensor(s.values).to(torch.uint8), s.mask)),
    ),
    (
        "tensor, int64 and mask",
        tensor(lambda torch, s: (torch.tensor(s.values).long(), torch.tensor(s.mask))),
    ),
    (
        "tensor, mask over garbage",
        tensor(
            lambda torch, s: (torch.tensor(np.where(s.mask, s.nan, np.inf)), s.mask)
        ),
    ),
    (
        "tensor, slice with steps",
        tensor(lambda torch, s: (torch.tensor(np.repeat(s.nan, 3, axis=1))[:, ::3],)),
    ),
]

# One for each state behind the door: an input, and the fraction observed, which decides between
# dense and compressed.
storages = [
    ("NaN", 0.7),
    ("NaN", 0.12),  # compressed
    ("Fortran order", 1.0),
    ("mask", 0.6),
    ("float32", 0.6),
    ("uint8", 0.7),
    ("uint8, Fortran order", 0.12),  # compressed
    ("CSR", 0.35),
    ("CSC", 0.35),
    ("CSC, int16", 0.7),  # expanded
    ("dask", 0.6),
    ("dask, uint8 and mask, by columns", 0.35),
    ("dask of sparse blocks", 0.12),
    ("blocks of zarr", 0.6),
    ("blocks of zarr, by columns", 1.0),
    ("blocks of uint8 and mask", 0.35),
    ("tensor", 0.7),
    ("tensor, uint8 and mask", 0.35),
]

# for the door
every_input = pytest.mark.parametrize(
    "present", list(dict(inputs).values()), ids=list(dict(inputs))
)
every_storage = pytest.mark.parametrize(  # for all behind it
    ("present", "p"),
    [
        pytest.param(dict(inputs)[name], p, id=f"{name}, {p:.0%}")
        for name, p in storages
    ],
)
