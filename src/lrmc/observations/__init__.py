"""The data, however they are stored, and the one operation that every method asks of them."""

from ._door import as_observations
from .base import Dense, Observations, Pull, Sample, Sparse, Transposed

__all__ = ["Dense", "Observations", "Pull", "Sample", "Sparse", "Transposed", "as_observations"]
