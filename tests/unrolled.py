"""Modules, schedules and problems that the tests of torch share."""

import pytest

import lrmc
from lrmc import Schedule

torch = pytest.importorskip("torch")
lt = pytest.importorskip("lrmc.torch")
torch.set_num_threads(1)  # small matrices: threads would only wait for each other

RANK = 3
FULL = Schedule(
    (3.0, 1.5, 0.8, 0.4),
    (0.5, 0.6, 0.7),
    tail=(0.7, 0.95),
    tangent=True,
    momentum=(0.1, 0.2, 0.1),
)
SCHEDULES = {
    "plain": Schedule((3.0, 1.5, 0.6), (0.5, 0.7)),
    "tail": Schedule((3.0, 1.5, 0.6), (0.5, 0.7), tail=(0.7, 0.9)),
    "tail alone": Schedule((3.0,), (), tail=(0.8, 1.02), eta_0=0.6),
    "tangent": Schedule((3.0, 1.5, 0.6), (0.5, 0.7), tangent=True, start_gain=0.9),
    "all": FULL,
    "zeros": Schedule(
        (3.0, 1.5, 0.0), (0.0, 0.7), tail=(0.0, 0.0), momentum=(0.0, 0.0)
    ),
}
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


def problem(n1=60, n2=50, p=0.6, seed=0):
    return lrmc.synthetic.problem(
        n=n1, n2=n2, rank=RANK, alpha=0.05, p=p, form="dense", seed=seed
    )


def module(schedule, rank=RANK, **options):
    extra = 4 if isinstance(schedule, str) or schedule.tail else 0
    return lt.UnrolledLRMC(
        schedule, rank, **{"extra": extra, "dtype": torch.float64, **options}
    )


def product(X):
    return (X.L @ X.R.mT).detach()


def error(X, truth):
    return torch.linalg.norm(X.L @ X.R.mT - truth) / torch.linalg.norm(truth)
