"""Reports: one HTML page that needs nothing else, neither a network nor other files.

A page is a list of sections, and a section is plain data with a method `html`. `result_sections`
and `film_sections` make the usual ones; `write_report` writes the page.
"""

from __future__ import annotations

from .charts import Series
from .films import film_sections
from .page import page, write_report
from .pictures import BeforeAfter, Frames, Gallery
from .sections import (
    Bars,
    Facts,
    Files,
    Group,
    Lines,
    Map,
    Section,
    Table,
    Values,
    Words,
)
from .standard import result_sections

__all__ = [
    "Bars",
    "BeforeAfter",
    "Facts",
    "Files",
    "Frames",
    "Gallery",
    "Group",
    "Lines",
    "Map",
    "Section",
    "Series",
    "Table",
    "Values",
    "Words",
    "film_sections",
    "page",
    "result_sections",
    "write_report",
]
