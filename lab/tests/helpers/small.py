"""A small study of fake runs."""

import sys
from pathlib import Path

import yaml
from typer.testing import CliRunner

from ktae_lab.cli import app
from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices
from ktae_lab.study import runner
from ktae_lab.study.folder import StudyFolder

LAB = Path(__file__).resolve().parents[2]
ROOT = LAB.parent
DRIVE = Path(__file__).with_name("drive.py")
TRAIN = (sys.executable, str(Path(__file__).with_name("fake_train.py")))

CONTENT = {
    "name": "small",
    "methods": {
        "grpo": {"recipe": str(ROOT / "recipes/demo/grpo.yaml")},
        "grpo-ktae": {"recipe": str(ROOT / "recipes/demo/grpo-ktae.yaml")},
    },
    "overrides": {"steps": 3},
    "seeds": [1, 2, 3],
    "contrasts": [
        {
            "treatment": "grpo-ktae",
            "baseline": "grpo",
            "outcomes": ["sampled_accuracy", "mean_accuracy"],
            "kind": "confirmatory",
        }
    ],
}


class Study:
    """A matrix file, and what may be done with it in this process."""

    def __init__(self, path, output, content):
        self.path, self.output = path, output
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        self.matrix = matrices.load(path)
        self.cells = expansion.expand(self.matrix, path)
        self.folder = StudyFolder(output)
        self.ends = []

    def run(self, *, resume=False, jobs=2, **options):
        with self.folder.open(self.matrix, self.cells, resume=resume) as lock:
            stopped_by = runner.run(
                self.cells,
                self.folder,
                lock,
                jobs=jobs,
                progress=self.progress,
                command=TRAIN,
                **options,
            )
        return stopped_by is None

    def progress(self, cell, state, seconds):
        if seconds:
            self.ends.append((cell.name, state))

    def states(self):
        return {cell.name: self.folder.state(cell) for cell in self.cells}


def invoke(study, *more):
    """`ktae-lab study` on it, in this process."""
    return CliRunner().invoke(app, ["study", str(study.path), "--output", str(study.output), *more])
