"""Token credit between slime's two hooks, over its split into data-parallel ranks.

slime itself needs Megatron and SGLang. Here are its `Sample` as documented, and what its splitter
hands on, rebuilt from its source: an allow-list of fields, one entry for each sample of the rank's
partition.
"""

import dataclasses
import sys
import types

import numpy as np
import pytest
from placement import assert_placed, by_id, reference

from ktae.errors import InputError
from ktae.trainers.slime import HOOK, post_process_rewards, token_advantages

torch = pytest.importorskip("torch", reason="slime's hooks work on torch tensors")


@dataclasses.dataclass
class Sample:
    """The fields that the hooks read."""

    group_index: int | None = None
    rollout_id: int | None = None
    tokens: list = dataclasses.field(default_factory=list)
    response_length: int = 0
    reward: object = None
    loss_mask: list | None = None
    remove_sample: bool = False
    metadata: dict = dataclasses.field(default_factory=dict)

    def get_reward_value(self, args):
        return self.reward[args.reward_key] if args.reward_key else self.reward


def arguments(**given):
    return types.SimpleNamespace(
        **{
            "advantage_estimator": "grpo",
            "normalize_advantages": False,
            "use_opsm": False,
            "custom_advantage_function_path": HOOK,
            "rewards_normalization": True,
            "grpo_std_normalization": False,
            "reward_key": None,
        }
        | given
    )


def eight():
    """Two groups of four; prompts of three tokens, responses of one to four."""
    lengths = [4, 1, 2, 3, 2, 4, 1, 3]
    found = []
    for i, n in enumerate(lengths):
        response = [20 * (i + 1) + j for j in range(n)]
        found.append(
            Sample(group_index=i // 4, tokens=[1, 2, 3, *response], response_length=n, reward=i % 2)
        )
    found[3].loss_mask = [1, 0, 1]
    return found


def train_data(samples, rewards):
    """As slime makes it of samples, as far as the hooks go."""
    masks = [s.loss_mask or [1] * s.response_length for s in samples]
    return {
        "tokens": [s.tokens for s in samples],
        "response_lengths": [s.response_length for s in samples],
        "total_lengths": [len(s.tokens) for s in samples],
        "rewards": rewards,
        "loss_masks": [m if not s.remove_sample else [0] * len(m)
                       for m, s in zip(masks, samples, strict=True)],
        "advantages": ["dropped"] * len(samples),
    }  # fmt: skip


def split(data, partitions):
    """The fields that slime's splitter hands on, for each rank; `kl` is made on the rank."""
    allowed = ("tokens", "response_lengths", "total_lengths", "rewards", "loss_masks")
    for partition in partitions:
        part = {key: [data[key][i] for i in partition] for key in allowed}
        kl = [torch.zeros(n) for n in part["response_lengths"]]
        yield part | {"kl": kl, "partition": partition}


def trained(samples, args, partitions):
    """Each sample's token advantages, after both hooks and the split."""
    raw, rewards = post_process_rewards(args, samples)
    assert raw == [float(s.get_reward_value(args)) for s in samples]
    found = {}
    for part in split(train_data(samples, rewards), partitions):
        token_advantages(args, part)
        for i, values, same in zip(
            part["partition"], part["advantages"], part["returns"], strict=True
        ):
            assert values.dtype == torch.float32 and torch.equal(values, same)
            found[i] = values
        assert all(isinstance(reward, float) for reward in part["rewards"])
        assert part["credit/correct"] == [part["credit/correct"][0]] * len(part["partition"])
    return [found[i] for i in range(len(samples))]


WHOLE = [list(range(8))]
SPLIT = [[1, 2, 4, 7], [0, 3, 5, 6]]
"""What slime's scheduler made of two groups of four: neither rank has a whole one."""


@pytest.mark.parametrize("partitions", [WHOLE, SPLIT], ids=["one rank", "two ranks"])
def test_the_credit_of_a_token_is_at_that_token(partitions):
    samples = eight()
    found = trained(samples, arguments(ktae={"credit": by_id}), partitions)
    for sample, values in zip(samples, found, strict=True):
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
        found = trained(eight(), arguments(**flags, **zero), WHOLE)
        assert [float(values[0]) for values in found[:4]] == pytest.approx(expected.tolist())


def test_an_estimator_of_advantages_takes_those_of_slimes_flags():
    name = "tempo"
    credit = {"estimator": name, "scale_by_std": False}
    for flags, own, fits in (
        ({}, credit, True),
        ({"grpo_std_normalization": True}, name, True),
        ({}, name, False),
        ({"grpo_std_normalization": True}, credit, False),
        ({"rewards_normalization": False}, credit, False),
    ):
        args = arguments(**flags, ktae={"credit": own})
        if fits:
            post_process_rewards(args, eight())
            continue
        with pytest.raises(InputError, match=r"changes the rollout advantage, with scale_by_std="):
            post_process_rewards(args, eight())


def test_samples_of_one_rollout_are_one_rollout():
    """Each as a rollout of its own would be five instead of three."""

    def of(rollout, response, reward):
        return Sample(0, rollout, [1, *response], len(response), reward)

    samples = [of(7, [10, 11], 1), of(8, [10, 13], 0), of(7, [12], 1), of(8, [14], 0),
               of(None, [12, 12], 1)]  # fmt: skip
    found = trained(samples, arguments(), [[4, 0, 3], [1, 2]])
    expected = reference([[10, 11, 12], [10, 13, 14], [12, 12]], [1, 0, 1], [0] * 3)
    base = [1 / 3, -2 / 3, 1 / 3]
    pairs = [(0, 2), (1, 3), (4,)]
    for places, credit, advantage in zip(pairs, expected, base, strict=True):
        values = np.concatenate([found[i].numpy() for i in places])
        assert values - advantage == pytest.approx(np.array(credit), abs=1e-6)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        *(
            ("reward", reward, f"has the reward {reward}; expected a finite")
            for reward in (None, float("nan"), float("inf"), {"right": 1})
        ),
        ("loss_mask", [1], "has a loss_mask of 1; expected"),
        ("group_index", None, "has no group_index"),
    ],
)
def test_a_sample_that_lacks_something_is_named(field, value, message):
    samples = eight()
    setattr(samples[5], field, value)
    with pytest.raises(InputError, match=f"sample 5 {message}"):
        post_process_rewards(arguments(), samples)


