"""The command line: it parses, calls the library and shows what came back.

A command's module is imported when that command is run: `lrmc --help` needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, NamedTuple

try:
    import rich  # noqa: F401
    import typer
    import typer.core
    import typer.main
except ImportError:
    raise SystemExit(
        'the command line needs typer and rich: pip install "lrmc[cli]"'
    ) from None

from .. import __version__
from . import console


class Command(NamedTuple):
    """Where a command is, and what `lrmc --help` says about it: the first line of its docstring."""

    module: str
    function: str
    about: str


COMMANDS = {
    "complete": Command(
        "complete",
        "complete_command",
        "Fill in missing values and replace outliers in a table or matrix.",
    ),
    "demo": Command(
        "demo",
        "demo_command",
        "Show what lrmc does, in a minute, and write a report.",
    ),
    "video": Command(
        "video",
        "video_command",
        "Separate background and foreground of a fixed-camera video.",
    ),
    "clouds": Command(
        "clouds",
        "clouds_command",
        "Remove clouds from a series of satellite scenes of one place.",
    ),
    "ultrasound": Command(
        "ultrasound",
        "ultrasound_command",
        "Separate tissue and blood (or microbubbles) in an ultrasound cine.",
    ),
    "faces": Command(
        "faces",
        "faces_command",
        "Remove shadows, highlights and occlusions from face images.",
    ),
    "train": Command(
        "training",
        "train_command",
        "Learn a schedule for LRMC: from synthetic problems, or from your data (with --data).",
    ),
    "schedules": Command(
        "training",
        "schedules_command",
        "List the schedules that come with lrmc, or show one with its card.",
    ),
    "bench": Command(
        "bench",
        "bench_command",
        "Compare lrmc with other installed packages on problems with a known answer.",
    ),
}


def loaded(name: str) -> Any:
    """A command with all its options."""
    found = COMMANDS[name]
    function = getattr(import_module(f"{__name__}.{found.module}"), found.function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, help=_flowing(function.__doc__))(function)
    return typer.main.get_command(alone)


def _flowing(text: str) -> str:
    """Paragraphs without line breaks of their own, for terminals of any width."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


class Commands(typer.core.TyperGroup):
    """All commands, known by their names until one is asked for: none ends with a traceback when
    it is ended from outside, wherever it is.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, found in COMMANDS.items():
            self.add_command(typer.core.TyperCommand(name, help=found.about))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command that these arguments begin with, imported now, and the other arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else loaded(name), rest

    def invoke(self, ctx: Any) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise console.ended(stop) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the `lrmc` command."""
    console.unwind_at_sigterm()
    app()


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lrmc {__version__}")
        raise typer.Exit


@app.callback()
def _lrmc(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_say_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Robust matrix completion: fill in missing values and find outliers in tables, videos and
    images that are low-rank underneath.
    """
