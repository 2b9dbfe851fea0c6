"""Trinity-RFT: token credit as an advantage function, configured by its dotted path.

    algorithm:
      algorithm_type: ktae.trainers.trinity.TokenCreditGRPO
      advantage_fn_args: {credit: calibrated, correctness: accuracy}

The algorithm is Trinity's GRPO: it refuses, before anything is loaded, what would erase credit.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import torch
from trinity.algorithm.advantage_fn.grpo_advantage import GRPOGroupedAdvantage
from trinity.algorithm.algorithm import GRPOAlgorithm

from ktae.estimators.transforms import require_scale
from ktae.trainers.lists import Part, Rollout, Settings, credit_of, one_of

LOSSES = ("ppo", "cispo", "sapo", "importance_sampling", "opmd", "topr", "sppo")
"""Policy losses of Trinity that weigh each token by its own advantage and ratio."""


class TokenCreditAdvantage(GRPOGroupedAdvantage):
    """Trinity's GRPO advantage of each response, plus the credit of each of its tokens."""

    def __init__(self, **options: Any) -> None:
        """The settings of `ktae.trainers.lists.Settings`, and those of Trinity's own.

        `correctness` is one of the experiences' metrics.

        Raises:
            InputError: a setting is wrong.
        """
        names = ("credit", "correctness", "threshold", "tokenizer")
        own = {name: options.pop(name) for name in names if name in options}
        super().__init__(**options)
        self.settings = Settings(**own).tried(step=0)
        level = getattr(self, "std_cal_level", "group")
        scaled = True if level == "group" else None
        require_scale(self.settings.estimator, scaled, f"std_cal_level is {level!r}")

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
        rollouts = []
        for run, score in zip(runs, scores, strict=True):
            # Trinity's is the same for all written tokens of a run; the metrics look at it.
            written = torch.cat([exp.advantages[exp.action_mask.bool()] for exp in run])
            base = float(written[0]) if len(written) else math.nan
            rollouts.append(Rollout(list(map(_part, run)), group_id, score, base))
        batch = exps[0].eid.batch  # the explorer's steps, which Trinity counts from 1
        step = max(0, batch - 1) if isinstance(batch, int) else None
        credited = credit_of(rollouts, self.settings, step=step)
        for run, credit in zip(runs, credited.parts, strict=True):
            for exp, values in zip(run, credit, strict=True):
                exp.advantages = exp.advantages.float()
                if values:
                    exp.advantages += exp.advantages.new_tensor(values[exp.prompt_length :])
                exp.returns = exp.advantages.clone()
        return exps, metrics | credited.metrics()


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


def _part(exp: Any) -> Part:
    """Prompt and response; empty where the prompt itself was cut, which has a mask of another
    length."""
    mask = exp.action_mask.bool().tolist()
    return (exp.tokens.tolist(), [False] * exp.prompt_length + mask) if any(mask) else ([], [])
