#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""`nox` runs what CI runs, each in an environment of its own; `make` does the same in .venv."""

from __future__ import annotations

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

PROJECT = nox.project.load_toml("pyproject.toml")

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"


def installed(session: nox.Session, *groups: str, extra: str = "all") -> None:
    """Install lrmc with an extra and groups of pyproject.toml."""
    packages = nox.project.dependency_groups(PROJECT, *groups)
    session.install(f".[{extra}]", *packages)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests, beside each other."""
    installed(session, "test")
    session.run("pytest", "-q", "-n", "auto", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, style, types, and what makes a good repository."""
    installed(session, "dev")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("repo-review", ".")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation, warnings as errors."""
    installed(session, "docs")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "docs", "build/docs")


@nox.session(python=PYTHONS, default=False)
def wheels(session: nox.Session) -> None:
    """Build wheels, repair and test them in fresh environments."""
    session.run("make", "wheels", f"PYTHONS={session.python}", external=True)


if __name__ == "__main__":
    nox.main()
