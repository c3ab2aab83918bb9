"""Satellite scenes of one place: clouds are removed, and what is under them filled."""

from .model import Cleared, Fill, Ground, remove_clouds

__all__ = ["Cleared", "Fill", "Ground", "remove_clouds"]
