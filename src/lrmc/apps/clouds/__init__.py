"""Satellite scenes of one place: clouds are removed, and what is under them filled."""

from .files import Processed, process
from .ground import Ground
from .model import Cleared, Fill, remove_clouds

__all__ = ["Cleared", "Fill", "Ground", "Processed", "process", "remove_clouds"]
