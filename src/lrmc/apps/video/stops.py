"""What came and stands still: in front of the background, and the same for some time.

A background that follows a clip takes in what stands still; what was behind it is remembered here
for some minutes, in three pictures, however long the clip is.
"""

from __future__ import annotations

import numpy as np

from ...weights import Array
from .foreground import cleaned, distance

SECONDS = 2.0  # for which a pixel in front must be the same to have stopped
MINUTES = 5.0  # for which it is remembered that something stands there


class Stops:
    """Frames one after another: which pixels have stopped."""

    def __init__(
        self,
        rate: float,
        threshold: float,
    ) -> None:
        """`rate` in frames per second; what is nearer than the threshold (grey levels) is the same."""
        self.still = max(2, round(SECONDS * rate))
        self.most = round(60 * MINUTES * rate)
        self.threshold = threshold
        self.age: Array | None = None  # frames for which a pixel is as it is
        self.look: Array  # how it looked when it came
        self.other: Array  # whether that is another look than what was there before

    def add(
        self,
        frame: Array,
        picture: Array,
        mask: Array,
    ) -> tuple[Array, Array]:
        """The next frame, its background, and what is in front of it: what is in front, also of
        what was there before, and which of it has stopped.
        """
        if self.age is None:
            self.age = np.zeros(mask.shape, np.int32)
            self.look, self.other = frame.copy(), np.zeros_like(mask)
        same = self._alike(frame, self.look) & (self.age > 0)
        came = same & self.other
        held = came & (self.age >= self.still) & (self.age < self.most)
        new = mask & ~same
        self.look[new] = frame[new]
        np.copyto(self.other, ~self._alike(frame, picture), where=new)
        self.age = np.where(
            mask & same | came,
            self.age + 1,
            new,
        )
        stopped = self.age >= self.still
        if not stopped.any():
            return mask, stopped
        front = mask | held
        return front, cleaned(stopped[None])[0] & front

    def _alike(
        self,
        a: Array,
        b: Array,
    ) -> Array:
        """Whether pixels of two frames are the same."""
        off = distance(a[None], b[None].astype(np.float32))[0]
        return np.asarray(off < self.threshold)
