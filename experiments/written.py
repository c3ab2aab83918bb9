"""Pages that are partly made: what a script measured lies between two marks, and what people wrote
about it around them stays.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from lrmc._files import whole, write_whole

BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"


def write_made(page: Path, made: str) -> None:
    """Put this between the marks of a page. A page without marks is left alone, in words."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(
            f"{page} has no place for what was made: a line {BEGIN.strip()} and, below it, one {END.strip()}"
        )
    write_whole(page, f"{before}{BEGIN}{made}{END}{after}".encode())


def write_rows(
    path: Path, head: Sequence[str], rows: Iterable[Iterable[object]]
) -> None:
    """A csv file of these lines, whole or not at all."""
    with whole(path) as temporary, temporary.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(head)
        out.writerows(rows)
