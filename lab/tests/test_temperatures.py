"""Accuracy of a study's models against temperature."""

import pytest
from small import ROOT
from typer.testing import CliRunner

from ktae.demo import SUMS
from ktae.demo.model import make_model, make_tokenizer
from ktae.errors import InputError
from ktae.evaluation.generation import Generations
from ktae.recipe import load
from ktae.runs import write_json
from ktae_lab import temperatures
from ktae_lab.cli import app
from ktae_lab.csv_files import read_csv

RUNS = (("grpo", "1"), ("grpo-ktae", "1"), ("grpo-ktae", "3"))


@pytest.mark.parametrize(
    ("n_samples", "pass_at_8"),
    [
        (8, 3 / 4),
        # With 1, 2 and 7 of 16 right, none of eight is: C(15, 8), C(14, 8), C(9, 8) of C(16, 8).
        (16, 3 / 4 - (6435 + 3003 + 9) / 12870 / 4),
    ],
)
def test_scores_by_hand(monkeypatch, n_samples, pass_at_8):
    """Of the samples to each of four problems 0, 1, 2 and 7 are right and came to their end."""
    answers = [problem.answer for problem in SUMS.test_problems(4)]
    right = [0, 1, 2, 7]
    n = 4 * n_samples

    def generate(model, tokenizer, prompts, *, temperature, seed, **_):
        assert len(prompts) == n and prompts[0] == prompts[n_samples - 1] != prompts[n_samples]
        assert seed == 5, "the run's"
        texts, finished = [], []
        for answer, k in zip(answers, right, strict=True):
            texts += [f"box {answer} }}"] * (k + 1) + ["box ! }"] * (n_samples - 1 - k)
            finished += [True] * k + [False] + [True] * (n_samples - 1 - k)
        return Generations([[0] * (5 if temperature == 1 else 3)] * n, texts, finished, 0.0)

    monkeypatch.setattr(temperatures, "generate", generate)
    recipe = load(ROOT / "recipes/demo/grpo.yaml", ["seed=5"])
    measurement = temperatures.by_temperature(problems=4, samples=n_samples)
    scores = list(measurement.scores(None, None, recipe, measurement.size))
    assert [score["temperature"] for score in scores] == [0.25, 0.5, 0.75, 1.0]
    for score in scores:
        length = 5.0 if score["temperature"] == 1 else 3.0
        expected = {"accuracy": 10 / n, "pass_at_8": pass_at_8, "length": length}
        assert score == pytest.approx(expected | {"temperature": score["temperature"]})


def test_problems_of_another_task_are_not_the_demo_s():
    recipe = load(ROOT / "recipes/demo/grpo.yaml", ["task=math", "data=data"])
    measurement = temperatures.by_temperature(problems=4)
    with pytest.raises(InputError, match="task is math; expected demo"):
        next(measurement.scores(None, None, recipe, measurement.size))


def test_measures_what_is_finished_and_no_model_twice(make_study):
    study = make_study()
    study.folder.open(study.matrix, study.cells, resume=False).close()

    def finish(cell, init=0):
        folder = study.folder.run_folder(cell)
        for part in (make_model(SUMS, init), make_tokenizer(SUMS)):
            part.save_pretrained(folder.model)
        write_json(folder.summary, {})

    def measure(*options):
        size = [] if "--problems" in options else ["--problems", "2"]
        arguments = ["temperatures", str(study.path), str(study.output), *size]
        done = CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)
        return read_csv(study.output / "temperatures.csv"), done.output

    finish(study.cells[-1])
    rows, said = measure()
    assert "1 of 1 runs" in said
    assert [row["temperature"] for row in rows] == ["0.25", "0.5", "0.75", "1"]
    assert {(row["method"], row["seed"]) for row in rows} == {("grpo-ktae", "3")}
    assert {row["accuracy"] for row in rows} == {"0"}, "an untrained model knows nothing"
    assert float(rows[-1]["length"]) > 10
    assert {(row["samples"], row["sampling_seed"]) for row in rows} == {("8", "3")}

    finish(study.cells[0])
    finish(study.cells[1])
    again, said = measure("--methods", "grpo", "--jobs", "2")
    assert "1 of 1 runs" in said, "grpo-ktae was not asked for, and its third seed is there"
    assert [row["method"] for row in again] == ["grpo"] * 4 + ["grpo-ktae"] * 4
    assert again[4:] == rows

    finish(study.cells[0], init=1)
    trained_again, said = measure()
    assert "2 of 2 runs" in said, "the one with other weights, and the one not asked for before"
    at = [(row["method"], row["seed"]) for row in trained_again]
    assert at == [(m, s) for m, s in RUNS for _ in range(4)]
    assert {row["model"] for row in trained_again[:4]}.isdisjoint({again[0]["model"]})
    assert trained_again[-4:] == rows, "the same weights"
    assert "12 rows of 3 runs" in measure()[1]

    broken = next(study.folder.run_folder(study.cells[0]).model.glob("*.safetensors"))
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-8])
    finish(study.cells[1], init=2)
    with pytest.raises(InputError, match="1 of 2 runs could not be measured; call again for them"):
        measure()
    kept = read_csv(study.output / "temperatures.csv")
    assert len(kept) == 8, "what could be measured is kept"
    broken.write_bytes(whole)
    assert "1 of 1 runs" in measure()[1]

    for options, message in (
        (["--problems", "3"], "runs with 2 problems, and --problems is 3"),
        (["--samples", "9"], "runs with 8 samples, and --samples is 9"),
        (["--samples", "7"], "--samples is 7; expected 8 or more, for pass@8"),
    ):
        with pytest.raises(InputError, match=message):
            measure(*options)
    make_study(seeds=[3])
    with pytest.raises(InputError, match="matrix has not"):
        measure()
    for weights in study.folder.run_folder(study.cells[0]).model.glob("*.safetensors"):
        weights.unlink()
    make_study()
    with pytest.raises(InputError, match=r"no weights .* in .*grpo/seed1/model"):
        measure()
