"""The data, however they are stored, and the one operation that every method asks of them."""

from ._door import as_observations
from .base import OWN, Observations, Pull, Sample
from .dense import Dense
from .sparse import Sparse
from .transposed import Transposed

__all__ = [
    "OWN",
    "Dense",
    "Observations",
    "Pull",
    "Sample",
    "Sparse",
    "Transposed",
    "as_observations",
]
