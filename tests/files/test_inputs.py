"""Files are opened in one place: what could wait or read forever is refused at once."""

import os
import threading

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


def test_a_pipe_that_the_user_names_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"text",))
    writer.start()
    assert read_input(tmp_path / "pipe", named=True) == b"text"
    writer.join()


def test_a_pipe_that_goes_on_too_long_is_refused(tmp_path):
    """Its size is known at its end alone."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"123456",))
    writer.start()
    with pytest.raises(InputError):
        read_input(tmp_path / "pipe", largest=5, named=True)
    writer.join()


def test_a_device_is_refused_even_if_it_is_named():
    with pytest.raises(InputError):
        open_input("/dev/zero", named=True)


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
