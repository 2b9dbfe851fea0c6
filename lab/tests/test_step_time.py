"""Seconds of a training step, with small models and few rollouts."""

import argparse
import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ktae import InputError, preset
from ktae.demo import SUMS, pretrain
from ktae.estimators import to_section
from ktae.recipe import Recipe
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.trainer import RolloutBatch
from ktae_lab import step_time


@pytest.fixture(scope="module")
def demo() -> tuple[Any, Any]:
    """Model and tokenizer; so little trained that it often fills the limit, and knows no answer."""
    return pretrain.pretrain(SUMS, seed=0, steps=20)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[RolloutBatch]:
    """What every trainer trains on."""
    found: list[RolloutBatch] = []

    def recorded(*args: Any, **kwargs: Any) -> KTAETrainer:
        return KTAETrainer(*args, **kwargs, on_rollouts=found.append)

    monkeypatch.setattr(step_time, "KTAETrainer", recorded)
    return found


def few(shape: str, **changed: int) -> argparse.Namespace:
    return argparse.Namespace(
        shape=shape, **{"prompts": 2, "length": 8, "micro_batch": 8} | changed
    )


def test_the_demo_s_recipes_are_those_of_the_study() -> None:
    """Nothing but their length is changed, and every estimator has its baseline."""
    plain = argparse.Namespace(shape="demo", prompts=None, length=None, micro_batch=None)
    recipes = step_time.recipes_of(plain)
    for name, recipe in recipes.items():
        assert (recipe.steps, recipe.task, recipe.model.path) == (1, "demo", "demo")
        assert recipe.algorithm.loss == name.split("-")[0]
        used = {"ktae": "paper", "calibrated": "calibrated"}.get(name.partition("-")[2])
        assert recipe.credit == (used and preset(used))
        assert (name in step_time.BASELINES) == (recipe.credit is not None)
        if recipe.credit is not None:
            baseline = recipes[step_time.BASELINES[name]]
            method = {"name", "credit"}
            assert recipe.model_dump(exclude=method) == baseline.model_dump(exclude=method)
    assert (recipes["grpo"].rollout.prompts_per_step, recipes["grpo"].algorithm.epochs) == (8, 2)


def test_methods_of_a_round_train_on_the_same_rollouts(
    demo: tuple[Any, Any], batches: list[RolloutBatch]
) -> None:
    """Their difference is then what they make of them; dynamic sampling is part of DAPO's."""
    shape, recipes = step_time.SHAPES["demo"], step_time.recipes_of(few("demo"))
    before = {key: tensor.clone() for key, tensor in demo[0].state_dict().items()}
    for seed in (1, 2):
        for recipe in recipes.values():
            step = step_time.train(shape, recipe.model_copy(update={"seed": seed}), *demo)
            assert step.seconds > step.credit_seconds
            assert (step.credit_seconds > 0) == (recipe.credit is not None)
            assert 1 <= step.mean_length <= 8
    by_method = list(zip(recipes, batches[:6], batches[6:], strict=True))
    _, first, second = by_method[0]
    assert first.token_ids != second.token_ids
    assert len(first.token_ids) == 32
    for name, *found in by_method:
        expected = by_method[list(recipes).index(name.split("-")[0])][1:]
        assert [batch.token_ids for batch in found] == [batch.token_ids for batch in expected]
    for key, tensor in demo[0].state_dict().items():
        torch.testing.assert_close(tensor, before[key], rtol=0, atol=0)


