"""Accuracy at the temperature that validation problems choose."""

import pytest
from small import ROOT

from ktae.demo import SUMS
from ktae.demo.model import make_model, make_tokenizer
from ktae.evaluation.generation import Generations
from ktae.recipe import load
from ktae.runs import write_json
from ktae_lab import validated
from ktae_lab.csv_files import read_csv
from ktae_lab.measurement import measure_study
from ktae_lab.study import collect

SIZE = {"validation_problems": 4, "validation_samples": 2, "problems": 6, "samples": 3}


def scores_of(monkeypatch, right_of):
    """The scores of a model that solves `right_of[is_test, temperature]` of each ten problems."""
    validation = {p.prompt for p in SUMS.train_problems(4, validated.VALIDATION_SEED)}
    tests = {p.prompt: p for p in SUMS.test_problems(6)}
    assert not validation & tests.keys()
    asked = []

    def generate(model, tokenizer, prompts, *, temperature, seed, **_):
        assert seed == 5, "the run's"
        is_test = prompts[0] in tests
        assert set(prompts) == (tests.keys() if is_test else validation)
        asked.append((is_test, temperature, len(prompts)))
        answers = {p.prompt: p.answer for p in SUMS.train_problems(4, validated.VALIDATION_SEED)}
        answers |= {p.prompt: p.answer for p in tests.values()}
        n_right = round(right_of[is_test, temperature] * len(prompts))
        texts = [f"box {answers[p] if i < n_right else '!'} }}" for i, p in enumerate(prompts)]
        return Generations([[0]] * len(prompts), texts, [True] * len(prompts), 0.0)

    monkeypatch.setattr(validated, "generate", generate)
    recipe = load(ROOT / "recipes/demo/grpo.yaml", ["seed=5"])
    measurement = validated.at_the_best_temperature(SIZE)
    (scores,) = measurement.scores(None, None, recipe, SIZE)
    assert tuple(scores) == measurement.columns
    return scores, asked


def test_validation_problems_choose_and_test_problems_measure(monkeypatch):
    on_validation = {0.0: 0.5, 0.25: 0.75, 0.5: 0.75, 0.75: 0.25, 1.0: 0.0}
    on_test = {0.0: 4 / 6, 0.5: 10 / 18, 1.0: 2 / 18}
    right_of = {(False, t): share for t, share in on_validation.items()}
    right_of |= {(True, t): share for t, share in on_test.items()}
    scores, asked = scores_of(monkeypatch, right_of)
    assert scores["temperature"] == 0.5, "of two that are as good the higher"
    assert scores["validation_0.75"] == 0.25
    assert scores["accuracy"] == pytest.approx(10 / 18)
    assert scores["accuracy_at_1"] == pytest.approx(2 / 18)
    assert scores["greedy_accuracy"] == pytest.approx(4 / 6)
    assert {(t, n) for is_test, t, n in asked if not is_test} == {
        (0.0, 4), (0.25, 8), (0.5, 8), (0.75, 8), (1.0, 8),
    }  # fmt: skip
    assert {(t, n) for is_test, t, n in asked if is_test} == {(0.0, 6), (0.5, 18), (1.0, 18)}


@pytest.mark.slow
def test_what_is_measured_is_an_outcome_of_the_study(make_study):
    study = make_study()
    study.folder.open(study.matrix, study.cells, resume=False).close()
    cell = study.cells[0]
    folder = study.folder.run_folder(cell)
    for part in (make_model(SUMS, 0), make_tokenizer(SUMS)):
        part.save_pretrained(folder.model)
    write_json(folder.summary, {})
    folder.metrics.write_text("")
    measurement = validated.at_the_best_temperature(SIZE)
    assert next(iter(measure_study(measurement, study.path, study.folder))) == "1 of 1 runs"
    (row,) = read_csv(study.output / "validated.csv")
    assert (row["problems"], row["samples"], row["method"]) == ("6", "3", cell.method)
    assert row["temperature"] == "1", "an untrained model is as bad at every temperature"
    first, *others = collect.collect(study.cells, study.folder, study.matrix.all_outcomes)
    assert first.outcomes["validated_accuracy"] == float(row["accuracy"])
    assert first.summary["validated.temperature"] == 1.0
    assert {run.outcomes["validated_accuracy"] for run in others} == {None}
