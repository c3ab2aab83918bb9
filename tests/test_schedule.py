"""Schedules: plain data, and files that may be damaged or hostile."""

import json
import pickle
from itertools import islice

import numpy as np
import pytest
from each import each
from real_data import DATA
from scipy.io import loadmat, savemat
from scipy.sparse import csc_matrix

import lrmc
from lrmc import Schedule
from lrmc.methods.learn import SHIPPED
from lrmc.methods.plan import Plan

PUBLISHED = DATA / "official_schedules"
FULL = Schedule(
    zeta=(3.0, 1.0, 0.3),
    eta=(0.5, 0.7),
    tail=(0.9, 1.0),
    tangent=True,
    momentum=(0.0, 0.2),
    start_gain=1.5,
    eta_0=0.25,
    units="absolute",
    card={"about": "a test", "numbers": [1, 2.5], "ärger": "ok"},
)
MINIMAL = Schedule((1.0,), ())
every_schedule = pytest.mark.parametrize(
    "schedule", [FULL, MINIMAL], ids=["full", "minimal"]
)


@every_schedule
def test_json_round_trip(schedule, tmp_path):
    path = tmp_path / "mine.json"
    schedule.save(path)
    again = Schedule.load(path)
    assert again == schedule
    assert type(again.zeta) is tuple
    assert json.loads(path.read_text())["format"] == "lrmc-schedule"
    assert list(tmp_path.iterdir()) == [path]


def test_names():
    assert "geometric" in Schedule.names()
    for name in Schedule.names():
        schedule = Schedule.named(name)
        assert schedule.card, f"{name} has no card"
        assert schedule.units == "relative"
    with pytest.raises(ValueError, match=r"no schedule named 'nothing'.*geometric"):
        Schedule.named("nothing")
    with pytest.raises(ValueError, match="no schedule named"):
        Schedule.named("../schedule")


def test_the_geometric_schedule_needs_no_training():
    problem = lrmc.synthetic.problem(n=800, rank=5, alpha=0.1, p=0.5, seed=3)
    run = lrmc.iterates(problem.Y, rank=5, schedule="geometric")
    assert min(lrmc.relative_error(it, problem) for it in islice(run, 81)) < 1e-6


@pytest.mark.parametrize(
    "name",
    [
        f"{form}-r5-a0.1-p{p}"
        for form in ("synthetic", "paper")
        for p in ("0.1", "0.3", "1")
    ],
)
def test_named_schedules_do_what_their_card_says(name):
    card = Schedule.named(name).card
    kind = lrmc.synthetic.Problems(**card["trained_on"]["problems"])
    problem = kind.draw(card["rank"], seed=3, dtype=np.float32)
    # another seed may need one more
    most = max(card["checked_on"]["iterations_to_1e_6"]) + 1
    run = lrmc.iterates(problem.Y, rank=card["rank"], schedule=name)
    assert min(lrmc.relative_error(it, problem) for it in islice(run, most + 1)) < 1e-6


def take(schedule, count, scale=1.0, p=1.0):
    return list(islice(schedule.layers(scale, p), count))


def test_head_then_tail():
    layers = take(FULL, 5)
    assert [layer.zeta for layer in layers] == pytest.approx(
        [1.0, 0.3, 0.27, 0.243, 0.2187]
    )
    assert [layer.eta for layer in layers] == pytest.approx([0.5, 0.7, 0.7, 0.7, 0.7])
    assert [layer.momentum for layer in layers] == [0.0, 0.2, 0.2, 0.2, 0.2]
    assert len(FULL) == 2


def test_without_a_tail_it_ends():
    assert len(take(Schedule((3, 2, 1), (0.5, 0.6)), 99)) == 2
    assert take(MINIMAL, 99) == []


def test_a_tail_alone_is_the_rnn():
    layers = take(Schedule((2.0,), (), tail=(0.5, 0.9), eta_0=0.8), 3)
    assert [layer.zeta for layer in layers] == pytest.approx([1.0, 0.5, 0.25])
    assert [layer.eta for layer in layers] == pytest.approx([0.72, 0.648, 0.5832])


def test_units():
    relative = Schedule((3.0, 1.0), (0.5,), tail=(0.9, 0.8), start_gain=1.2)
    assert relative.start(scale=10, p=0.25) == pytest.approx((30, 4.8))
    assert Schedule((3.0,), ()).start(scale=10, p=0.25) == pytest.approx((30, 4))
    for one, scaled in zip(
        take(relative, 4), take(relative, 4, scale=10, p=0.25), strict=True
    ):
        assert scaled.zeta == pytest.approx(10 * one.zeta)
        assert scaled.eta == pytest.approx(4 * one.eta)
        assert scaled.momentum == one.momentum
    assert take(FULL, 5, scale=10, p=0.25) == take(FULL, 5)
    assert FULL.start(scale=10, p=0.25) == (3.0, 1.5)
    # the paper's 1/p
    assert Schedule((3.0,), (), units="absolute").start(scale=10, p=0.25) == (3.0, 4.0)


