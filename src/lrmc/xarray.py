"""`import lrmc.xarray` gives every DataArray an accessor: `da.lrmc.decompose()` and `da.lrmc.remove_clouds()`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._extras import optional
from .apps.clouds.model import Cleared, Fill, remove_clouds
from .result import Status
from .solve import solve

xarray = optional("xarray", "clouds")
TIMES, BANDS = ("time", "t", "date"), ("band", "bands", "channel", "wavelength")


class LaidOut(NamedTuple):
    """A series of scenes in the order that `remove_clouds` takes."""

    data: Any  # time x bands x height x width
    like: Any  # the array with its dimensions in that order
    band: str | None
    dates: Any  # None if the time has no coordinate
    nodata: float | None


@xarray.register_dataarray_accessor("lrmc")
class Accessor:
    """What lrmc does with a DataArray: answers have its dimensions, coordinates and attributes."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def decompose(self, dim: str | None = None, rank: int | None = None, **options: Any) -> Any:
        """A Dataset of `low_rank` and `outliers` (0 where nothing stands out, NaN where nothing was observed).

        What rows and columns without an observation hold is not determined: NaN, also in `low_rank`.
        Columns of the matrix are the steps along `dim` (by default the time, else the first dimension), rows all else.
        The bands of a pixel share one weight, if there is a dimension of that name. NaN and nodata are missing.
        Options are those of `lrmc.solve`.
        """
        dim = self._dim(dim, TIMES) or str(self.array.dims[0])
        band = self._dim(None, BANDS)
        others = [d for d in self.array.dims if d not in (dim, band)]
        first = [] if band is None else [band]
        ordered = self.array.transpose(*first, *others, dim)
        Y = ordered.values.reshape(-1, ordered.shape[-1])
        nodata = self._nodata()
        mask = np.ones(Y.shape, bool) if nodata is None or np.isnan(nodata) else nodata != Y
        mask &= np.isfinite(Y) if Y.dtype.kind == "f" else True
        if band is not None:
            bands = ordered.sizes[band]
            options.setdefault("groups", np.tile(np.arange(len(Y) // bands), bands))
        result = solve(Y, rank, mask=None if mask.all() else mask, **options)
        parts = {"low_rank": result.low_rank(), "outliers": result.outliers()}
        return self._dataset(
            {name: ordered.copy(data=np.asarray(x).reshape(ordered.shape)) for name, x in parts.items()},
            result.rank,
            result.status,
        )

    def remove_clouds(
        self,
        seen: Any = None,
        *,
        time: str | None = None,
        band: str | None = None,
        fill: Fill = "clouds",
        **options: Any,
    ) -> Any:
        """A Dataset of `clear`, in the type of the data, and `clouds`: 0 clear, 1 cloud or shadow, 2 nothing observed.

        See `lrmc.apps.clouds.remove_clouds`. Dates are the coordinate of the time; `seen` has the dimensions of the
        array without its bands.
        """
        laid = self.laid_out(time, band)
        if seen is not None and hasattr(seen, "dims"):
            seen = seen.transpose(*(d for d in laid.like.dims if d != laid.band)).values
        options.setdefault("nodata", laid.nodata)
        done = remove_clouds(laid.data, seen, dates=laid.dates, fill=fill, **options)
        return self._dataset(self.answers(laid, done), done.ground.rank, done.status)

    def laid_out(self, time: str | None = None, band: str | None = None) -> LaidOut:
        """The array as time x bands x height x width."""
        when = self._dim(time, TIMES) or str(self.array.dims[0])
        bands = self._dim(band, BANDS)
        space = [d for d in self.array.dims if d not in (when, bands)]
        if len(space) != 2:
            raise ValueError(f"dimensions {', '.join(map(str, self.array.dims))}; time, bands, y and x are wanted")
        like = self.array.transpose(when, *([] if bands is None else [bands]), *space)
        data = like.values if bands is not None else like.values[:, None]
        return LaidOut(data, like, bands, like[when].values if when in like.coords else None, self._nodata())

    def answers(self, laid: LaidOut, done: Cleared) -> dict[str, Any]:
        """What was found, with the dimensions in their order, and the coordinates and attributes."""
        clear = laid.like.copy(data=done.scenes.reshape(laid.like.shape))
        like = laid.like if laid.band is None else laid.like.isel({laid.band: 0}, drop=True)
        about = {"meaning": "0 clear, 1 cloud or shadow, 2 nothing was observed"}
        clouds = xarray.DataArray(done.mask, like.coords, like.dims, attrs=about)
        parts = {"clear": clear, "clouds": clouds}
        return {name: x.transpose(*(d for d in self.array.dims if d in x.dims)) for name, x in parts.items()}

    def _dim(self, asked: str | None, usual: tuple[str, ...]) -> str | None:
        if asked is not None:
            if asked not in self.array.dims:
                raise ValueError(f"there is no dimension {asked!r}; there are {', '.join(map(str, self.array.dims))}")
            return asked
        return next((str(d) for d in self.array.dims if str(d).lower() in usual), None)

    def _nodata(self) -> float | None:
        for place in (self.array.attrs, self.array.encoding):
            for name in ("_FillValue", "nodata"):
                if place.get(name) is not None:
                    return float(place[name])
        return None

    def _dataset(self, parts: dict[str, Any], rank: int, status: Status) -> Any:
        ordered = {
            name: x.transpose(*(d for d in self.array.dims if d in x.dims)).rename(name) for name, x in parts.items()
        }
        return xarray.Dataset(ordered, attrs={"rank": rank, "status": str(status)})
