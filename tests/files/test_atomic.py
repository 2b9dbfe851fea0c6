import os
import re
from pathlib import Path

import pytest

from ktae import InputError
from ktae.files.atomic import atomic_folder, atomic_write, unfinished


def test_replaces_the_file_at_the_end_only_and_not_after_an_error(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(KeyError), atomic_write(path) as temporary:
        {}[temporary.write_text("half")]
    assert path.read_text() == "old"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one(there, tmp_path):
    (tmp_path / "to").mkdir()
    if there:
        (tmp_path / "to/file").write_text("old")
    (tmp_path / "link").symlink_to("to/file")
    with atomic_write(tmp_path / "link") as temporary:
        temporary.write_text("new")
        assert unfinished(tmp_path / "link") == [temporary]
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "to/file").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link", "to"]
    assert os.listdir(tmp_path / "to") == ["file"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "ours") as temporary:
        temporary.touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_reader_that_was_there_before_sees_the_old_file_to_its_end(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    before = path.stat().st_ino
    with path.open() as reader:
        with atomic_write(path) as temporary:
            temporary.write_text("new and longer")
            written = temporary.stat().st_ino
        assert reader.read() == "old"
    assert path.stat().st_ino == written != before, "renamed, and not copied"
    assert path.read_text() == "new and longer"


@pytest.fixture
def synced(monkeypatch):
    """The inodes of what was written to the disk, in order, and of each rename's source."""
    events, sync, replace = [], os.fsync, os.replace

    def record_sync(descriptor):
        events.append(("sync", os.fstat(descriptor).st_ino))
        sync(descriptor)

    def record_replace(self, target):
        events.append(("rename", os.stat(self).st_ino))
        replace(self, target)
        return target

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_replace)
    return events


def test_the_content_is_on_the_disk_before_the_name_and_then_the_name(tmp_path, synced):
    with atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("content")
    file, folder = (tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino
    assert synced == [("sync", file), ("rename", file), ("sync", folder)]


def test_so_are_the_files_of_a_folder(tmp_path, synced):
    with atomic_folder(tmp_path / "model") as temporary:
        (temporary / "weights").touch()
    model, weights = (tmp_path / x for x in ("model", "model/weights"))
    inodes = [path.stat().st_ino for path in (weights, model, model, tmp_path)]
    assert synced == list(zip(["sync", "sync", "rename", "sync"], inodes, strict=True))


def test_unusable_places(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "a/b", tmp_path, tmp_path / "pipe"):
        with pytest.raises(InputError), atomic_write(path):
            pass


def test_a_full_disk_is_one_message(tmp_path):
    path = tmp_path / "out.txt"
    with pytest.raises(InputError, match=re.escape(str(path))), atomic_write(path):
        raise OSError(28, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_a_folder_replaces_what_a_run_cut_short_has_left(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "half").touch()
    with atomic_folder(folder) as temporary:
        (temporary / "whole").touch()
        assert os.listdir(folder) == ["half"]
    assert os.listdir(folder) == ["whole"]
    assert os.listdir(tmp_path) == ["model"]