@each(
    ("change", "said"),
    [
        ({"zeta": (1.0, 2.0)}, "2 and 0"),
        ({"zeta": (1.0, 2.0, 3.0), "eta": (1.0,)}, "3 and 1"),
        ({"zeta": ()}, "0 and 0"),
        ({"zeta": (float("nan"),)}, "zeta holds nan"),
        ({"zeta": (float("inf"),)}, "zeta holds inf"),
        ({"zeta": (-1.0,)}, "zeta holds -1"),
        ({"zeta": ("1",)}, "zeta holds '1'"),
        ({"zeta": (True,)}, "zeta holds True"),
        ({"momentum": (0.1,)}, "momentum has 1"),
        ({"tail": (1.0,)}, "pair"),
        ({"tail": (1.0, float("nan"))}, "tail holds nan"),
        ({"start_gain": -1.0}, "start_gain holds -1"),
        ({"eta_0": "x"}, "eta_0 holds 'x'"),
        ({"units": "metric"}, "units='metric'"),
        ({"card": "text"}, "card is a str"),
    ],
)
def test_impossible_schedules(change, said):
    with pytest.raises(ValueError, match=said):
        Schedule(**{"zeta": (1.0,), "eta": (), **change})


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_numbers_of_numpy(dtype):
    assert Schedule(np.array([3, 1], dtype), np.array([1], dtype)).zeta == (3.0, 1.0)


GOOD = {"format": "lrmc-schedule", "version": 1, "zeta": [1.0], "eta": []}
DAMAGED = {
    "empty": b"",
    "not JSON": b"zeta = 3",
    "cut off": json.dumps(GOOD).encode()[:-3],
    "binary": bytes(range(256)),
    "a list": b"[1, 2]",
    "a number": b"3",
    "null": b"null",
    "another format": json.dumps({**GOOD, "format": "x"}).encode(),
    "no format": b'{"zeta": [1.0], "eta": []}',
    "a later version": json.dumps({**GOOD, "version": 3}).encode(),
    "no thresholds": b'{"format": "lrmc-schedule", "version": 1, "eta": []}',
    "null thresholds": json.dumps({**GOOD, "zeta": None}).encode(),
    "text for thresholds": json.dumps({**GOOD, "zeta": "1"}).encode(),
    "nested thresholds": json.dumps({**GOOD, "zeta": [[1.0]]}).encode(),
    "NaN": json.dumps({**GOOD, "zeta": [float("nan")]}).encode(),
    "infinite": json.dumps({**GOOD, "zeta": [float("inf")]}).encode(),
    "1e999": b'{"format": "lrmc-schedule", "version": 1, "zeta": [1e999], "eta": []}',
    "unknown field": json.dumps({**GOOD, "code": "import os"}).encode(),
    "tail of three": json.dumps({**GOOD, "tail": [1, 2, 3]}).encode(),
    "tail of text": json.dumps({**GOOD, "tail": "ab"}).encode(),
    "card of text": json.dumps({**GOOD, "card": "x"}).encode(),
    "tangent of text": json.dumps({**GOOD, "tangent": "no"}).encode(),
    "tangent of a number": json.dumps({**GOOD, "tangent": 0}).encode(),
    "version true": json.dumps({**GOOD, "version": True}).encode(),
    "zeta of text": json.dumps({**GOOD, "zeta": "123"}).encode(),
    "zeta a number": json.dumps({**GOOD, "zeta": 3}).encode(),
    "zeta of objects": json.dumps({**GOOD, "zeta": {"1": 2}}).encode(),
    "momentum null": json.dumps({**GOOD, "momentum": None}).encode(),
    "eta of booleans": json.dumps({**GOOD, "zeta": [1.0, 1.0], "eta": [True]}).encode(),
    "eta_0 of text": json.dumps({**GOOD, "eta_0": "1"}).encode(),
    "start_gain true": json.dumps({**GOOD, "start_gain": True}).encode(),
    "units a list": json.dumps({**GOOD, "units": ["relative"]}).encode(),
    "tail a number": json.dumps({**GOOD, "tail": 1}).encode(),
    "a million layers": json.dumps(
        {**GOOD, "zeta": [1.0] * 1_000_001, "eta": [1.0] * 1_000_000}
    ).encode(),
    "400 digits": json.dumps({**GOOD, "zeta": [10**400]}).encode(),
    "deep": b"[" * 100_000,
    "pickle": pickle.dumps({"zeta": [1.0]}),
}


