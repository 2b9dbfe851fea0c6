"""Trinity-RFT: token credit as an advantage function, configured by its dotted path.

    algorithm:
      algorithm_type: ktae.trainers.trinity.TokenCreditGRPO
      advantage_fn_args: {credit: calibrated, correctness: accuracy}

The algorithm is Trinity's GRPO: it refuses, before anything is loaded, what would erase credit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from trinity.algorithm.advantage_fn.grpo_advantage import GRPOGroupedAdvantage
from trinity.algorithm.algorithm import GRPOAlgorithm

from ktae.trainers.lists import Rollout, Settings, credit_of, cut, one_of

LOSSES = ("ppo", "cispo", "sapo", "importance_sampling", "opmd", "topr", "sppo")
"""Policy losses of Trinity that weigh each token by its own advantage and ratio."""


class TokenCreditAdvantage(GRPOGroupedAdvantage):
    """Trinity's GRPO advantage of each response, plus the credit of each of its tokens."""

    def __init__(
        self,
        credit: Any = "paper",
        correctness: str | None = None,
        threshold: float = 0.0,
        tokenizer: str | None = None,
        **grpo: Any,
    ) -> None:
        """The settings of `ktae.trainers.lists.Settings`, and those of Trinity's own.

        `correctness` is one of the experiences' metrics.

        Raises:
            InputError: a setting is wrong.
        """
        super().__init__(**grpo)
        self.settings = Settings(credit, correctness, threshold, tokenizer).tried(step=0)
        level = getattr(self, "std_cal_level", "group")
        self.settings.beside(True if level == "group" else None, f"std_cal_level is {level!r}")

    def calculate_group_advantage(
        self, group_id: str, exps: list[Any], precomputed_std: torch.Tensor | None = None
    ) -> tuple[list[Any], dict[str, float]]:
        """Set `advantages` and `returns` of one task's experiences, (response length,) each.

        Experiences of one run, the steps of an agent, are one rollout. Its verdict is its last
        step's. Some workflows give all experiences the same run; then each is a rollout.
        """
        exps, metrics = super().calculate_group_advantage(group_id, exps, precomputed_std)
        if not exps:  # all rewards were equal, and Trinity leaves the group out
            return exps, metrics
        steps: dict[Hashable, list[Any]] = {}
        several = len({exp.eid.run for exp in exps}) > 1
        for place, exp in enumerate(exps):
            steps.setdefault(exp.eid.run if several else place, []).append(exp)
        runs = [sorted(run, key=lambda exp: exp.eid.step) for run in steps.values()]
        named = [{name: x for exp in run for name, x in exp.metrics.items()} for run in runs]
        scores = self.settings.scores([run[-1].reward for run in runs], named)
        rollouts = [
            Rollout([x for exp in run for x in _written(exp)], group_id, score, _base(run))
            for run, score in zip(runs, scores, strict=True)
        ]
        batch = exps[0].eid.batch  # the explorer's steps, which Trinity counts from 1
        step = max(0, batch - 1) if isinstance(batch, int) else None
        credited = credit_of(rollouts, self.settings, step=step)
        for run, values in zip(runs, credited.lists, strict=True):
            masks = [exp.action_mask.bool() for exp in run]
            parts = cut(values, [int(mask.sum()) for mask in masks])
            for exp, mask, part in zip(run, masks, parts, strict=True):
                exp.advantages = exp.advantages.float()
                exp.advantages[mask] += exp.advantages.new_tensor(part)
                exp.returns = exp.advantages.clone()
        return exps, metrics | credited.metrics()

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """What Trinity takes where the configuration has no `advantage_fn_args`."""
        return {"credit": "paper", **super().default_args()}


class TokenCreditGRPO(GRPOAlgorithm):
    """Trinity's GRPO with `TokenCreditAdvantage`."""

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Trinity's own for GRPO, but for the advantage function."""
        grpo: dict[str, Any] = super().default_config()
        path = f"{TokenCreditAdvantage.__module__}.{TokenCreditAdvantage.__name__}"
        return grpo | {"advantage_fn": path}

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Trinity calls it before it starts anything.

        Raises:
            InputError: an option is wrong, or a setting would erase the credit.
        """
        super().check_config(config)
        algorithm = config.algorithm
        erased = "which would erase token credit"
        one_of("algorithm.policy_loss_fn", algorithm.policy_loss_fn or "ppo", LOSSES, erased)
        masking = (algorithm.policy_loss_fn_args or {}).get("enable_sequence_masking", False)
        one_of("policy_loss_fn_args.enable_sequence_masking", masking, (False,), erased)
        weights = (algorithm.rollout_correction or {}).get("rollout_is")
        one_of("rollout_correction.rollout_is", weights, (None, "token"), erased)
        expected = cls.default_config()["advantage_fn"]
        one_of("algorithm.advantage_fn", algorithm.advantage_fn or expected, (expected,))
        TokenCreditAdvantage(**(algorithm.advantage_fn_args or {}))


def _written(exp: Any) -> list[int]:
    """The response's tokens that the policy wrote; none where the prompt itself was cut."""
    mask = exp.action_mask.bool()
    if not mask.any():
        return []
    written: list[int] = exp.tokens[exp.prompt_length :][mask].tolist()
    return written


def _base(run: Sequence[Any]) -> float:
    """The rollout advantage, for the metrics: it is the same for all written tokens."""
    values = torch.cat([exp.advantages[exp.action_mask.bool()] for exp in run])
    return float(values[0]) if len(values) else math.nan
