"""`lrmc complete`: a file with gaps becomes one without, in memory or block by block."""

from .files import process

__all__ = ["process"]
