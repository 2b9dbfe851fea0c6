"""study/temperatures.py: accuracy of a study's models against temperature."""

import csv

import pytest
import temperatures
from small import ROOT

from ktae.demo import LANGUAGES
from ktae.demo.model import make_model, make_tokenizer
from ktae.errors import InputError
from ktae.evaluation.generation import Generations
from ktae.recipe import load
from ktae.runs import write_json


def test_scores_by_hand(monkeypatch):
    """Of the 8 samples to each of four problems 0, 1, 2 and 7 are right and came to their end."""
    answers = [problem.answer for problem in LANGUAGES["sums"].test_problems(4)]
    right = [0, 1, 2, 7]

    def generate(model, tokenizer, prompts, *, temperature, **_):
        assert len(prompts) == 32 and prompts[0] == prompts[7] != prompts[8]
        texts, finished = [], []
        for answer, n in zip(answers, right, strict=True):
            texts += [f"box {answer} }}"] * (n + 1) + ["box ! }"] * (7 - n)
            finished += [True] * n + [False] + [True] * (7 - n)
        return Generations([[0] * (5 if temperature == 1 else 3)] * 32, texts, finished, 0.0)

    monkeypatch.setattr(temperatures, "generate", generate)
    scores = list(temperatures._scores(None, None, load(ROOT / "recipes/demo/grpo.yaml"), 4))
    assert [score[0] for score in scores] == [0.25, 0.5, 0.75, 1.0]
    assert scores[0][1:] == (10 / 32, 3 / 4, 3.0)
    assert scores[3][1:] == (10 / 32, 3 / 4, 5.0)


def test_measures_what_is_finished_and_no_run_twice(make_study, monkeypatch, capsys):
    study = make_study()
    study.folder.open(study.matrix, study.cells, resume=False).close()

    def finish(cell):
        folder = study.folder.run_folder(cell)
        for part in (make_model(LANGUAGES["sums"], 0), make_tokenizer(LANGUAGES["sums"])):
            part.save_pretrained(folder.model)
        write_json(folder.summary, {})

    def measure(*options):
        arguments = ["temperatures.py", str(study.path), str(study.output), "--problems", "2"]
        monkeypatch.setattr("sys.argv", [*arguments, *options])
        temperatures.main()
        with (study.output / "temperatures.csv").open(newline="") as file:
            return list(csv.DictReader(file)), capsys.readouterr().out

    finish(study.cells[-1])
    rows, said = measure()
    assert "1 of 1 runs" in said
    assert [row["temperature"] for row in rows] == ["0.25", "0.5", "0.75", "1"]
    assert {(row["method"], row["seed"]) for row in rows} == {("grpo-ktae", "3")}
    assert {row["accuracy"] for row in rows} == {"0"}, "an untrained model knows nothing"
    assert float(rows[-1]["length"]) > 10

    finish(study.cells[0])
    finish(study.cells[1])
    again, said = measure("--methods", "grpo", "--jobs", "2")
    assert "1 of 1 runs" in said, "grpo-ktae was not asked for, and its third seed is there"
    assert [row["method"] for row in again] == ["grpo"] * 4 + ["grpo-ktae"] * 4
    assert again[4:] == rows

    for n, message in (("3", "runs with 2 problems, and --problems is 3"), ("2", "matrix has not")):
        if n == "2":
            make_study(seeds=[3])
        with pytest.raises(InputError, match=message):
            measure("--problems", n)
