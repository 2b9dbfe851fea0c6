"""A small study of fake runs."""

import pytest
from small import CONTENT, ROOT, Study

from ktae.study import runner


@pytest.fixture
def make_study(tmp_path, monkeypatch):
    """From changes of CONTENT to a Study; several of them share the output folder."""
    monkeypatch.setenv("FAKE_STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.02)

    def make(**changes):
        return Study(tmp_path / "matrix.yaml", tmp_path / "study", CONTENT | changes)

    return make


@pytest.fixture
def starts(tmp_path):
    """The runs that were started so far, sorted."""
    return lambda: sorted((tmp_path / "starts").read_text().splitlines())
