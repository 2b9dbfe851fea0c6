"""Accuracy at the temperature that validation problems choose."""

import random

import pytest
from chat import Chat
from small import ROOT

from ktae.data import tasks
from ktae.demo import SUMS
from ktae.demo.model import make_model, make_tokenizer
from ktae.errors import InputError
from ktae.evaluation.generation import Generations
from ktae.recipe import load
from ktae.runs import write_json
from ktae_lab import best_temperature
from ktae_lab.best_temperature import VALIDATION_SEED, measure_study
from ktae_lab.csv_files import read_table
from ktae_lab.study.results import collect

SIZE = (4, 2, 8, 4)


def scores_of(monkeypatch, right_of):
    """The scores of a model that solves `right_of[is_test, temperature]` of each ten problems."""
    validation = {p.prompt for p in SUMS.train_problems(4, VALIDATION_SEED)}
    tests = {p.prompt: p for p in SUMS.test_problems(8)}
    assert not validation & tests.keys()
    asked = []

    def generate(model, tokenizer, prompts, *, temperature, seed, **_):
        assert seed == 5, "the run's"
        is_test = prompts[0] in tests
        assert set(prompts) == (tests.keys() if is_test else validation)
        asked.append((is_test, temperature, len(prompts)))
        answers = {p.prompt: p.answer for p in SUMS.train_problems(4, VALIDATION_SEED)}
        answers |= {p.prompt: p.answer for p in tests.values()}
        n_right = round(right_of[is_test, temperature] * len(prompts))
        texts = [f"box {answers[p] if i < n_right else '!'} }}" for i, p in enumerate(prompts)]
        return Generations([[0]] * len(prompts), texts, [True] * len(prompts), 0.0)

    monkeypatch.setattr(best_temperature, "generate", generate)
    recipe = load(ROOT / "recipes/demo/grpo.yaml", ["seed=5"])
    return best_temperature.scores_of(None, None, recipe, SIZE), asked


def test_validation_problems_choose_and_test_problems_measure(monkeypatch):
    on_validation = {0.0: 0.5, 0.25: 0.75, 0.5: 0.75, 0.75: 0.25, 1.0: 0.0}
    on_test = {0.0: 5 / 8, 0.5: 20 / 32, 1.0: 2 / 32}
    right_of = {(False, t): share for t, share in on_validation.items()}
    right_of |= {(True, t): share for t, share in on_test.items()}
    scores, asked = scores_of(monkeypatch, right_of)
    assert scores["temperature"] == 0.5, "of two that are as good the higher"
    assert scores["validation_0.75"] == 0.25
    assert scores["accuracy"] == pytest.approx(20 / 32)
    assert scores["accuracy_at_1"] == pytest.approx(2 / 32)
    assert scores["greedy_accuracy"] == pytest.approx(5 / 8)
    assert {(t, n) for is_test, t, n in asked if not is_test} == {
        (0.0, 4), (0.25, 8), (0.5, 8), (0.75, 8), (1.0, 8),
    }  # fmt: skip
    assert {(t, n) for is_test, t, n in asked if is_test} == {(0.0, 8), (0.5, 32), (1.0, 32)}


def test_problems_of_another_task_are_held_out_ones(monkeypatch):
    """Of reasoning-gym: test and validation problems apart, none trained on, shuffled."""
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    recipe = load(ROOT / "recipes/smollm2/grpo.yaml", ["seed=5"])
    rows = {row.prompt[-1]["content"]: row for row in tasks.held_out_rows(recipe, 12)}
    assert not rows.keys() & {row.prompt[-1]["content"] for row in tasks.train_rows(recipe)}
    order = list(rows)
    random.Random(VALIDATION_SEED).shuffle(order)
    tests, validation, asked = order[:8], order[8:], []

    def generate(model, tokenizer, prompts, *, temperature, max_new_tokens, **_):
        assert max_new_tokens == recipe.rollout.max_response_length
        asked.append((list(dict.fromkeys(prompts)), temperature, len(prompts)))
        wrong = 1 if prompts[0] in tests or temperature == 0.75 else 2
        texts = ["none"] * wrong + [rows[prompt].answer for prompt in prompts[wrong:]]
        return Generations([[0]] * len(prompts), texts, [True] * len(prompts), 0.0)

    monkeypatch.setattr(best_temperature, "generate", generate)
    scores = best_temperature.scores_of(None, Chat(), recipe, SIZE)
    assert scores["temperature"] == 0.75 and scores["validation_0.75"] == 7 / 8
    assert scores["accuracy"] == scores["accuracy_at_1"] == pytest.approx(31 / 32)
    assert scores["greedy_accuracy"] == pytest.approx(7 / 8)
    assert [prompts for prompts, *_ in asked] == [validation] * 5 + [tests] * 3
    assert [(t, n) for _, t, n in asked[:5]] == [(0.0, 4), *((t / 4, 8) for t in (1, 2, 3, 4))]


def test_too_few_held_out_problems(monkeypatch):
    monkeypatch.setattr(best_temperature.tasks, "held_out_rows", lambda recipe, n: [None] * 11)
    recipe = load(ROOT / "recipes/smollm2/grpo.yaml")
    with pytest.raises(InputError, match="8 test problems and 4 validation problems are needed"):
        best_temperature.scores_of(None, Chat(), recipe, SIZE)


def test_no_half_of_one():
    with pytest.raises(InputError, match="--problems is 8 and --samples is 1; expected 2 or more"):
        next(measure_study([], None, problems=8, samples=1))


def test_a_device_that_there_is_not():
    with pytest.raises(InputError, match="cannot compute on --device abacus: "):
        next(measure_study([], None, device="abacus"))


def test_what_is_measured_is_an_outcome_of_the_study(make_study):
    study = make_study(seeds=[1])
    study.folder.open(study.matrix, study.cells, resume=False).close()
    cell = study.cells[0]
    folder = study.folder.run_folder(cell)
    for part in (make_model(SUMS, 0), make_tokenizer(SUMS)):
        part.save_pretrained(folder.model)
    write_json(folder.summary, {})
    folder.metrics.write_text("")
    lines = measure_study(study.cells, study.folder, problems=8, samples=4, device="cpu")
    assert next(lines) == "1 of 1 runs"
    list(lines)
    (row,) = read_table(study.folder.validated_csv).to_dict("records")
    assert (row["problems"], row["samples"], row["method"]) == (8, 4, cell.method)
    assert row["device"] == "cpu"
    assert row["temperature"] == 1, "an untrained model is as bad at every temperature"
    runs = collect(study.matrix, study.cells, study.folder)
    assert runs["outcome.validated_accuracy"][0] == row["accuracy"]
    assert runs["validated.temperature"][0] == 1.0
    assert runs["outcome.validated_accuracy"].isna().tolist() == [False, True]
    again = list(measure_study(study.cells, study.folder, problems=8, samples=4))
    assert len(again) == 1, "what is measured already stays"
