"""The command line: it parses, calls the library and shows what came back."""

from __future__ import annotations

from typing import Annotated, Any

try:
    import rich  # noqa: F401
    import typer
    import typer.core
except ImportError:
    raise SystemExit(
        'the command line needs typer and rich: pip install "lrmc[cli]"'
    ) from None

from .. import __version__
from . import bench, clouds, complete, console, demo, faces, training, ultrasound, video


class Commands(typer.core.TyperGroup):
    """All commands: none ends with a traceback when it is ended from outside, wherever it is."""

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


for command in (complete, demo, video, clouds, ultrasound, faces, training, bench):
    command.register(app)
