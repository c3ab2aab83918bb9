"""Training that is interrupted, and taken up again."""

import json
from functools import partial

import pytest
from each import each
from small_training import (  # noqa: F401
    PROBLEMS,
    bare,
    every_source,
    small_searches,
    small_train,
    sound_checkpoint,
)

from lrmc import Schedule, train
from lrmc.synthetic import Problems
from lrmc.training import fast
from lrmc.training.network import loss_and_gradient


def interrupt_at(stage, step):
    def progress(state):
        if (state.stage, state.step) == (stage, step):
            raise KeyboardInterrupt

    return progress


WHERE = {
    "fast": [
        ("geometric", 1),
        ("refine", 1),
        ("refine", 3),
        ("refine", 4),
        ("tail", 1),
    ],
    "paper": [
        ("layer 0", 1),
        ("layer 1", 3),
        ("layer 2", 4),
        ("layer 2", 8),
        ("tail", 1),
    ],
}


@every_source
@pytest.mark.parametrize("recipe", WHERE)
def test_interrupted_and_taken_up_again(recipe, source, tmp_path):
    """Interrupted five times, once in each stage: bit for bit as without."""
    path, data = tmp_path / "partial.json", source()
    task = partial(
        train, data, 2, layers=2, steps=4, recipe=recipe, momentum=recipe == "fast"
    )
    whole = task()
    for stage, step in WHERE[recipe]:
        with pytest.raises(KeyboardInterrupt):
            task(checkpoint=path, progress=interrupt_at(stage, step))
        kept = json.loads(path.read_text())
        assert (kept["stage"], kept["step"]) == (stage, step)
    seen = []
    resumed = task(checkpoint=path, progress=seen.append)
    assert bare(resumed) == bare(whole)
    assert seen == []  # all was done


def test_any_exception_leaves_a_checkpoint(tmp_path, monkeypatch):
    calls = []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) > 5:
            raise MemoryError
        return loss_and_gradient(*arguments)

    path = tmp_path / "partial.json"
    monkeypatch.setattr(fast, "loss_and_gradient", failing)
    with pytest.raises(MemoryError):
        small_train(checkpoint=path)
    assert json.loads(path.read_text())["stage"] == "refine"
    monkeypatch.undo()


def test_seconds_go_on(tmp_path):
    path = tmp_path / "partial.json"
    small_train(checkpoint=path)
    content = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            {**content, "seconds": 1000.0, "stage": "refine", "step": 2, "steps": 4}
        )
    )
    assert small_train(checkpoint=path).card["seconds"] > 999


def test_a_checkpoint_of_other_training_is_refused_and_kept(tmp_path):
    path = tmp_path / "partial.json"
    small_train(checkpoint=path)
    before = path.read_bytes()
    others = [
        {"layers": 2},
        {"steps": 5},
        {"seed": 1},
        {"tangent": True},
        {"recipe": "paper"},
        {"model": "fnn"},
    ]
    for other in others:
        with pytest.raises(ValueError, match="a checkpoint of other training"):
            small_train(checkpoint=path, **other)
    for data in (Problems(n=60, p=0.9), PROBLEMS.draw(2, 0).Y):
        with pytest.raises(ValueError, match="a checkpoint of other training"):
            train(data, 2, layers=3, steps=4, checkpoint=path)
    assert path.read_bytes() == before


@each(
    "change",
    [
        b"",
        b"\xff\x00",
        b"[1]",
        b"{}",
        b"[" * 100_000,
        {"format": "something"},
        {"stage": 3},
        {"step": "4"},
        {"step": -1},
        {"error": "small"},
        {"seconds": None},
        {"moments": [[1.0], [1.0]]},
        {"moments": [[float("nan")] * 6] * 2},
        {"moments": 5},
        {"schedule": {}},
        {"unknown": 1},
        {"stage": "layer x"},
        {"stage": "layer 1"},
        {"step": 5, "steps": 4},
        {"steps": 10**30},
        {"error": 10**400},
        {"seconds": 10**400},
        {"hardest": [[10**400, 10**400]]},
        {"hardest": [[-5, 0.1]]},
        {"hardest": [[11, float("nan")]]},
        {"hardest": [[1.5, 0.1]]},
        {"hardest": 3},
        {"moments": [[0.1] * 6, []]},
        {
            "stage": "refine",
            "schedule": json.loads(Schedule((1.0,), (), tail=(0.5, 1.0)).to_json()),
        },
        {
            "stage": "refine",
            "schedule": json.loads(
                Schedule((1.0,) * 4, (1.0,) * 3, tangent=True).to_json()
            ),
        },
    ],
    ids=lambda change: str(change)[:30],
)
def test_a_damaged_checkpoint_is_refused_and_kept(change, tmp_path):
    path = tmp_path / "partial.json"
    content = (
        change
        if isinstance(change, bytes)
        else json.dumps({**sound_checkpoint(), **change}).encode()
    )
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match="could not be read as a checkpoint of training"
    ):
        small_train(checkpoint=path)
    assert path.read_bytes() == content


def test_a_checkpoint_nowhere(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory"):
        small_train(checkpoint=tmp_path / "missing" / "partial.json")
