"""LRMC as a layer of a network."""

import io
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import reference
from comparing import assert_close
from each import each
from numpy.testing import assert_allclose

import lrmc
from lrmc import Schedule

torch = pytest.importorskip("torch")
lt = pytest.importorskip("lrmc.torch")

from unrolled import FULL, RANK, SCHEDULES, every_schedule, module, problem, product


def absolute(schedule, scale, p):
    """The same numbers in the units of these data."""
    zeta, eta = (
        tuple(z * scale for z in schedule.zeta),
        tuple(e / p for e in schedule.eta),
    )
    gain = None if schedule.start_gain is None else schedule.start_gain / p
    return replace(
        schedule,
        zeta=zeta,
        eta=eta,
        eta_0=schedule.eta_0 / p,
        start_gain=gain,
        units="absolute",
    )


# ---- the same iterates


@each("units", ["relative", "absolute"])
@each("p", [1.0, 0.6, 0.15])
@every_schedule
def test_iterates_are_those_of_the_kernels(schedule, p, units):
    data = problem(p=p)
    obs = lrmc.as_observations(data.Y)
    if units == "absolute":
        schedule = absolute(schedule, obs.scale, obs.fraction)
    model = module(schedule)
    native = list(
        islice(
            lrmc.iterates(data.Y, RANK, schedule=schedule),
            len(schedule) + model.extra + 1,
        )
    )
    start = (native[0].L, native[0].R)
    got = list(model.iterates(torch.tensor(data.Y), start=start, scale=obs.scale))
    assert len(got) == len(native) == len(schedule) + model.extra + 1
    for X, it in zip(got, native, strict=True):
        assert_allclose(X.L.detach(), it.L, atol=1e-10 * abs(it.L).max())
        assert_allclose(X.R.detach(), it.R, atol=1e-10 * abs(it.R).max())
    last = model(torch.tensor(data.Y), start=start, scale=obs.scale)
    assert torch.equal(last.L, got[-1].L)


def test_iterates_are_those_of_the_naive_algorithm():
    data, model = problem(), module(FULL)
    Y, scale = torch.tensor(data.Y), float(np.nanmedian(np.abs(data.Y)))
    start, *rest = model.iterates(Y, scale=scale)
    eta_unit = 1 / data.mask.mean()
    numbers = [
        (FULL.zeta[k] * scale, FULL.eta[k - 1] * eta_unit, FULL.momentum[k - 1])
        for k in (1, 2, 3)
    ]
    numbers += [
        (numbers[2][0] * 0.7**k, numbers[2][1] * 0.95**k, 0.1) for k in (1, 2, 3, 4)
    ]
    L, R = (X.detach().numpy() for X in start)
    slow = reference.algorithm1(
        np.nan_to_num(data.Y), data.mask, L, R, numbers, tangent=True
    )
    for X, (L, R, _) in zip(rest, slow, strict=True):
        assert_close(X.L.detach(), L, factor=1e3)
        assert_close(X.R.detach(), R, factor=1e3)


@pytest.mark.parametrize("p", [1.0, 0.6])
@pytest.mark.parametrize("shape", [(60, 50), (40, 300)], ids=str)
def test_the_start_is_the_best_approximation_of_the_clipped_data(shape, p):
    data = problem(*shape, p=p)
    start = next(module(SCHEDULES["plain"]).iterates(torch.tensor(data.Y), scale=2.0))
    L, R = reference.spectral(
        np.nan_to_num(data.Y), data.mask, RANK, 6.0, 1 / data.mask.mean()
    )
    assert_allclose(product(start), L @ R.T, atol=1e-3 * abs(L @ R.T).max())
    gram = (start.L.mT @ start.L).detach()
    assert_allclose(gram, (start.R.mT @ start.R).detach(), atol=1e-2 * abs(gram).max())


def test_solves_what_the_kernels_solve():
    data = problem(200, 150)
    X = module("geometric", extra=70, dtype=torch.float32)(torch.tensor(data.Y))
    assert (
        lrmc.relative_error(
            lrmc.Iterate(70, *(F.detach().numpy() for F in X), 0.0, 0.0, 1.0), data
        )
        < 1e-4
    )


