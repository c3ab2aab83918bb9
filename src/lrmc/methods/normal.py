"""Rows of a table as draws of one normal distribution, found through gaps by expectation and
maximisation, and what the entries of a row say of each other under it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import _kernels
from ..weights import Array

ROUNDS = 8  # beginning at the low-rank fit, it moves by less than 1 % after 5
# relations that hold nearly exactly are found slowly, above all where gaps are alike (8 rounds left up
# to 3 times the error); of few noisy rows the first rounds are better than the last
TO_SETTLE = 30
MOST_ROWS = 4_000  # that the covariance is found from
# of the largest variance: what every column is given beside its own. With 1e-9, several sums that hold
# exactly left the inverse to rounding: entries were told up to 44 deviations off
TINY = 1e-6


class Normal(NamedTuple):
    """The distribution of a row."""

    mean: Array
    cov: Array


def normal_of(Y: Array, fit: Array, alone: int, rounds: int = ROUNDS) -> Normal:
    """The mean and covariance of rows with gaps (NaN), beginning with `fit` there.

    `alone` rows more are supposed to have been seen in which columns have nothing to do with each
    other: a covariance of few rows is drawn to its diagonal."""
    if len(Y) > MOST_ROWS:
        some = np.random.default_rng(0).choice(len(Y), MOST_ROWS, replace=False)
        Y, fit = Y[some], fit[some]
    Y = _kernels.ready(Y, np.float64)
    begin = _kernels.ready(np.where(np.isnan(Y), fit, Y), np.float64)
    mean, cov = np.empty(Y.shape[1]), np.empty((Y.shape[1], Y.shape[1]))
    _kernels.normal(
        Y,
        complete=begin,
        mean=mean,
        covariance=cov,
        rounds=rounds,
        tiny=TINY,
        alone=alone,
    )
    return Normal(mean, cov)


def told_by_others(Y: Array, normal: Normal) -> Array:
    """Every entry as the others of its row tell it; one that is there, as if it were missing."""
    Y = _kernels.ready(Y, np.float64)
    complete, told = np.empty_like(Y), np.empty_like(Y)
    mean = _kernels.ready(normal.mean, np.float64)
    precision = np.linalg.inv(normal.cov)
    _kernels.gaps(Y, mean=mean, precision=precision, complete=complete, told=told)
    return told
