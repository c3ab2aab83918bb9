"""The modules of SciPy that lrmc uses, each imported when something of it is first asked for:
together they take three times as long as NumPy, and `lrmc --help` needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import fft as fft
    from scipy import io as io
    from scipy import ndimage as ndimage
    from scipy import optimize as optimize
    from scipy import sparse as sparse
    from scipy import spatial as spatial
    from scipy import special as special
else:

    class Lazy:
        """A module that is not imported before its first use."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            """What the module has under this name."""
            found = getattr(import_module(self._name), attribute)
            setattr(self, attribute, found)  # so that it is not looked for again
            return found

    fft = Lazy("scipy.fft")
    io = Lazy("scipy.io")
    ndimage = Lazy("scipy.ndimage")
    optimize = Lazy("scipy.optimize")
    sparse = Lazy("scipy.sparse")
    spatial = Lazy("scipy.spatial")
    special = Lazy("scipy.special")
