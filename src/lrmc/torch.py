"""LRMC as a layer of a network, and data on a GPU: `import lrmc.torch`, with the extra
`lrmc[torch]`.

`UnrolledLRMC` is the layers of a schedule (the paper's Algorithm 1, or those for noisy data),
differentiable with respect to their numbers and to the data. `as_torch_observations` is what lets
`lrmc.solve` read a tensor where it lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import _torch_noisy as noisy
from ._extras import optional
from ._torch_door import as_schedule, check_whole, given, looked_at, unit_of
from ._torch_layers import Factors, Layer, Pair, full_precision, spectral
from .methods.noisy_layers import Layers
from .methods.plan import Plan
from .observations.tensor import TorchObservations, as_torch_observations
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

ZERO = 1e-30  # what stands for a zero of a schedule, which has no logarithm


class UnrolledLRMC(nn.Module):
    """The layers of a schedule as a torch module: `forward(Y)` gives the factors of X.

    A schedule for noisy data (one with a plan) gives an `UnrolledNoisy`, whose parameters are those
    of its layers. Otherwise its parameters are those that the schedule has: `log_zeta` of the
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
        began = as_schedule(schedule)
        if began.plan is not None:
            # one name for both: whoever has a schedule need not care which kind it is
            self.__class__ = UnrolledNoisy
            options = {"extra": extra, "checkpoint": checkpoint, "seed": seed}
            self.__init__(began, rank, **options, device=device, dtype=dtype)  # type: ignore[misc]
            return
        super().__init__()
        _check_layers(began, rank, extra)
        self.rank, self.extra, self.checkpoint, self.seed = (
            int(rank),
            int(extra),
            bool(checkpoint),
            seed,
        )
        self.began = began

        def numbers(values: Any) -> nn.Parameter:
            kind = dtype or torch.get_default_dtype()
            return nn.Parameter(torch.tensor(values, device=device, dtype=kind))

        def logarithms(*values: float) -> nn.Parameter:
            return numbers([math.log(max(x, ZERO)) for x in values])

        gain = _start_gain(began)
        self.log_zeta = logarithms(*began.zeta)
        self.log_eta = logarithms(*(began.eta or (began.eta_0,)))
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
        Y, seen = looked_at(Y, mask, self.rank)
        begun = None if start is None else given(start, Y, self.rank)
        yield from self._through(Y, seen, begun, scale)

    def _through(
        self,
        Y: Tensor,
        seen: Tensor | None,
        begun: Factors | None,
        scale: Any,
    ) -> Iterator[Factors]:
        """The start and the factors after each layer, of data that were looked at."""
        one = Y.new_ones(())
        absolute = self.began.units == "absolute"
        p = one if seen is None else _fraction(seen, Y.dtype)
        eta_unit = one if absolute else 1 / p
        zeta_unit = one if absolute else unit_of(Y, seen, scale)
        zeta = [x * zeta_unit for x in self.log_zeta.to(Y.dtype).exp()]
        eta = [x * eta_unit for x in self.log_eta.to(Y.dtype).exp()]
        if begun is None:
            gain = 1 / p
            if self.log_start_gain is not None:
                gain = self.log_start_gain.to(Y.dtype).exp() * eta_unit
            begun = self._run(spectral, Y, zeta[0], gain, self.rank, self.seed)
        yield begun
        X: Pair = begun
        momentum: Pair | None = None
        for numbers in self._layers(zeta, eta):
            step = Layer(*numbers, self.began.tangent).step
            X, momentum = self._run(step, Y, seen, X, momentum)
            yield Factors(*X)

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
    extra : 0
        These schedules have no tail.
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
        extra: int = 0,
        checkpoint: bool = False,
        seed: int = 0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.began = as_schedule(schedule)
        if self.began.plan is None:
            raise ValueError("this schedule has no plan; UnrolledLRMC takes it")
        self.plan = Plan.from_plain(self.began.plan)
        rank = self.plan.rank if rank is None else rank
        check_whole("rank", rank, 1)
        check_whole("extra", extra, 0, most=0)
        self.rank, self.checkpoint, self.seed = int(rank), bool(checkpoint), seed
        logs = torch.as_tensor(self.plan.layers.array()).log()
        kind = dtype or torch.get_default_dtype()
        self.log_numbers = nn.Parameter(logs.to(device=device, dtype=kind))

    def _through(
        self,
        Y: Tensor,
        seen: Tensor | None,
        begun: Factors | None,
        scale: Any,
    ) -> Iterator[Factors]:
        seen = torch.ones_like(Y, dtype=torch.bool) if seen is None else seen
        data = noisy.Data(Y, seen, unit_of(Y, seen, scale))
        state = (
            noisy.grown(Y, seen, self.rank, self.seed)
            if begun is None
            else noisy.known(begun)
        )
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
    with full_precision(data.Y):
        return next(noisy.passes(data, state, numbers[:, None]))


def _check_layers(began: Schedule, rank: int, extra: int) -> None:
    check_whole("rank", rank, 1)
    check_whole("extra", extra, 0)
    if extra and began.tail is None:
        raise ValueError(
            f"extra={extra}, but the schedule has no tail: it ends after {len(began)} layers"
        )


def _start_gain(began: Schedule) -> float | None:
    """What the start is multiplied with, where that is learned."""
    if began.start_gain is None and began.units == "relative":
        return 1.0
    return began.start_gain


def _card(began: Schedule, card: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was given, or what a module began as."""
    about = "numbers of an lrmc.torch.UnrolledLRMC"
    usual = {"about": about, "began_as": dict(began.card)}
    return usual if card is None else dict(card)


def _fraction(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """How much of each matrix is observed."""
    count = seen.sum((-2, -1), keepdim=True).to(dtype)
    return count / math.prod(seen.shape[-2:])


def _numbers(logarithms: Tensor) -> tuple[float, ...]:
    """Of a parameter."""
    values = logarithms.detach().double().exp().tolist()
    return tuple(0.0 if x <= 1.001 * ZERO else x for x in values)
