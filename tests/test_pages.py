"""What the documentation shows is there: names, arguments and options of commands. (README's snippets
run, in test_readme.py; the gallery runs when it is built.)
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

import lrmc

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]
NEEDED = {"lrmc.torch": "torch", "lrmc.xarray": "xarray"}
WITH_SKLEARN = ("RobustPCA", "RobustImputer")


def snippets(page):
    """Its ```python blocks, but those that show signatures."""
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    return [block for block in found if '"auto" | ' not in block]


def dotted(node):
    """`a.b.c` as a name; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return before and f"{before}.{node.attr}"
    return None


def found(name):
    """What the name stands for; None if it stands for nothing."""
    for module, package in NEEDED.items():
        if name.startswith(module):
            pytest.importorskip(package)
    if name.split(".")[-1] in WITH_SKLEARN:
        pytest.importorskip("sklearn")
    it = lrmc
    for part in name.split(".")[1:]:
        it = getattr(it, part, None)
    return it


def unknown(block):
    """Names of lrmc and arguments of its functions that are not there."""
    tree = ast.parse(block)
    for node in ast.walk(tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else None
        if name and name.startswith("lrmc.") and found(name) is None:
            yield name
    for node in ast.walk(tree):
        name = dotted(node.func) if isinstance(node, ast.Call) else None
        if name and name.startswith("lrmc.") and found(name) is not None:
            yield from (f"{name}({x})" for x in unknown_arguments(node, found(name)))


def unknown_arguments(call, function):
    """Those by name that it does not take."""
    known = inspect.signature(function).parameters
    if not any(x.kind is x.VAR_KEYWORD for x in known.values()):
        yield from (f"{x.arg}=" for x in call.keywords if x.arg and x.arg not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_use_what_is_there(page):
    assert [x for block in snippets(page) for x in unknown(block)] == []


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("lrmc.slove(Y)", ["lrmc.slove"]),
        ("lrmc.solve(Y, rnak=2)", ["lrmc.solve(rnak=)"]),
        ("lrmc.solve(Y, rank=2).save(path)", []),
    ],
)
def test_what_is_not_there_is_found(block, what):
    assert list(unknown(block)) == what


@pytest.fixture(scope="module")
def options():
    """Those of each command."""
    cli = pytest.importorskip("lrmc.cli")
    return {
        name: {x for option in cli.loaded(name).params for x in flags(option)}
        for name in cli.COMMANDS
    }


def flags(option):
    return (*option.opts, *option.secondary_opts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_commands_are_there(page, options):
    pattern = rf"\blrmc ({'|'.join(options)})\b([^`\n#]*)"
    shown = re.findall(pattern, page.read_text())
    assert [
        f"lrmc {name} {option}"
        for name, words in shown
        for option in re.findall(r"--[a-z][a-z0-9-]*", words)
        if option not in options[name]
    ] == []
