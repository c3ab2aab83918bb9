"""Video of a fixed camera: the background is of low rank, what moves is in front of it."""

from .files import process
from .foreground import masks
from .model import Background, Separation, learn, separate
from .page import Processed

__all__ = [
    "Background",
    "Processed",
    "Separation",
    "learn",
    "masks",
    "process",
    "separate",
]
