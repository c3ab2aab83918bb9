"""How the code is written, as far as it can be counted. What is still too much is
listed; lists only get shorter.
"""

import ast
import tokenize
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "lrmc"
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in FILES
}

MOST_COMPLEX = 15
MOST_POSITIONAL = 6
LIMIT = 9.0  # tokens per line of code
MOST_LINES = 450  # of a file

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.comprehension,
)

COMPLEX: set[str] = set()  # as it should stay
POSITIONAL: set[str] = set()  # as it should stay


def test_the_lists_are_about_this_code():
    """A package that was not found would pass everything."""
    assert len(TREES) > 80
    listed = COMPLEX | POSITIONAL
    assert {name.partition(":")[0] for name in listed} <= set(TREES)


# ---- functions that branch too much


def complexity(function):
    """McCabe's number: one, and one for each branch, loop, case and further operand of
    `and` and `or`.
    """
    inside = list(ast.walk(function))
    branches = sum(isinstance(node, BRANCHES) for node in inside)
    operands = sum(
        len(node.values) - 1 for node in inside if isinstance(node, ast.BoolOp)
    )
    return 1 + branches + operands


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]


def test_complexity():
    found = {
        f"{file}:{function.name}"
        for file, tree in TREES.items()
        for function in functions(tree)
        if complexity(function) > MOST_COMPLEX
    }
    assert sorted(found - COMPLEX) == []


def test_complexity_is_counted():
    source = "def f(x):\n    if x and (x > 1 or x < 0):\n        return [y for y in x]\n    return 1 if x else 2"
    assert complexity(ast.parse(source).body[0]) == 6


# ---- calls with so many arguments that nobody knows which is which


def positional(call):
    """How many; a sequence that is unpacked counts as one, or as many as it shows."""
    return sum(
        len(argument.value.elts)
        if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple)
        else 1
        for argument in call.args
    )


def crowded(tree):
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        ast.unparse(call.func) for call in calls if positional(call) > MOST_POSITIONAL
    }


def test_positional_arguments():
    """Calls of the kernels too: what goes to C++ goes by name, or in a record."""
    found = {f"{file}:{name}" for file, tree in TREES.items() for name in crowded(tree)}
    assert sorted(found - POSITIONAL) == []


def test_positional_arguments_are_counted():
    assert crowded(
        ast.parse(
            "f(1, 2, 3, 4, 5, 6); g(1, 2, 3, 4, 5, *x, *y); h(*(1, 2, 3, 4, 5, 6, 7))"
        )
    ) == {"g", "h"}


# ---- files that hold more than one idea


def test_files_are_short():
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in FILES
        if path.read_text().count("\n") > MOST_LINES
    }
    assert sorted(found) == []


# ---- lines that breathe

LAYOUT = {
    *(
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
    ),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
BEFORE_A_DOCSTRING = {
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
}


def tokens(path):
    """Of its code, and on how many lines: without comments, layout and docstrings."""
    count, lines, before = 0, set(), None
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in (tokenize.COMMENT, tokenize.NL):
                continue
            docstring = token.type == tokenize.STRING and (
                before is None or before in BEFORE_A_DOCSTRING
            )
            if token.type not in LAYOUT and not docstring:
                count += 1
                lines.update(range(token.start[0], token.end[0] + 1))
            before = token.type
    return count, len(lines)


def test_tokens_per_line():
    counts, lines = zip(*map(tokens, FILES), strict=True)
    assert sum(counts) <= LIMIT * sum(lines)


def test_tokens_are_counted(tmp_path):
    (tmp_path / "a.py").write_text(
        '"""A docstring."""\n\n# a comment\nx = [\n    1,\n    2,\n]\n'
    )
    assert tokens(tmp_path / "a.py") == (8, 4)


# ---- what is public is explained


def public(tree):
    """Functions and methods without an underscore, at the top or in public classes."""
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith(
            "_"
        ):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def explained(node):
    """By a docstring, or by that of what it overrides."""
    names = {getattr(x, "id", getattr(x, "attr", "")) for x in node.decorator_list}
    return ast.get_docstring(node) is not None or bool(names & {"override", "overload"})


def test_docstrings():
    found = [
        f"{file}:{node.name}"
        for file, tree in TREES.items()
        for node in public(tree)
        if not explained(node)
    ]
    assert found == []


def test_what_has_no_docstring_is_found():
    tree = ast.parse(
        "def f(): ...\ndef _g(): ...\nclass A:\n    'It.'\n    @override\n    def h(self): ...\n    def i(self): ..."
    )
    assert [node.name for node in public(tree) if not explained(node)] == ["f", "i"]
