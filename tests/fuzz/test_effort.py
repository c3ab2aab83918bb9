import time
from itertools import pairwise

import pytest

from fuzz.effort import HungError, rounds, within


def test_the_same_seeds_every_time(monkeypatch):
    monkeypatch.delenv("LRMC_FUZZ_SECONDS", raising=False)
    monkeypatch.delenv("LRMC_FUZZ_SEED", raising=False)
    assert list(rounds(3)) == [0, 1, 2]


def test_seeds_for_some_time(monkeypatch):
    monkeypatch.setenv("LRMC_FUZZ_SECONDS", "0.01")
    monkeypatch.setenv("LRMC_FUZZ_SEED", "40")
    seeds = list(rounds(3))
    assert seeds[0] == 40
    assert all(b == a + 1 for a, b in pairwise(seeds))


def test_no_time_is_still_one_round(monkeypatch):
    monkeypatch.setenv("LRMC_FUZZ_SECONDS", "0")
    monkeypatch.setenv("LRMC_FUZZ_SEED", "7")
    assert list(rounds(3)) == [7]


def test_a_call_that_hangs_is_ended():
    with pytest.raises(HungError, match=r"no end after 0.05 seconds"), within(0.05):
        time.sleep(5)
    with within(5):
        pass
    time.sleep(0.06)  # no alarm is left
