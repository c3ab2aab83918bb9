"""The series of scenes that tests of clouds share, made and cleared once."""

from functools import cache

import numpy as np
from made.landscape import NODATA, landscape

from lrmc.apps.clouds import model as clouds

RANK = 4


@cache
def clouded():
    """Sixteen dates; one was seen by nobody, and one in part."""
    made = landscape(16, 36, 44)
    made.data[3] = NODATA
    made.data[5, :, :10, :10] = NODATA
    for part in (made.data, made.ground, made.clouds):
        part.setflags(write=False)
    return made


@cache
def cleared_once():
    """The same without clouds."""
    made = clouded()
    return clouds.remove_clouds(made.data, nodata=NODATA, dates=made.dates, rank=RANK)


def rmse(x, truth):
    """The root mean square of what differs."""
    return float(np.sqrt(np.mean((x.astype(float) - truth) ** 2)))
