"""slime: token credit through its two hooks, with their options in slime's own configuration file.

--custom-reward-post-process-path ktae.trainers.slime.post_process_rewards
--custom-advantage-function-path ktae.trainers.slime.token_advantages
--custom-config-path credit.yaml        # ktae: {credit: trigrams, correctness: accuracy}
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError, passed_on
from ktae.estimators.transforms import require_scale
from ktae.rollout_advantages import SCALED, rollout_advantages
from ktae.trainers.lists import credit_samples
from ktae.trainers.settings import Settings, one_of

HOOK = "ktae.trainers.slime.token_advantages"


class TokenAdvantages(NamedTuple):
    """What stands for a sample's reward between the first hook, which sees whole groups, and the
    second, which sees a rank's samples."""

    rollout: float
    tokens: list[float]  # of the response; 0 where the loss mask is
    metrics: dict[str, float]  # of the batch; slime averages them over samples and ranks


def post_process_rewards(args: Any, samples: Sequence[Any], **_: Any) -> tuple[list[Any], ...]:
    """slime's reward hook: the raw rewards, and token advantages in place of normalised ones.
    Samples of one `rollout_id` are one rollout, with the reward of the last."""
    options = getattr(args, "ktae", None) or {}
    with passed_on(f"the options of ktae are {options!r}", TypeError):
        settings = Settings(**options).tried()
    one_of("--advantage-estimator", args.advantage_estimator, ("grpo", "cispo"), "no token credit")
    one_of("--normalize-advantages", args.normalize_advantages, (False,), "which whitens credit")
    one_of("--use-opsm", args.use_opsm, (False,), "which masks by a whole sequence's ratio")
    one_of("--custom-advantage-function-path", args.custom_advantage_function_path, (HOOK,))
    kind = "grpo" if args.grpo_std_normalization else "dr_grpo"
    kind = kind if args.rewards_normalization else "rewards"
    require_scale(settings.estimator, SCALED.get(kind), f"slime's rollout advantages are {kind}")
    raw, keys, parts = [], [], []
    for i, sample in enumerate(samples):
        reward, n = sample.get_reward_value(args), sample.response_length
        is_number = isinstance(reward, numbers.Real) and np.isfinite(float(reward))
        if not is_number or sample.group_index is None:
            has = f"reward {reward!r} and group_index {sample.group_index}"
            raise InputError(f"sample {i} has {has}; expected a finite number and an index")
        mask = [0] * n if sample.remove_sample else list(sample.loss_mask or [1] * n)
        raw.append(float(reward))
        parts.append((sample.tokens, [0] * (len(sample.tokens) - n) + mask))
        alone = sample.rollout_id is None
        keys.append((sample.group_index, alone, i if alone else sample.rollout_id))
    last = {key: i for i, key in enumerate(keys)}  # the sample that decides
    ends, groups = [samples[i] for i in last.values()], [group for group, _, _ in last]
    named = [(x.metadata or {}) | (x.reward if isinstance(x.reward, dict) else {}) for x in ends]
    finals, label = np.array([raw[i] for i in last.values()]), np.unique(groups, False, True)[1]
    base = rollout_advantages(kind, finals, finals == finals, label) if kind in SCALED else finals
    rows = zip(groups, settings.scores(finals.tolist(), named), base.tolist(), strict=True)
    owners = dict(zip(last, rows, strict=True))
    credit, metrics = credit_samples([*zip(keys, parts, strict=True)], owners, settings)
    carried = []
    for key, (_, mask), values, sample in zip(keys, parts, credit, samples, strict=True):
        base_i, start = owners[key][2], len(mask) - sample.response_length
        tokens = [base_i + x if m else 0.0 for m, x in zip(mask, values, strict=True)]
        carried.append(TokenAdvantages(base_i, tokens[start:], metrics))
    return raw, carried


def token_advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """slime's advantage hook, on one rank: set `advantages` and `returns`, a tensor a sample."""
    carried, tensors = rollout_data["rewards"], []
    if not all(isinstance(x, TokenAdvantages) for x in carried):
        raise InputError("rewards are not of ktae's hook; set --custom-reward-post-process-path")
    parts = zip(carried, rollout_data["kl"], rollout_data["total_lengths"], strict=True)
    for i, ((_, values, _), like, total) in enumerate(parts):
        if getattr(args, "context_parallel_size", 1) > 1:  # what this rank holds, by slime's rule
            from slime.backends.megatron_utils.cp_utils import slice_log_prob_with_cp

            values = list(slice_log_prob_with_cp(values, total, len(values)))
        if len(values) != len(like):
            raise InputError(f"sample {i} has {len(values)} advantages; expected {len(like)}")
        tensors.append(like.new_tensor(values).float())
    rollout_data |= {"advantages": tensors, "returns": [values.clone() for values in tensors]}
    rollout_data["rewards"] = [reward.rollout for reward in carried]
    names = carried[0].metrics if carried else ()
    rollout_data |= {name: [reward.metrics[name] for reward in carried] for name in names}
