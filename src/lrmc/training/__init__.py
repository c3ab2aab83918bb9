"""Learning the numbers of a schedule: in seconds, on problems like yours."""

from .recipes import train

__all__ = ["train"]
