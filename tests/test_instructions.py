"""Counts of instructions: what callgrind writes is read, and too many are an error."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "instructions.py"


@pytest.fixture(scope="module")
def instructions():
    if not SCRIPT.exists():
        pytest.skip("the tools are not in a source distribution")
    spec = importlib.util.spec_from_file_location("instructions", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(folder, counts):
    for k, (name, count) in enumerate(counts.items(), 1):
        text = f"desc: Trigger: dump {name}\nsummary: 1\ntotals: {count}\n"
        (folder / f"out.{k}").write_text(text)


def test_what_callgrind_writes(instructions, tmp_path):
    counts = {name: 100 + k for k, name in enumerate(instructions.CASES)}
    written(tmp_path, counts)
    assert instructions.totals(tmp_path) == counts
    (tmp_path / "out.1").unlink()
    with pytest.raises(SystemExit, match="only of"):
        instructions.totals(tmp_path)


@pytest.mark.parametrize(("now", "good"), [(90, True), (105, True), (106, False)])
def test_more_than_five_percent(instructions, capsys, now, good):
    assert instructions.compared({"full": now}, {"full": 100}) is good
    assert ("more than" in capsys.readouterr().out) is not good


def test_other_circumstances_are_not_compared(instructions, tmp_path, capsys):
    before = tmp_path / "before.json"
    before.write_text('{"circumstances": {"python": "2.7"}, "instructions": {}}')
    instructions.compare(None, before)
    assert "not compared" in capsys.readouterr().out
