"""Files and folders appear whole or not at all."""

import pytest

from lrmc import files
from lrmc.files import whole_folder, write_whole


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
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["masks", "mine.txt", "report.html"]
    assert [p.name for p in (tmp_path / "out" / "masks").iterdir()] == ["2"]
    assert (tmp_path / "out" / "report.html").read_bytes() == b"2"


def test_a_file_in_the_way_or_no_parent(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="a folder is wanted"), whole_folder(tmp_path / "file"):
        pass
    with pytest.raises(FileNotFoundError, match="no such directory"), whole_folder(tmp_path / "a" / "b"):
        pass
