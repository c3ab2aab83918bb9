"""Files of every kind, whole and damaged at random: whole outputs, or one sentence and none."""

import shutil

import numpy as np
import pytest

from fuzz.effort import rounds

pytest.importorskip("resource")
pytest.importorskip("typer")
from fuzz.commands import Place, damage, damage_one, run
from fuzz.oracle import answered
from fuzz.small import KINDS, READERS


@pytest.mark.parametrize("name", KINDS)
def test_damaged(name, tmp_path):
    kind = KINDS[name]
    for package in kind.needs:
        pytest.importorskip(package)
    place = Place(tmp_path, kind)
    template = tmp_path / "template"
    shutil.copytree(place.folder, template)
    done = run(place)
    assert done.exit_code in (0, 1), done.output
    for seed in rounds(2):
        place.restored(template)
        damage_one(np.random.default_rng(seed), place.folder)
        run(place)


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_at_their_readers(name, tmp_path):
    """Without the fit and the report, for many more of them."""
    make, read, needs = READERS[name]
    for package in needs:
        pytest.importorskip(package)
    made = make(tmp_path)
    path = made[0] if isinstance(made, list) else made
    whole = path.read_bytes()
    assert answered(lambda: read(path)) is not None
    for seed in rounds(25):
        path.write_bytes(damage(np.random.default_rng(seed), whole))
        answered(lambda: read(path))
