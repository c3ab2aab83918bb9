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
    """What lrmc does with a DataArray: answers have its dimensions, coordinates and attributes."""

    def __init__(self, array: DataArray) -> None:
        self.array = array

    def decompose(
        self, dim: str | None = None, rank: int | None = None, **options: Any
    ) -> Dataset:
        """A Dataset of `low_rank` and `outliers` (0 where nothing stands out, NaN where nothing was
        observed).

        What rows and columns without an observation hold is not determined: NaN, also in
        `low_rank`. Columns of the matrix are the steps along `dim` (by default the time, else the
        first dimension), rows all else. The bands of a pixel share one weight, if there is a
        dimension of that name. NaN and nodata are missing. Options are those of `lrmc.solve`.
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
        """A Dataset of `clear`, in the type of the data, and `clouds`: 0 clear, 1 cloud or shadow,
        2 nothing observed.

        See `lrmc.apps.clouds.remove_clouds`. Dates are the coordinate of the time; `seen` has the
        dimensions of the array without its bands.
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
        self, parts: dict[str, DataArray], rank: int, status: Status
    ) -> Dataset:
        ordered = {
            name: in_order_of(self.array, part).rename(name)
            for name, part in parts.items()
        }
        return xarray.Dataset(ordered, attrs={"rank": rank, "status": str(status)})
