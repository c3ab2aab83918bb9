"""Files of every kind, whole and damaged at random: whole outputs, or one sentence and none."""

import shutil

import numpy as np
import pytest

from fuzz.effort import rounds

pytest.importorskip("resource")
pytest.importorskip("typer")
from fuzz.commands import Place, damage_one, run
from fuzz.small import KINDS


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
    for seed in rounds(6):
        place.restored(template)
        damage_one(np.random.default_rng(seed), place.folder)
        run(place)
