"""A result as a notebook shows it: the facts, what speaks against them, and the plot."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

from ._extras import MissingPackage
from .plot import plot_result

if TYPE_CHECKING:
    from .result import Result

BOX = (
    "border:1px solid #8886;border-radius:6px;padding:.6em .9em;display:inline-block;"
    "max-width:720px;font-family:sans-serif;font-size:13px"
)
NAME = "text-align:left;opacity:.7;padding-right:1em;font-weight:normal"
DPI = 75  # of the plot in the card
MOST_WARNINGS = 5


def card(result: Result) -> str:
    """HTML that needs nothing else, and takes the colors of the notebook around it."""
    lines = "".join(
        f'<tr><th style="{NAME}">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts(result).items()
    )
    said = "".join(
        f'<div style="margin-top:.4em">⚠ {escape(text)}</div>'
        for text in result.warnings[:MOST_WARNINGS]
    )
    title = "<b>lrmc.Result</b>"
    return f'<div style="{BOX}">{title}<table>{lines}</table>{said}{_picture(result)}</div>'


def facts(result: Result) -> dict[str, str]:
    """What the card says, by name."""
    n1, n2 = result.shape
    status = str(result.status)
    if not result.converged:
        status += f": {result.status.meaning}"
    return {
        "matrix": f"{n1} x {n2}, rank {result.rank}",
        "status": f"{status} ({result.n_iter} iterations)",
        "data": f"{result.regime}, noise level {result.noise_level:.3g}",
        "outliers": f"{result.outlier_fraction:.2%} of the observed entries",
        "undetermined": f"{len(result.undetermined_rows)} rows,"
        f" {len(result.undetermined_cols)} columns",
    }


def _picture(result: Result) -> str:
    """The plot, if matplotlib is there and the run had steps."""
    try:
        figure = plot_result(result)
    except MissingPackage:
        return ""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png")
    data = base64.b64encode(buffer.getvalue()).decode()
    about = "change, threshold, inliers and singular values"
    return (
        f'<img alt="{about}" style="max-width:100%" src="data:image/png;base64,{data}">'
    )
