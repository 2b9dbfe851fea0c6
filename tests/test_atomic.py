import os

import pytest

from ktae import InputError
from ktae.atomic import atomic_write


def test_replaces_the_file_at_the_end_only(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_an_error_leaves_everything_as_it_was(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(KeyError), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "ours") as temporary:
        temporary.touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_unusable_places(tmp_path):
    with pytest.raises(InputError, match="No such file or directory"), atomic_write(tmp_path / "a/b"):
        pass
    with pytest.raises(InputError, match="it is a folder"), atomic_write(tmp_path):
        pass
