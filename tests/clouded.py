"""The series of scenes that tests of clouds share, made and cleared once."""

from functools import cache

import numpy as np
from made.landscape import NODATA, landscape

from lrmc.apps.clouds import model as clouds

RANK = 4
FEW = (10, 20, 24)  # dates, lines and pixels, where it is no matter what is shown


@cache
def clouded(T=16, height=36, width=44):
    """A series of which one date was seen by nobody, and one in part."""
    made = landscape(T, height, width)
    made.data[3] = NODATA
    made.data[5, :, :10, :10] = NODATA
    for part in (made.data, made.ground, made.clouds):
        part.setflags(write=False)
    return made


@cache
def cleared_once(*shape):
    """The same without clouds."""
    made = clouded(*shape)
    return clouds.remove_clouds(made.data, nodata=NODATA, dates=made.dates, rank=RANK)


def rmse(x, truth):
    """The root mean square of what differs."""
    return float(np.sqrt(np.mean((x.astype(float) - truth) ** 2)))
