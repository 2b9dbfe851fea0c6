"""Both notebooks run from top to bottom, their own assertions hold, and what is committed of their
outputs is fit to be read."""

import re
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="needs nbclient, of the extra 'dev'")
pytest.importorskip("ipykernel", reason="needs ipykernel, of the extra 'dev'")
pytest.importorskip("jinja2", reason="needs the extra 'report'")
pytest.importorskip("tokenizers", reason="needs the extra 'report'")
pytest.importorskip("matplotlib", reason="needs matplotlib")
pytest.importorskip("pandas", reason="needs pandas")

import nbformat
from execute import execute, tidy
from nbclient.exceptions import CellExecutionError

from ktae.rollouts.groups import ids_of
from ktae.rollouts.readers import read
from ktae.rollouts.tokens import load_tokenizer, token_bytes

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
IMAGES = {"explain-a-dump": 3, "your-own-estimator": 2}
REPORTS = {"explain-a-dump": 1, "your-own-estimator": 0}
HELD_OUT = {"explain-a-dump": 1, "your-own-estimator": 2}
MACHINE = re.compile(
    r"(?:^|[\s\"'(=])(?:/(?:home|root|tmp|work|usr|opt|Users|private|var)/|[A-Z]:\\)"
)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook):
    for cell in code(notebook):
        for output in cell.outputs:
            yield from [output.text] if "text" in output else output.get("data", {}).values()


def shown(notebook, kind):
    outputs = (output.get("data", {}) for cell in code(notebook) for output in cell.outputs)
    return [data[kind] for data in outputs if kind in data]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["explain-a-dump", "your-own-estimator"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))  # not the user's profile
    executed = execute(path)  # raises what a cell raised, its assertions among it
    assert sum("srcdoc=" in html for html in shown(executed, "text/html")) == REPORTS[path.stem]
    assert [cell.execution_count for cell in code(executed)] == [*range(1, len(code(executed)) + 1)]
    tidy(executed)
    assert len(shown(executed, "image/png")) == IMAGES[path.stem]
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
    tables = [html for html in shown(notebook, "text/html") if "<th>held-out</th>" in html]
    assert len(tables) == HELD_OUT[path.stem]
    assert path.stat().st_size < 300_000


def test_the_tokenizer_of_the_rollouts_spells_every_response():
    rollouts = read([FOLDER / "smollm2-sums/rollouts.parquet"])
    tokenizer = load_tokenizer(str(FOLDER / "smollm2-sums"))
    texts = token_bytes(tokenizer, range(tokenizer.get_vocab_size()))
    responses = rollouts["response"].to_pylist()
    for ids, response in zip(ids_of(rollouts, None), responses, strict=True):
        assert b"".join(texts[i] for i in ids).decode(errors="replace") == response


def test_a_cell_that_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    wrong = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 + 1 == 3")])
    nbformat.write(wrong, tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError, match="AssertionError"):
        execute(tmp_path / "wrong.ipynb")
