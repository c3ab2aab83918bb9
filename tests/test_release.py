"""What a release consists of: one version, files that agree with it, what a good repository has."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import lrmc

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text(name):
    return (ROOT / name).read_text()


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("conda/recipe.yaml", r'^  version: "(\S+)"$'),
        ("CHANGELOG.md", r"^## \[(\d[^]]*)\]"),
    ],
)
def test_the_version_is_the_same_everywhere(name, pattern):
    found = re.search(pattern, text(name), re.M)
    assert found is not None
    assert found[1] == lrmc.__version__


def test_every_release_has_a_date():
    headings = re.findall(r"^## \[(\d.*)$", text("CHANGELOG.md"), re.M)
    assert headings
    assert [
        line for line in headings if not re.search(r"\] - \d{4}-\d\d-\d\d$", line)
    ] == []


def test_workflows_run_what_make_has():
    yaml = pytest.importorskip("yaml")
    targets = set(re.findall(r"^(\w+):", text("Makefile"), re.M))
    asked = set()
    for workflow in WORKFLOWS:
        for job in yaml.safe_load(workflow.read_text())["jobs"].values():
            for step in job["steps"]:
                asked |= set(re.findall(r"make (\w+)", step.get("run", "")))
    assert {"test", "lint", "docs"} <= asked <= targets


def test_repo_review():
    pytest.importorskip("sp_repo_review")
    done = subprocess.run(
        [sys.executable, "-m", "repo_review", str(ROOT), "--format", "json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_source_distribution_has_what_the_tests_need(tmp_path):
    build = [sys.executable, "-m", "build", "--sdist", "-q", "-o", str(tmp_path)]
    pytest.importorskip("build")
    subprocess.run([*build, str(ROOT)], check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    wanted = {"pyproject.toml", "README.md", "src/lrmc/py.typed", "tests/conftest.py"}
    assert wanted <= names
