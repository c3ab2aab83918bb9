"""Imports point one way: a module may use those of its own room and of the rooms below,
also inside functions.
"""

import ast
from pathlib import Path

import pytest

import lrmc

ROOT = Path(lrmc.__file__).parent
LAYERS = (  # each may import from itself and from those before it
    (
        "_program",
        "_progress",
        "_typing",
        "_extras",
        "_scipy",
        "_memory",
        "_arguments",
        "_kernels",
    ),
    ("weights", "_rows", "formats", "_files"),
    ("schedule", "units", "linalg", "row_systems", "frames"),
    ("observations",),
    ("fit",),
    ("evidence",),
    (
        "result",
        "complex_result",
        "plot",
        "card",
        "_log",
        "metrics",
        "synthetic",
        "outofcore",
    ),
    ("methods", "report"),
    ("solve", "many", "_answer", "_loop", "_job", "subspace", "_work"),
    (
        "training",
        "_torch_layers",
        "_torch_door",
        "_torch_noisy",
        "torch",
        "estimator",
        "complete",
        "apps",
        "race",
    ),
    ("demo", "xarray"),
    ("cli", "__main__"),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
FILES = sorted(ROOT.rglob("*.py"))


def imported(file):
    """The modules of lrmc that a file imports, in functions too, as dotted names; not
    those for type checkers alone.
    """
    package = ["lrmc", *file.relative_to(ROOT).parent.parts]
    for node in run_or_called(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (
                node.module.split(".") if node.module else []
            )
            for name in node.names:
                deeper = ROOT.joinpath(*base[1:], name.name)
                module = (
                    [*base, name.name]
                    if deeper.is_dir() or deeper.with_suffix(".py").exists()
                    else base
                )
                if module != ["lrmc"]:
                    yield ".".join(module[1:])


def run_or_called(tree):
    """All nodes but those below `if TYPE_CHECKING`."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        for_checkers = (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        left += node.orelse if for_checkers else ast.iter_child_nodes(node)


def room(module):
    return module.partition(".")[0]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_down(file):
    here = file.relative_to(ROOT).parts[0].removesuffix(".py")
    if here == "__init__":
        return  # the package itself names what it offers
    upward = {
        m for m in imported(file) if room(m) != here and LEVEL[room(m)] > LEVEL[here]
    }
    assert not upward, f"{here} is below {upward}"


def test_modules_do_not_import_each_other():
    graph = {}
    for file in FILES:
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = {m for m in imported(file) if m != name}
    assert circle(graph) == []


def circle(graph):
    """A chain of modules that ends where it began, if there is one."""
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done or module not in graph:
            return []
        path.append(module)
        for other in sorted(graph[module]):
            found = visit(other)
            if found:
                return found
        done.add(path.pop())
        return []

    for module in sorted(graph):
        found = visit(module)
        if found:
            return found
    return []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
