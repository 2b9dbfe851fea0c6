"""Rollouts of several turns through TRL: credit by turn reaches the loss at its tokens."""

from pathlib import Path

import numpy as np
import pytest
import torch

import ktae
from ktae import InputError
from ktae.demo.model import make_model, make_tokenizer
from ktae.demo.rooms import HOUSES
from ktae.estimators import AnchorStates
from ktae.recipe import Recipe, load
from ktae.rollouts import record
from ktae.runs import RunFolder
from ktae.trainers.trl import run as module
from ktae.trainers.trl import tasks
from ktae.trainers.trl.gradient_check import (
    GROUP_SIZE,
    expected_gradient,
    relative_error,
    tiny_trainer,
    train_one_step,
)

ROOT = Path(__file__).parents[3]
RECIPE = Recipe(name="r", steps=1, demo={"language": "rooms"}, rollout={"max_response_length": 60})


def test_the_gradient_is_that_of_each_turn_s_credit(tmp_path):
    """-Σ_i 1/(n L_i) Σ_t A_it ∇log π(token_it), over the policy's own tokens."""
    tokenizer = make_tokenizer(HOUSES)
    arguments = tiny_trainer(str(tmp_path), loss_type="grpo", max_completion_length=60) | {
        "model": make_model(HOUSES, seed=0),
        "processing_class": tokenizer,
        "train_dataset": tasks.train_set(RECIPE),
        "rollout_func": tasks.rollout_function(RECIPE, tokenizer),
    }
    batch, policy, gradient = train_one_step(arguments, credit=AnchorStates())
    ids, mask = record.pad(batch.token_ids, [np.array(mask, bool) for mask in batch.masks])
    groups = np.arange(len(ids)) // GROUP_SIZE
    credit = ktae.token_credit(ids, mask, batch.correct.numpy(), groups, AnchorStates())
    np.testing.assert_allclose(batch.credit, credit, atol=1e-6)
    several = [np.unique(row[row != 0]) for row in credit]
    assert any(len(values) > 1 for values in several) and not credit[~mask].any()

    weights = torch.from_numpy(1 / (len(ids) * mask.sum(axis=1)))

    def expected(advantages):
        advantages = torch.from_numpy(advantages * mask)
        return expected_gradient(policy, tokenizer, batch, advantages, lambda _: weights)

    base = np.repeat(batch.advantages.numpy()[:, None], ids.shape[1], axis=1)
    assert relative_error(gradient, expected(base + credit)) < 1e-5
    assert relative_error(gradient, expected(base)) > 0.05


def test_a_recipe_trains(tmp_path):
    model = make_model(HOUSES, seed=0)
    model.save_pretrained(tmp_path / "base")
    make_tokenizer(HOUSES).save_pretrained(tmp_path / "base")
    small = ["steps=2", "logging.eval_problems=2", f"model.path={tmp_path / 'base'}"]
    small += ["rollout.group_size=4", "rollout.prompts_per_step=2"]
    recipe = load(ROOT / "recipes/agents/ktae-turns.yaml", small)
    folder = RunFolder(tmp_path / "run")
    assert module.run(recipe, folder, resume=False, on_step=lambda _: None, note=print) == 0
    (first, _) = sorted(folder.rollouts.iterdir())
    rollouts = record.read_record(first).to_pylist()
    assert len(rollouts) == 8 and all(0 < sum(x["mask"]) < len(x["mask"]) for x in rollouts)
    assert all(x["response"].startswith("<saw>") or "<saw>" in x["response"] for x in rollouts)
    # An untrained policy opens no door: nothing is told apart.
    assert {x["correct"] for x in rollouts} == {0.0}


def test_what_samples_one_response_refuses_it(tmp_path):
    from ktae.trainers.verl import run as verl_run

    recipe = load(ROOT / "recipes/agents/grpo.yaml")
    with pytest.raises(InputError, match="takes several turns, which TRL trains"):
        verl_run.run(recipe, RunFolder(tmp_path / "run"), resume=False)
