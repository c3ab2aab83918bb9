"""Files appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`, moved there when the block ends well and removed when it does not."""
    path = Path(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _arrived(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files that only their owner can read
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
    """A temporary folder beside `path`; what was written there is moved to `path` when the block ends well.

    Files that `path` already holds under the same names are replaced, others stay.
    """
    path = Path(path)
    if path.is_symlink() and not path.exists():
        raise FileNotFoundError(2, "is a link that leads nowhere, and a folder is wanted", str(path))
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(20, "is a file, and a folder is wanted", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "there is no such directory", str(path.parent))
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)  # mkdtemp makes folders that only their owner can read
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
            shutil.rmtree(place)  # a folder of masks from another run must not be mixed with this one
        item.replace(place)


@contextmanager
def together() -> Iterator[Callable[[str | os.PathLike[str]], Path]]:
    """Files and folders that appear all at once, in place of what was there, or not at all.

    It gives a function: the place of a file or folder -> where that is written meanwhile, in a hidden folder beside it.
    All are moved when the block ends well. When it does not, or one cannot be moved, everything is as it was.
    """
    rooms: dict[Path, Path] = {}
    with ExitStack() as removal:  # every room is removed, even if the removal of another is interrupted

        def meanwhile(place: str | os.PathLike[str]) -> Path:
            place = Path(place)
            if not place.parent.is_dir():
                raise FileNotFoundError(2, "there is no such directory", str(place.parent))
            rooms[place] = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}-"))
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
