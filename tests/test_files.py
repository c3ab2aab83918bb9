"""Files and folders appear whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
from each import each

from lrmc import _files as files
from lrmc._files import whole_folder, write_whole


def test_a_disk_that_is_full_late_leaves_what_was_there(tmp_path, monkeypatch):
    """Some disks take everything, and say when they are asked to keep it that they cannot."""

    def full(handle):
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"before")
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a", b"after")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a", b"before")]


def test_a_folder_appears_with_all_that_was_written(tmp_path):
    with whole_folder(tmp_path / "out") as folder:
        (folder / "masks").mkdir()
        (folder / "masks" / "0.png").write_bytes(b"x")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out" / "masks" / "0.png").read_bytes() == b"x"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def half_written(path, error):
    with whole_folder(path) as folder:
        (folder / "old").write_bytes(b"new")
        raise error("in the middle")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_nothing_is_there(tmp_path, error):
    with pytest.raises(error, match="in the middle"):
        half_written(tmp_path / "out", error)
    assert not list(tmp_path.iterdir())


def test_after_an_error_what_was_there_stays(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_bytes(b"old")
    with pytest.raises(ValueError, match="in the middle"):
        half_written(tmp_path / "out", ValueError)
    assert (tmp_path / "out" / "old").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_second_run_replaces_its_files_and_leaves_others(tmp_path):
    for content in (b"1", b"2"):
        with whole_folder(tmp_path / "out") as folder:
            (folder / "masks").mkdir()
            (folder / "masks" / content.decode()).write_bytes(content)
            (folder / "report.html").write_bytes(content)
        (tmp_path / "out" / "mine.txt").write_bytes(b"mine")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "masks",
        "mine.txt",
        "report.html",
    ]
    assert [p.name for p in (tmp_path / "out" / "masks").iterdir()] == ["2"]
    assert (tmp_path / "out" / "report.html").read_bytes() == b"2"


def test_a_file_in_the_way_or_no_parent(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(NotADirectoryError, match="a folder is wanted"),
        whole_folder(tmp_path / "file"),
    ):
        pass
    with (
        pytest.raises(FileNotFoundError, match="no such directory"),
        whole_folder(tmp_path / "a" / "b"),
    ):
        pass


def written(meanwhile, path, text):
    place = meanwhile(path)
    if path.suffix:
        place.write_text(text)
    else:
        place.mkdir()
        (place / "inside").write_text(text)


def content(folder):
    return {
        str(p.relative_to(folder)): p.read_text()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def test_files_and_folders_appear_together(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old").write_text("old")
    with files.together() as meanwhile:
        written(meanwhile, tmp_path / "a.txt", "new")
        written(meanwhile, tmp_path / "b", "new")
        assert content(tmp_path / "b") == {"old": "old"}
        assert not (tmp_path / "a.txt").exists()
    assert content(tmp_path) == {"a.txt": "new", "b/inside": "new"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b"]


@each("before", [True, False], ids=["there before", "not there before"])
@pytest.mark.parametrize("fails", [0, 1, 2, 3, "in the block"])
def test_together_or_not_at_all(before, fails, tmp_path, monkeypatch):
    """Whichever of the moves does not succeed, or is interrupted."""
    places = [tmp_path / "a.txt", tmp_path / "b"]
    if before:
        places[0].write_text("old")
        places[1].mkdir()
        (places[1] / "inside").write_text("old")
    was, left, replace = content(tmp_path), [fails], Path.replace

    def moved(self, target):
        if isinstance(left[0], int):
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", moved)
    moves = 4 if before else 2
    try:
        with files.together() as meanwhile:
            for place in places:
                written(meanwhile, place, "new")
            if fails == "in the block":
                raise OSError(28, "No space left on device")
    except (KeyboardInterrupt, OSError):
        assert content(tmp_path) == was
    else:
        assert fails >= moves
    assert not list(tmp_path.glob(".*"))


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(IsADirectoryError), files.together() as meanwhile:
        written(meanwhile, tmp_path / "a.txt", "new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(NotADirectoryError), files.together() as meanwhile:
        written(meanwhile, tmp_path / "b", "new")
    with (
        pytest.raises(FileNotFoundError, match="nowhere"),
        files.together() as meanwhile,
    ):
        meanwhile(tmp_path / "nowhere" / "c")


def test_an_interrupted_removal_goes_on(tmp_path, monkeypatch):
    """Of this room, and of the others."""
    left, rmtree = [1], files.shutil.rmtree

    def interrupted(path, **options):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        rmtree(path, **options)

    monkeypatch.setattr(files.shutil, "rmtree", interrupted)

    def write():
        with files.together() as meanwhile:
            for name in ("a.txt", "b", "c.txt"):
                written(meanwhile, tmp_path / name, "new")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert content(tmp_path) == {"a.txt": "new", "b/inside": "new", "c.txt": "new"}
    assert not list(tmp_path.glob(".*"))


# ---- our own formats

KIND = files.Format("lrmc-thing", "a thing", version=2)
OLD = files.Format("lrmc-thing", "a thing", unsaid=1, hint="; remove it")


def test_json_says_what_it_is():
    text = files.to_json(KIND, {"a": 1})
    assert files.from_json(KIND, text) == {"a": 1}
    assert files.from_json(KIND, text.encode()) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"format": "other", "version": 2}', "something else than a thing of lrmc"),
        ('{"version": 2}', "something else"),
        ("[1]", "something else"),
        (
            '{"format": "lrmc-thing"}',
            "its version is None, and this lrmc reads version 2",
        ),
        ('{"format": "lrmc-thing", "version": 1}', "its version is 1"),
        ('{"format": "lrmc-thing", "version": true}', "its version is True"),
    ],
)
def test_other_json_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        files.from_json(KIND, text)


def test_a_version_that_older_files_do_not_say():
    assert files.from_json(OLD, '{"format": "lrmc-thing", "a": 1}') == {"a": 1}
    with pytest.raises(
        ValueError, match="its version is 2, and this lrmc reads version 1"
    ):
        files.from_json(OLD, files.to_json(KIND, {}))


@pytest.mark.parametrize("about", [None, {"k": 3}])
def test_arrays_say_what_they_are(tmp_path, about):
    files.save_arrays(tmp_path / "a.npz", KIND, {"L": np.eye(2)}, about)
    with files.opened_arrays(tmp_path / "a.npz", KIND) as (said, content):
        assert said == (about or {})
        np.testing.assert_array_equal(content["L"], np.eye(2))
    said = str(np.load(tmp_path / "a.npz")["about"])
    assert said == (
        "lrmc-thing 2"
        if about is None
        else '{"format": "lrmc-thing", "version": 2, "k": 3}'
    )


def read(path, name="L"):
    with files.opened_arrays(path, OLD) as (_, content):
        return content[name]


def test_arrays_of_something_else(tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(FileNotFoundError):
        read(path)
    files.save_arrays(path, KIND, {})
    with pytest.raises(
        ValueError,
        match=r"a\.npz could not be read as a thing; remove it: its version is 2",
    ):
        read(path)
    files.save_arrays(path, OLD, {})
    with pytest.raises(ValueError, match="remove it: there is no L in it"):
        read(path)
    path.write_bytes(b"hello")
    with pytest.raises(
        ValueError,
        match="could not be read as a thing; remove it: File is not a zip file",
    ):
        read(path)
