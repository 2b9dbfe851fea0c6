"""slime: token credit through its two hooks, with their options in slime's own configuration file.

    --custom-reward-post-process-path ktae.trainers.slime.post_process_rewards
    --custom-advantage-function-path ktae.trainers.slime.token_advantages
    --custom-config-path credit.yaml        # ktae: {credit: calibrated, correctness: right}

The first hook sees whole groups, the second a data-parallel rank's samples. So the first computes
token advantages, which travel in `rewards`, a field that slime hands on; the second makes tensors.
Tested with the `Sample` and the split of slime 0.3.1: not run in slime itself.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from ktae.errors import InputError
from ktae.estimators.transforms import require_scale
from ktae.rollout_advantages import SCALED, rollout_advantages
from ktae.trainers.lists import Part, Rollout, Settings, credit_of, one_of

HOOK = "ktae.trainers.slime.token_advantages"
ESTIMATORS = ("grpo", "cispo")
"""Values of `--advantage-estimator` whose loss weighs each token by its own advantage and ratio."""


@dataclasses.dataclass
class TokenAdvantages:
    """What stands for a sample's reward between the hooks."""

    rollout: float
    tokens: list[float]
    """(response_length,) advantages, 0 where the loss mask is 0; `rollout` is without credit."""
    metrics: dict[str, float]
    """Of the whole batch; slime averages them over samples and ranks."""


def post_process_rewards(
    args: Any, samples: Sequence[Any], **_: Any
) -> tuple[list[float], list[TokenAdvantages]]:
    """slime's reward hook: the raw rewards, and token advantages in place of normalised ones.

    Samples of one `rollout_id` are one rollout, whose reward and verdict are its last sample's.
    `correctness` is a key of `Sample.reward`, where that is a mapping, or of `Sample.metadata`. The
    rollout advantages are those of slime's flags, over each `group_index`.

    Raises:
        InputError: an option or a setting is refused, or a sample lacks its group or its reward.
    """
    settings = Settings.of(getattr(args, "ktae", None) or {}).tried()
    # What would erase credit, or give it to whole sequences.
    one_of("--advantage-estimator", args.advantage_estimator, ESTIMATORS, "without token credit")
    one_of("--normalize-advantages", args.normalize_advantages, (False,), "which whitens credit")
    one_of("--use-opsm", args.use_opsm, (False,), "which masks by a whole sequence's ratio")
    one_of("--custom-advantage-function-path", args.custom_advantage_function_path, (HOOK,))
    kind = "grpo" if args.grpo_std_normalization else "dr_grpo"
    kind = kind if args.rewards_normalization else "rewards"
    require_scale(settings.estimator, SCALED.get(kind), f"slime's rollout advantages are {kind}")
    raw = [sample.get_reward_value(args) for sample in samples]
    parts: list[Part] = []
    rollouts: dict[Any, list[int]] = {}  # the places of each rollout's samples
    for place, (sample, reward) in enumerate(zip(samples, raw, strict=True)):
        if not isinstance(reward, numbers.Real) or not math.isfinite(reward):
            raise InputError(f"sample {place} has the reward {reward!r}; expected a finite number")
        if sample.group_index is None:
            raise InputError(f"sample {place} has no group_index; expected that of its prompt")
        n = sample.response_length
        # As slime fills it in later: a removed sample counts nowhere.
        mask = [0] * n if sample.remove_sample else list(sample.loss_mask or [1] * n)
        parts.append((sample.tokens, [0] * (len(sample.tokens) - n) + mask))
        # A sample without a rollout_id is a rollout of its own, whatever ids the others have.
        alone = sample.rollout_id is None
        key = (sample.group_index, alone, place if alone else sample.rollout_id)
        rollouts.setdefault(key, []).append(place)
    last = [samples[places[-1]] for places in rollouts.values()]
    # A mapping of rewards goes before the metadata.
    named = [(x.metadata or {}) | (x.reward if isinstance(x.reward, dict) else {}) for x in last]
    rewards = np.array([float(raw[places[-1]]) for places in rollouts.values()])
    scores = settings.scores(rewards.tolist(), named)
    groups = [sample.group_index for sample in last]
    base = rewards
    if kind in SCALED:
        label, every = np.unique(groups, return_inverse=True)[1], np.ones(len(rewards), dtype=bool)
        base = rollout_advantages(kind, rewards, every, label)
    of_rollouts = [[parts[i] for i in places] for places in rollouts.values()]
    rows = zip(of_rollouts, groups, scores, base.tolist(), strict=True)
    credited = credit_of([Rollout(*row) for row in rows], settings)
    metrics = credited.metrics()
    by_place: dict[int, TokenAdvantages] = {}
    for places, advantage, credit in zip(
        rollouts.values(), base.tolist(), credited.parts, strict=True
    ):
        for i, values in zip(places, credit, strict=True):
            counted = zip(parts[i][1], values, strict=True)
            tokens = [advantage + value if counts else 0.0 for counts, value in counted]
            of_response = tokens[len(tokens) - samples[i].response_length :]
            by_place[i] = TokenAdvantages(advantage, of_response, metrics)
    return [float(reward) for reward in raw], [by_place[i] for i in range(len(samples))]


def token_advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """slime's advantage hook, on one rank: set `advantages` and `returns`, a tensor a sample.

    Under context parallelism they are of the part of each response that the rank holds. `rewards`
    become the rollout advantages, which slime logs, and the metrics `credit/...` stand beside them.

    Raises:
        InputError: `post_process_rewards` was not the reward hook, or the lengths do not fit.
    """
    import torch

    carried = rollout_data["rewards"]
    if not all(isinstance(reward, TokenAdvantages) for reward in carried):
        raise InputError(
            "rewards are not what ktae.trainers.slime.post_process_rewards gives; expected it as "
            "--custom-reward-post-process-path, and no --custom-convert-samples-to-train-data-path"
        )
    advantages = []
    parts = (carried, rollout_data["kl"], rollout_data["total_lengths"])
    for i, (reward, like, total) in enumerate(zip(*parts, strict=True)):
        values = reward.tokens
        if getattr(args, "context_parallel_size", 1) > 1:  # what this rank holds, by slime's rule
            from slime.backends.megatron_utils.cp_utils import slice_log_prob_with_cp

            values = list(slice_log_prob_with_cp(values, total, len(values)))
        if len(values) != len(like):
            raise InputError(
                f"sample {i}: {len(values)} advantages; expected {len(like)}, as of kl"
            )
        advantages.append(torch.tensor(values, dtype=torch.float32, device=like.device))
    rollout_data["advantages"] = advantages
    rollout_data["returns"] = [values.clone() for values in advantages]
    # slime averages what it logs over samples and ranks, so each sample carries the numbers.
    rollout_data["rewards"] = [reward.rollout for reward in carried]
    for name in carried[0].metrics if carried else ():
        rollout_data[name] = [reward.metrics[name] for reward in carried]
