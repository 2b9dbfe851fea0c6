import os

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


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_a_pipe_stays_one_and_gets_the_whole(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(KeyError), atomic_write(tmp_path / name) as temporary:
        {}[temporary.write_text("half")]
    with atomic_write(tmp_path / name) as temporary:
        temporary.write_text("whole")
    assert os.read(reader, 100) == b"whole"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "ours") as temporary:
        temporary.touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_unusable_places(tmp_path):
    missing = atomic_write(tmp_path / "a/b")
    with pytest.raises(InputError, match="No such file or directory"), missing:
        pass
    with pytest.raises(InputError, match="it is a folder"), atomic_write(tmp_path):
        pass


def test_a_full_disk_is_one_message(tmp_path):
    path = tmp_path / "out.txt"
    with pytest.raises(InputError, match=r"cannot write .*out.txt: No space"), atomic_write(path):
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
