"""Variables by name in npz and mat files, and which of them is meant; what is wrong with a file, in
a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._extras import MissingPackage
from .arrays import opened_npz
from .matlab import NewerFormatError, read_mat


class Unusable(ValueError):
    """A sentence for the user that needs no frame around it."""


@contextmanager
def reading(told: str) -> Iterator[None]:
    """What goes wrong while a file is read becomes one sentence: `told`, which names the file, and
    the reason.
    """
    try:
        yield
    except (MissingPackage, MemoryError, NewerFormatError, Unusable):
        raise
    # Zipfile, zlib, pandas, pyarrow, scipy and pydicom each have their own.
    except Exception as error:
        # From the system; theirs name no file.
        if isinstance(error, OSError) and error.filename is not None:
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{told}: {reason}") from error


def read_variables(path: Path) -> dict[str, Any]:
    """All variables of a file: arrays, and of mat files also sparse matrices and what is no
    matrix.
    """
    if path.suffix.lower() == ".mat":
        return read_mat(path)
    with opened_npz(path) as content:
        return {name: content[name] for name in sorted(content)}


def chosen_name(
    content: Mapping[str, Any],
    name: str | None,
    path: Path,
    *,
    fitting: Sequence[str],
    words: tuple[str, str],
) -> str:
    """The variable that was named, or else the only one that fits.

    `words` are those for several of the kind that is wanted, and for none.
    """
    if name is not None:
        if name not in content:
            raise Unusable(
                f"{path} has no variable {name!r}; it has:"
                f" {', '.join(content) or 'none'}"
            )
        return name
    if len(fitting) != 1:
        several, none = words
        which = f"{len(fitting)} {several} ({', '.join(fitting)})" if fitting else none
        raise Unusable(
            f"{path} holds {which}; one is wanted: choose it by its name (--name)"
        )
    return fitting[0]
