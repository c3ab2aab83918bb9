"""Ultrasound cines: tissue is of low rank, blood is what moves against it."""

from .files import Processed, process, separate_file
from .model import Separated, separate

__all__ = ["Processed", "Separated", "process", "separate", "separate_file"]
