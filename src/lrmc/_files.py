"""Files appear whole or not at all; those in our own formats say what they are, and are believed
only then.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._arguments import shown
from .formats.arrays import Npz, opened_npz
from .weights import Array


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`, moved there when the block ends well and removed when it does
    not.
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
    )
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _arrived(temporary)
        umask = os.umask(0)
        os.umask(umask)
        # mkstemp makes files that only their owner can read.
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _arrived(path: Path) -> None:
    """Wait until the disk has the file: some disks say only then that they are full."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file at once."""
    with whole(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside `path`; what was written there is moved to `path` when the block
    ends well.

    Files that `path` already holds under the same names are replaced, others stay.
    """
    path = Path(path)
    if path.is_symlink() and not path.exists():
        raise FileNotFoundError(
            2, "is a link that leads nowhere, and a folder is wanted", str(path)
        )
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(20, "is a file, and a folder is wanted", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such directory", str(path.parent))
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        # mkdtemp makes folders that only their owner can read.
        temporary.chmod(0o777 & ~umask)
        _move_into(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _move_into(source: Path, target: Path) -> None:
    if not target.exists():
        source.replace(target)
        return
    for item in sorted(source.iterdir()):
        place = target / item.name
        if place.is_dir() and not place.is_symlink():
            # A folder of masks from another run must not be mixed with this one.
            shutil.rmtree(place)
        item.replace(place)


@contextmanager
def together() -> Iterator[Callable[[str | os.PathLike[str]], Path]]:
    """Files and folders that appear all at once, in place of what was there, or not at all.

    It gives a function: the place of a file or folder -> where that is written meanwhile, in a
    hidden folder beside it. All are moved when the block ends well. When it does not, or one cannot
    be moved, everything is as it was.
    """
    rooms: dict[Path, Path] = {}
    # Every room is removed, even if the removal of another is interrupted.
    with ExitStack() as removal:

        def meanwhile(place: str | os.PathLike[str]) -> Path:
            place = Path(place)
            if not place.parent.is_dir():
                raise FileNotFoundError(
                    2, "there is no such directory", str(place.parent)
                )
            rooms[place] = Path(
                tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}-")
            )
            removal.callback(_removed, rooms[place])
            return rooms[place] / place.name

        yield meanwhile
        with ExitStack() as undo:
            for place, room in rooms.items():
                undo.callback(_moved_back, place, room)
                _moved_in(place, room)
            undo.pop_all()


def _moved_in(place: Path, room: Path) -> None:
    new = room / place.name
    if place.is_dir() and not new.is_dir():
        raise IsADirectoryError(21, "is a folder, and a file is wanted", str(place))
    if place.exists() and new.is_dir() and not place.is_dir():
        raise NotADirectoryError(20, "is a file, and a folder is wanted", str(place))
    if place.exists() or place.is_symlink():
        place.replace(room / "before")
    new.replace(place)


def _moved_back(place: Path, room: Path) -> None:
    """Undo `_moved_in`, as far as it came."""
    new, before = room / place.name, room / "before"
    if place.exists() and not new.exists():
        place.replace(new)
    if before.exists() or before.is_symlink():
        before.replace(place)


def _removed(folder: Path) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:  # interrupted: nobody else would remove the rest
        shutil.rmtree(folder, ignore_errors=True)
        raise


# ---- our own formats


@dataclass(frozen=True)
class Format:
    """A kind of file of our own, JSON or npz."""

    name: str  # that the file says
    what: str  # that messages say, with an article
    version: int = 1  # that is written
    oldest: int | None = None  # that is read; None: only that one
    unsaid: int | None = (
        None  # the version of files that say none; None: all say theirs
    )
    hint: str = ""  # what to do with a file that cannot be read

    def stamped(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The content, and what it is."""
        return {"format": self.name, "version": self.version, **content}

    def checked(self, content: Any) -> dict[str, Any]:
        """The content without its stamp; an error if that is of something else."""
        if not isinstance(content, dict) or content.get("format") != self.name:
            raise ValueError(f"it is something else than {self.what} of lrmc")
        version = content.get("version", self.unsaid)
        read = range(self.oldest or self.version, self.version + 1)
        if type(version) is not int or version not in read:
            known = " and ".join(map(str, read))
            raise ValueError(
                f"its version is {shown(version)}, and this lrmc reads version {known}"
            )
        return {
            key: value
            for key, value in content.items()
            if key not in ("format", "version")
        }

    @contextmanager
    def reading(self, where: str | os.PathLike[str]) -> Iterator[None]:
        """What goes wrong while a file is read, in a sentence; that there is none is told as it
        is.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # zipfile, json and numpy each have their own
            sentence = f"{where} could not be read as {self.what}{self.hint}"
            raise ValueError(f"{sentence}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        missing = str(error.args[0])
        return missing if " " in missing else f"there is no {missing} in it"
    return " ".join(str(error).split()) or type(error).__name__


def to_json(kind: Format, content: Mapping[str, Any], indent: int | None = None) -> str:
    """Text that `from_json` reads."""
    return json.dumps(kind.stamped(content), indent=indent)


def from_json(kind: Format, text: str | bytes) -> dict[str, Any]:
    """What `to_json` wrote."""
    return kind.checked(json.loads(text))


def save_arrays(
    path: str | os.PathLike[str],
    kind: Format,
    arrays: Mapping[str, Array],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write arrays to an npz file, whole, with an array `about` that says what they are.

    That is JSON, or the name and the version in a line where there is no more to say.
    """
    said = f"{kind.name} {kind.version}" if about is None else to_json(kind, about)
    content: dict[str, Any] = {"about": np.array(said), **arrays}
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **content)


@contextmanager
def opened_arrays(
    path: str | os.PathLike[str], kind: Format
) -> Iterator[tuple[dict[str, Any], Npz]]:
    """What `save_arrays` wrote of `about`, and the arrays, for as long as the block goes on.
    Nothing is executed.

    Whatever goes wrong in the block is told as `Format.reading` does.
    """
    with kind.reading(path), opened_npz(path) as content:
        yield kind.checked(_stamp(str(content["about"]))), content


def _stamp(said: str) -> Any:
    name, _, version = said.partition(" ")
    return (
        {"format": name, "version": int(version)}
        if version.isdigit()
        else json.loads(said)
    )
