"""Ultrasound cines: tissue is of low rank, blood is what moves against it."""

from .model import Separated, separate, separate_file

__all__ = ["Separated", "separate", "separate_file"]
