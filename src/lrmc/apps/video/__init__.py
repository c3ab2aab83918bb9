"""Video of a fixed camera: the background is of low rank, what moves is in front of it."""

from .model import Background, Separation, learn, masks, process, separate

__all__ = ["Background", "Separation", "learn", "masks", "process", "separate"]
