"""What is public is explained in numpydoc's form: every argument, what comes back, and an example
that runs.
"""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import lrmc

docscrape = pytest.importorskip("numpydoc.docscrape")
API = Path(__file__).parents[1] / "docs" / "api.rst"
PUBLIC = re.findall(r"^   (\w[\w.]*)$", API.read_text(), re.M)
NEEDED = {  # by those that the core does without
    "RobustPCA": ("sklearn",),
    "RobustImputer": ("sklearn",),
    "torch.UnrolledLRMC": ("torch",),
    "outofcore.write_outliers": ("zarr",),
    "apps.video.process": ("av", "PIL"),
    "apps.clouds.process": ("rasterio", "xarray", "zarr", "PIL"),
    "apps.ultrasound.process": ("PIL",),
    "apps.faces.process": ("PIL",),
    "xarray.Accessor": ("xarray",),
}


def found(name):
    """A public name, as users find it: some modules are imported when asked for."""
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    module, _, last = f"lrmc.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def unexplained(documented, sections):
    """Arguments without a line of their own."""
    explained = {
        word.strip().lstrip("*")
        for section in ("Parameters", "Attributes")
        for entry in sections[section]
        for word in entry.name.split(",")
    }
    return set(inspect.signature(documented).parameters) - explained


def test_all_that_the_package_names_is_in_the_reference():
    modules = {"observations", "synthetic", "weights"}
    assert set(lrmc.__all__) - modules <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name, tmp_path, monkeypatch):
    documented = found(name)
    monkeypatch.chdir(tmp_path)
    tests = doctest.DocTestFinder().find(documented, name)
    examples = [test for test in tests if test.examples]
    assert examples[0].name == name
    said = []
    for test in examples:
        doctest.DocTestRunner().run(test, out=said.append)
    assert said == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_explained(name):
    documented = found(name)
    sections = docscrape.NumpyDocString(inspect.getdoc(documented))
    assert sections["Summary"]
    if isinstance(documented, type) and issubclass(documented, Exception | str):
        return  # made by lrmc, not by users
    assert unexplained(documented, sections) == set()
    if inspect.isfunction(documented):
        returned = inspect.signature(documented).return_annotation
        told = sections["Returns"] or sections["Yields"]
        assert told or returned == "None"


def test_an_argument_that_is_not_explained_is_found():
    def documented(a, b, c):
        """Do it.

        Parameters
        ----------
        a, b : int
            Two.
        """

    sections = docscrape.NumpyDocString(inspect.getdoc(documented))
    assert unexplained(documented, sections) == {"c"}
