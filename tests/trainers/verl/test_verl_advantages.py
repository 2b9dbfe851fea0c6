"""The estimator inside verl's own `compute_advantage`."""

import numpy as np
import oracle
import pytest
from extras import installed

if not installed("verl"):
    pytest.skip("needs the extra 'verl'", allow_module_level=True)

import torch
from omegaconf import OmegaConf

from ktae.errors import InputError
from ktae.estimators import from_section
from ktae.trainers.verl.advantages import verl_advantages
from ktae.trainers.verl.handover import handed_over, rollouts_of_infos

pytestmark = pytest.mark.usefixtures("verl")

GROUPS, SIZE, WIDTH = 6, 5, 12


def batch(seed=0, pads=3):
    """Rollouts as verl hands them over: rows of a group apart, with rows of padding at the end."""
    from verl import DataProto

    rng = np.random.default_rng(seed)
    n = GROUPS * SIZE
    lengths = rng.integers(1, WIDTH + 1, n)
    mask = (np.arange(WIDTH) < lengths[:, None]).astype(np.int64)
    ids = rng.integers(0, 9, (n, WIDTH)) * mask
    acc = (rng.random(n) < 0.4).astype(np.float64)
    uid = np.repeat([f"prompt-{i}" for i in range(GROUPS)], SIZE)
    order = rng.permutation(n)
    rewards = np.zeros((n, WIDTH))
    rewards[np.arange(n), lengths - 1] = acc
    empty = np.zeros((pads, WIDTH), dtype=np.int64)
    tensors = {
        "responses": np.concatenate([ids[order], empty]),
        "response_mask": np.concatenate([mask[order], empty]),
        "token_level_rewards": np.concatenate([rewards[order], empty]).astype(np.float32),
    }
    return DataProto.from_dict(
        tensors={name: torch.from_numpy(array) for name, array in tensors.items()},
        non_tensors={
            "uid": np.concatenate([uid[order], ["pad0"] * pads]).astype(object),
            "acc": np.concatenate([acc[order], [1.0] * pads]),
        },
    )


def compute(data, policy=None, **settings):
    """verl's call, by the name that it is called by, with what a trainer mode hands over."""
    from verl.trainer.ppo import ray_trainer

    config = OmegaConf.create({"norm_adv_by_std_in_grpo": True} | settings)
    said = data.non_tensor_batch
    names = [name for name in ("acc", "undecided") if name in said]
    infos = [{name: said[name][row] for name in names} for row in range(len(data))]
    with handed_over(rollouts_of_infos(data.batch["responses"], infos)) as rollouts:
        rollouts.policy |= policy or {}
        done = ray_trainer.compute_advantage(data, adv_estimator="ktae", config=config)
    return done.batch["advantages"].numpy()


def expected(data, **settings):
    tensors, rows = data.batch, data.non_tensor_batch
    return oracle.token_advantages(
        tensors["token_level_rewards"].sum(-1).numpy(),
        tensors["responses"].numpy(),
        tensors["response_mask"].numpy(),
        rows["uid"].astype(str),
        **({"correct": rows.get("acc")} | settings),
    )


def of_section(**section):
    """An option of `algorithm.credit`, and what the core is told for the same."""
    return {"credit": section}, {"credit": from_section(section)}


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({}, {}),
        ({"norm_adv_by_std_in_grpo": False}, {"base": "dr_grpo"}),
        ({"credit": {"base": "grpo_vectorized"}}, {"base": "grpo"}),
        ({"credit": {"base": "rloo_vectorized"}}, {"base": "rloo"}),
        of_section(estimator="released", h3=0.5, transforms=[{"ignoring": {"token_ids": [3, 4]}}]),
        of_section(estimator="presence-z", transforms=[{"over-units": ["trigram", "bigram"]}]),
        of_section(estimator="paper", transforms=[{"permuted-labels": {"seed": 3}}]),
    ],
)
def test_the_advantages_are_the_core_s(settings, same):
    data = batch()
    used = compute(data, **settings)
    np.testing.assert_allclose(used, expected(data, **same), atol=1e-5)
    assert np.abs(used).max() > 0.5
    assert not used[-3:].any()
    is_other = np.abs(used - compute(data)).max() > 1e-3
    assert is_other == (same not in ({}, {"base": "grpo"}))


