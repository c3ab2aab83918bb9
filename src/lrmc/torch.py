"""LRMC as a layer of a network, and data on a GPU: `import lrmc.torch`, with the extra
`lrmc[torch]`.

`UnrolledLRMC` is the layers of a schedule (the paper's Algorithm 1, or those for noisy data),
differentiable with respect to their numbers and to the data. `as_torch_observations` is what lets
`lrmc.solve` read a tensor where it lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _torch_noisy as noisy
from ._extras import optional
from .methods.noisy_layers import Layers
from .methods.plan import Plan
from .observations._checks import check_finite, check_numbers, check_observed
from .observations.tensor import (
    TorchObservations,
    as_tensor_mask,
    as_torch_observations,
)
from .schedule import Schedule

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.utils.checkpoint import checkpoint as recomputed
else:
    torch = optional("torch", "torch")
    Tensor, nn = torch.Tensor, torch.nn
    recomputed = optional("torch.utils.checkpoint", "torch").checkpoint

__all__ = [
    "Factors",
    "TorchObservations",
    "UnrolledLRMC",
    "UnrolledNoisy",
    "as_torch_observations",
]

Pair = tuple[Tensor, Tensor]  # of the left and the right factor
ZERO = 1e-30  # what stands for a zero of a schedule, which has no logarithm
OVERSAMPLING = 5  # columns more than the rank, in the randomised start
POWER_STEPS = 2
ROUNDS = 3  # of least squares on both factors after it, which gradients flow through


class Factors(NamedTuple):
    """A low-rank matrix X = L R' (`L @ R.mT`), or a batch of them."""

    L: Tensor
    R: Tensor


