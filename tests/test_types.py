"""What a type checker sees of lrmc in a user's script."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lrmc

SOURCE = Path(lrmc.__file__).resolve().parents[1]
SCRIPT = """
import numpy as np
import lrmc

Y = np.zeros((30, 20))
result: lrmc.Result = lrmc.solve(Y, rank=2, loss="huber")
rank: int = result.rank
many: lrmc.Results = lrmc.solve_many(np.stack([Y, Y]), 2, threads=1)
status: lrmc.Status = many[0].status
pca: lrmc.RobustPCA = lrmc.RobustPCA(n_components=2, center=False)
table = lrmc.RobustImputer(fill="missing").fit_transform(Y)
shape: tuple[int, ...] = table.shape
lower = result.forecast(3).lower
schedule: lrmc.Schedule = lrmc.Schedule.named("geometric")
lrmc.report.write_report("run.html", "Run", lrmc.report.result_sections(result))
"""
# every name of the reference is to be seen
API = Path(__file__).parents[1] / "docs" / "api.rst"
SCRIPT += "".join(
    f"lrmc.{name}\n" for name in re.findall(r"^   (\w[\w.]*)$", API.read_text(), re.M)
)
MISTAKES = {
    "lrmc.solve(Y, rnak=2)": "rnak",
    'lrmc.solve(Y, loss="hubber")': "hubber",
    "lrmc.RobustPCA(n_component=2)": "n_component",
    "lrmc.RobustImputer(fil=3)": "fil",
    "result.rnak": "rnak",
    "lrmc.solve_many([Y], rnak=2)": "rnak",
    "many[0].rnak": "rnak",
    "lrmc.solv(Y)": "solv",
    "result.forecast(3).lowre": "lowre",
    "table.shap": "shap",
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "good.py").write_text(SCRIPT)
    (folder / "bad.py").write_text(SCRIPT + "\n".join(MISTAKES) + "\n")
    return folder


def lines_with_errors(output, name):
    """The numbers of lines of this script that are complained about."""
    found = set()
    for line in output.splitlines():
        place, _, rest = line.strip().partition(f"{name}:")
        if rest and ("error" in rest or "error" in place):
            found.add(int(rest.partition(":")[0]))
    return found


def expected():
    first = SCRIPT.count("\n") + 1
    return set(range(first, first + len(MISTAKES)))


@pytest.mark.slow
def test_mypy_sees_what_is_public(scripts):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ""]
    done = subprocess.run(
        [*command, "--cache-dir", str(scripts / "cache"), "good.py", "bad.py"],
        cwd=scripts,
        env={"MYPYPATH": str(SOURCE), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert lines_with_errors(done.stdout, "good.py") == set(), done.stdout
    assert lines_with_errors(done.stdout, "bad.py") == expected(), done.stdout


@pytest.mark.slow
def test_pyright_sees_what_is_public(scripts):
    pytest.importorskip("pyright")
    (scripts / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{SOURCE}"], "reportMissingModuleSource": false,'
        f' "reportMissingImports": false}}'
    )
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "."],
        cwd=scripts,
        capture_output=True,
        text=True,
    )
    assert lines_with_errors(done.stdout, "good.py") == set(), done.stdout
    assert lines_with_errors(done.stdout, "bad.py") == expected(), done.stdout
