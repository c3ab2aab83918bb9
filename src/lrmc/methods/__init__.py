"""The methods: each a generator of steps over observations."""

from .lrmc import Step, lrmc

__all__ = ["Step", "lrmc"]