def test_removed_samples_have_no_tokens():
    samples = eight()
    samples[1].remove_sample = True
    found = trained(samples, arguments(ktae={"credit": by_id}), SPLIT)
    assert found[1].tolist() == [0.0]


@pytest.mark.parametrize("place", ["metadata", "reward"])
def test_correctness_is_in_the_metadata_or_the_reward(place):
    def of(response, shaped, right):
        named = {"right": right}
        reward = {"shaped": shaped} | (named if place == "reward" else {})
        return Sample(0, None, response, 2, reward, metadata=named if place == "metadata" else {})

    samples = [of([10, 11], -1.0, 1), of([12, 11], 1.0, 0)]
    args = arguments(reward_key="shaped", ktae={"correctness": "right"})
    found = trained(samples, args, [[0, 1]])
    assert float(found[0][0]) > -1 and float(found[1][0]) < 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"advantage_estimator": "gspo"}, "--advantage-estimator is 'gspo'"),
        ({"normalize_advantages": True}, "--normalize-advantages is True, which whitens"),
        ({"use_opsm": True}, "--use-opsm is True"),
        ({"custom_advantage_function_path": None}, "--custom-advantage-function-path is None"),
        ({"ktae": {"credits": "paper"}}, "did you mean 'credit'"),
    ],
)
def test_what_would_erase_credit_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        post_process_rewards(arguments(**given), eight())


def test_one_hook_without_the_other_is_refused():
    samples = eight()
    (part,) = split(train_data(samples, [0.5] * 8), WHOLE)
    with pytest.raises(InputError, match="--custom-reward-post-process-path"):
        token_advantages(arguments(), part)


def test_context_parallel_ranks_get_their_parts(monkeypatch):
    """By slime's own rule; here a rank holds every other token."""
    cp_utils = types.ModuleType("cp_utils")
    cp_utils.slice_log_prob_with_cp = lambda values, total_length, response_length: values[::2]
    for name in ("slime", "slime.backends", "slime.backends.megatron_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "slime.backends.megatron_utils.cp_utils", cp_utils)
    samples, args = eight(), arguments(ktae={"credit": by_id}, context_parallel_size=2)
    whole = trained(eight(), arguments(ktae={"credit": by_id}), WHOLE)
    (part,) = split(train_data(samples, post_process_rewards(args, samples)[1]), WHOLE)
    part["kl"] = [kl[::2] for kl in part["kl"]]
    token_advantages(args, part)
    for values, every in zip(part["advantages"], whole, strict=True):
        assert torch.equal(values, every[::2])