def test_every_response_of_the_random_model_has_the_full_length(
    batches: list[RolloutBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 12}
    monkeypatch.setattr(step_time, "QWEN_1_5B", small)  # an end in twelve tokens
    recipe = step_time.recipes_of(few("1.5b", length=20))["dapo-calibrated"]
    assert (recipe.rollout.prompts_per_step, recipe.trl.forward_rollouts) == (2, 8)
    shape = step_time.SHAPES["1.5b"]
    step = step_time.train(shape, recipe, *shape.policy(recipe))
    assert step.mean_length == 20
    (batch,) = batches
    assert [len(ids) for ids in batch.token_ids] == [20] * 32
    assert batch.correct.reshape(2, 16).sum(dim=1).tolist() == [8, 8]
    assert batch.credit.abs().max() > 0


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The command, with a step whose seconds are the method's and the round's."""
    trained: list[tuple[str, int]] = []

    def train(_: Any, recipe: Recipe, *__: Any) -> Any:
        credit = recipe.credit and to_section(recipe.credit)
        trained.append((f"{recipe.algorithm.loss} {credit}", recipe.seed))
        own = {None: 0.0, "paper": 0.25, "calibrated": 0.5}[credit]  # type: ignore[index]
        noise = 100.0 if recipe.seed == 0 else float(recipe.seed)
        return step_time.Step(noise + 2 * own * recipe.seed, own, 30.0)

    monkeypatch.setattr(step_time, "train", train)
    without = step_time.SHAPES["demo"]._replace(policy=lambda _: (None, None))
    monkeypatch.setitem(step_time.SHAPES, "demo", without)
    path = tmp_path / "results/step_time.csv"

    def command(*arguments: str) -> list[dict[str, str]]:
        step_time.main(["--csv", str(path), *arguments])
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    command.path, command.trained = path, trained  # type: ignore[attr-defined]
    return command


def test_methods_take_turns_and_differences_are_by_round(run: Any) -> None:
    rows = {row["method"]: row for row in run("--rounds", "3")}
    assert [seed for _, seed in run.trained] == [seed for seed in range(4) for _ in range(6)]
    turns = [tuple(name for name, _ in run.trained[i : i + 6]) for i in range(0, 24, 6)]
    assert {frozenset(turn) for turn in turns} == {frozenset(turns[0])} and len(set(turns)) > 1
    # Steps of 1, 2 and 3 s, and .5 of that more with the paper's; the warm-up's 100 s are nowhere.
    grpo, ktae = rows["grpo"], rows["grpo-ktae"]
    assert (grpo["seconds"], grpo["rounds"], grpo["baseline"], grpo["added"]) == (
        *("2.0000", "3", "", ""),
    )
    assert (ktae["seconds"], ktae["credit_seconds"], ktae["baseline"]) == (
        "3.0000",
        "0.25000",
        "grpo",
    )
    assert [float(rows[f"{loss}-ktae"]["added"]) for loss in ("grpo", "dapo")] == [1.0, 1.0]
    assert float(rows["dapo-calibrated"]["added"]) == 2.0
    assert float(ktae["added_low"]) < 1.0 < float(ktae["added_high"])


def test_a_second_run_replaces_its_rows_and_no_others(run: Any) -> None:
    first = run("--rounds", "2")
    text = run.path.read_text(encoding="utf-8")
    run.path.write_text(text + text.splitlines()[1].replace("demo,", "1.5b,", 1) + "\n", "utf-8")
    again = run("--rounds", "3")
    assert [row["shape"] for row in again] == ["1.5b"] + ["demo"] * 6
    assert again[0] == first[0] | {"shape": "1.5b"}
    assert {row["rounds"] for row in again[1:]} == {"3"}


def test_rows_of_other_columns_are_not_lost(run: Any) -> None:
    run.path.parent.mkdir()
    run.path.write_text("shape,method\n1.5b,grpo\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"another shape with the columns shape, method; expected"):
        run("--rounds", "2")
    assert run.trained == []
    assert run.path.read_text(encoding="utf-8") == "shape,method\n1.5b,grpo\n"


def test_one_round_is_refused(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--rounds", "1")
    assert re.search(r"--rounds is 1; expected 2 or more", capsys.readouterr().err)
    assert run.trained == []


def test_random_rewards_are_the_rounds() -> None:
    recipe = step_time.recipes_of(few("1.5b"))["grpo"]
    draws = [
        step_time.random_reward(None, recipe.model_copy(update={"seed": seed}))([""] * 32)
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert np.reshape(draws[0], (2, 16)).sum(axis=1).tolist() == [8, 8]
