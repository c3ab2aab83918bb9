"""Faces of one person under many lights, without shadows, highlights and what covers them."""

from .files import Processed, process
from .model import Faces, clean_faces
from .people import Person, read_people
from .show import contact_sheet

__all__ = [
    "Faces",
    "Person",
    "Processed",
    "clean_faces",
    "contact_sheet",
    "process",
    "read_people",
]
