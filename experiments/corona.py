"""CORONA (Solomon et al. 2019): L + S by unrolled iterations with learned convolutions, as a
baseline.

Layer k:  L <- SVT(C1 * D + C3 * S + C5 * L),  S <- soft(C2 * D + C4 * S + C6 * L): convolutions
over the pixels of every frame, 5 x 5 in the first three layers and 3 x 3 in the others; both
thresholds are learned, relative to the data. Real numbers here (envelopes), where the authors have
complex ones; the six convolutions are done as one, with three channels in and two out.

    python experiments/corona.py FOLDER WEIGHTS.pt     trains, or goes on training, and writes the weights

Patches that are not trained on are looked at every 250 steps, and the best weights are kept. Training goes
on at one rate until their loss is flat: every 2,000 steps from 12,000 on, the mean of the last quarter of the
looks is compared with that of the quarter before, and is flat where it is not lower by more than the standard
error. Then the rate falls to nothing in half as many steps again. Started again it goes on. What was seen on
the way is in docs/paper/corona.csv."""

from __future__ import annotations

import argparse
import math
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import ROOT, Sheet, gain
from scipy import ndimage
from torch import Tensor, nn

KERNELS = (5, 5, 5, 3, 3, 3, 3, 3, 3, 3)
PATCH, FRAMES = 32, 40
SHOWN = 20  # frames of a training example: half the time of 40
WIDEST = max(KERNELS)
RATE = 2e-3  # of Adam, until the loss is flat
LAST_PART = 0.5  # of the steps until then, in which it falls to 0
EVERY, JUDGES = 250, 32  # steps between looks; patches that judge, half of them real
# looks before the first question whether it is flat, and between two
LEAST, AGAIN = 48, 8


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
        return self.shrunk(_mixed(self.mix.weight, D, L, S))

    def shrunk(self, mixed: Tensor) -> tuple[Tensor, Tensor]:
        """What the convolutions gave, with small singular values and entries left out."""
        L, S = mixed.unbind(2)
        largest = S.detach().abs().amax((1, 2, 3), keepdim=True)
        reach = torch.sigmoid(self.sparse) * largest
        return svt(L, torch.sigmoid(self.low)), S - S.clamp(-reach, reach)


def svt(X: Tensor, share: Tensor) -> Tensor:
    """Singular values made smaller by a share of the largest.

    Through the eigenvalues of the small Gram matrix, frames x frames: several times faster than an
    SVD. In double precision where gradients are wanted: they hang on differences of eigenvalues."""
    A = X.flatten(2)
    gram = A @ A.mT
    values, V = torch.linalg.eigh(gram.double() if X.requires_grad else gram)
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


def fast(model: Corona, D: Tensor) -> tuple[Tensor, Tensor]:
    """The same numbers in less time, for inference: convolutions of one size by the library that is
    made for few channels, and eigenvectors in the precision of the data.
    """
    L, S = torch.zeros_like(D), torch.zeros_like(D)
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        for layer, kernel in zip(model.layers, widened(model)):
            L, S = layer.shrunk(_mixed(kernel, D, L, S))
    return L, S


