"""LRMC as a layer of a network, and data in tensors."""

import io
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from comparing import assert_close, assert_pull, by_steps
from each import each
from numpy.testing import assert_allclose
from problems import made
from rules import every_rule, rules

import lrmc
from lrmc import Schedule
from lrmc.observations import OWN

torch = pytest.importorskip("torch")
lt = pytest.importorskip("lrmc.torch")
layers_of_torch = pytest.importorskip("lrmc._torch_layers")
stays = pytest.importorskip("lrmc.observations.tensor").stays

RANK = 3
torch.set_num_threads(1)  # small matrices: threads would only wait for each other
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


def module(schedule, rank=RANK, **options):
    extra = 4 if isinstance(schedule, str) or schedule.tail else 0
    return lt.UnrolledLRMC(
        schedule, rank, **{"extra": extra, "dtype": torch.float64, **options}
    )


def product(X):
    return (X.L @ X.R.mT).detach()


def error(X, truth):
    return torch.linalg.norm(X.L @ X.R.mT - truth) / torch.linalg.norm(truth)


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


# ---- gradients


def flat(model, Y, start, scale):
    """The module as a function of its parameters, for gradcheck."""
    names = [name for name, _ in model.named_parameters()]

    def function(Y, L, R, *parameters):
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(
            model, state, (Y,), {"start": (L, R), "scale": scale}
        )

    return function, (
        Y,
        *start,
        *(p.detach().clone().requires_grad_() for p in model.parameters()),
    )


@pytest.mark.parametrize(
    ("name", "checkpoint"), [("tail alone", False), ("tangent", False), ("all", True)]
)
def test_gradients(name, checkpoint):
    """With respect to the data, the start and every parameter, against differences."""
    rng = np.random.default_rng(0)
    Y = torch.tensor(rng.standard_normal((2, 5, 4)))
    Y[rng.random(Y.shape) < 0.2] = torch.nan
    Y, start = (
        Y.requires_grad_(),
        [torch.tensor(rng.standard_normal((n, 2))).requires_grad_() for n in (5, 4)],
    )
    model = module(
        replace(SCHEDULES[name], start_gain=None, units="absolute"),
        2,
        extra=0 if name == "tangent" else 2,
    )
    model.checkpoint = checkpoint
    seen = ~torch.isnan(Y)
    function, inputs = flat(model, Y, start, 1.0)

    def of_seen(values, *rest):  # differences of NaN would be NaN
        return function(
            torch.full_like(Y, torch.nan).masked_scatter(seen, values), *rest
        )

    values = Y.detach()[seen].requires_grad_()
    assert torch.autograd.gradcheck(of_seen, (values, *inputs[1:]), atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "rounds", "near"),
    [((120, 100), layers_of_torch.ROUNDS, 0.01), ((30, 25), 15, 1e-4)],
)
def test_gradients_through_the_spectral_start(shape, rounds, near, monkeypatch):
    """The start's subspace counts too. A small matrix has no clear gap after r singular
    values: more rounds there.
    """
    monkeypatch.setattr(layers_of_torch, "ROUNDS", rounds)
    data, rng = problem(*shape, p=0.7), np.random.default_rng(1)
    Y, seen = torch.tensor(data.Y).requires_grad_(), torch.tensor(data.mask)
    W, direction = (torch.tensor(rng.standard_normal(Y.shape)) for _ in range(2))
    model, scale = (
        module(Schedule((1.5, 1.0), (0.5,), start_gain=1.1)),
        lrmc.as_observations(data.Y).scale,
    )

    def loss(Y):
        L, R = model(Y, scale=scale)
        return (W * (L @ R.mT)).sum()

    loss(Y).backward()
    assert not Y.grad[~seen].any()
    h = 1e-8
    with torch.no_grad():
        slope = (loss(Y + h * direction) - loss(Y - h * direction)) / (2 * h)
        assert float((Y.grad * direction)[seen].sum()) == pytest.approx(
            float(slope), rel=near
        )
        for parameter in (model.log_zeta, model.log_start_gain):
            ends = []
            for step in (h, -h):
                parameter[0] += step
                ends.append(float(loss(Y)))
                parameter[0] -= step
            assert float(parameter.grad[0]) == pytest.approx(
                (ends[0] - ends[1]) / (2 * h), rel=near
            )


