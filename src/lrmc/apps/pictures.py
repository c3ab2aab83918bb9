"""Pictures in files: only the formats that are meant, with all their bits; what is wrong is told in
a sentence.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._extras import optional
from ..formats.variables import Unusable
from ..weights import Array

PillowImage: TypeAlias = Any  # of Pillow, which need not be installed
# Pillow reads more, some through other programs (PostScript) or by references to other files.
FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "PPM": (".pgm", ".ppm", ".pnm"),
}
SUFFIXES = tuple(suffix for some in FORMATS.values() for suffix in some)
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green and blue
ORIENTATION = 0x0112  # of Exif
GREY = ("1", "L", "LA", "I;16", "I;16B", "I;16L", "I;16N", "I")


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a folder, in the order of their names; numbers in them count: 2 before 10."""
    found = (
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and path.is_file()
    )
    return sorted(found, key=lambda path: (_numbered(path.name), path.name))


def _numbered(name: str) -> list[tuple[int, str]]:
    """Parts of a name: numbers, and what is between them."""
    parts = re.split("([0-9]+)", name)
    return [(int(x), "") if k % 2 else (0, x) for k, x in enumerate(parts)]


def read_picture(path: Path, extra: str) -> Array:
    """Height x width if it is grey, else with three colours last: bytes, or uint16 of a grey
    picture with more bits. Of several in a file, the first.
    """
    return _read(path, extra, most=1)[0]


def read_pages(path: Path, extra: str) -> list[Array]:
    """All pictures of a file, such as a stack in TIFF."""
    return _read(path, extra)


def _read(path: Path, extra: str, most: int | None = None) -> list[Array]:
    pillow = optional("PIL.Image", extra)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path, formats=tuple(FORMATS)) as image:
                count = most or int(getattr(image, "n_frames", 1))
                return [_page(image, k, path) for k in range(count)]
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        raise ValueError(
            f"{path} cannot be read as a picture: it says that it has more than"
            f" {pillow.MAX_IMAGE_PIXELS} pixels"
        ) from None
    except pillow.UnidentifiedImageError:
        kinds = ", ".join(FORMATS)
        raise ValueError(
            f"{path} cannot be read as a picture: it is none of {kinds}, or it is"
            " damaged"
        ) from None
    except Unusable:
        raise
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        OverflowError,
    ) as error:
        # A damaged file shows in many ways.
        said = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as a picture, it may be damaged: {said}"
        ) from None


def _page(
    image: PillowImage,
    k: int,
    path: Path,
) -> Array:
    if k:
        image.seek(k)
    # Pillow turns some kinds itself when it reads them.
    picture = _as_array(image, path)
    return _upright(picture, _turned(image))


def _turned(image: PillowImage) -> int:
    """How a camera was held, as its picture says: 1 upright, to 8."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # damaged in one of many ways; the pixels may be good
        return 1


def _upright(picture: Array, turned: int) -> Array:
    """Rows from above, columns from the left."""
    if turned in (5, 6, 7, 8):
        picture = picture.swapaxes(0, 1)
    if turned in (3, 4, 7, 8):
        picture = picture[::-1]
    if turned in (2, 3, 6, 7):
        picture = picture[:, ::-1]
    return picture


def _as_array(image: PillowImage, path: Path) -> Array:
    if image.mode == "F":
        raise Unusable(
            f"{path} cannot be used: its pixels are floats; a picture of 8 or 16 bits"
            " is wanted"
        )
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise Unusable(
                f"{path} cannot be used: its pixels have more than 16 bits; 8 or 16 are"
                " wanted"
            )
        return values.astype(np.uint16)
    return np.asarray(image.convert("L" if image.mode in GREY else "RGB"))


def white_of(largest: int) -> int:
    """The white of pictures with this largest value: 255, or that of as many bits as are used (4095
    of 12).
    """
    return max(255, (1 << int(largest).bit_length()) - 1)


def as_bytes(picture: Array, white: int) -> Array:
    """In 8 bits, with 255 for white."""
    if picture.dtype == np.uint8:
        return picture
    return np.rint(np.clip(picture * (255 / white), 0, 255)).astype(np.uint8)


def one_depth(pictures: Iterable[Array], folder: Path) -> int:
    """The white of pictures that all have 8 bits, or all have more; an error if they are mixed."""
    depths, largest = set[np.dtype[Any]](), 0
    for picture in pictures:
        depths.add(picture.dtype)
        largest = max(largest, int(picture.max()))
    if len(depths) > 1:
        raise ValueError(
            f"{folder} has pictures of 8 and of 16 bits; convert them to one kind first"
        )
    return 255 if np.dtype(np.uint8) in depths else white_of(largest)
