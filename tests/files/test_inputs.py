"""Files are opened in one place: what could wait or read forever is refused at once."""

import os

import pytest

from ktae import InputError
from ktae.files.inputs import Opened, open_input, read_input


@pytest.fixture(params=["pipe", "link to a pipe", "device", "folder", "nothing", "loop", "null"])
def unreadable(request, tmp_path):
    path = tmp_path / "input"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "link to a pipe":
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("pipe")
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to("input")
        case "null":
            return f"{path}\0"
    return path


def test_what_is_no_file_is_refused_without_waiting(unreadable):
    with pytest.raises(InputError):
        open_input(unreadable)


def test_the_size_is_known_before_anything_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_input(path, largest=5) == b"12345" and Opened.last == str(path)
    with pytest.raises(InputError):
        read_input(path, largest=4)
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room on the disk, and would in memory
    with pytest.raises(InputError):
        read_input(path)
