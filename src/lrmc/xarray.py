"""`import lrmc.xarray` gives every DataArray an accessor: `da.lrmc.decompose()` and
`da.lrmc.remove_clouds()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._extras import optional
from .apps.clouds.model import Fill, remove_clouds
from .apps.clouds.series import (
    BANDS,
    TIMES,
    DataArray,
    Dataset,
    answers,
    dimension,
    in_order_of,
    laid_out,
    nodata_of,
    observed,
)
from .result import Status
from .solve import solve

xarray = optional("xarray", "clouds")


@xarray.register_dataarray_accessor("lrmc")
class Accessor:
    """Methods of every DataArray as `da.lrmc`, after `import lrmc.xarray`.

    Answers have its dimensions, coordinates and attributes.

    Parameters
    ----------
    array : DataArray
        Given by xarray.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> import lrmc.xarray
    >>> rng = np.random.default_rng(0)
    >>> values = rng.uniform(1, 2, (30, 1, 8)) * rng.uniform(1, 2, (1, 6, 8))
    >>> da = xarray.DataArray(values, dims=("time", "y", "x"))
    >>> sorted(da.lrmc.decompose())
    ['low_rank', 'outliers']
    """

    def __init__(self, array: DataArray) -> None:
        self.array = array

    def decompose(
        self,
        dim: str | None = None,
        rank: int | None = None,
        **options: Any,
    ) -> Dataset:
        """Separate the array into a low-rank part and outliers.

        Columns of the matrix are the steps along `dim`, rows all else. The bands of a pixel share
        one weight, if there is a dimension of that name. NaN and nodata are missing.

        Parameters
        ----------
        dim : str, optional
            The dimension of the columns; the time, else the first one, if not given.
        rank : int, optional
            Rank of the model; found if not given.
        **options
            Those of `lrmc.solve`, such as `verbose=True`.

        Returns
        -------
        Dataset
            `low_rank` (NaN where it is not determined) and `outliers` (0 where nothing stands out,
            NaN where nothing was observed).
        """
        dim = dimension(self.array, dim, TIMES) or str(self.array.dims[0])
        band = dimension(self.array, None, BANDS)
        others = [d for d in self.array.dims if d not in (dim, band)]
        first = [] if band is None else [band]
        ordered = self.array.transpose(*first, *others, dim)
        Y = ordered.values.reshape(-1, ordered.shape[-1])
        mask = observed(Y, nodata_of(self.array))
        if band is not None:
            bands = ordered.sizes[band]
            options.setdefault("groups", np.tile(np.arange(len(Y) // bands), bands))
        options.setdefault("time", None)
        result = solve(Y, rank, mask=None if mask.all() else mask, **options)
        found = {
            "low_rank": result.low_rank(),
            "outliers": np.asarray(result.outliers()),
        }
        parts = {
            name: ordered.copy(data=x.reshape(ordered.shape))
            for name, x in found.items()
        }
        return self._dataset(parts, result.rank, result.status)

    def remove_clouds(
        self,
        seen: DataArray | None = None,
        *,
        time: str | None = None,
        band: str | None = None,
        fill: Fill = "clouds",
        **options: Any,
    ) -> Dataset:
        """Remove clouds from a series of scenes; dates are the coordinate of the time.

        Parameters
        ----------
        seen : DataArray of bool, optional
            True where a pixel may be believed; it has the dimensions of the array without its
            bands.
        time, band : str, optional
            Names of these dimensions, if they are not the usual ones.
        fill : {"clouds", "all"}, default "clouds"
            As for `lrmc.apps.clouds.remove_clouds`.
        **options
            Others of `lrmc.apps.clouds.remove_clouds`, such as `progress`.

        Returns
        -------
        Dataset
            `clear`, in the type of the data, and `clouds`: 0 clear, 1 cloud or shadow, 2 nothing
            observed.
        """
        laid = laid_out(self.array, time, band)
        if seen is not None and hasattr(seen, "dims"):
            seen = seen.transpose(*(d for d in laid.like.dims if d != laid.band)).values
        options.setdefault("nodata", laid.nodata)
        done = remove_clouds(laid.data, seen, dates=laid.dates, fill=fill, **options)
        return self._dataset(
            answers(self.array, laid, done), done.ground.rank, done.status
        )

    def _dataset(
        self,
        parts: dict[str, DataArray],
        rank: int,
        status: Status,
    ) -> Dataset:
        ordered = {
            name: in_order_of(self.array, part).rename(name)
            for name, part in parts.items()
        }
        return xarray.Dataset(ordered, attrs={"rank": rank, "status": str(status)})