@cache
def widened(model: Corona) -> tuple[Tensor, ...]:
    """All kernels as 5 x 5: with mkldnn off, those take less time than 3 x 3."""
    sides = ((WIDEST - kernel) // 2 for kernel in KERNELS)
    return tuple(
        nn.functional.pad(layer.mix.weight.detach(), (side,) * 4)
        for layer, side in zip(model.layers, sides)
    )


def _mixed(kernel: Tensor, *parts: Tensor) -> Tensor:
    """(batch, frames, 2, height, width); a frame is an item of the batch."""
    stacked = torch.stack(parts, 2).flatten(0, 1)
    found = nn.functional.conv2d(stacked, kernel, padding=kernel.shape[-1] // 2)
    return found.unflatten(0, parts[0].shape[:2])


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


class Films(NamedTuple):
    """Real tissue and real bubbles."""

    tissue: list[np.ndarray]
    bubbles: list[np.ndarray]

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A patch of each."""
        films = [some[rng.integers(len(some))] for some in self]
        return tuple(
            _patch(rng, film[(at := rng.integers(FRAMES - SHOWN + 1)) : at + SHOWN])
            for film in films
        )  # type: ignore[return-value]


def films(folder: Path) -> tuple[Films, Films]:
    """To train on, and to judge: strips beside the middle 160 x 160 that the task is scored on."""

    def read(name: str, key: str = "frames") -> np.ndarray:
        return np.load(folder / f"ultrasound/{name}.npz")[key]

    abdomen = read("bmode_abdomen_b") / np.float32(255)
    other = read("bmode_invivo_mbtracking")[:FRAMES, ::2, ::2] / np.float32(255)
    kidney = 0.5 * read("ceus_rat_kidney_upper", "bubbles")
    return (
        Films([abdomen[:, :40], other], [kidney[:, :, :35]]),
        Films([abdomen[:, -40:]], [kidney[:, :, -35:]]),
    )


def _patch(rng: np.random.Generator, film: np.ndarray) -> np.ndarray:
    i, j = (rng.integers(n - PATCH + 1) for n in film.shape[1:])
    patch = film[:, i : i + PATCH, j : j + PATCH]
    for axis in range(3):  # there and back in time, upside down, from right to left
        patch = np.flip(patch, axis) if rng.random() < 0.5 else patch
    return np.swapaxes(patch, 1, 2) if rng.random() < 0.5 else patch


def pairs(some: Films, seed: int, size: int) -> tuple[Tensor, Tensor]:
    """Tissue and bubbles: half of them simulated, half real."""
    rng = np.random.default_rng(seed)
    drawn = [simulated(rng, SHOWN) if k % 2 else some.draw(rng) for k in range(size)]
    tissue, bubbles = (
        torch.from_numpy(np.stack(part).astype(np.float32)) for part in zip(*drawn)
    )
    return tissue, bubbles


def loss_of(model: Corona, tissue: Tensor, bubbles: Tensor) -> Tensor:
    """The mean squared errors of both parts."""
    found = model(tissue + bubbles)
    return sum(
        (nn.functional.mse_loss(X, part) for X, part in zip(found, (tissue, bubbles))),
        torch.zeros(()),
    )


class Training:
    """Adam until the loss is flat; what is needed to go on is kept in a file."""

    def __init__(self, folder: Path, weights: Path, most: int, seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # the convolutions are small
        self.weights, self.most, self.seed = weights, most, seed
        self.films, judging = films(folder)
        self.judges = pairs(judging, 10_000_000 + seed, JUDGES)
        self.model = Corona()
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)
        self.now: dict[str, Any] = {
            "steps": 0,
            "seconds": 0.0,
            "best": math.inf,
            "looks": [],
            "full": 0,  # steps at the full rate, once they are enough
            "model": self.model.state_dict(),
        }
        if weights.exists():
            state = torch.load(weights, weights_only=True)
            self.model.load_state_dict(state["last"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.now = state["now"]

    @property
    def rate(self) -> float:
        """What it is now."""
        full = self.now["full"]
        past = (self.now["steps"] - full) / (LAST_PART * full) if full else 0.0
        return RATE * max(1 - past, 0)

    def learn(self) -> float:
        """Some steps, and their mean loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        seen = []
        for _ in range(EVERY):
            step = self.now["steps"]
            loss = loss_of(self.model, *pairs(self.films, self.seed + step, 2))
            self.optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            if torch.isfinite(norm):  # equal eigenvalues have no derivative
                self.optimizer.step()
            seen.append(loss.item())
            self.now["steps"] += 1
        return float(np.mean(seen))

    def judge(self) -> float:
        """The judges' loss; the best weights are kept."""
        with torch.inference_mode():
            found = float(loss_of(self.model, *self.judges))
        if found < self.now["best"]:
            self.now["best"] = found
            kept = {k: X.clone() for k, X in self.model.state_dict().items()}
            self.now["model"] = kept
        self.now["looks"].append(found)
        if not self.now["full"] and self.is_flat():
            self.now["full"] = self.now["steps"]
        return found

    def is_flat(self) -> bool:
        """By the rule above, or because no more steps are allowed."""
        looks = self.now["looks"]
        if len(looks) >= LEAST and len(looks) % AGAIN == 0:
            lower, error = gain(looks)
            if lower <= error:
                return True
        return self.now["steps"] >= self.most

    def save(self) -> None:
        """What `trained` reads, and what is needed to go on."""
        state = {
            "now": self.now,
            "last": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        torch.save(state, self.weights)


def train(folder: Path, weights: Path, most: int, seed: int, sheet: Sheet) -> None:
    """Until the loss is flat, and then at a rate that falls."""
    training = Training(folder, weights, most, seed)
    before = training.now["seconds"]
    began = time.process_time()
    while rate := training.rate:
        seen, judged = training.learn(), training.judge()
        training.now["seconds"] = before + time.process_time() - began
        training.save()
        sheet.add(
            {
                "steps": training.now["steps"],
                "rate": f"{rate:.3g}",
                "loss": f"{seen:.3e}",
                "judged": f"{judged:.3e}",
                "minutes": f"{training.now['seconds'] / 60:.2f}",
            }
        )


def trained(weights: Path) -> Corona:
    """The model, ready to be used."""
    model = Corona()
    model.load_state_dict(torch.load(weights, weights_only=True)["now"]["model"])
    return model.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the real data")
    parser.add_argument("weights", type=Path)
    parser.add_argument(
        "--most", type=int, default=100_000, help="steps at the full rate"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seen = Sheet(ROOT / "docs" / "paper" / "corona.csv", ("steps",), also=())
    train(given.folder, given.weights, given.most, given.seed, seen)