def test_batches_are_as_their_members():
    problems = [problem(p=p, seed=i) for i, p in enumerate((1.0, 0.6, 0.3, 0.5))]
    Y = torch.stack([torch.tensor(x.Y) for x in problems])
    model = module(FULL)
    whole, deep = model(Y), model(Y.reshape(2, 2, 60, 50))
    assert whole.L.shape == (4, 60, RANK)
    assert deep.R.shape == (2, 2, 50, RANK)
    for i in range(4):
        one = model(Y[i])
        for got in (Factors_of(whole, i), Factors_of(deep, (i // 2, i % 2))):
            assert_allclose(
                product(got), product(one), atol=1e-10 * abs(product(one)).max()
            )
    scaled = model(Y, scale=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert_allclose(
        product(Factors_of(scaled, 2)), product(model(Y[2], scale=3.0)), atol=1e-9
    )
    start = model(Y[0])
    assert_allclose(
        product(Factors_of(model(Y, start=start), 3)),
        product(model(Y[3], start=start)),
        atol=1e-9,
    )


def Factors_of(X, i):
    return lt.Factors(X.L[i], X.R[i])


def test_a_mask_is_as_nan_and_what_is_under_it_does_not_matter():
    data, model = problem(), module(FULL)
    want = model(torch.tensor(data.Y))
    for under in (0.0, 1e9, float("inf")):
        Y = torch.tensor(np.where(data.mask, data.Y, under))
        for mask in (
            data.mask,
            torch.tensor(data.mask),
            torch.tensor(data.mask, dtype=torch.uint8),
        ):
            assert torch.equal(model(Y, mask).L, want.L)
    batch = torch.stack([torch.tensor(np.nan_to_num(data.Y))] * 2)
    assert_allclose(
        product(Factors_of(model(batch, torch.tensor(data.mask)), 1)),
        product(want),
        atol=1e-9,
    )


@each("dtype", ["float32", "float64", "float16", "bfloat16", "int16"])
def test_types(dtype):
    data = problem(p=1.0)
    Y = torch.tensor(10 * data.Y).to(getattr(torch, dtype))
    wide = torch.float64 if dtype == "float64" else torch.float32
    X = lt.UnrolledLRMC(SCHEDULES["tangent"], RANK)(Y)
    assert X.L.dtype == X.R.dtype == wide
    want = product(lt.UnrolledLRMC(SCHEDULES["tangent"], RANK)(Y.to(wide)))
    assert torch.equal(product(X), want)


def test_autocast_does_not_spoil_it():
    Y, model = (
        torch.tensor(problem().Y, dtype=torch.float32),
        lt.UnrolledLRMC(FULL, RANK, extra=2),
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        X = model(Y)
    assert X.L.dtype == torch.float32
    assert torch.equal(X.L, model(Y).L)


def test_a_run_that_blows_up_gives_nan():
    """As the kernels do; a decomposition would raise."""
    Y = torch.tensor(problem().Y, dtype=torch.float32)
    batch, start = torch.stack([Y, Y]), [torch.ones(2, n, RANK) for n in Y.shape]
    start[0][1] *= 1e30
    L, _ = module(FULL)(batch, start=start)
    assert torch.isfinite(L[0]).all()
    assert torch.isnan(L[1]).any()


# ---- the module


def test_parameters():
    model = module(FULL)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        "log_zeta": (4,),
        "log_eta": (3,),
        "log_start_gain": (1,),
        "log_tail": (2,),
        "momentum": (3,),
    }
    assert [name for name, _ in module(SCHEDULES["plain"]).named_parameters()] == [
        "log_zeta",
        "log_eta",
        "log_start_gain",
    ]
    assert "log_tail" not in dict(module(FULL, extra=0).named_parameters())
    # 1/p: no number
    assert "log_start_gain" not in dict(
        module(replace(FULL, units="absolute")).named_parameters()
    )
    assert repr(model) == "UnrolledLRMC(rank=3, layers=3, extra=4, relative, tangent)"


@every_schedule
@each("dtype", [torch.float32, torch.float64])
def test_the_schedule_comes_back(schedule, dtype):
    for extra in (0, 4 if schedule.tail else 0):
        again = module(schedule, dtype=dtype, extra=extra).schedule(card=schedule.card)
        rel = 1e-5 if dtype == torch.float32 else 1e-13
        assert (again.tail is None) == (schedule.tail is None)
        for name in (
            "zeta",
            "eta",
            "momentum",
            "eta_0",
            *(("tail",) if schedule.tail else ()),
        ):
            assert getattr(again, name) == pytest.approx(
                getattr(schedule, name), rel=rel, abs=0
            )
        fixed = {
            name: getattr(schedule, name)
            for name in ("zeta", "eta", "tail", "momentum", "eta_0", "start_gain")
        }
        assert replace(again, **fixed) == schedule
        assert (again.start_gain is None) == (schedule.start_gain is None)


def test_names_and_cards():
    for name in Schedule.names():
        if Schedule.named(name).plan is not None:
            assert isinstance(lt.UnrolledLRMC(name, 5), lt.UnrolledNoisy)
            continue
        schedule = lt.UnrolledLRMC(name, 5, extra=1).schedule()
        assert schedule.card["began_as"] == Schedule.named(name).card
        assert schedule.zeta == pytest.approx(Schedule.named(name).zeta, rel=1e-5)
    trained = module(FULL)
    with torch.no_grad():
        trained.momentum -= 0.15
        trained.log_start_gain += 1.0
    assert trained.schedule().momentum == pytest.approx((0.0, 0.05, 0.0))
    assert trained.schedule().start_gain == pytest.approx(np.e)


def test_state_dict_save_and_moves():
    Y, model, other = torch.tensor(problem().Y), module(FULL), module(SCHEDULES["all"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01
    assert not torch.equal(model(Y).L, other(Y).L)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(model(Y).L, other(Y).L)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(Y).L, model(Y).L)
    assert {p.dtype for p in module(FULL).float().parameters()} == {torch.float32}
    assert {p.device.type for p in module(FULL).to("meta").parameters()} == {"meta"}
    assert lt.UnrolledLRMC(FULL, RANK, device="meta").log_zeta.device.type == "meta"
    assert module(FULL, dtype=torch.float32).double()(Y).L.dtype == torch.float64


GOOD = torch.ones(6, 5)
REFUSED = {
    "an array": (
        np.ones((6, 5)),
        {},
        "the data are a ndarray; a dense tensor of real numbers",
    ),
    "one dimension": (
        torch.ones(5),
        {},
        r"a matrix or a batch of matrices.*shape \(5,\)",
    ),
    "empty": (torch.ones(3, 0, 5), {}, r"shape \(3, 0, 5\)"),
    "complex": (GOOD * 1j, {}, "the matrix holds complex numbers"),
    "sparse": (GOOD.to_sparse(), {}, "torch.sparse_coo; a dense tensor"),
    "rank": (torch.ones(2, 9), {}, "rank=3 for a 2 x 9 matrix; 1 to 2 is wanted"),
    "infinite": (GOOD / 0, {}, "30 observed entries are infinite; set them to NaN"),
    "infinite among NaN": (
        torch.tensor([[np.inf, np.nan, 1.0]] * 3),
        {},
        "3 observed entries are infinite",
    ),
    "nothing": (
        GOOD * torch.nan,
        {},
        "nothing is observed: all entries of the 6 x 5 matrix",
    ),
    "nothing in one": (
        torch.stack([GOOD, GOOD * torch.nan]),
        {},
        "nothing is observed in matrix 1 of the batch",
    ),
    "mask of another shape": (
        GOOD,
        {"mask": torch.ones(5, 6) > 0},
        r"mask has shape \(5, 6\), the matrix \(6, 5\); transpose",
    ),
    "mask of other floats": (
        GOOD,
        {"mask": 2 * GOOD},
        "mask holds 2.0; booleans are wanted",
    ),
    "start of another rank": (
        GOOD,
        {"start": (GOOD[:, :2], GOOD[:5, :2])},
        r"L of the start.*\(6, 3\) is wanted",
    ),
    "start of three": (GOOD, {"start": (GOOD, GOOD, GOOD)}, "start has 3 parts"),
    "scale": (GOOD, {"scale": -1.0}, "one positive number"),
    "scales": (GOOD, {"scale": [1.0, 2.0]}, r"scale has shape \(2,\)"),
}


@each(("Y", "options", "said"), REFUSED.values(), ids=REFUSED)
def test_refused(Y, options, said):
    with pytest.raises(ValueError, match=said):
        module(SCHEDULES["plain"])(Y, **options)


@each(
    ("arguments", "said"),
    [
        ({"rank": 0}, "rank=0; a whole number of at least 1"),
        ({"rank": True}, "rank=True"),
        ({"extra": 1.5}, "extra=1.5"),
        ({"extra": 3}, "extra=3, but the schedule has no tail: it ends after 2 layers"),
        ({"schedule": "magic"}, "no schedule named 'magic'"),
        ({"schedule": [1, 2]}, "schedule is a list; a Schedule or the name of one"),
    ],
)
def test_refused_at_once(arguments, said):
    with pytest.raises(ValueError, match=said):
        lt.UnrolledLRMC(**{"schedule": SCHEDULES["plain"], "rank": 2, **arguments})


def test_the_name_does_not_hide_torch():
    assert lt.torch is torch
    assert issubclass(lt.UnrolledLRMC, torch.nn.Module)


def test_without_torch_one_sentence():
    code = "import sys; sys.modules['torch'] = None; import lrmc.torch"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (
        'this needs torch, which is not installed: pip install "lrmc[torch]"'
        in run.stderr
    )
