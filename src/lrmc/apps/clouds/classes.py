"""Classes of pixels as the agencies give them out: what of a scene is not to be believed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...weights import Array

# Sentinel-2's scene classification: nothing, saturated, shadow of a cloud, clouds of medium and of
# high probability, cirrus. Snow (11) lies on the ground, and may be believed.
SCL_HIDDEN = (0, 1, 3, 8, 9, 10)
# Bits of Landsat's QA_PIXEL, Collection 2: nothing, around a cloud, cirrus, cloud, its shadow.
QA_PIXEL_BITS = (0, 1, 2, 3, 4)


def hidden_by_scl(classes: Array) -> Array:
    """True where Sentinel-2's classes say that no ground is seen."""
    return np.isin(classes, SCL_HIDDEN)


def hidden_by_qa_pixel(flags: Array) -> Array:
    """True where a bit of Landsat's QA_PIXEL says that no ground is seen."""
    bits = sum(1 << bit for bit in QA_PIXEL_BITS)
    return np.asarray(flags.astype(np.int64) & bits != 0)


def hidden_by_mask(mask: Array) -> Array:
    """True where a mask is not 0."""
    return np.asarray(mask != 0)


Rule = Callable[[Array], Array]
# By what a file, a band or a variable is called.
RULES: dict[str, Rule] = {
    "mask": hidden_by_mask,
    "scl": hidden_by_scl,
    "qa_pixel": hidden_by_qa_pixel,
}


def rule_of(name: str | None) -> Rule:
    """The rule of a name such as SCL; that of a mask for any other."""
    return RULES.get(str(name).lower(), hidden_by_mask)
