"""Both notebooks run from top to bottom, their own assertions hold, and what is committed of their
outputs is fit to be read."""

import re
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="needs nbclient, of the extra 'dev'")
pytest.importorskip("ipykernel", reason="needs ipykernel, of the extra 'dev'")
pytest.importorskip("trl", reason="needs the extra 'trl'")

import nbformat
from execute import execute, tidy
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MACHINE = re.compile(
    r"(?:^|[\s\"'(=])(?:/(?:home|root|tmp|work|usr|opt|Users|private|var)/|[A-Z]:\\)"
)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook):
    for cell in code(notebook):
        for output in cell.outputs:
            yield from [output.text] if "text" in output else output.get("data", {}).values()


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["explain-a-dump", "your-own-estimator"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))  # not the user's profile
    executed = execute(path)  # raises what a cell raised, its assertions among it
    assert [cell.execution_count for cell in code(executed)] == [*range(1, len(code(executed)) + 1)]
    tidy(executed)
    assert sum("image/png" in o.get("data", {}) for c in code(executed) for o in c.outputs) == 2
    assert not [text for text in texts(executed) if MACHINE.search(text)]
    # The same cells say something as in the outputs that are committed.
    committed = nbformat.read(path, as_version=4)
    assert [len(cell.outputs) for cell in code(executed)] == [
        len(cell.outputs) for cell in code(committed)
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_outputs_are_of_one_run_and_tell_nothing_of_the_machine(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == [*range(1, len(counts) + 1)], "run `make notebooks`"
    kinds = {output.output_type for cell in code(notebook) for output in cell.outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert all(o.get("name", "stdout") == "stdout" for c in code(notebook) for o in c.outputs)
    assert not [text for text in texts(notebook) if MACHINE.search(text)]
    assert path.stat().st_size < 300_000


def test_a_cell_that_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    wrong = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 + 1 == 3")])
    nbformat.write(wrong, tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError, match="AssertionError"):
        execute(tmp_path / "wrong.ipynb")
