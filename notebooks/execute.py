"""Execute the notebooks in place, and keep of their outputs what others should read.

    python notebooks/execute.py [NOTEBOOK...]

Progress bars, warnings and the machine's versions are left out.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
SECONDS_A_CELL = 1800
KEPT = {"text/plain", "text/html", "image/png"}


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs; raises what a cell raised."""
    notebook = nbformat.read(path, as_version=4)
    here = {"metadata": {"path": str(path.parent)}}
    # Otherwise what a cell prints is cut into pieces by the clock.
    client = NotebookClient(notebook, timeout=SECONDS_A_CELL, resources=here, coalesce_streams=True)
    return client.execute()


def tidy(notebook: nbformat.NotebookNode) -> None:
    """Leave what a reader needs, and nothing that tells of the machine."""
    notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec",)}
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_tidied, cell.outputs) if output]


def _tidied(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    data = {kind: content for kind, content in output.get("data", {}).items() if kind in KEPT}
    output.data, output.metadata = data, {}
    return output if data else None


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        executed = execute(path)
        tidy(executed)
        nbformat.write(executed, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