def test_gradients_are_finite_where_singular_values_are_equal():
    """An SVD has none there. Also a rank higher than that of the data, and data of zeros."""
    for Y, rank in ((torch.eye(8), 3), (torch.ones(6, 5), 3), (torch.zeros(6, 5), 2)):
        Y, model = Y.double().requires_grad_(), module(FULL, rank)
        sum(x.square().sum() for x in model(Y)).backward()
        for x in (Y, *model.parameters()):
            assert torch.isfinite(x.grad).all()


def test_checkpointing_changes_nothing_but_memory():
    data = problem()
    grads, kept = [], []
    for checkpoint in (False, True):
        Y, model, large = (
            torch.tensor(data.Y, requires_grad=True),
            module(FULL, checkpoint=checkpoint),
            {},
        )

        def note(x, large=large):
            if x.numel() >= data.Y.size:
                large[x.data_ptr()] = x
            return x

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            X = model(Y)
        kept.append(len(large))
        sum(x.square().sum() for x in X).backward()
        grads.append([Y.grad, *(p.grad for p in model.parameters())])
    for a, b in zip(*grads, strict=True):
        assert torch.equal(a, b)
    # at least one of the size of the data for each of the seven layers
    assert kept[0] > 7
    assert kept[1] <= 2  # the data, and what is observed


@pytest.mark.parametrize("checkpoint", [False, True])
def test_training_helps(checkpoint):
    problems = [problem(80, 70, seed=i) for i in range(4)]
    Y = torch.stack([torch.tensor(x.Y, dtype=torch.float32) for x in problems])
    truth = torch.stack([torch.tensor(x.X, dtype=torch.float32) for x in problems])
    model = lt.UnrolledLRMC(
        Schedule((3.0, 3.0, 2.0, 1.0, 0.8), (0.5,) * 4), RANK, checkpoint=checkpoint
    )
    optimizer, errors = torch.optim.Adam(model.parameters(), lr=0.1), []
    for _ in range(20):
        optimizer.zero_grad()
        loss = error(model(Y), truth)
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    assert errors[-1] < 0.6 * errors[0]
    held_out = problem(80, 70, seed=9)
    before, after = (
        lrmc.relative_error(
            list(lrmc.iterates(held_out.Y, RANK, schedule=schedule))[-1], held_out
        )
        for schedule in (model.began, model.schedule())
    )
    assert after < 0.7 * before  # what was trained here serves there


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


# ---- data in tensors: the rest is in presentations.py


@every_rule
@each("dtype", [np.float32, np.float64])
def test_products_of_tensors(rule, dtype):
    """Blocks of rows, other and missing factors, sums of weights and squares, as for the
    kernels.
    """
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((700, 600)).astype(dtype)  # two blocks
    Y[rng.random(Y.shape) < 0.3] = np.nan
    L, R, P, Q, Pw, Qw = (
        rng.standard_normal((n, r)).astype(dtype) for r in (3, 4, 6) for n in Y.shape
    )
    weight, _ = rule(*Y.shape, 0.8)
    ours, theirs = lt.as_torch_observations(torch.tensor(Y)), lrmc.as_observations(Y)
    assert len(ours._blocks()) > 1
    clip = not hasattr(weight, "rows")
    more = {} if clip else {"Pw": Pw, "Qw": Qw}
    weights = (weight,) if clip else (weight, replace(weight, squares=True))
    for chosen in weights:
        for F, G, asked in (
            (L, R, {"P": P, "Q": Q} | more),
            (None, None, {"P": P}),
            (L, R, {"Q": Q} | {name: X for name, X in more.items() if name == "Qw"}),
            (L, R, {"P": OWN, "Q": OWN}),
        ):
            got, want = (obs.products(F, G, chosen, **asked) for obs in (ours, theirs))
            _same_pull(got, want, dtype)


def _same_pull(got, want, dtype):
    parts = [*zip(got, want, strict=True)]
    parts += zip(got.grams or (), want.grams or (), strict=True)
    names = (
        "n_inliers",
        "row_inliers",
        "col_inliers",
        "row_weight",
        "col_weight",
        "row_energy",
        "col_energy",
        "energy",
    )
    parts += [(getattr(got, name), getattr(want, name)) for name in names]
    for a, b in parts:
        assert (a is None) == (b is None)
        if b is not None:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            assert_close(a, b, dtype)


