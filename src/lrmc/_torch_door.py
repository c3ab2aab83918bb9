"""What the modules of `lrmc.torch` are given, looked at once."""

from __future__ import annotations

import math
from numbers import Integral
from typing import TYPE_CHECKING, Any

from ._extras import optional
from ._torch_layers import Factors
from .observations._checks import check_finite, check_numbers, check_observed
from .observations.tensor import as_tensor_mask
from .schedule import Schedule

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = optional("torch", "torch")
    Tensor = torch.Tensor


def as_schedule(schedule: Any) -> Schedule:
    """A schedule, or the one of this name."""
    found = Schedule.named(schedule) if isinstance(schedule, str) else schedule
    if not isinstance(found, Schedule):
        raise ValueError(
            f"schedule is a {type(schedule).__name__}; a Schedule or the name of one is wanted"
        )
    return found


def check_whole(name: str, number: Any, least: int, most: float = math.inf) -> None:
    """Refuse what is no number of components, or of layers."""
    whole = isinstance(number, Integral) and not isinstance(number, bool)
    if whole and number > most:
        raise ValueError(f"{name}={number!r}; layers for noisy data have none")
    if not whole or number < least:
        raise ValueError(
            f"{name}={number!r}; a whole number of at least {least} is wanted"
        )


def looked_at(Y: Any, mask: Any, rank: int) -> tuple[Tensor, Tensor | None]:
    """The data with 0 where nothing is observed, and what is observed (None where all is)."""
    if not isinstance(Y, Tensor) or Y.layout != torch.strided:
        what = (
            f"a {Y.dtype} tensor that is {Y.layout}"
            if isinstance(Y, Tensor)
            else f"a {type(Y).__name__}"
        )
        raise ValueError(
            f"the data are {what}; a dense tensor of real numbers is wanted"
        )
    check_numbers(Y.dtype)
    if Y.ndim < 2 or 0 in Y.shape:
        raise ValueError(
            f"a matrix or a batch of matrices is wanted, but the tensor has shape {tuple(Y.shape)}"
        )
    if rank > min(Y.shape[-2:]):
        raise ValueError(
            f"rank={rank} for a {Y.shape[-2]} x {Y.shape[-1]} matrix; 1 to {min(Y.shape[-2:])} is wanted"
        )
    Y = Y if Y.dtype in (torch.float32, torch.float64) else Y.float()
    seen = ~torch.isnan(Y)
    if mask is not None:
        one = torch.as_tensor(mask).ndim == 2  # for all matrices
        seen = seen & as_tensor_mask(
            mask, tuple(Y.shape[-2:] if one else Y.shape), Y.device
        )
    if seen.all() and torch.isfinite(Y).all():
        return Y, None
    observed = seen.flatten(-2).any(-1)
    if not observed.all():
        which = (
            f" in matrix {int(observed.flatten().int().argmin())} of the batch"
            if Y.ndim > 2
            else ""
        )
        check_observed(0, tuple(Y.shape[-2:]), which)
    Y = torch.where(seen, Y, 0.0)
    check_finite(int(torch.isinf(Y).sum()))
    return Y, seen


def unit_of(Y: Tensor, seen: Tensor | None, scale: Any) -> Tensor:
    """The unit of each matrix, if it is given; else the median of the observed |y|, or their mean
    where that is 0; never 0.
    """
    if scale is not None:
        return _per_matrix(scale, Y)
    size = abs(Y.detach()).flatten(-2)
    size = size if seen is None else torch.where(seen.flatten(-2), size, torch.nan)
    median, mean = size.nanmedian(-1).values, size.nanmean(-1)
    unit = torch.where(median > 0, median, torch.where(mean > 0, mean, 1.0))
    return unit[..., None, None]


def _per_matrix(scale: Any, Y: Tensor) -> Tensor:
    unit = torch.as_tensor(scale, dtype=Y.dtype, device=Y.device)
    if unit.shape not in ((), Y.shape[:-2]) or not (unit > 0).all():
        raise ValueError(
            f"scale has shape {tuple(unit.shape)}; one positive number (or one for each matrix) is wanted"
        )
    return unit[..., None, None]


def given(start: Any, Y: Tensor, rank: int) -> Factors:
    """A start that the user has."""
    if len(start) != 2:
        raise ValueError(f"start has {len(start)} parts; a pair (L, R) is wanted")
    L, R = (torch.as_tensor(X, dtype=Y.dtype, device=Y.device) for X in start)
    for name, X, n in (("L", L, Y.shape[-2]), ("R", R, Y.shape[-1])):
        if X.shape[-2:] != (n, rank) or X.shape[:-2] not in ((), Y.shape[:-2]):
            raise ValueError(
                f"{name} of the start has shape {tuple(X.shape)}; {(*Y.shape[:-2], n, rank)} is wanted"
            )
    return Factors(*(X.expand(*Y.shape[:-2], -1, -1) for X in (L, R)))