class UnrolledLRMC(nn.Module):
    """The layers of a schedule as a torch module: `forward(Y)` gives the factors of X.

    A schedule for noisy data (one with a plan) gives an `UnrolledNoisy`, whose parameters are those
    of its layers. Otherwise its `nn.Parameter`s are those that the schedule has: `log_zeta` of the
    thresholds zeta_0 (of the start) to zeta_K, `log_eta` of the step sizes (of `eta_0`, where
    K = 0), `log_start_gain`, `momentum` (one per layer; less than 0 counts as 0), and with `extra`
    layers `log_tail` of (phi, beta). `schedule()` makes a `Schedule` of them, for `lrmc.solve`.

    Parameters
    ----------
    schedule : Schedule or str
        What to begin with: a schedule, or the name of one.
    rank : int
        Rank of X.
    extra : int, default 0
        Layers of the schedule's tail after its K layers.
    checkpoint : bool, default False
        Compute layers again on the way back: memory is one layer and O(K (n1 + n2) r), at the
        price of one more pass.
    seed : int, default 0
        Seed of the random start.
    device : torch.device, optional
        Where the parameters are.
    dtype : torch.dtype, optional
        Type of the parameters, torch's default if not given; the arithmetic has that of the data.

    Raises
    ------
    ValueError
        If an argument makes no sense, such as `extra` layers of a schedule without a tail.

    Examples
    --------
    >>> import lrmc, torch
    >>> from lrmc.torch import UnrolledLRMC
    >>> problem = lrmc.synthetic.problem(n=60, rank=2, p=1)
    >>> model = UnrolledLRMC("geometric", rank=2, extra=10)
    >>> L, R = model(torch.as_tensor(problem.Y))
    >>> torch.linalg.norm(L @ R.mT - torch.as_tensor(problem.X)).backward()
    >>> model.log_zeta.grad is None
    False
    """

    def __init__(
        self,
        schedule: Schedule | str,
        rank: int,
        *,
        extra: int = 0,
        checkpoint: bool = False,
        seed: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        began = _as_schedule(schedule)
        if began.plan is not None:
            # one name for both: whoever has a schedule need not care which kind it is
            _check_whole("extra", extra, 0, most=0)
            self.__class__ = UnrolledNoisy
            UnrolledNoisy.__init__(
                self,  # type: ignore[arg-type]
                began,
                rank,
                checkpoint=checkpoint,
                seed=seed,
                device=device,
                dtype=dtype,
            )
            return
        for name, number, least in (("rank", rank, 1), ("extra", extra, 0)):
            _check_whole(name, number, least)
        if extra and began.tail is None:
            raise ValueError(
                f"extra={extra}, but the schedule has no tail: it ends after {len(began)} layers"
            )
        self.rank, self.extra, self.checkpoint, self.seed = (
            int(rank),
            int(extra),
            bool(checkpoint),
            seed,
        )
        self.began = began

        def numbers(values: Any) -> nn.Parameter:
            return nn.Parameter(
                torch.tensor(
                    values, device=device, dtype=dtype or torch.get_default_dtype()
                )
            )

        def logarithms(*values: float) -> nn.Parameter:
            return numbers([math.log(max(x, ZERO)) for x in values])

        gain = (
            1.0
            if began.start_gain is None and began.units == "relative"
            else began.start_gain
        )
        self.log_zeta, self.log_eta = (
            logarithms(*began.zeta),
            logarithms(*(began.eta or (began.eta_0,))),
        )
        self.log_start_gain = None if gain is None else logarithms(gain)
        self.log_tail = logarithms(*(began.tail or ())) if extra else None
        self.momentum = numbers(began.momentum) if began.momentum else None

    def forward(
        self,
        Y: Tensor,
        mask: Tensor | None = None,
        *,
        start: Any = None,
        scale: Any = None,
    ) -> Factors:
        """The factors after the last layer, for one matrix (n1, n2) or a batch (..., n1, n2) of any
        depth.

        NaN is missing, and so is False in the mask, which may be one for all. Y is computed as it
        is in float32 and float64, all else in float32. `start` = (L, R) replaces the spectral
        start. `scale` replaces the median of the observed `|y|` (of each matrix) as the unit of
        relative thresholds: `lrmc.as_observations(Y).scale` is the one that `lrmc.solve` takes, the
        median of a sample. The unit and 1/p count as constants for the gradient."""
        for X in self.iterates(Y, mask, start=start, scale=scale):
            last = X
        return last

    def iterates(
        self,
        Y: Tensor,
        mask: Tensor | None = None,
        *,
        start: Any = None,
        scale: Any = None,
    ) -> Iterator[Factors]:
        """The start and the factors after each layer, for a loss that looks at them all.
        Arguments as for `forward`.
        """
        Y, seen = _looked_at(Y, mask, self.rank)
        absolute = self.began.units == "absolute"
        p = (
            Y.new_ones(())
            if seen is None
            else seen.sum((-2, -1), keepdim=True).to(Y.dtype) / math.prod(Y.shape[-2:])
        )
        eta_unit = Y.new_ones(()) if absolute else 1 / p
        zeta_unit = (
            Y.new_ones(())
            if absolute
            else _unit(Y, seen)
            if scale is None
            else _per_matrix(scale, Y)
        )
        zeta = [x * zeta_unit for x in self.log_zeta.to(Y.dtype).exp()]
        if start is None:
            gain = (
                1 / p
                if self.log_start_gain is None
                else self.log_start_gain.to(Y.dtype).exp() * eta_unit
            )
            L, R = self._run(_spectral, Y, zeta[0], gain, self.rank, self.seed)
        else:
            L, R = _given(start, Y, self.rank)
        yield Factors(L, R)
        momentum: Pair | None = None
        for z, eta, gamma in self._layers(
            zeta, [x * eta_unit for x in self.log_eta.to(Y.dtype).exp()]
        ):
            (L, R), momentum = self._run(
                _Layer(z, eta, gamma, self.began.tangent).step,
                Y,
                seen,
                (L, R),
                momentum,
            )
            yield Factors(L, R)

    def _layers(
        self, zeta: list[Tensor], eta: list[Tensor]
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Threshold, step and momentum of each layer: the head, then the tail."""
        gamma = (
            [None] * len(eta)
            if self.momentum is None
            else list(self.momentum.clamp(min=0).to(zeta[0].dtype))
        )
        # where K = 0, eta_0 is only for the tail
        yield from zip(zeta[1:], eta, gamma, strict=False)
        if self.log_tail is not None:
            phi, beta = self.log_tail.to(zeta[0].dtype).exp()
            for k in range(1, self.extra + 1):
                yield zeta[-1] * phi**k, eta[-1] * beta**k, gamma[-1]

    def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        if self.checkpoint and torch.is_grad_enabled():
            return recomputed(
                function, *args, use_reentrant=False, preserve_rng_state=False
            )
        return function(*args)

    def schedule(self, card: Mapping[str, Any] | None = None) -> Schedule:
        """The present numbers as a `Schedule`; its card says what it began as, unless
        one is given.
        """
        new: dict[str, Any] = {"zeta": _numbers(self.log_zeta)}
        new |= (
            {"eta": _numbers(self.log_eta)}
            if len(self.began)
            else {"eta_0": _numbers(self.log_eta)[0]}
        )
        if self.log_start_gain is not None:
            (gain,) = _numbers(self.log_start_gain)
            new["start_gain"] = (
                None if gain == 1.0 and self.began.start_gain is None else gain
            )
        if self.log_tail is not None:
            new["tail"] = _numbers(self.log_tail)
        if self.momentum is not None:
            new["momentum"] = tuple(self.momentum.detach().clamp(min=0).tolist())
        return replace(self.began, **new, card=_card(self.began, card))

    def extra_repr(self) -> str:
        """What the module is, beside its parameters."""
        tangent = ", tangent" if self.began.tangent else ""
        return f"rank={self.rank}, layers={len(self.began)}, extra={self.extra}, {self.began.units}{tangent}"


class UnrolledNoisy(UnrolledLRMC):
    """The layers of a schedule for noisy data as a torch module: `forward(Y)` gives the factors.

    Its parameter is `log_numbers`: logarithms of the 6 numbers of each of K layers, as
    `lrmc.methods.noisy_layers.Layers` has them (reach, shape, longer, shorter, kappa, eta). Made by
    `UnrolledLRMC(schedule, rank)`. The layers begin where `lrmc.solve` begins them (components are
    grown, without gradient). What a plan has beside its layers is kept by `schedule()` and done by
    `lrmc.solve`, not here: noise of lines, a mixture, blends, and components that died are not cut.

    Parameters
    ----------
    schedule : Schedule or str
        What to begin with: a schedule with a plan, or the name of one.
    rank : int, optional
        How many components the layers have; that of the plan if not given.
    checkpoint, seed, device, dtype
        As for `UnrolledLRMC`.

    Examples
    --------
    >>> import lrmc, torch
    >>> from lrmc.torch import UnrolledLRMC
    >>> problem = lrmc.synthetic.problem(n=60, rank=2, p=1, noise=0.1)
    >>> model = UnrolledLRMC("ratings", rank=4)
    >>> L, R = model(torch.as_tensor(problem.Y))
    >>> torch.linalg.norm(L @ R.mT - torch.as_tensor(problem.X)).backward()
    >>> tuple(model.log_numbers.grad.shape)
    (6, 3)
    """

    def __init__(
        self,
        schedule: Schedule | str,
        rank: int | None = None,
        *,
        checkpoint: bool = False,
        seed: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.began = _as_schedule(schedule)
        if self.began.plan is None:
            raise ValueError("this schedule has no plan; UnrolledLRMC takes it")
        self.plan = Plan.from_plain(self.began.plan)
        rank = self.plan.rank if rank is None else rank
        _check_whole("rank", rank, 1)
        self.rank, self.checkpoint, self.seed = int(rank), bool(checkpoint), seed
        logs = torch.as_tensor(self.plan.layers.array()).log()
        kind = dtype or torch.get_default_dtype()
        self.log_numbers = nn.Parameter(logs.to(device=device, dtype=kind))

    def iterates(
        self,
        Y: Tensor,
        mask: Tensor | None = None,
        *,
        start: Any = None,
        scale: Any = None,
    ) -> Iterator[Factors]:
        """The start and the factors after each layer. Arguments as for `forward`."""
        Y, seen = _looked_at(Y, mask, self.rank)
        seen = torch.ones_like(Y, dtype=torch.bool) if seen is None else seen
        unit = _unit(Y, seen) if scale is None else _per_matrix(scale, Y)
        data = noisy.Data(Y, seen, unit)
        if start is None:
            state = noisy.grown(Y, seen, self.rank, self.seed)
        else:
            state = noisy.known(_given(start, Y, self.rank))
        yield Factors(*state.X)
        for numbers in self.log_numbers.to(Y.dtype).exp().T:
            state = self._run(_through_layer, data, state, numbers)
            yield Factors(*state.X)

    def schedule(self, card: Mapping[str, Any] | None = None) -> Schedule:
        """The present numbers as a `Schedule`; its card says what it began as, unless
        one is given.
        """
        layers = Layers(*self.log_numbers.detach().double().exp().tolist())
        plan = replace(self.plan, layers=layers)
        return replace(self.began, plan=plan.plain(), card=_card(self.began, card))

    def extra_repr(self) -> str:
        """What the module is, beside its parameters."""
        return f"rank={self.rank}, layers={len(self.plan.layers)}, noisy"


def _through_layer(
    data: noisy.Data,
    state: noisy.State,
    numbers: Tensor,
) -> noisy.State:
    with _full_precision(data.Y):
        return next(noisy.passes(data, state, numbers[:, None]))


def _card(began: Schedule, card: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was given, or what a module began as."""
    about = "numbers of an lrmc.torch.UnrolledLRMC"
    usual = {"about": about, "began_as": dict(began.card)}
    return usual if card is None else dict(card)


# ---- the algorithm. All shapes may have leading dimensions of a batch.


class _Layer(NamedTuple):
    """One step of `lrmc.methods.lrmc`, line by line."""

    zeta: Tensor
    eta: Tensor
    gamma: Tensor | None
    tangent: bool

    def step(
        self,
        Y: Tensor,
        seen: Tensor | None,
        X: Pair,
        momentum: Pair | None,
    ) -> tuple[Pair, Pair]:
        """The factors after the step, and their momentum."""
        L, R = X
        with _full_precision(Y):
            C = torch.clamp(Y - L @ R.mT, -self.zeta, self.zeta)
            C = C if seen is None else torch.where(seen, C, 0.0)
            GL, GR = L.mT @ L, R.mT @ R
            dL, dR = _divide(C @ R, GR), _divide(C.mT @ L, GL)
            if self.tangent:
                M = _divide(dL.mT @ L, GL).mT
                dL, dR = dL - L @ M / 2, dR - R @ M.mT / 2
            if momentum is not None and self.gamma is not None:
                dL, dR = dL + self.gamma * momentum[0], dR + self.gamma * momentum[1]
            return (L + self.eta * dL, R + self.eta * dR), (dL, dR)


def _spectral(Y: Tensor, zeta: Tensor, gain: Tensor, rank: int, seed: int) -> Factors:
    """The best rank-r approximation of A = gain * clip(Y, -zeta, zeta), balanced.

    Its factors solve A R (R'R)^-1 = L and A' L (L'L)^-1 = R. They are found without gradient, as in
    `start.py` (with one more power step); then these equations are iterated a few times, which
    changes hardly anything but the gradient: it becomes that of the approximation, but for (s_{r+1}
    / s_r)^6, and unlike that of an SVD it is finite where singular values are equal."""
    with _full_precision(Y):
        A = gain * torch.clamp(Y, -zeta, zeta)
        R = _leading(A.detach(), rank, seed)
        for _ in range(ROUNDS):
            L = _divide(A @ R, R.mT @ R)
            R = _divide(A.mT @ L, L.mT @ L)
        return Factors(L, R)


@torch.no_grad()
def _leading(A: Tensor, rank: int, seed: int) -> Tensor:
    """V S^(1/2) of the leading singular values, randomised."""
    n1, n2 = A.shape[-2:]
    random = torch.randn(
        n2,
        min(rank + OVERSAMPLING, n1, n2),
        generator=torch.Generator().manual_seed(seed),
    )
    Q = random.to(A).expand(*A.shape[:-2], -1, -1)
    for _ in range(POWER_STEPS):
        P = torch.linalg.qr(A @ Q)[0]
        Q = torch.linalg.qr(A.mT @ P)[0]
    _, s, Vt = torch.linalg.svd(A @ Q, full_matrices=False)
    return Q @ Vt.mT[..., :rank] * s[..., None, :rank].sqrt()


def _divide(B: Tensor, G: Tensor) -> Tensor:
    """B G^+ for a Gram matrix G, as `lrmc.linalg.divide`: directions that G cannot tell
    from zero are left out.
    """
    eps = torch.finfo(B.dtype).eps
    negligible = max(B.shape[-2] * eps**2, 64 * torch.finfo(torch.float64).eps)
    sound = torch.isfinite(G).all(-1, keepdim=True).all(-2, keepdim=True)
    square = torch.where(
        sound, G, torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    ).double()
    inverse = torch.linalg.pinv(square, rtol=negligible, hermitian=True).to(B.dtype)
    # a run that blew up gives NaN, not an error of the decomposition
    return B @ torch.where(sound, inverse, torch.nan)


def _full_precision(X: Tensor) -> Any:
    """Under autocast, products of factors in half precision would be worthless."""
    return torch.autocast(X.device.type, enabled=False)


# ---- the door


def _as_schedule(schedule: Any) -> Schedule:
    """A schedule, or the one of this name."""
    found = Schedule.named(schedule) if isinstance(schedule, str) else schedule
    if not isinstance(found, Schedule):
        raise ValueError(
            f"schedule is a {type(schedule).__name__}; a Schedule or the name of one is wanted"
        )
    return found


def _check_whole(name: str, number: Any, least: int, most: float = math.inf) -> None:
    whole = isinstance(number, Integral) and not isinstance(number, bool)
    if whole and number > most:
        raise ValueError(f"{name}={number!r}; layers for noisy data have none")
    if not whole or number < least:
        raise ValueError(
            f"{name}={number!r}; a whole number of at least {least} is wanted"
        )


def _looked_at(Y: Any, mask: Any, rank: int) -> tuple[Tensor, Tensor | None]:
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


def _unit(Y: Tensor, seen: Tensor | None) -> Tensor:
    """The median of the observed |y| of each matrix; their mean where that is 0; never 0."""
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


def _given(start: Any, Y: Tensor, rank: int) -> Factors:
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


def _numbers(logarithms: Tensor) -> tuple[float, ...]:
    """Of a parameter."""
    values = logarithms.detach().double().exp().tolist()
    return tuple(0.0 if x <= 1.001 * ZERO else x for x in values)
