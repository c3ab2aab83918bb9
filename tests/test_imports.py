"""`import lrmc` is light."""

import subprocess
import sys

import pytest

HEAVY = [
    "torch",
    "dask",
    "sklearn",
    "pandas",
    "matplotlib",
    "typer",
    "rich",
    "xarray",
    "pyarrow",
    "scipy",
]
# of Python and of lrmc: each costs milliseconds, and few users need it
LATER = [
    "concurrent.futures",
    "hashlib",
    "importlib.resources",
    "zipfile",
    "lrmc.estimator",
    "lrmc.many",
    "lrmc.training",
]


def modules_after(code):
    code += "; import sys; print(' '.join(sys.modules))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.fixture(scope="module")
def after_import():
    return modules_after("import lrmc")


def test_import_does_not_bring_what_is_heavy(after_import):
    assert "lrmc" in after_import
    assert [heavy for heavy in HEAVY if heavy in after_import] == []


def test_import_does_not_bring_what_few_need(after_import):
    by_numpy = modules_after("import numpy")
    found = [name for name in LATER if name in after_import and name not in by_numpy]
    assert found == []


def test_what_comes_later_comes_when_asked_for():
    after = modules_after("import lrmc; lrmc.solve_many, lrmc.Results, lrmc.train")
    assert {"lrmc.many", "lrmc.training"} <= set(after)


def test_neither_does_a_solve():
    after = modules_after(
        "import lrmc, numpy; lrmc.solve(numpy.outer(range(9), range(9)), 1)"
    )
    assert not {
        "torch",
        "dask",
        "sklearn",
        "pandas",
        "matplotlib",
        "typer",
        "xarray",
    } & set(after)


def test_help_imports_no_command():
    pytest.importorskip("typer")
    code = (
        "import sys; sys.argv = ['lrmc', '--help']; sys.stdout = sys.stderr\n"
        "from lrmc.cli import main\n"
        "try: main()\n"
        "except SystemExit: sys.stdout = sys.__stdout__\n"
        "import sys"
    )
    after = modules_after(code)
    commands = {f"lrmc.cli.{name}" for name in ("complete", "video", "training")}
    assert "lrmc.cli.console" in after
    assert not {*commands, *HEAVY, "numpy"} & (set(after) - {"typer", "rich"})


def test_import_alone_brings_nothing(after_import):
    assert not {"numpy", "lrmc.observations"} & set(after_import)


@pytest.mark.parametrize("first", ["lrmc.solve", "lrmc.many", "lrmc._job"])
def test_solve_is_the_function_whatever_was_imported_first(first):
    code = f"import lrmc, {first}; assert lrmc.solve.__name__ == 'solve'; lrmc.solve.__call__"
    assert "lrmc.solve" in modules_after(code)


def test_names_that_are_not_there_are_no_attributes():
    import lrmc

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lrmc.nothing


def test_public_names():
    import lrmc

    assert [name for name in lrmc.__all__ if not hasattr(lrmc, name)] == []
    assert set(lrmc.__all__) <= set(dir(lrmc))
    assert lrmc.observations.as_observations is lrmc.as_observations


def test_modules_and_estimators_come_when_asked_for():
    for package in ("torch", "xarray", "sklearn"):
        pytest.importorskip(package)
    names = ("report", "apps", "outofcore", "torch", "xarray")
    asked = "; ".join(
        f"assert lrmc.{name}.__name__ == 'lrmc.{name}'; assert '{name}' in dir(lrmc)"
        for name in names
    )
    after = modules_after(f"import lrmc; {asked}; lrmc.RobustPCA, lrmc.RobustImputer")
    assert {*(f"lrmc.{name}" for name in names), "sklearn"} <= set(after)


def test_applications_come_when_asked_for():
    pytest.importorskip("rasterio")
    names = ("clouds", "faces", "ultrasound", "video")
    asked = "; ".join(f"assert '{name}' in dir(lrmc.apps)" for name in names)
    after = modules_after(f"import lrmc; {asked}; lrmc.apps.video.separate")
    assert "lrmc.apps.video" in after
    assert "lrmc.apps.clouds" not in after


def test_no_module_of_the_command_needs_what_windows_lacks():
    code = (
        "import sys; sys.modules['resource'] = None; import lrmc.cli, lrmc.outofcore;"
        " lrmc.outofcore.memory_there_is()"
    )
    pytest.importorskip("typer")
    assert "lrmc.cli" in modules_after(code)


def test_without_scikit_learn_there_is_one_sentence():
    code = "import sys; sys.modules['sklearn'] = None; import lrmc; lrmc.RobustPCA"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "lrmc[sklearn]"' in run.stderr


def test_unknown_names():
    import lrmc

    assert {"RobustPCA", "RobustImputer"} <= set(dir(lrmc))
    with pytest.raises(AttributeError, match="RobustICA"):
        _ = lrmc.RobustICA
