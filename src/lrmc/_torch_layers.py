"""The paper's layers (`lrmc.methods.lrmc`) in torch, line by line, and where they begin.

All shapes may have leading dimensions of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ._extras import optional

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = optional("torch", "torch")
    Tensor = torch.Tensor

Pair = tuple[Tensor, Tensor]  # of the left and the right factor
OVERSAMPLING = 5  # columns more than the rank, in the randomised start
POWER_STEPS = 2
ROUNDS = 3  # of least squares on both factors after it, which gradients flow through


class Factors(NamedTuple):
    """A low-rank matrix X = L R' (`L @ R.mT`), or a batch of them."""

    L: Tensor
    R: Tensor


class Layer(NamedTuple):
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
        with full_precision(Y):
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


def spectral(Y: Tensor, zeta: Tensor, gain: Tensor, rank: int, seed: int) -> Factors:
    """The best rank-r approximation of A = gain * clip(Y, -zeta, zeta), balanced.

    Its factors solve A R (R'R)^-1 = L and A' L (L'L)^-1 = R. They are found without gradient, as in
    `start.py` (with one more power step); then these equations are iterated a few times, which
    changes hardly anything but the gradient: it becomes that of the approximation, but for (s_{r+1}
    / s_r)^6, and unlike that of an SVD it is finite where singular values are equal."""
    with full_precision(Y):
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


def full_precision(X: Tensor) -> Any:
    """Under autocast, products of factors in half precision would be worthless."""
    return torch.autocast(X.device.type, enabled=False)
