"""A command on files that are not to be trusted, and what must hold whatever they are."""

import hashlib
import resource
import shutil
import socket
import warnings
from contextlib import contextmanager, nullcontext
from unittest import mock

import numpy as np
from typer.testing import CliRunner

from fuzz.effort import within
from lrmc.cli import app

SECONDS = 30.0
GROWTH = 400  # MB of memory, at most, for files of a few kB
ROOM = 4 << 30  # bytes of addresses, at most, beside those in use


def damage(rng, content):
    """Some bytes otherwise than they were."""
    content, n = bytearray(content), max(1, len(content))
    how = rng.integers(9)
    if how == 0:
        return bytes(content[: rng.integers(n)])
    if how == 1:
        for _ in range(rng.integers(1, 9)):
            content[rng.integers(n) : rng.integers(n) + 1] = bytes(
                rng.integers(0, 256, 1).tolist()
            )
        return bytes(content)
    if how == 2:  # in the header, or what is at the end
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(min(n, 200))
            at = at if rng.random() < 0.7 else n - 1 - at
            content[at : at + 1] = bytes(rng.integers(0, 256, 1).tolist())
        return bytes(content)
    if how == 3:
        at, size = rng.integers(n), int(rng.choice([1, 2, 4, 8]))
        number = int(rng.choice([0, -1, 2**31 - 1, -(2**31), 2**15, 2**62, 65535]))
        content[at : at + size] = (number & (2 ** (8 * size) - 1)).to_bytes(
            size, "little"
        )
        return bytes(content)
    if how == 4:
        at, more = sorted(rng.integers(0, n, 2))
        return bytes(content[:at] + content[more:])
    if how == 5:
        at, more = sorted(rng.integers(0, n, 2))
        return bytes(content[:more] + content[at:])
    if how == 6:  # digits, of sizes and shapes in text
        digits = [i for i, byte in enumerate(content) if 48 <= byte < 58]
        for i in (
            rng.choice(digits, min(len(digits), 3), replace=False) if digits else ()
        ):
            content[i : i + 1] = [b"9", b"0", b"-", b"999999999", b"", b"."][
                rng.integers(6)
            ]
        return bytes(content)
    if how == 7:
        at = rng.integers(n)
        return bytes(content[:at]) + bytes(min(64, n - at)) + bytes(content[at + 64 :])
    return [
        b"",
        b"\0" * 100,
        b"\x80\x04cposix\nsystem\n.",
        b"[" * 100_000,
        bytes(rng.integers(0, 256, 300).tolist()),
    ][rng.integers(5)]


def damage_one(rng, folder):
    """One of the files of a folder; sometimes it goes, or is a link to nowhere."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[rng.integers(len(files))]
    if len(files) > 1 and rng.random() < 0.05:
        path.unlink()
        if rng.random() < 0.5:
            path.symlink_to("nowhere")
    else:
        path.write_bytes(damage(rng, path.read_bytes()))
    return path


class Place:
    """A folder with what a command is given, one that it may write to, and something
    that it must not touch.
    """

    def __init__(self, root, kind):
        self.kind, self.root, self.folder = kind, root, root / "work"
        self.folder.mkdir()
        (root / "elsewhere").mkdir()
        (root / "elsewhere" / "mine.txt").write_text("not yours")
        self.source = kind.make(self.folder)

    def arguments(self):
        sources = self.source if isinstance(self.source, list) else [self.source]
        values = {
            "IN": [str(x) for x in sources],
            "OUT": [str(self.folder / self.kind.output)],
        }
        given = [
            values.get(word, [word.replace("FOLDER", str(self.folder))])
            for word in self.kind.command
        ]
        return [word for words in given for word in words]

    def look(self):
        """Everything that is there: names, and what they hold."""
        found = sorted(self.root.rglob("*"))
        return {
            p: hashlib.sha1(p.read_bytes()).digest() if p.is_file() else None
            for p in found
        }

    def outputs(self):
        return {self.folder / name for name in (self.kind.output, *self.kind.beside)}

    def restored(self, template):
        shutil.rmtree(self.folder)
        shutil.copytree(template, self.folder)


def no_connection(*_):
    raise AssertionError("a command has tried to reach the network")


def run(place):
    """Invoke the command in this process, within limits of time, memory and network, and
    check everything.
    """
    before, used = place.look(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        within(SECONDS),
        warnings.catch_warnings(),
        mock.patch.object(socket.socket, "connect", no_connection),
        limited(ROOM),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(app, place.arguments(), env={"COLUMNS": "300"})
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) / 1000
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(
        done.exception
    )
    check(place, before, done.exit_code, done.stderr)
    assert grown < GROWTH, f"{grown:.0f} MB for a small file"
    return done


def check(place, before, code, said):
    """Whole outputs or none, a sentence, and nothing else touched."""
    after = place.look()
    outputs = place.outputs()
    there = {path for path in outputs if path in after}
    assert code in (0, 1, 2), f"exit code {code}: {said}"
    if code == 2:
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, said
        assert len(errors[0]) > 20, said
        assert "Traceback" not in said
    assert there == (
        outputs if code == 0 else set() if code == 2 else there & outputs
    ), (code, said)
    assert there in (set(), outputs)
    new = {path for path in after if path not in before}
    mine = {
        path
        for path in new
        if any(out == path or out in path.parents for out in outputs)
    }
    assert new - mine <= {
        place.folder / f"{place.kind.output}{end}"
        for end in (".resume.npz", ".partial")
    }
    assert not any(
        path.name.startswith(".") and path.suffix != ".zarray"
        for path in new - set(mine)
    ), new
    kept = {path: look for path, look in before.items() if path.name not in FINISHED}
    assert {path: after.get(path) for path in kept} == kept, "an input was changed"


FINISHED = ("out.npy.resume.npz", "out.json.partial")  # which go when a run has ended


@contextmanager
def limited(room):
    """No more addresses than those in use and `room` more."""
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        with nullcontext():
            yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
