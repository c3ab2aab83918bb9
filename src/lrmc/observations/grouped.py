"""Rows that are good or bad together: all bands of a pixel are under a cloud, or none is.

In each column, the rows of a group share one weight: that of the worst of them. Real and imaginary
parts share that of their modulus (`complex_parts`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._arguments import shown
from .._kernels import DenseData
from .._memory import is_large
from .._typing import override
from ..weights import Array
from . import native
from .base import Adjoint, Levels, Observations, Refit, Refitted, Settle, Settled
from .dense import Dense, copied


@dataclass(frozen=True, eq=False, kw_only=True)
class Grouped(Dense):
    """Data whose rows are weighed in groups. The rule Threshold protects no rows and
    columns here.
    """

    members: Array  # groups x size of a group: rows
    modulus: bool = False  # weighed by the norm of a group, not by the worst of it

    @property
    @override
    def groups(self) -> Array:
        return self.members

    @property
    @override
    def of_complex(self) -> bool:
        return self.modulus

    @property
    @override
    def weighed(self) -> DenseData:
        return native.dense_data(
            self.Y,
            self.mask,
            members=self.members,
            modulus=self.modulus,
            gain=self.gain,
        )

    @override
    def refit(self, given: Refit) -> Refitted | None:
        """Not at once: the kernel weighs each entry by itself."""
        return None

    @override
    def settle(self, given: Settle) -> Settled | None:
        """Neither are layers."""
        return None

    @override
    def levels(self, given: Levels) -> tuple[Array, Array] | None:
        """Nor what rows and columns add."""
        return None

    @override
    def adjoint(self, L: Array, R: Array, zeta: float, Ab: Array, Bb: Array) -> Adjoint:
        """Not for groups: the weight of an entry would depend on the residuals of others."""
        raise NotImplementedError(
            "rows in groups have no gradients: train on the same data without groups"
        )


def grouped(obs: Observations, labels: Any, *, modulus: bool = False) -> Grouped:
    """The same data with rows in groups: `labels` names the group of each row; all groups have as
    many rows, and are weighed by the worst of them, or by their modulus.

    Data that are not stored row by row are copied.
    """
    labels = _checked_labels(labels, obs.shape[0])
    _, counts = np.unique(labels, return_counts=True)
    if counts.min() != counts.max():
        raise ValueError(
            f"groups have {counts.min()} to {counts.max()} rows; as many in each are wanted"
        )
    members = np.argsort(labels, kind="stable").reshape(-1, counts[0])
    dense = _by_rows(obs)
    return Grouped(
        **{field.name: getattr(dense, field.name) for field in fields(Dense)},
        members=members,
        modulus=modulus,
    )


def _checked_labels(labels: Any, n: int) -> Array:
    """One for each row, of a kind that can be sorted, none of them missing."""
    wanted = f"a label for each of the {n} rows is wanted"
    try:
        labels = np.asarray(labels)
    except ValueError:
        raise ValueError(f"groups holds lists of unlike lengths; {wanted}") from None
    if labels.shape != (n,):
        raise ValueError(f"groups has shape {labels.shape}; {wanted}")
    if labels.dtype.kind not in "biufSUMm" and not all(
        isinstance(x, str) for x in labels
    ):
        other = next(x for x in labels if not isinstance(x, str))
        raise ValueError(
            f"groups holds {shown(other)}; {wanted}, and all of them numbers, or all text"
        )
    missing = labels != labels
    if np.any(missing):
        raise ValueError(
            f"groups holds {np.count_nonzero(missing)} missing labels; {wanted}"
        )
    return labels


def _by_rows(obs: Observations) -> Dense:
    """The same data, one row after another in memory."""
    if not obs.rows_in_memory and is_large(
        float(obs.shape[0]) * obs.shape[1] * obs.dtype.itemsize
    ):
        raise ValueError(
            "groups= takes the data into memory, and these are too large for that"
        )
    return copied(obs)
