"""Faces of one person under many lights: what they look like without shadows, highlights and what
covers them.

Pixels x pictures are a matrix of low rank, since a matt surface under any light is a mixture of a
few pictures; cast shadows, highlights, glasses and hands are outliers. All colours of a pixel share
one weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._work import SOUND, Outcome
from ...result import Result, Status
from ...weights import Array
from ..outcome import Limits, Told, after_clipping, schedule_used, shown, solved
from ..stack import Stack, as_type, band_groups, check_rank
from .doubt import EVERY, HALF_STEP, Doubt, doubt_of, simple_deviation

FEWEST = 3  # pictures of a person
SCHEDULE = "faces"  # learned on other people: docs/families.md
# pictures: with 16 it does as well as what is decided anew, with 11 it is worse by 1.7 dB
ENOUGH = 16


# of the median picture's deviation: faces of one person have up to 0.71 (eleven pictures with glasses
# and other lights), pictures that lie elsewhere, of ten people, or of noise, 0.84 and more
IN_COMMON = 0.8
# of the contrast of a picture: with less, all show what their median shows, and no model does better
ALIKE = 0.5


@dataclass(frozen=True, eq=False)
class Faces(Told):
    """Pictures of one person, cleaned: what `clean_faces` gives.

    Attributes
    ----------
    clean : array of shape (n, height, width), with colours last
        The pictures, in the type in which they came.
    removed : array of float32
        What was taken away, with its sign.
    result : Result
        The fit.
    outcome : Outcome
        How the fit ended, and what was made of it; `status` and `warnings` are short for its own.
    clipped : int
        Number of values that pictures cannot have, or far outside those they have.
    doubt : Doubt or None
        `guessed` and `deviation` of each value, if `uncertainty` was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import faces
    >>> rng = np.random.default_rng(0)
    >>> images = rng.uniform(60, 200, (24, 20)) * rng.uniform(0.7, 1.0, (12, 1, 1))
    >>> done = faces.clean_faces(images, rank=1)
    >>> done.clean.shape, done.rank, done.numbers
    ((12, 24, 20), 1, 'decided anew')
    """

    clean: Array
    removed: Array
    result: Result
    outcome: Outcome = SOUND
    clipped: int = 0
    doubt: Doubt | None = None

    @property
    def rank(self) -> int:
        """How many pictures all others are mixed from."""
        return self.result.rank

    @property
    def numbers(self) -> str:
        """Where those of the fit come from: decided anew where pictures are few, or do not look
        like those that were learned on.
        """
        learned = schedule_used(self.result)
        return "learned on others" if learned else "decided anew"


def clean_faces(
    images: ArrayLike,
    seen: ArrayLike | None = None,
    rank: int | None = None,
    *,
    uncertainty: bool = False,
    **options: Any,
) -> Faces:
    """Remove shadows, highlights and occlusions from pictures of one person: what the other
    pictures do not have.

    Parameters
    ----------
    images : array
        n x height x width, or with three colours last; NaN is missing. Eyes and mouth should be in
        the same place in all of them.
    seen : array of bool, optional
        n x height x width: True where a pixel may be believed.
    rank : int, optional
        Rank of the model; found if not given.
    uncertainty : bool, default False
        Whether to tell which values were guessed (their own are missing, or shadows, highlights or
        something in front), and the standard deviation of each.
    **options
        Those of `lrmc.solve`. Unless they say otherwise, 16 grey pictures or more are fitted by
        the schedule `faces` that comes with lrmc and was learned on other people, where it fits.

    Returns
    -------
    Faces
        `clean` in the type of the images, `removed`, `result`, `status` and `warnings`; and
        `doubt` with `guessed` and `deviation`, if `uncertainty` was asked for.

    Raises
    ------
    ValueError
        If the images or an option cannot be used.
    lrmc.apps.outcome.FitFailed
        If the fit diverged.

    Examples
    --------
    >>> import numpy as np
    >>> from lrmc.apps import faces
    >>> rng = np.random.default_rng(0)
    >>> face = rng.uniform(60, 200, (24, 20))
    >>> images = face * rng.uniform(0.7, 1.0, (12, 1, 1))
    >>> images[3, 8:12, 5:15] = 5  # sunglasses
    >>> done = faces.clean_faces(images, rank=1)
    >>> bool(done.clean[3, 8:12, 5:15].min() > 30)
    True
    """
    pictures = np.asarray(images)
    there = None if seen is None else np.asarray(seen, bool)
    _check(pictures, there)
    check_rank(rank, len(pictures), "pictures")
    coloured = pictures.ndim == 4
    bands_first = (
        np.ascontiguousarray(np.moveaxis(pictures, -1, 1)) if coloured else pictures
    )
    if there is not None and coloured:
        there = there[:, None]
    stack = Stack(bands_first, there)
    if coloured and pictures.shape[-1] > 1:
        options.setdefault(
            "groups", band_groups(pictures.shape[-1], pictures[0, ..., 0].size)
        )
    usual = _usual(pictures, options)
    if usual is not None:
        full = stack.mask is None and bool(np.isfinite(pictures).all())
        options.setdefault("aim", "separate" if full else "fill")
    result, outcome = solved(
        stack.matrix, rank, what="the faces", usual=usual, mask=stack.mask, **options
    )
    known = np.isfinite(bands_first)
    known = known if there is None else known & there
    limits = Limits.of(pictures[np.isfinite(pictures)])
    model, clipped = limits.held(
        _fitted(result, ~known).reshape(bands_first.shape), "the faces"
    )
    outcome = after_clipping(outcome, clipped, model.size, limits)
    model, outside = _as_pictures(model, pictures.dtype)
    doubt = _doubt(bands_first, known, model, result) if uncertainty else None
    outcome = _compared(outcome, doubt, bands_first, known)
    if coloured:
        model = np.moveaxis(model, 1, -1)
    removed = (pictures - model).astype(np.float32)
    clean = as_type(model, pictures.dtype)
    return Faces(clean, removed, result, outcome, clipped + outside, doubt)


def _usual(pictures: Array, options: dict[str, Any]) -> str | None:
    """The schedule for such pictures, unless options say otherwise. What was learned on grey ones
    is not for colours, which share weights.
    """
    asked = options.keys() & {"schedule", "method", "loss"}
    enough = pictures.ndim == 3 and len(pictures) >= ENOUGH
    return SCHEDULE if enough and not asked else None


def _as_pictures(model: Array, dtype: np.dtype[Any]) -> tuple[Array, int]:
    """Between black and white, if these are known, and how many values were not."""
    if dtype.kind not in "iu":
        return model, 0
    levels = np.iinfo(dtype)
    return shown(model, levels.min - HALF_STEP, levels.max + HALF_STEP)


def _fitted(result: Result, missing: Array) -> Array:
    """Pictures x pixels: of low rank, and where pixels are missing with what else was found to
    fill them better (neighbors, for few pictures).
    """
    model = result.R @ result.L.T
    if result.fit.beyond:
        cols, rows = np.nonzero(missing.reshape(model.shape))
        model[cols, rows] = result.fit.at(rows, cols)
    return np.asarray(model)


def _doubt(pictures: Array, seen: Array, model: Array, result: Result) -> Doubt:
    """How sure the model is, like the pictures; colours are guessed together."""
    columns = [X.reshape(len(X), -1).T for X in (model, pictures, seen)]
    known = doubt_of(result, *columns)
    guessed = known.guessed.T.reshape(pictures.shape)
    spread = known.deviation
    if spread is not None:
        spread = spread.T.reshape(pictures.shape)
    if pictures.ndim == 4:
        guessed = np.asarray(guessed.any(axis=1))
        spread = None if spread is None else np.moveaxis(spread, 1, -1)
    return Doubt(guessed, spread, known.why)


def _compared(
    outcome: Outcome, doubt: Doubt | None, pictures: Array, seen: Array
) -> Outcome:
    """The outcome, with a word if values that were set aside are told hardly better than by the
    median picture.
    """
    if doubt is None or doubt.deviation is None:
        return outcome
    values, known = (X.reshape(len(X), -1).T for X in (pictures, seen))
    simple = simple_deviation(values, known)
    some = np.where(known, values, np.nan)[::EVERY, known[::EVERY].any(axis=0)]
    alike = simple < ALIKE * float(np.median(np.nanstd(some, axis=0)))
    if alike or np.median(doubt.deviation) <= IN_COMMON * simple:
        return outcome
    return outcome.warned(
        "the pictures have so little in common that their median tells about as much as the"
        " model: is it one person, with eyes and mouth in the same place in all pictures?",
        Status.UNDETERMINED,
    )


def _check(images: Array, seen: Array | None) -> None:
    if images.ndim not in (3, 4) or images.size == 0 or images.dtype.kind not in "iuf":
        raise ValueError(
            f"pictures have shape {images.shape} and type {images.dtype}; n x height x"
            " width is wanted"
        )
    if len(images) < FEWEST:
        raise ValueError(
            f"{len(images)} picture(s) of a person; at least {FEWEST} are wanted"
        )
    if seen is not None and seen.shape != images.shape[:3]:
        raise ValueError(f"seen has shape {seen.shape}; {images.shape[:3]} is wanted")
