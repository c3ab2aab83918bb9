"""What `lrmc.solve` gives: the completed matrix, its outliers, and how the run went."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..evidence.alarms import Alarms, Listing, listing, standing_out
from ..fit import Filling, Fit
from ..observations._door import as_observations
from ..observations.base import Observations, Sample
from ..schedule import Schedule
from ..weights import Array
from . import files
from .uncertainty import Calibrated

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Result(Calibrated):
    """Result of `lrmc.solve`: the low-rank matrix X = L R', and how the run went.

    Attributes
    ----------
    L, R : arrays of shape (n1, rank) and (n2, rank)
        The factors.
    status : Status
        How the run ended; `converged` is True if well.
    history : tuple of Record
        One record per iteration: k, change, zeta (the threshold), inliers, seconds.
    method : str
        The method that was used.
    tol : float
        The tolerance that was asked for.
    undetermined_rows, undetermined_cols : arrays of int
        Rows and columns that the data do not determine: NaN in the completion.
    noise_level : float
        Estimated standard deviation of the noise.
    outlier_fraction : float
        Estimated fraction of outliers among the observed entries.
    regime : {"exact", "noisy", "unknown"}
        Low rank plus outliers, proven; with noise; or the run did not get that far.
    evidence : dict
        Why this rank and loss: tests, and errors on entries that were set aside.
    certificate : dict or None
        What proves an exact answer.
    warnings : tuple of str
        What speaks against the answer, in sentences.
    observations : Observations or None
        The data; None for a loaded result.
    refit, beyond, calibrated, labels, missed
        Used by `interval`, `completed`, `frame` and `outliers`.

    Examples
    --------
    >>> import lrmc
    >>> result = lrmc.solve(lrmc.synthetic.problem(n=100, rank=2, p=0.8).Y)
    >>> result.completed().shape
    (100, 100)
    """

    # by dtype.kind of the factors: how files with such factors are read
    kinds: ClassVar[dict[str, type[Result]]] = {}

    def __init_subclass__(cls, *, kind: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        Result.kinds[kind] = cls

    def __repr__(self) -> str:
        n1, n2 = self.shape
        name = type(self).__name__
        found = f"{100 * self.outlier_fraction:.3g} % outliers, noise {self.noise_level:.2g}"
        return f"{name}({n1} x {n2}, rank {self.rank}, {self.status.name} after {self.n_iter}, {self.regime}: {found})"

    def _repr_html_(self) -> str:
        from ..card import card

        return card(self)

    def outliers(
        self,
        Y: Any = None,
        *,
        mask: Any = None,
        threshold: float | None = None,
    ) -> Any:
        """The outliers: S = Y - X where an observed entry stands out, 0 for other entries.

        Parameters
        ----------
        Y, mask : optional
            The data, which a result loaded from a file needs again.
        threshold : float, optional
            An entry stands out if `|Y - X|` is larger. If not given, so much that few of the listed
            entries are expected to be good: `false_alarms` says how many.

        Returns
        -------
        array or sparse matrix
            In the form of the data.

        Raises
        ------
        ValueError
            If the data are needed and not given, or have another shape.

        Examples
        --------
        >>> import lrmc
        >>> problem = lrmc.synthetic.problem(n=100, rank=2, p=1, outlier_scale=9)
        >>> S = lrmc.solve(problem.Y).outliers()
        >>> bool(abs(S - problem.outliers).max() < 1e-4 * abs(S).max())
        True
        """
        obs = self._data(Y, mask)
        fit = Fit(self.factors(), self.beyond)
        if threshold is None:
            return standing_out(obs, fit, self.listing(obs))
        return standing_out(obs, fit, Listing.even(float(threshold), self.shape))

    def _data(self, Y: Any, mask: Any) -> Observations:
        """The data of the run, or what is given in their place."""
        obs = self.observations if Y is None else as_observations(Y, mask)
        if obs is None:
            raise ValueError(
                "this result was loaded from a file, which does not hold the data; call outliers(Y)"
            )
        if obs.shape != self.shape:
            raise ValueError(
                f"the data have shape {obs.shape}, this result {self.shape}"
            )
        return obs

    def listing(self, obs: Observations | None = None) -> Listing:
        """The threshold beyond which observed entries are listed as outliers. With noise, finding it
        takes a few passes, once.
        """
        if obs is None or obs is self.observations:
            return self._own_listing
        return self._listed(obs)

    @cached_property
    def _own_listing(self) -> Listing:
        return self._listed(self._data(None, None))

    def _listed(self, obs: Observations) -> Listing:
        if self.regime == "noisy":
            # what is added in time was decided by other errors
            in_time = any(isinstance(part, Filling) for part in self.beyond)
            return listing(obs, self.fit, None if in_time else self.missed)
        residual = self.fit.residual(obs.sample)
        deviations = (1.4826 * float(np.median(np.abs(residual))), self.noise_level)
        known = (6 * x for x in deviations if math.isfinite(x))
        return Listing.even(max(self.history[-1].zeta, *known), self.shape)

    def outlier_probability(
        self,
        rows: Any,
        cols: Any,
        Y: Any = None,
        *,
        mask: Any = None,
    ) -> Array:
        """Probability that observed entries are gross errors.

        Parameters
        ----------
        rows, cols
            As for `interval`.
        Y, mask
            As for `outliers`.

        Returns
        -------
        array
            NaN where nothing was observed, and in rows and columns of mostly one value, where
            errors cannot be told from events.
        """
        rows, cols = self._places(rows, cols)
        obs, flat = self._data(Y, mask), (rows.ravel(), cols.ravel())
        residual = obs.lookup(*flat) - self._at(*flat)
        chance = self.listing(obs).outlying(Sample(*flat, residual))
        return chance.reshape(rows.shape)

    def false_alarms(
        self,
        Y: Any = None,
        *,
        mask: Any = None,
        threshold: float | None = None,
    ) -> Alarms:
        """Number of entries that `outliers` lists, and how many of these are expected to be good.

        What is expected is an extrapolation, on small tables a poor one; `most` are good at most.
        One pass over the data.

        Parameters
        ----------
        Y, mask, threshold
            As for `outliers`.

        Returns
        -------
        Alarms
            A named tuple.
        """
        obs = self._data(Y, mask)
        listed = self.listing(obs)
        limit = None if threshold is None else float(threshold)
        parts = self.fit.residuals(obs)
        found = sum(int(listed.beyond(some, limit).sum()) for some in parts)
        return listed.alarms(found, obs.n_observed, limit)

    @property
    def schedule(self) -> Schedule | None:
        """What was learned and decided for noisy data, with a card: `solve(Y, schedule=...)` takes
        it for more data of the same kind. None for other data.
        """
        plan = self.evidence.get("plan")
        if plan is None:
            return None
        card = {
            "source": "learned on hidden entries",
            "shape": list(self.shape),
            "rank": self.rank,
            "held_out": dict(self.evidence.get("held_out", {})),
        }
        return Schedule(plan=plan, card=card)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot change, threshold, inliers and singular values.

        Parameters
        ----------
        path : path, optional
            Where the figure is saved.

        Returns
        -------
        matplotlib.figure.Figure
            A notebook shows it.
        """
        from ..plot import plot_result

        return plot_result(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the data to an .npz file."""
        files.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read what `save` wrote. Nothing in the file is executed."""
        fields = files.load(path)
        return Result.kinds.get(fields["L"].dtype.kind, Result)(**fields)
