"""Complex (IQ) cines: tissue in a few directions of slow time that most pixels share, blood by its
Doppler spectrum.

A clutter filter by SVD takes the strongest directions for tissue, whoever has them: strong or slow
blood is lost with it. Here a direction is tissue if the *median* pixel has it, and pixels (and
entries, by their modulus) with more than noise beside it count less; or if it stands alone. Blood
is then told by its spectrum, within these directions, too (`flow.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..._extras import one_blas_thread
from ..._kernels import max_threads
from ..._progress import Progress, Tell
from ..._work import SOUND, Outcome
from ...result import Status
from ...weights import Array
from .flow import CERTAIN, TINY, Seen, squared, tissue_and_blood

WINDOW = 200  # frames that are fitted together, about: the cost per frame grows with it
FADING = 25  # frames that neighbouring windows have in common
PIXELS_EACH = 10  # pixels for every frame of a window that directions are learned from
VALUES_AT_ONCE = (
    1 << 25
)  # of windows that are in work: each takes five times its memory
ROUNDS, MORE_ROUNDS = 5, 2  # of reweighting: the first window, and those that follow it
ROUNDS_WITH_GAPS = 12
SOME = 4096  # pixels with gaps at a time: their systems take rank^2 numbers each
RIDGE = 1e-4  # of a direction's unit: a pixel that is hardly seen says nothing
MEDIAN_OF_NOISE = np.log(2.0)  # of |n|^2, if its mean is 1: it is exponential
# Standard errors of such a median by which a direction must stand out; 5 of chance never do.
STANDS_OUT = 5.0
# Directions that stand alone have so many times the power of the next ten: blood had 1.1 to 1.7,
# tissue that a twentieth of the pixels has 3.8 and more.
ALONE, NEXT = 2.0, 10
CLIPPED = 3.0  # times the noise: |n| is larger once in e^9 = 8100 entries
# A coherence that few frames may have by chance; of blood that was simulated, it is 0.9.
MOST_BY_CHANCE = 0.5
# of the power of the noise: more without phase is more than pixels that stand out by chance have
MOST_WHITE = 0.01
MOST_TISSUE = 0.5  # of the directions of a window: with more, nothing is left for blood


@dataclass(frozen=True, eq=False)
class Tissue:
    """What tissue does in a window of frames, and how well pixels agree with that."""

    basis: Array  # frames x rank, orthonormal
    noise: float  # the mean of |n|^2
    weights: Array  # of the pixels that it was learned from

    @property
    def rank(self) -> int:
        """How many directions of slow time tissue has."""
        return int(self.basis.shape[1])


@dataclass(frozen=True, eq=False)
class Window:
    """A window of frames, taken apart: each (frames, height, width)."""

    tissue: Array
    blood: Array
    found: Tissue
    doubt: Outcome


def windows(
    frames: Array,
    rank: int | None,
    seed: int,
    tell: Tell,
) -> Iterator[tuple[slice, Window]]:
    """Overlapping windows of a cine, one after another. Each learns its tissue from what the last one
    found; what follows from that is done side by side.
    """
    spans = _spans(len(frames))
    chosen = _some_pixels(frames[spans[0]], seed)
    size = frames[spans[0]].size
    before: Tissue | None = None
    begun: deque[Future[Window]] = deque()
    with one_blas_thread() as alone:
        most = max(VALUES_AT_ONCE // size, 1)
        most = min(most, max_threads()) if alone else 1
        with ThreadPoolExecutor(most) as team:
            ahead = iter(spans)
            for n, span in enumerate(spans):
                for later in islice(ahead, most - len(begun)):
                    before = learned(frames[later], rank, chosen, before)
                    begun.append(team.submit(taken_apart, frames[later], before))
                window = begun.popleft().result()
                tell(Progress("tissue and blood", n + 1, len(spans), "windows"))
                yield span, window


def blended(
    frames: Array,
    rank: int | None,
    seed: int,
    tell: Tell,
) -> tuple[Array, Array, list[Window]]:
    """Tissue and blood of all frames; windows fade into each other where they overlap."""
    parts = np.zeros((2, *frames.shape), np.complex64)
    total = np.zeros(len(frames), np.float32)
    for span in _spans(len(frames)):
        total[span] += _fading(span.stop - span.start)
    found = []
    for span, window in windows(frames, rank, seed, tell):
        weight = _fading(len(window.blood)) / total[span]
        for part, values in zip(parts, (window.tissue, window.blood)):
            _add(part[span], values, weight)
        found.append(window)
    return parts[0], parts[1], found


def _add(part: Array, values: Array, weight: Array) -> None:
    """Frames times their weight. Most are of one window alone, and copied: memory is what this costs."""
    alone = np.flatnonzero(weight == 1)
    middle = slice(alone[0], alone[-1] + 1) if len(alone) else slice(0, 0)
    part[middle] = values[middle]
    for k in np.flatnonzero(weight != 1):
        part[k] += weight[k] * values[k]


def taken_apart(frames: Array, found: Tissue) -> Window:
    """One window, whose tissue is known."""
    count = len(frames)
    Y = frames.reshape(count, -1)
    seen = np.isfinite(Y)
    gaps = not seen.all()
    known = Seen(_filled(Y, seen, found.basis) if gaps else Y, found.basis, found.noise)
    tissue, blood = (
        part.reshape(frames.shape) for part in tissue_and_blood(known, frames.shape[1:])
    )
    if gaps:
        blood[~seen.reshape(frames.shape)] = np.nan
    white = without_phase(blood)
    by_chance = MOST_WHITE * found.noise * blood.size
    flows = _power(blood[:, white]) <= max(_power(blood) / 2, by_chance)
    blood[:, white] *= 0  # gaps stay
    doubt = _doubt(found, count, flows)
    return Window(tissue, blood, found, doubt)


def _power(blood: Array) -> float:
    return float(np.nansum(squared(blood), dtype=np.float64))


def without_phase(blood: Array) -> Array:
    """Pixels whose phase is new in every frame, by Kasai's lag-one autocorrelation: (height, width).
    Blood flows, and turns the phase by about the same angle from frame to frame; speckle that is
    new, of tissue that enters the picture, does not.
    """
    found = (blood != 0).any(axis=0)
    some = blood[:, found]
    pairs = some[1:] * some[:-1].conj()
    known = np.isfinite(pairs)
    lag = np.sum(pairs, axis=0, where=known)
    both = squared(some[1:]) + squared(some[:-1])
    power = np.sum(both, axis=0, where=known) / 2
    by_chance = CERTAIN / np.sqrt(np.maximum(known.sum(axis=0), 1))
    white = np.zeros(found.shape, bool)
    white[found] = np.abs(lag) < np.minimum(by_chance, MOST_BY_CHANCE) * power
    return white


def _doubt(found: Tissue, frames: int, flows: bool) -> Outcome:
    if not flows:
        return SOUND.warned(
            "most of what differs from the tissue has a phase that is new in every frame, as speckle"
            " of tissue that enters the picture has: it is not shown, and blood there is missing",
            Status.UNDETERMINED,
        )
    if found.rank < MOST_TISSUE * frames:
        return SOUND
    return SOUND.warned(
        f"the tissue moves in {found.rank} of {frames} directions of slow time, which leaves too"
        " little to tell blood by: give more frames, or a rank",
        Status.UNDETERMINED,
    )


# ---- tissue


def learned(
    frames: Array,
    rank: int | None,
    chosen: Array,
    before: Tissue | None = None,
) -> Tissue:
    """The directions of slow time of tissue, from some pixels of all frames."""
    Y = frames.reshape(len(frames), -1)[:, chosen]
    known = np.isfinite(Y)
    seen = None if known.all() else known
    Y = np.where(known, Y, 0)
    count, pixels = Y.shape
    weights = np.ones(pixels, np.float32) if before is None else before.weights
    rounds = ROUNDS if before is None else MORE_ROUNDS
    # Gaps are noise at first, and hide weak directions until strong ones have filled them.
    rounds = rounds if seen is None else ROUNDS_WITH_GAPS
    good, filled = Y, Y
    for _ in range(rounds):
        vectors, score = _directions(good, filled, weights)
        basis = _shared(vectors, score, weights, rank)
        if seen is not None:
            filled = _filled(Y, seen, basis)
        tissue = basis @ (basis.conj().T @ filled)
        rest = filled - tissue
        power = np.sum(squared(rest), axis=0)
        power /= count - basis.shape[1]
        noise = float(np.median(power))
        # Chance alone makes powers differ by 1 / sqrt(frames): that is not held against a pixel.
        fair = noise * (1 + 2 / np.sqrt(count))
        ratio = fair / np.maximum(power, TINY)
        weights = np.minimum(1, ratio).astype(np.float32) ** 2
        good = tissue + _clipped(rest, CLIPPED * np.sqrt(noise))
    if rank is None:
        basis = np.hstack([basis, _alone(rest, basis.shape[1])])
    return Tissue(basis, noise, weights)


def _directions(
    good: Array,
    Y: Array,
    weights: Array,
) -> tuple[Array, Array]:
    """Eigenvectors of the weighted covariance in slow time, the strongest first, and how strong
    pixels are in each: |v' y|^2, frames x pixels.
    """
    weighted = good * np.sqrt(weights)
    _, vectors = np.linalg.eigh(weighted @ weighted.conj().T)
    vectors = vectors[:, ::-1]
    return vectors, squared(vectors.conj().T @ Y)


def _shared(
    vectors: Array,
    score: Array,
    weights: Array,
    rank: int | None,
) -> Array:
    """The directions that the median pixel has beyond noise, or as many as are asked for."""
    if rank is not None:
        return vectors[:, :rank]
    count, pixels = score.shape
    typical = np.median(score, axis=1) / MEDIAN_OF_NOISE
    noise = float(np.median(typical))
    effective = float(weights.sum() ** 2 / np.sum(weights**2))
    # The largest eigenvalue of pure noise (Marchenko and Pastur), and the error of a median.
    edge = (1 + np.sqrt(count / effective)) ** 2
    chance = STANDS_OUT / (MEDIAN_OF_NOISE * np.sqrt(pixels))
    tissue = typical > noise * (edge + chance)
    tissue[int(MOST_TISSUE * count) :] = False
    tissue[0] = True
    return vectors[:, tissue]


def _alone(rest: Array, rank: int) -> Array:
    """Directions that few pixels share but that stand alone: tissue that moves more than the rest.
    Blood of many frequencies has as many directions, each about as strong as the next ones.
    """
    power, vectors = np.linalg.eigh(rest @ rest.conj().T)
    power, vectors = power[::-1], vectors[:, ::-1]
    most = max(min(int(MOST_TISSUE * len(rest)) - rank, len(rest) - rank - NEXT), 0)
    count = 0
    while count < most and power[count] > ALONE * _next(power, count):
        count += 1
    return vectors[:, :count]


def _next(power: Array, k: int) -> float:
    return float(power[k + 1 : k + 1 + NEXT].mean())


def _clipped(rest: Array, most: float) -> Array:
    """Entries whose modulus is shrunk to `most`, if it is more."""
    size = np.sqrt(np.maximum(squared(rest), TINY))
    return rest * np.minimum(1, np.float32(most) / size)


def _filled(
    Y: Array,
    seen: Array,
    basis: Array,
) -> Array:
    """Gaps as the basis has them: least squares on what is seen of each pixel."""
    values = Y.copy()
    rank = basis.shape[1]
    pairs = basis.conj()[:, :, None] * basis[:, None, :]
    pairs = pairs.reshape(len(basis), -1)  # frames x rank^2
    ridge = RIDGE * np.eye(rank, dtype=np.complex64)
    open_pixels = np.flatnonzero(~seen.all(axis=0))
    for start in range(0, len(open_pixels), SOME):
        some = open_pixels[start : start + SOME]
        here = seen[:, some]
        known = np.where(here, Y[:, some], 0)
        grams = here.T.astype(np.complex64) @ pairs
        grams = grams.reshape(-1, rank, rank) + ridge
        sums = (basis.conj().T @ known).T
        scores = np.linalg.solve(grams, sums[..., None])[..., 0]
        values[:, some] = np.where(here, known, basis @ scores.T)
    return values


def _some_pixels(frames: Array, seed: int) -> Array:
    pixels = frames[0].size
    count = min(pixels, PIXELS_EACH * len(frames))
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(pixels, count, replace=False))


def _spans(count: int) -> list[slice]:
    """Windows of equal length that fade into each other, and cover all frames."""
    parts = max(1, round(count / WINDOW))
    length = -(-(count + (parts - 1) * FADING) // parts)
    starts = np.linspace(0, count - length, parts).round().astype(int)
    return [slice(at, at + length) for at in starts.tolist()]


def _fading(length: int) -> Array:
    """The weight of each frame of a window: less at its ends."""
    to_end = np.minimum(np.arange(length), np.arange(length)[::-1]) + 1
    return np.minimum(to_end / FADING, 1).astype(np.float32)
