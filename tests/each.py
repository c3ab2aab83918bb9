"""Many small cases in one test: `pytest.mark.parametrize` for tables and products of
which nobody runs one alone.
"""

import functools
import inspect

import pytest


def each(names, values, ids=None):
    """Try all values, each with a folder (`tmp_path`) and patches of its own, and name
    those that fail.
    """
    names = (
        [name.strip() for name in names.split(",")]
        if isinstance(names, str)
        else list(names)
    )
    cases = [value if len(names) > 1 else (value,) for value in values]
    labels = _labels(cases, ids)
    assert cases, f"{names} has no values: the test could not fail"

    def decorate(test):
        signature = inspect.signature(test)
        left = [
            parameter
            for name, parameter in signature.parameters.items()
            if name not in names
        ]

        @functools.wraps(test)
        def tried(**given):
            failed = {}
            for number, case in enumerate(cases):
                try:
                    test(**_own(given, number), **dict(zip(names, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed[labels[number]] = error
                finally:
                    if "monkeypatch" in given:
                        given["monkeypatch"].undo()
            if failed:
                said = f"{len(failed)} of {len(cases)} cases failed: {', '.join(failed)}. The first:"
                raise AssertionError(said) from next(iter(failed.values()))

        tried.__signature__ = signature.replace(parameters=left)
        return tried

    return decorate


def _own(given, number):
    """What a test is given, with a folder that no other case writes to."""
    if "tmp_path" not in given:
        return given
    folder = given["tmp_path"] / f"case{number}"
    folder.mkdir()
    return {**given, "tmp_path": folder}


def _labels(cases, ids):
    if ids is None or callable(ids):
        name = ids or repr
        return [
            f"{number}: " + ", ".join(str(name(x))[:60] for x in case)
            for number, case in enumerate(cases)
        ]
    return [str(label) for label in ids]
