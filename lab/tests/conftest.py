"""Environment and fixtures of the laboratory's tests: a small study of fake runs.

The environment is set before numba, torch or transformers can be imported: they read it once.
"""

import os

import pytest
from hypothesis import settings

NIGHTLY = ("lab/tests/align", "lab/tests/study/test_runner.py", "lab/tests/test_smoke.py")
"""They train, or start many processes."""

for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("dev", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the nightly ones."""
    for item in items:
        if item.nodeid.startswith(NIGHTLY):
            item.add_marker("nightly")


@pytest.fixture
def make_study(tmp_path, monkeypatch):
    """From changes of CONTENT to a Study; several of them share the output folder."""
    from small import CONTENT, LAB, Study

    from ktae_lab.study import runner

    paths = [str(LAB / "src"), str(LAB.parent / "src")]
    monkeypatch.setenv("FAKE_STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.02)

    def make(**changes):
        return Study(tmp_path / "matrix.yaml", tmp_path / "study", CONTENT | changes)

    return make


@pytest.fixture
def finished(make_study):
    """A study whose runs are all there, with the accuracies of `helpers/finished.py`; `leave_out`
    names some that are not."""
    from finished import ACCURACY, write

    def finished(leave_out=(), announced=None, **changes):
        study = make_study(**{"seeds": list(range(1, 8))} | changes)
        then = announced or study
        study.folder.open(then.matrix, then.cells, resume=False).close()
        for cell in study.cells:
            if cell.name not in leave_out:
                accuracy = ACCURACY[cell.method][cell.seed - 1]
                if cell.base.endswith("1"):
                    accuracy += 0.1
                write(study.folder.run_folder(cell), cell, accuracy)
        return study

    return finished


@pytest.fixture
def starts(tmp_path):
    """The runs that were started so far, sorted."""
    return lambda: sorted((tmp_path / "starts").read_text().splitlines())
