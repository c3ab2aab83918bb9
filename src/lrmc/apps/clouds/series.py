"""A series of scenes in a DataArray of xarray: laid out as `remove_clouds` takes it, and the
answers in its form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._extras import optional
from ...weights import Array
from .classes import rule_of
from .lazy import Lazily
from .model import Cleared

DataArray: TypeAlias = Any  # of xarray, which need not be installed
Dataset: TypeAlias = Any
TIMES, BANDS = ("time", "t", "date"), ("band", "bands", "channel", "wavelength")
MEANING = "0 clear, 1 cloud or shadow, 2 nothing was observed"
SD_MEANING = "standard deviation of the value at the same place"


class LaidOut(NamedTuple):
    """A series of scenes in the order that `remove_clouds` takes."""

    data: Any  # time x bands x height x width; lazy if the array is
    like: DataArray  # the array with its dimensions in that order
    band: str | None
    dates: Array | None  # None if the time has no coordinate
    nodata: float | None


def laid_out(
    array: DataArray,
    time: str | None = None,
    band: str | None = None,
) -> LaidOut:
    """The array as time x bands x height x width."""
    when = dimension(array, time, TIMES) or str(array.dims[0])
    bands = dimension(array, band, BANDS)
    space = [d for d in array.dims if d not in (when, bands)]
    if len(space) != 2:
        raise ValueError(
            f"dimensions {', '.join(map(str, array.dims))}; time, bands, y and x are"
            " wanted"
        )
    like = array.transpose(when, *([] if bands is None else [bands]), *space)
    values = like.values if like.chunks is None else like.data
    data = values if bands is not None else values[:, None]
    dates = like[when].values if when in like.coords else None
    return LaidOut(data, like, bands, dates, nodata_of(array))


def answers(
    array: DataArray,
    laid: LaidOut,
    done: Cleared | Lazily,
) -> dict[str, DataArray]:
    """What was found, with the dimensions in the order of the array, and its coordinates and
    attributes.
    """
    clear = laid.like.copy(data=done.scenes.reshape(laid.like.shape))
    like = laid.like if laid.band is None else laid.like.isel({laid.band: 0}, drop=True)
    make = optional("xarray", "clouds").DataArray
    clouds = make(done.mask, like.coords, like.dims, attrs={"meaning": MEANING})
    parts = {"clear": clear, "clouds": clouds}
    if done.deviation is not None:
        spread = done.deviation.reshape(laid.like.shape)
        about = {"meaning": SD_MEANING}
        parts["deviation"] = make(spread, laid.like.coords, laid.like.dims, attrs=about)
    return {name: in_order_of(array, part) for name, part in parts.items()}


def in_order_of(array: DataArray, other: DataArray) -> DataArray:
    """The other with the dimensions that it has in the order of the array."""
    return other.transpose(*(d for d in array.dims if d in other.dims))


def together(dataset: Dataset, bands: Sequence[str]) -> DataArray:
    """Variables as the bands of one array, with the value that stands for nothing."""
    if not bands:
        raise ValueError("there is no variable to clear of clouds")
    array = dataset[list(bands)].to_array("band")
    nothing = {nodata_of(dataset[name]) for name in bands}
    if len(nothing) > 1:
        raise ValueError(f"the bands {', '.join(bands)} differ in their nodata value")
    value = nothing.pop()
    return array if value is None else array.assign_attrs(nodata=value)


def band_of(clear: DataArray, name: str, like: DataArray) -> DataArray:
    """One of the bands of an array, as the variable that it was."""
    own = clear.sel(band=name, drop=True).astype(like.dtype)
    own.attrs = dict(like.attrs)
    return in_order_of(like, own)


def believed(classes: DataArray) -> DataArray:
    """True where classes (by their name), flags or masks say that the ground is seen; lazy if they
    are.
    """
    apply = optional("xarray", "clouds").apply_ufunc
    rule = rule_of(classes.name)
    return ~apply(rule, classes, dask="parallelized", output_dtypes=[bool])


def dimension(
    array: DataArray,
    asked: str | None,
    usual: tuple[str, ...],
) -> str | None:
    """The dimension that was asked for, or else one with a usual name; None without."""
    if asked is None:
        return next((str(d) for d in array.dims if str(d).lower() in usual), None)
    if asked not in array.dims:
        raise ValueError(
            f"there is no dimension {asked!r}; there are"
            f" {', '.join(map(str, array.dims))}"
        )
    return asked


def nodata_of(array: DataArray) -> float | None:
    """The value that stands for nothing, where attributes or encoding name one."""
    for place in (array.attrs, array.encoding):
        for name in ("_FillValue", "nodata"):
            if place.get(name) is not None:
                return float(place[name])
    return None


def observed(values: Array, nodata: float | None) -> Array:
    """True where a value is neither NaN nor what stands for nothing."""
    there = (
        np.ones(values.shape, bool)
        if nodata is None or np.isnan(nodata)
        else values != nodata
    )
    return there & np.isfinite(values) if values.dtype.kind == "f" else there
