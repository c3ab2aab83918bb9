"""`import lrmc.xarray` gives every DataArray an accessor, `da.lrmc.decompose()` and
`da.lrmc.remove_clouds()`, and every Dataset of bands `ds.lrmc.remove_clouds()`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._extras import optional
from .apps.clouds.classes import RULES
from .apps.clouds.lazy import remove_clouds_lazily
from .apps.clouds.model import Fill, remove_clouds
from .apps.clouds.series import (
    BANDS,
    TIMES,
    DataArray,
    Dataset,
    answers,
    band_of,
    believed,
    dimension,
    in_order_of,
    laid_out,
    nodata_of,
    observed,
    together,
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

        Of an array in chunks (Dask), only what is learned from is read at once: the answers are in
        chunks, too, and are made when they are computed or written.

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
            observed; with `uncertainty=True`, `deviation`.
        """
        laid = laid_out(self.array, time, band)
        lazy = self.array.chunks is not None
        if seen is not None and hasattr(seen, "dims"):
            seen = seen.transpose(*(d for d in laid.like.dims if d != laid.band))
            seen = seen.data if lazy else seen.values
        options.setdefault("nodata", laid.nodata)
        remove = remove_clouds_lazily if lazy else remove_clouds
        done = remove(laid.data, seen, dates=laid.dates, fill=fill, **options)
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


@xarray.register_dataset_accessor("lrmc")
class DatasetAccessor:
    """Methods of every Dataset as `ds.lrmc`, after `import lrmc.xarray`.

    Parameters
    ----------
    dataset : Dataset
        Given by xarray: a variable for each band, as odc-stac loads them.

    Examples
    --------
    >>> import numpy as np, xarray
    >>> import lrmc.xarray
    >>> rng = np.random.default_rng(0)
    >>> ground = rng.uniform(500, 2000, (2, 24, 24))
    >>> scenes = ground * rng.uniform(0.9, 1.1, (10, 1, 1, 1))
    >>> scenes[4, :, 5:15, 5:15] = 8000  # a cloud
    >>> dims = ("time", "y", "x")
    >>> ds = xarray.Dataset({"red": (dims, scenes[:, 0]), "nir": (dims, scenes[:, 1])})
    >>> done = ds.lrmc.remove_clouds()
    >>> list(done), int(done.clouds[4, 10, 10])
    (['red', 'nir', 'clouds'], 1)
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def remove_clouds(self, masks: str | None = None, **options: Any) -> Dataset:
        """Remove clouds from a series of scenes with a variable for each band.

        Parameters
        ----------
        masks : str, optional
            The variable that says what may be believed: scl (Sentinel-2), qa_pixel (Landsat), or any
            other, whose 0 is clear. One of the first two is taken if it is there.
        **options
            Those of `DataArray.lrmc.remove_clouds`.

        Returns
        -------
        Dataset
            The bands, in their type, and `clouds`; with `uncertainty=True`, NAME_sd of each band.
            Lazy if the bands are.
        """
        names = {str(name).lower(): str(name) for name in self.dataset.data_vars}
        asked = masks or next((name for name in names if name in RULES), None)
        if asked is not None and asked.lower() not in names:
            raise ValueError(
                f"there is no variable {asked!r} with masks; there are"
                f" {', '.join(names.values())}"
            )
        known = None if asked is None else names[asked.lower()]
        bands = [name for name in names.values() if name != known]
        array = together(self.dataset, bands)
        if known is not None:
            options["seen"] = believed(self.dataset[known])
        done = array.lrmc.remove_clouds(band="band", **options)
        parts = {name: band_of(done.clear, name, self.dataset[name]) for name in bands}
        parts["clouds"] = done.clouds
        if "deviation" in done:
            parts |= {
                f"{name}_sd": done.deviation.sel(band=name, drop=True) for name in bands
            }
        return xarray.Dataset(parts, attrs=self.dataset.attrs | done.attrs)
