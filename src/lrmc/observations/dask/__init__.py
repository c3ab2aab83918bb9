"""Data in a Dask array, solved where they lie. Imported only where Dask is.

Each block keeps its rows of the data, of L and of all that has a line per row. A round is one
graph: what is the same for all rows goes out, each block does its work, and what they tell comes
back, added up as a tree where the blocks are."""

from .blocks import DaskBlocks, as_dask_observations, is_dask
from .cluster import ClusterLostError

__all__ = ["ClusterLostError", "DaskBlocks", "as_dask_observations", "is_dask"]
