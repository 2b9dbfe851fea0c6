"""Token credit between slime's two hooks, over its split into data-parallel ranks: an allow-list of
fields, rebuilt from its source, and one entry for each sample of the rank's partition."""

import sys
import types

import numpy as np
import pytest
import torch
from engine_objects import slime_arguments, slime_sample
from placement import assert_placed, by_id

from ktae.errors import InputError
from ktae.trainers.slime import post_process_rewards, token_advantages


def eight():
    """Two groups of four; prompts of three tokens, responses of one to four."""
    samples = []
    for i, n in enumerate([4, 1, 2, 3, 2, 4, 1, 3]):
        response = [20 * (i + 1) + j for j in range(n)]
        samples.append(slime_sample(i // 4, None, [1, 2, 3, *response], n, i % 2))
    samples[3].loss_mask = [1, 0, 1]
    samples[5].remove_sample = True
    return samples


def split(samples, rewards, partitions):
    """What slime hands to each rank; `kl` is made there."""
    columns = {"total_lengths": [len(s.tokens) for s in samples], "rewards": rewards}
    for partition in partitions:
        part = {name: [column[i] for i in partition] for name, column in columns.items()}
        yield part | {"kl": [torch.zeros(samples[i].response_length) for i in partition]}


def trained(samples, args, partitions):
    """Each sample's token advantages, after both hooks and the split."""
    raw, rewards = post_process_rewards(args, samples)
    assert raw == [float(s.get_reward_value(args)) for s in samples]
    by_sample = {}
    for partition, part in zip(partitions, split(samples, rewards, partitions), strict=True):
        token_advantages(args, part)
        for i, values, same in zip(partition, part["advantages"], part["returns"], strict=True):
            assert values.dtype == torch.float32 and torch.equal(values, same)
            by_sample[i] = values
        assert all(isinstance(reward, float) for reward in part["rewards"])
        assert part["credit/correct"] == [part["credit/correct"][0]] * len(partition)
    return [by_sample[i] for i in range(len(samples))]


WHOLE = [list(range(8))]
SPLIT = [[1, 2, 4, 7], [0, 3, 5, 6]]
"""What slime's scheduler made of two groups of four: neither rank has a whole one."""


@pytest.mark.parametrize("partitions", [WHOLE, SPLIT], ids=["one rank", "two ranks"])
def test_the_credit_of_a_token_is_at_that_token(partitions):
    samples = eight()
    advantages = trained(samples, slime_arguments(ktae={"credit": by_id}), partitions)
    assert advantages.pop(5).tolist() == [0.0] * 4  # the sample that was removed
    samples.pop(5)
    for sample, values in zip(samples, advantages, strict=True):
        mask = sample.loss_mask or [1] * sample.response_length
        assert_placed(sample.tokens[3:], mask, values, sample.reward - 0.5)


def test_rollout_advantages_follow_slimes_flags():
    rewards = np.array([0.0, 1.0, 0.0, 1.0])
    z = (rewards - 0.5) / (rewards.std(ddof=1) + 1e-6)
    zero = {"ktae": {"credit": lambda token_ids, mask, correct, groups: 0.0 * token_ids}}
    for flags, expected in (
        ({"grpo_std_normalization": True}, z),
        ({"grpo_std_normalization": False}, rewards - 0.5),
        ({"rewards_normalization": False}, rewards),
    ):
        advantages = trained(eight(), slime_arguments(**flags, **zero), WHOLE)
        assert [float(row[0]) for row in advantages[:4]] == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"advantage_estimator": "gspo"}, "--advantage-estimator is 'gspo'"),
        ({"normalize_advantages": True}, "--normalize-advantages is True"),
        ({"use_opsm": True}, "--use-opsm is True"),
        ({"custom_advantage_function_path": None}, "--custom-advantage-function-path is None"),
        ({"ktae": {"credits": "paper"}}, "the options of ktae are {'credits': 'paper'}"),
        ({"ktae": {"credit": "tempo"}}, "Tempo()"),
    ],
)
def test_what_would_erase_credit_is_refused(changes, place):
    with pytest.raises(InputError) as error:
        post_process_rewards(slime_arguments(**changes), eight())
    assert str(error.value).startswith(place)


def test_a_reward_that_is_no_number_is_refused():
    with pytest.raises(InputError):
        post_process_rewards(slime_arguments(), [slime_sample(0, 0, [1, 2], 1, {"right": 1})])


def test_a_rollout_has_the_reward_of_its_last_sample():
    """A session of two samples, the first of which was rewarded, beside one of a single sample."""
    samples = [
        slime_sample(0, 7, [1, 10, 11], 2, 1.0),
        slime_sample(0, 7, [1, 10, 11, 2, 12], 1, 0.0),
        slime_sample(0, 8, [1, 13, 11], 2, 1.0),
    ]
    args = slime_arguments(
        ktae={"credit": lambda token_ids, mask, correct, groups: 0.0 * token_ids}
    )
    advantages = trained(samples, args, [[0, 1, 2]])
    assert [float(row[0]) for row in advantages] == [-0.5, -0.5, 0.5]


def test_context_parallel_ranks_get_their_parts(monkeypatch):
    """By slime's own rule; here a rank holds every other token."""
    cp_utils = types.ModuleType("cp_utils")
    cp_utils.slice_log_prob_with_cp = lambda values, total_length, response_length: values[::2]
    for name in ("slime", "slime.backends", "slime.backends.megatron_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "slime.backends.megatron_utils.cp_utils", cp_utils)
    args = slime_arguments(ktae={"credit": by_id}, context_parallel_size=2)
    every = trained(eight(), slime_arguments(ktae={"credit": by_id}), WHOLE)
    (part,) = split(eight(), post_process_rewards(args, eight())[1], WHOLE)
    part["kl"] = [kl[::2] for kl in part["kl"]]
    token_advantages(args, part)
    for values, of_sample in zip(part["advantages"], every, strict=True):
        assert torch.equal(values, of_sample[::2])
