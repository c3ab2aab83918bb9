"""Columns of dates in files."""

import pandas as pd
import pytest

from lrmc.complete.dates import _read

FORMATS = (
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M %p",
    "%Y-%m-%dT%H:%M:%S",
)


@pytest.mark.parametrize("form", FORMATS)
def test_days_and_months_are_not_exchanged(form):
    days = pd.date_range("2024-02-01", periods=60, freq="D")
    read = _read(pd.Series(days.strftime(form), dtype=object), guess=False)
    assert (read == days).all()


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M%z"])
@pytest.mark.parametrize("first", ["2024-03-29", "2024-10-25"])
def test_times_of_the_local_clock_where_summer_time_begins_or_ends(form, first):
    hours = pd.date_range(first, periods=120, freq="h", tz="Europe/Berlin")
    read = _read(pd.Series(hours.strftime(form), dtype=object), guess=False)
    assert (read == hours.tz_localize(None).floor("min")).all()


def test_days_before_dots_where_months_would_do_as_well():
    days = pd.date_range("2024-02-01", periods=10, freq="D")
    read = _read(pd.Series(days.strftime("%d.%m.%Y"), dtype=object), guess=False)
    assert (read == days).all()


@pytest.mark.parametrize("cells", [["ST-100", "ST-101"], ["a", "b"], ["1.2.3", "x"]])
def test_labels_are_no_dates(cells):
    assert _read(pd.Series(cells, dtype=object), guess=False) is None