@each("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(content, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.json could not be read as a schedule"):
        Schedule.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Schedule.load(tmp_path / "none.json")


def test_missing_mat_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        Schedule.from_mat(tmp_path / "none.mat")


def test_save_writes_nothing_when_it_cannot(tmp_path):
    with pytest.raises(TypeError):
        Schedule((1.0,), (), card={"what": object()}).save(tmp_path / "mine.json")
    assert list(tmp_path.iterdir()) == []


# ---- published files


@each("names", [("zeta", "eta"), ("ths", "step")])
@each(("first", "gain"), [(0.5, None), (9.5, 9.5)])
@each("shape", [(1, -1), (-1, 1)])
def test_from_mat(names, first, gain, shape, tmp_path):
    path = tmp_path / "numbers.mat"
    zeta, eta = (
        np.array([4.0, 2.0, 1.0], np.float32),
        np.array([first, 0.6, 0.7], np.float32),
    )
    savemat(
        path, {names[0]: zeta.reshape(shape), names[1]: eta.reshape(shape), "beta": 3.0}
    )
    schedule = Schedule.from_mat(path)
    assert schedule.zeta == (4.0, 2.0, 1.0)
    assert schedule.eta == tuple(eta[1:].tolist())
    assert schedule.start_gain == gain
    assert schedule.units == "absolute"
    assert schedule.tail is None
    assert schedule.card["file"] == "numbers.mat"


HOSTILE = {
    "no numbers": {"x": 1.0},
    "one of two": {"zeta": [1.0, 2.0]},
    "mixed names": {"zeta": [1.0], "step": [1.0]},
    "NaN": {"zeta": [np.nan, 1], "eta": [1.0, 1]},
    "negative": {"zeta": [1.0, 1], "eta": [1.0, -1]},
    "lengths differ": {"zeta": [1.0, 2.0], "eta": [1.0, 2.0, 3.0]},
    "empty": {"zeta": np.zeros((0, 0)), "eta": np.zeros((0, 0))},
    "cell": {
        "zeta": np.array([[1.0], "a"], object),
        "eta": np.array([[1.0], "a"], object),
    },
    "sparse": {"zeta": csc_matrix([[1.0, 2.0]]), "eta": csc_matrix([[1.0, 2.0]])},
    "text": {"zeta": "text", "eta": "text"},
    "complex": {"zeta": [1j, 2], "eta": [1j, 2]},
    "struct": {"zeta": {"a": 1}, "eta": {"a": 1}},
}


@each("content", HOSTILE.values(), ids=HOSTILE)
def test_other_mat_files(content, tmp_path):
    path = tmp_path / "bad.mat"
    savemat(path, content)
    with pytest.raises(ValueError, match=r"bad\.mat|wanted|thresholds"):
        Schedule.from_mat(path)


@each("content", [b"", b"MATLAB 5.0", bytes(range(256)) * 4, pickle.dumps({"zeta": 1})])
def test_damaged_mat_files(content, tmp_path):
    path = tmp_path / "bad.mat"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"bad\.mat could not be read as a MATLAB file"
    ):
        Schedule.from_mat(path)


@pytest.mark.parametrize("keep", [130, 200])
def test_cut_off_mat_files(keep, tmp_path):
    path = tmp_path / "bad.mat"
    savemat(path, {"zeta": np.arange(99.0), "eta": np.arange(99.0)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"bad\.mat"):
        Schedule.from_mat(path)


@pytest.mark.data
@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published schedules are not here"
)
def test_the_published_files():
    files = sorted(PUBLISHED.glob("*.mat"))
    assert files
    for file in files:
        content = loadmat(file)
        zeta, eta = (
            content[name].ravel()
            for name in (("zeta", "eta") if "zeta" in content else ("ths", "step"))
        )
        schedule = Schedule.from_mat(file)
        np.testing.assert_array_equal(schedule.zeta, zeta)
        np.testing.assert_array_equal(schedule.eta, eta[1:])
        assert schedule.start_gain == (eta[0] if "p0.1" in file.name else None)
        assert [layer.zeta for layer in schedule.layers(5.0, 0.5)] == list(
            schedule.zeta[1:]
        )


def test_a_schedule_of_noisy_layers_is_true():
    schedule = Schedule(plan=Plan(SHIPPED, rank=8).plain())
    assert len(schedule) == 0
    assert schedule
