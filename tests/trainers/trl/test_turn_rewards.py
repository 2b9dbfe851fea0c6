"""Rewards of single turns through TRL: each turn's credit is at its tokens."""

import numpy as np
import pytest
import torch

import ktae
from ktae.estimators import MTGRPO, TurnRewards
from ktae.padding import pad
from ktae.trainers.trl.gradient_check import (
    GROUP_SIZE,
    expected_gradient,
    relative_error,
    train_one_step,
)
from ktae.turns import find_turns

ROOMS = (21, 22)
"""What the environment says before each turn but the first: which room the agent is in."""


def walks(prompts, trainer):
    """As an agent's `rollout_func` samples: up to three turns, a reward after each but the last."""
    rng = np.random.default_rng(0)
    tokenizer = trainer.processing_class
    sampled = {"prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts]}
    sampled |= {"completion_ids": [], "env_mask": [], "turn_rewards": [], "logprobs": None}
    for _ in prompts:
        ids, mask, n_turns = [], [], int(rng.integers(1, 4))
        for turn in range(n_turns):
            seen = [int(rng.choice(ROOMS))] if turn else []
            done = rng.integers(5, 15, int(rng.integers(1, 4))).tolist()
            ids += seen + done
            mask += [0] * len(seen) + [1] * len(done)
        sampled["completion_ids"].append(ids)
        sampled["env_mask"].append(mask)
        sampled["turn_rewards"].append(rng.normal(size=n_turns - 1).round(2).tolist())
    return sampled


@pytest.mark.parametrize("estimator", [TurnRewards(), MTGRPO(unit="state")], ids=repr)
def test_rewards_of_turns_reach_their_turns(trainer_arguments, estimator):
    arguments = trainer_arguments(loss_type="grpo", max_completion_length=20)
    batch, policy, gradient = train_one_step(arguments | {"rollout_func": walks}, credit=estimator)
    ids, mask = pad(batch.token_ids, [np.array(mask, bool) for mask in batch.masks])
    rewards = [row["turn_rewards"] for row in batch.inputs]
    assert find_turns(mask).number.max() == 2
    groups = np.arange(len(ids)) // GROUP_SIZE
    credit = ktae.token_credit(
        ids, mask, batch.correct.numpy(), groups, estimator, turn_rewards=rewards
    )
    assert np.abs(credit).max() > 0.1 and not credit[~mask].any()
    np.testing.assert_allclose(batch.credit, credit, atol=1e-6)

    # -Σ_i 1/(n L_i) Σ_t A_it ∇log π(token_it), over the policy's own tokens
    weights = torch.from_numpy(1 / (len(ids) * mask.sum(axis=1)))

    def expected(advantages):
        advantages, words = torch.from_numpy(advantages * mask), arguments["processing_class"]
        return expected_gradient(policy, words, batch, advantages, lambda _: weights)

    base = np.repeat(batch.advantages.numpy()[:, None], ids.shape[1], axis=1)
    assert relative_error(gradient, expected(base + credit)) < 1e-5
    assert relative_error(gradient, expected(base)) > 0.05