@every_rule
def test_small_tensors_match_the_reference(rule):
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (1, 40), (40, 1), (5, 17)):
        Y = rng.standard_normal(shape)
        L, R = (rng.standard_normal((n, 1)) for n in shape)
        weight, slow = rule(*shape, 0.8)
        want = reference.pull(Y, np.ones(shape, bool), L, R, slow)
        assert_pull(
            lt.as_torch_observations(torch.tensor(Y)).pull(L, R, weight),
            want,
            np.float64,
        )


def test_counts_at_the_border():
    """|e| = zeta is an inlier, the next number is not, also after a division."""
    for zeta in np.random.default_rng(0).uniform(0.5, 2, 50):
        Y = np.array([[zeta, -zeta, np.nextafter(zeta, 3), -np.nextafter(zeta, 3), 0]])
        for weight in (
            zeta,
            lrmc.weights.Threshold(
                *(np.full(n, x) for x in (zeta, 0.0) for n in (1, 5))
            ),
        ):
            pull = lt.as_torch_observations(torch.tensor(Y)).pull(
                np.zeros((1, 1)), np.ones((5, 1)), weight
            )
            assert pull.n_inliers == 3


@pytest.mark.parametrize("name", ["cauchy", "huber", "mixture", "clip", "threshold"])
def test_zero_thresholds_give_finite_numbers(name):
    weight, _ = dict(rules)[name](1, 2, 0.0 if name in ("clip", "threshold") else 1.0)
    weight = weight.scaled(0.0)
    pull = lt.as_torch_observations(torch.tensor([[0.0, 2.0]])).pull(
        np.zeros((1, 1)), np.ones((2, 1)), weight
    )
    assert np.isfinite(pull[0]).all()


SOLVED = {
    "exact": ({"p": 0.5}, {"rank": 3}),
    "exact, few entries": ({"p": 0.15, "rate": 0.02}, {"rank": 3}),
    "exact, by LRMC": ({"p": 0.5}, {"rank": 3, "schedule": "geometric"}),
    "rank not given": ({"p": 0.5}, {}),
    "noisy": ({"p": 0.6, "noise": 0.05}, {"rank": 3}),
    "noisy, rank not given": ({"p": 0.6, "noise": 0.05}, {}),
    "noisy, by held-out error": (
        {"p": 0.6, "noise": 0.05},
        {"rank": 3, "loss": "cauchy"},
    ),
    "one-sided": (
        {"p": 0.6, "noise": 0.05, "low": 0.0},
        {"rank": 3, "outliers": "positive"},
    ),
}


@pytest.mark.parametrize(("kind", "options"), SOLVED.values(), ids=SOLVED)
def test_solve_gives_the_same_from_tensors(kind, options):
    Y = made((150, 120), 3, **kind).Y
    for given in (Y, np.asfortranarray(Y)):
        obs = lt.as_torch_observations(torch.from_numpy(given))
        want, got = (by_steps(x, **options) for x in (given, obs))
        assert got.status == want.status
        assert (got.rank, got.n_iter, got.regime) == (
            want.rank,
            want.n_iter,
            want.regime,
        )
        X = want.low_rank()
        assert_allclose(got.low_rank(), X, atol=1e-8 * abs(X).max())
        assert_allclose(got.outliers(), want.outliers(), atol=1e-8 * abs(X).max())


def test_groups_of_tensors():
    rng = np.random.default_rng(0)
    Y = np.abs(rng.standard_normal((90, 2))) @ np.abs(rng.standard_normal((2, 25))) + 1
    Y += 0.05 * rng.standard_normal(Y.shape)
    labels = np.tile(np.arange(30), 3)
    want, got = (
        lrmc.solve(x, 2, groups=labels, loss="cauchy")
        for x in (Y, lt.as_torch_observations(torch.tensor(Y)))
    )
    assert_allclose(got.low_rank(), want.low_rank(), atol=1e-8)


BAD_TENSORS = {
    "one dimension": (torch.ones(5), {}, r"2-D.*\(5,\)"),
    "empty": (torch.ones(0, 5), {}, r"empty: shape \(0, 5\)"),
    "complex": (GOOD * 1j, {}, "complex numbers"),
    "infinite": (GOOD / 0, {}, "30 observed entries are infinite; set them to NaN"),
    "nothing": (
        GOOD * torch.nan,
        {},
        "nothing is observed: all entries of the 6 x 5 matrix",
    ),
    "mask": (
        GOOD,
        {"mask": torch.ones(5, 6) > 0},
        r"mask has shape \(5, 6\), the matrix \(6, 5\); transpose",
    ),
    "mask of other floats": (GOOD, {"mask": 2 * GOOD}, "booleans are wanted"),
    "meta": (torch.ones(6, 5, device="meta"), {}, "meta"),
}


