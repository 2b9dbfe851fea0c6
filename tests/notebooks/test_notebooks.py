"""Both notebooks run from top to bottom, and their own assertions hold.

The committed outputs are of one run and do not name the machine.
"""

import re
from pathlib import Path

import nbformat
import pytest
from execute import execute, tidy

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MACHINE = re.compile(
    r"(?:^|[\s\"'(=])(?:/(?:home|root|tmp|work|usr|opt|Users|private|var)/|[A-Z]:\\)"
)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(notebook):
    """What each cell puts out."""
    return [[sorted(output.get("data", ())) for output in cell.outputs] for cell in code(notebook)]


def texts(notebook):
    for cell in code(notebook):
        for output in cell.outputs:
            yield from [output.text] if "text" in output else output.get("data", {}).values()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_shows_what_is_committed(path, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))  # not the user's profile
    committed = nbformat.read(path, as_version=4)
    executed = execute(path)  # raises what a cell raised, its assertions among it
    tidy(executed)
    for notebook in (committed, executed):
        counts = [cell.execution_count for cell in code(notebook)]
        assert counts == [*range(1, len(counts) + 1)], "run `make notebooks`"
        assert not [text for text in texts(notebook) if MACHINE.search(text)]
    assert kinds(executed) == kinds(committed)
    assert any("image/png" in output for cell in kinds(committed) for output in cell)