def test_the_turns_of_an_agent_loop_are_between_the_holes_of_the_mask():
    section = {"estimator": "paper", "transforms": [{"over-units": ["state-turn"]}]}
    data = batch()
    data.batch["response_mask"][:, 3:5] = 0
    data.batch["responses"][:, 3] = 7
    data.batch["responses"][:, 4] = data.batch["responses"][:, 0] % 2  # two states
    settings, same = of_section(**section)
    used = compute(data, **settings)
    np.testing.assert_allclose(used, expected(data, **same), atol=1e-5)
    assert np.abs(used - compute(data, credit={"estimator": "paper"})).max() > 0.1


def test_a_mask_shrunk_by_rejection_sampling():
    data = batch()
    data.batch["response_mask"][:, 4:6] = 0
    data.batch["response_mask"][0] = 0
    data.batch["token_level_rewards"][0] = 0
    used = compute(data)
    mask = data.batch["response_mask"].numpy() > 0
    credit = oracle.token_credit(
        data.batch["responses"].numpy(),
        mask,
        data.non_tensor_batch["acc"],
        data.non_tensor_batch["uid"].astype(str),
    )
    assert not used[~mask].any()
    # verl's own advantages count a rejected rollout in its group; the credit do not
    rollout = used - credit
    assert np.ptp(np.where(mask, rollout, rollout[:, :1]), axis=1).max() < 1e-5


def test_correctness_comes_from_acc_and_not_from_a_shaped_reward():
    data = batch()
    data.batch["token_level_rewards"] -= 0.2  # nobody's reward is right about correctness now
    np.testing.assert_allclose(compute(data), expected(data), atol=1e-5)
    assert not np.allclose(expected(data), expected(data, correct=None))


def test_without_acc_it_warns_and_takes_the_reward(logged):
    data = batch()
    wanted = expected(data)
    del data.non_tensor_batch["acc"]
    np.testing.assert_allclose(compute(data), wanted, atol=1e-5)
    compute(data, credit={"threshold": 0.5})
    assert len([r for r in logged if "'acc'" in r.getMessage()]) == 1


def test_undecided_rollouts_are_unknown():
    data = batch()
    undecided = (np.arange(len(data)) < 7).astype(float)
    data.non_tensor_batch["undecided"] = undecided
    correct = np.where(undecided > 0, np.nan, data.non_tensor_batch["acc"])
    np.testing.assert_allclose(compute(data), expected(data, correct=correct), atol=1e-5)


def test_verdicts_from_reward_infos():
    """An `error` beside a score is of the policy's program; without one nobody graded it."""
    infos = [
        {"acc": True},
        {"acc": 1.0, "undecided": 1.0},
        {},
        {"score": 0.0, "acc": 0.0, "error": "SyntaxError"},
        {"acc": 0.0, "error": ""},
        {"acc": None},
        {"acc": [1.0], "undecided": "1"},
    ]
    rollouts = rollouts_of_infos(torch.zeros(len(infos), 2), infos)
    np.testing.assert_array_equal(rollouts.acc, [1, 1, np.nan, 0, 0, np.nan, 1])
    np.testing.assert_array_equal(rollouts.undecided, [0, 1, 0, 0, 1, 1, 1])


@pytest.mark.parametrize(("name", "value"), [("acc", "unknown"), ("undecided", [1.0, 0.0])])
def test_what_is_no_verdict_is_refused_with_its_row(name, value):
    with pytest.raises(InputError) as error:
        rollouts_of_infos(torch.zeros(2, 2), [{"acc": 1.0}, {"acc": 1.0, name: value}])
    assert name in str(error.value) and "rollout 1" in str(error.value)


def test_log_probabilities_are_verl_s_own():
    data, estimator = batch(), from_section("advantage-reweighting")
    log_probs = torch.rand(data.batch["responses"].shape).log()
    used = compute(data, {"log_probs": log_probs}, credit={"estimator": "advantage-reweighting"})
    wanted = expected(data, credit=estimator, policy={"log_probs": log_probs.numpy()})
    np.testing.assert_allclose(used, wanted, atol=1e-5)
    assert not np.allclose(used, expected(data, credit="tempo"), atol=0.01)


def test_what_is_not_handed_over_is_missed():
    data = batch()
    with pytest.raises(InputError) as error:
        verl_advantages(
            token_level_rewards=data.batch["token_level_rewards"],
            response_mask=data.batch["response_mask"],
            index=data.non_tensor_batch["uid"],
        )
    assert "ktae_sync" in str(error.value)
    with pytest.raises(InputError) as error:
        compute(batch(), credit={"estimator": "entropy-weights"})
    assert "entropies" in str(error.value)
