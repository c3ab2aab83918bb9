"""One page that shows how a run went."""

from __future__ import annotations

import io
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ._extras import optional
from ._files import whole
from .linalg import balanced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .result import Result

DPI = 110


@cache
def _inline_figure() -> Any:
    """matplotlib's Figure that a notebook shows, whichever backend is in use."""
    Figure = optional("matplotlib.figure", "plot").Figure

    class InlineFigure(Figure):  # type: ignore[misc, valid-type]
        """A figure that is shown where it is the value of a cell."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=DPI)
            return buffer.getvalue()

    return InlineFigure


def plot_result(result: Result, path: str | os.PathLike[str] | None = None) -> Figure:
    """Change, threshold, inliers and singular values of a result, as a matplotlib figure."""
    optional("matplotlib", "plot")  # which may be gone since the class was made
    figure = _inline_figure()(figsize=(9, 6), layout="constrained")
    steps = result.history[1:]
    k = [record.k for record in steps]
    axes = figure.subplots(2, 2)
    share = f"{100 * result.outlier_fraction:.1f} % outliers, noise {result.noise_level:.2g}"
    figure.suptitle(
        f"rank {result.rank}, {result.status} after {result.n_iter} iterations, {result.regime} data: {share}"
    )
    change = np.array([record.change for record in steps])
    axes[0, 0].semilogy(
        k, np.where(np.isfinite(change) & (change > 0), change, np.nan), "o-", ms=3
    )
    if result.regime != "noisy":  # such runs stop by the noise, not by tol
        axes[0, 0].axhline(result.tol, color="0.6", lw=1, ls="--", label="tol")
        axes[0, 0].legend(frameon=False)
    axes[0, 0].set_title("change of X from one iteration to the next")
    zeta = np.array([record.zeta for record in steps])
    axes[0, 1].semilogy(k, np.where(zeta > 0, zeta, np.nan), "o-", ms=3, color="C1")
    axes[0, 1].set_title("threshold")
    axes[1, 0].plot(
        k, [100 * record.inliers for record in steps], "o-", ms=3, color="C2"
    )
    axes[1, 0].set(ylim=(0, 102), title="entries within the threshold, %")
    values = np.linalg.norm(balanced(*result.factors()).L, axis=0) ** 2
    axes[1, 1].bar(np.arange(1, len(values) + 1), values, color="C3")
    axes[1, 1].set(
        title="singular values of X", yscale="log" if np.all(values > 0) else "linear"
    )
    for ax in (axes[0, 0], axes[0, 1], axes[1, 0]):
        ax.set_xlabel("iteration")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    if path is not None:
        with whole(path) as temporary:
            figure.savefig(temporary, dpi=DPI)
    return figure
