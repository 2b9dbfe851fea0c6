"""A study of two real runs, on the laboratory's own language; they train in this process."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pyarrow.parquet as pq
from small import ROOT, invoke
from typer.testing import CliRunner

import ktae.demo
from ktae.cli import app
from ktae_lab.csv_files import read_table
from ktae_lab.languages.lists import LISTS
from ktae_lab.study import runner


class InThisProcess:
    """A process that has come to its end when it is made."""

    def __init__(self, command, **_):
        assert command[1:4] == ["-m", "ktae", "train"]
        self.done = CliRunner().invoke(app, command[3:])
        self.returncode = self.done.exit_code

    def poll(self):
        return self.returncode


def test_a_study_of_two_runs(make_study, tmp_path, monkeypatch):
    from ktae.demo.model import make_model, make_tokenizer

    where = "ktae_lab.languages.lists:LISTS"
    points = {"lists": EntryPoint("lists", where, ktae.demo.GROUP)}
    monkeypatch.setattr(ktae.demo, "_offered", lambda: points)
    fake = SimpleNamespace(Popen=InThisProcess, DEVNULL=None, STDOUT=None)
    monkeypatch.setattr(runner, "subprocess", fake)
    for part in (make_model(LISTS, 0), make_tokenizer(LISTS)):
        part.save_pretrained(tmp_path / "model")
    study = make_study(
        seeds=[1],
        methods={
            "grpo": {"recipe": str(ROOT / "lab/recipes/hard/grpo.yaml")},
            "grpo-ktae": {"recipe": str(ROOT / "lab/recipes/hard/grpo-calibrated.yaml")},
        },
        overrides={
            "steps": 2,
            "demo.language": "lists",
            "model.path": str(tmp_path / "model"),
            "rollout": {"prompts_per_step": 2, "group_size": 4, "max_response_length": 24},
            "algorithm": {"minibatches": 1, "epochs": 1},
            "logging.eval_problems": 8,
        },
    )
    done = invoke(study)
    assert done.exit_code == 0, done.output
    assert "2 runs finished" in done.output
    assert "not enough" in done.output
    runs = read_table(study.folder.runs_csv)
    assert runs["state"].tolist() == ["finished"] * 2
    outcomes = ("sampled_accuracy", "greedy_accuracy", "length", "entropy", "mean_accuracy")
    assert runs[[f"outcome.{name}" for name in outcomes]].notna().all(axis=None)
    assert read_table(study.folder.comparisons_csv)["pairs"].tolist() == [1, 1]
    rollouts = study.folder.run_folder(study.cells[1]).rollouts / "step-00002.parquet"
    answers = {p.prompt: p.answer for p in LISTS.train_problems(4, seed=1)}
    for row in pq.read_table(rollouts).to_pylist():
        assert answers[row["prompt"]] == row["answer"], "lists have answers of text"