@each(("Y", "options", "said"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_tensors_that_cannot_be_read(Y, options, said):
    for function in (lt.as_torch_observations, lrmc.as_observations):
        with pytest.raises(ValueError, match=said):
            function(Y, **options)


# torch says that its CSR is new
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_types_that_numpy_does_not_have():
    with pytest.raises(
        ValueError,
        match=r"the tensor is of torch.float8_e5m2; convert it first: Y.float\(\)",
    ):
        lrmc.as_observations(GOOD.to(torch.float8_e5m2))


# torch says that its CSR is new
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_tensors_that_are_no_matrix():
    with pytest.raises(ValueError, match="a dense one that holds data"):
        lt.as_torch_observations(GOOD.to_sparse())
    with pytest.raises(ValueError, match="says itself what is observed"):
        lrmc.as_observations(GOOD.to_sparse(), GOOD > 0)
    for Y in (
        torch.ones(4, 4).to_sparse_bsr((2, 2)),
        torch.tensor(1.0).to_sparse(),
        GOOD.to_sparse(1),
    ):
        with pytest.raises(
            ValueError, match="a dense, COO, CSR or CSC matrix is wanted"
        ):
            lrmc.as_observations(Y)


def test_tensors_on_the_cpu_are_not_copied():
    Y = torch.ones(6, 5, requires_grad=True)
    obs = lrmc.as_observations(Y, mask=torch.ones(6, 5, dtype=torch.bool))
    assert isinstance(obs, lrmc.observations.Dense)
    assert obs.Y.ctypes.data == Y.data_ptr()
    assert lrmc.as_observations(torch.ones(6, 5, dtype=torch.bfloat16)).n_observed == 30


class Elsewhere(torch.Tensor):
    """Says that it is on a GPU."""

    @property
    def device(self):
        return torch.device("cuda")


def test_tensors_on_other_devices_are_read_there(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "lrmc.observations.tensor.as_torch_observations",
        lambda Y, mask, threads: calls.append((Y, mask, threads)),
    )
    Y, mask = torch.ones(6, 5).as_subclass(Elsewhere), GOOD > 0
    lrmc.as_observations(Y, mask, threads=3)
    assert calls[0][0] is Y
    assert calls[0][1:] == (mask, 3)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_sparse_tensors_do_not_stay_on_other_devices(layout):
    assert not stays(
        SimpleNamespace(layout=getattr(torch, layout), device=torch.device("cuda"))
    )
    assert stays(SimpleNamespace(layout=torch.strided, device=torch.device("cuda")))


@every_rule
def test_no_operation_mixes_devices(rule, monkeypatch):
    """On a device that has no data but knows where tensors are: what the CPU has must be
    sent there first.
    """
    back = []

    def array(X):
        back.append("meta" if X is None else X.device.type)
        return None if X is None else np.zeros(tuple(X.shape))

    monkeypatch.setattr("lrmc.observations.tensor._array", array)
    shape = (700, 600)
    monkeypatch.setattr("lrmc.observations.tensor.ENTRIES", 1 << 18)
    weight, _ = rule(*shape, 0.8)
    rng = np.random.default_rng(0)
    L, R = (rng.standard_normal((n, 3)).astype(np.float32) for n in shape)
    Y, mask = (
        torch.empty(shape, device="meta", dtype=t) for t in (torch.float32, torch.bool)
    )
    seen = {"row_observed": np.full(700, 600), "col_observed": np.full(600, 700)}
    obs = lt.TorchObservations(
        shape=shape, dtype=np.dtype("f4"), Y=Y, mask=mask, **seen
    )
    CQ, CtP = obs.products(
        L,
        R,
        weight,
        P=OWN,
        Q=OWN,
        **({"Pw": L, "Qw": R} if hasattr(weight, "rows") else {}),
    )
    assert (CQ.shape, CtP.shape) == ((700, 3), (600, 3))
    assert obs.lookup(np.arange(5), np.arange(5)).shape == (5,)
    assert obs.block(slice(None), np.arange(4)).shape == (700, 4)
    assert obs.outliers(L, R, 1.0).device.type == "meta"
    assert set(back) == {"meta"}
