"""What is public is explained in numpydoc's form: every argument, and an example that runs."""

import doctest
import inspect

import pytest

import lrmc

pytest.importorskip("sklearn")
PUBLIC = {
    "solve": lrmc.solve,
    "Result": lrmc.Result,
    "iterates": lrmc.iterates,
    "as_observations": lrmc.as_observations,
    "relative_error": lrmc.relative_error,
    "problem": lrmc.synthetic.problem,
    "train": lrmc.train,
    "RobustPCA": lrmc.RobustPCA,
    "RobustImputer": lrmc.RobustImputer,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name):
    documented = PUBLIC[name]
    found = doctest.DocTestFinder(recurse=False).find(documented, name)
    (example,) = [test for test in found if test.examples]
    said = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert said == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_argument_is_explained(name):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    documented = PUBLIC[name]
    sections = docscrape.NumpyDocString(inspect.getdoc(documented))
    explained = {
        word.strip()
        for section in ("Parameters", "Attributes")
        for entry in sections[section]
        for word in entry.name.split(",")
    }
    arguments = set(inspect.signature(documented).parameters)
    assert arguments <= explained
    assert sections["Summary"]


def test_an_argument_that_is_not_explained_is_found():
    docscrape = pytest.importorskip("numpydoc.docscrape")
    text = "Do it.\n\nParameters\n----------\na, b : int\n    Two."
    (entry,) = docscrape.NumpyDocString(text)["Parameters"]
    assert entry.name == "a, b"
