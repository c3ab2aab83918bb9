"""CORONA (Solomon et al. 2019): L + S by unrolled iterations with learned convolutions, as a
baseline.

Layer k:  L <- SVT(C1 * D + C3 * S + C5 * L),  S <- soft(C2 * D + C4 * S + C6 * L): convolutions
over the pixels of every frame, 5 x 5 in the first three layers and 3 x 3 in the others; both
thresholds are learned, relative to the data. Real numbers here (envelopes), where the authors have
complex ones; the six convolutions are done as one, with three channels in and two out.

    python experiments/corona.py FOLDER WEIGHTS.pt --minutes 3     trains, or goes on training, and writes the weights
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

KERNELS = (5, 5, 5, 3, 3, 3, 3, 3, 3, 3)
PATCH, FRAMES = 32, 40
SHOWN = 20  # frames of a training example: half the time of 40


class Layer(nn.Module):
    """One iteration."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3, 2, kernel, padding=kernel // 2, bias=False)
        # begin near proximal gradient with step 1/2: L + (D - L - S) / 2, and S the same way
        with torch.no_grad():
            self.mix.weight.mul_(0.05)
            # from D, L, S to L, S
            centre = torch.tensor([[0.5, 0.5, -0.5], [0.5, -0.5, 0.5]])
            self.mix.weight[:, :, kernel // 2, kernel // 2] += centre
        # thresholds: a sigmoid of these, of the largest
        self.low = nn.Parameter(torch.tensor(-3.0))
        self.sparse = nn.Parameter(torch.tensor(-3.0))

    def forward(self, D: Tensor, L: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
        """All (batch, frames, height, width)."""
        # a frame is an item of the batch
        stacked = torch.stack([D, L, S], 2).flatten(0, 1)
        mixed = self.mix(stacked).unflatten(0, D.shape[:2])
        L, S = mixed.unbind(2)
        reach = torch.sigmoid(self.sparse) * S.detach().abs().amax(
            (1, 2, 3), keepdim=True
        )
        return svt(L, torch.sigmoid(self.low)), torch.sign(S) * torch.relu(
            S.abs() - reach
        )


def svt(X: Tensor, share: Tensor) -> Tensor:
    """Singular values made smaller by a share of the largest.

    Through the eigenvalues of the small Gram matrix, frames x frames: several times faster than an
    SVD."""
    A = X.flatten(2)
    values, V = torch.linalg.eigh((A @ A.mT).double())
    sigma = values.clamp_min(1e-12).sqrt()
    kept = torch.relu(1 - share * sigma[:, -1:] / sigma)
    return ((V * kept[:, None]) @ V.mT).to(X.dtype).matmul(A).view_as(X)


class Corona(nn.Module):
    """Cine patches (batch, frames, height, width) -> tissue L and bubbles S."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(kernel) for kernel in KERNELS)

    def forward(self, D: Tensor) -> tuple[Tensor, Tensor]:
        """Ten layers from L = S = 0."""
        L, S = torch.zeros_like(D), torch.zeros_like(D)
        for layer in self.layers:
            L, S = layer(D, L, S)
        return L, S


def as_published(model: Corona, D: Tensor) -> tuple[Tensor, Tensor]:
    """The same numbers by the operations of the authors' code: six convolutions and an
    SVD in every layer.
    """
    L, S = torch.zeros_like(D), torch.zeros_like(D)
    for layer in model.layers:
        side = layer.mix.padding[0]
        kernels = [
            [layer.mix.weight[i, j][None, None, None] for j in range(3)]
            for i in range(2)
        ]
        L, S = (
            sum(
                nn.functional.conv3d(X[:, None], k, padding=(0, side, side))[:, 0]
                for X, k in zip((D, L, S), row)
            )
            for row in kernels
        )
        U, sigma, V = torch.linalg.svd(L.flatten(2).mT, full_matrices=False)
        sigma = torch.relu(sigma - torch.sigmoid(layer.low) * sigma[:, :1])
        L = ((U * sigma[:, None]) @ V).mT.reshape(D.shape)
        reach = torch.sigmoid(layer.sparse) * S.abs().amax((1, 2, 3), keepdim=True)
        S = torch.sign(S) * torch.relu(S.abs() - reach)
    return L, S


# ---- what it is trained on


def simulated(
    rng: np.random.Generator, frames: int = FRAMES, size: int = PATCH
) -> tuple[np.ndarray, np.ndarray]:
    """Speckle that drifts and changes its gain, and Gaussian bubbles that flow through it."""
    wide = size + 16
    speckle = np.hypot(
        *ndimage.gaussian_filter(rng.standard_normal((2, wide, wide)), (0, 1.2, 1.2))
    )
    speckle *= rng.uniform(0.2, 0.6) / speckle.mean()
    phase, reach = rng.uniform(0, 2 * np.pi, 2), rng.uniform(0, 2.5, 2)
    y, x = np.mgrid[:size, :size] + 8.0
    tissue, bubbles = (
        np.empty((frames, size, size), np.float32),
        np.zeros((frames, size, size), np.float32),
    )
    for t in range(frames):
        at = (
            y + reach[0] * np.sin(phase[0] + 0.1 * t),
            x + reach[1] * np.sin(phase[1] + 0.1 * t),
        )
        tissue[t] = ndimage.map_coordinates(speckle, at, order=1) * (
            1 + 0.03 * np.sin(0.2 * t + phase[0])
        )
    for _ in range(rng.integers(2, 14)):
        place, speed = rng.uniform(0, size, 2), rng.normal(0, 1.0, 2)
        bright, width, born = (
            rng.uniform(0.1, 0.5),
            rng.uniform(1, 2.5),
            rng.integers(-10, frames - 4),
        )
        for t in range(max(0, born), min(frames, born + rng.integers(4, 25))):
            cy, cx = place + speed * (t - born)
            bubbles[t] += bright * np.exp(
                -((y - 8 - cy) ** 2 + (x - 8 - cx) ** 2) / (2 * width**2)
            )
    return np.clip(tissue, 0, 1), np.minimum(bubbles, 0.5)


class Real:
    """Patches of real tissue with real bubbles, neither from the places that the task is
    scored on.
    """

    def __init__(self, folder: Path) -> None:
        abdomen = np.load(folder / "ultrasound/bmode_abdomen_b.npz")[
            "frames"
        ] / np.float32(255)
        others = [
            np.load(folder / f"ultrasound/{name}.npz")["frames"][:FRAMES, ::2, ::2]
            / np.float32(255)
            for name in ("bmode_invivo_mbtracking",)
        ]
        kidney = (
            0.5 * np.load(folder / "ultrasound/ceus_rat_kidney_upper.npz")["bubbles"]
        )
        # the task takes the middle 160 x 160
        self.tissue = [abdomen[:, :40], abdomen[:, -40:], *others]
        self.bubbles = [kidney[:, :, :35], kidney[:, :, -35:]]

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Tissue, bubbles."""
        films = [some[rng.integers(len(some))] for some in (self.tissue, self.bubbles)]
        return tuple(
            _patch(rng, film[(at := rng.integers(FRAMES - SHOWN + 1)) : at + SHOWN])
            for film in films
        )  # type: ignore[return-value]


def _patch(rng: np.random.Generator, film: np.ndarray) -> np.ndarray:
    i, j = (rng.integers(n - PATCH + 1) for n in film.shape[1:])
    patch = film[:, i : i + PATCH, j : j + PATCH]
    for axis in range(3):  # there and back in time, upside down, from right to left
        patch = np.flip(patch, axis) if rng.random() < 0.5 else patch
    return np.swapaxes(patch, 1, 2) if rng.random() < 0.5 else patch


def batches(folder: Path, seed: int, size: int = 2) -> Iterator[tuple[Tensor, Tensor]]:
    """Half of them simulated, half real."""
    rng, real = np.random.default_rng(seed), Real(folder)
    while True:
        pairs = [
            simulated(rng, SHOWN) if k % 2 else real.draw(rng) for k in range(size)
        ]
        yield tuple(
            torch.from_numpy(np.stack(some).astype(np.float32)) for some in zip(*pairs)
        )  # type: ignore[misc]


def train(folder: Path, weights: Path, minutes: float, rate: float, seed: int) -> None:
    """Adam on the mean squared errors of L and S; weights are kept, so that training can go on."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # the convolutions are small
    model, done = Corona(), 0
    optimizer = torch.optim.Adam(model.parameters(), rate)
    if weights.exists():
        state = torch.load(weights, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["steps"]
        for group in optimizer.param_groups:
            group["lr"] = rate
    end, recent = time.time() + 60 * minutes, []
    for L, S in batches(folder, seed + done):
        got_L, got_S = model(L + S)
        loss = nn.functional.mse_loss(got_L, L) + nn.functional.mse_loss(got_S, S)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):  # equal eigenvalues have no derivative
            optimizer.step()
        recent.append(loss.item())
        done += 1
        if done % 50 == 0:
            print(f"step {done}: loss {np.mean(recent[-50:]):.2e}", flush=True)
        if time.time() > end:
            break
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "steps": done,
        },
        weights,
    )


def trained(weights: Path) -> Corona:
    """The model, ready to be used."""
    model = Corona()
    model.load_state_dict(torch.load(weights, weights_only=True)["model"])
    return model.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the real data")
    parser.add_argument("weights", type=Path)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    train(given.folder, given.weights, given.minutes, given.rate, given.seed)
