"""Pictures as data URIs. Small exact ones (maps) need no package; photographs and frames need
Pillow.
"""

from __future__ import annotations

import base64
import io
import math
import struct
import zlib
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._extras import optional
from ..weights import Array

Picture: TypeAlias = ArrayLike  # see `picture`

HIDDEN = (40, 44, 52)  # the colour of what was not observed (NaN)
LOSSLESS_BELOW = 128 * 128  # pixels: where JPEG would be seen, and saves little
QUALITY = 85


class Pictures(Protocol):
    """Anything with a length that gives pictures by their numbers, from 0."""

    def __len__(self) -> int: ...

    def __getitem__(self, k: int, /) -> Picture: ...


class Lazy:
    """Pictures that are made when they are looked at: `make` is called with the number of one, from
    0.
    """

    def __init__(self, make: Callable[[int], Array], n: int) -> None:
        self.make = make
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, k: int) -> Array:
        if not 0 <= k < self.n:  # which ends a loop over all
            raise IndexError(f"there are {self.n} pictures, and none of number {k}")
        return self.make(k)


def uri(kind: str, content: bytes) -> str:
    """A picture as an address that holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def indexed_png(cells: Array, colours: Array) -> bytes:
    """A PNG of at most 256 colours: `cells` (height, width) are indices into `colours` (n, 4), red
    to alpha.
    """
    height, width = cells.shape
    # Each line begins with its filter: none.
    lines = np.zeros((height, width + 1), np.uint8)
    lines[:, 1:] = cells
    colours = np.asarray(colours, np.uint8)
    bits, palette = 8, 3  # of a pixel, which is an index
    header = struct.pack(">II", width, height) + bytes((bits, palette, 0, 0, 0))
    parts = (
        (b"IHDR", header),
        (b"PLTE", colours[:, :3].tobytes()),
        (b"tRNS", colours[:, 3].tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(name, content) for name, content in parts
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )


def picture(image: Picture, *, largest: int = 1200) -> tuple[str, int, int]:
    """Data URI, width and height of a picture, scaled down if it is larger than `largest` pixels.

    `image` is (h, w) or (h, w, 3): bytes as they are, booleans as black and white, floats from 0
    (black) to 1 (white), NaN in the colour of what is hidden; or a picture of Pillow.
    """
    pillow = optional("PIL.Image", "report")
    opened = (
        image if isinstance(image, pillow.Image) else pillow.fromarray(as_bytes(image))
    )
    if opened.mode not in ("1", "L", "RGB"):
        opened = opened.convert("RGB")
    plain = opened.mode == "1" or np.asarray(image).dtype == bool
    if max(opened.size) > largest:
        shrunk = tuple(
            max(1, round(side * largest / max(opened.size))) for side in opened.size
        )
        opened = (opened.convert("L") if opened.mode == "1" else opened).resize(
            shrunk, pillow.Resampling.LANCZOS
        )
    store = io.BytesIO()
    if plain or opened.size[0] * opened.size[1] <= LOSSLESS_BELOW:
        opened.save(store, "PNG", optimize=True)
        kind = "png"
    else:
        opened.save(store, "JPEG", quality=QUALITY, optimize=True)
        kind = "jpeg"
    return uri(kind, store.getvalue()), *opened.size


def as_bytes(image: Picture) -> Array:
    """A picture as Pillow takes it: see `picture`."""
    pixels = np.asarray(image)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if (
        not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3))
        or 0 in pixels.shape
    ):
        raise ValueError(
            f"a picture has shape {pixels.shape}; (height, width) or (height, width, 3)"
            " is wanted"
        )
    if pixels.dtype in (np.uint8, bool):
        return np.ascontiguousarray(pixels)
    if pixels.dtype.kind != "f":
        raise ValueError(
            f"a picture has type {pixels.dtype}; bytes, booleans or floats from 0 to 1"
            " are wanted"
        )
    hidden = np.isnan(pixels)
    shown = np.round(255 * np.clip(np.where(hidden, 0, pixels), 0, 1)).astype(np.uint8)
    if not hidden.any():
        return shown
    if shown.ndim == 2:
        shown, hidden = np.repeat(shown[..., None], 3, 2), hidden[..., None]
    return np.where(hidden.any(2, keepdims=True), np.array(HIDDEN, np.uint8), shown)


def evenly(n: int, wanted: int) -> list[int]:
    """At most `wanted` of n places, evenly spread, the first and the last among them."""
    wanted = max(1, min(n, wanted))
    return sorted({round(k * (n - 1) / max(1, wanted - 1)) for k in range(wanted)})


def affordable(n: int, size_of_one: float, budget: float) -> int:
    """How many of n things of this size fit."""
    return max(1, min(n, math.floor(budget / max(1.0, size_of_one))))
