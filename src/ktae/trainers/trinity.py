"""Trinity-RFT: token credit as an advantage function, configured by its dotted path.

algorithm:
  algorithm_type: ktae.trainers.trinity.TokenCreditGRPO
  advantage_fn_args: {credit: trigrams, correctness: accuracy}
"""

from __future__ import annotations

from typing import Any

import torch
from trinity.algorithm.advantage_fn.grpo_advantage import GRPOGroupedAdvantage
from trinity.algorithm.algorithm import GRPOAlgorithm

from ktae.estimators.transforms import require_scale
from ktae.trainers.lists import Part, credit_samples
from ktae.trainers.settings import Settings, one_of

LOSSES = ("ppo", "cispo", "sapo", "importance_sampling", "opmd", "topr", "sppo")


class TokenCreditAdvantage(GRPOGroupedAdvantage):
    """Trinity's GRPO advantage of each response, plus the credit of each of its tokens; its options
    are Trinity's and those of `Settings`. `correctness` is one of the experiences' metrics."""

    def __init__(self, **options: Any) -> None:
        names = options.keys() & {"credit", "correctness", "threshold", "tokenizer"}
        self.settings = Settings(**{name: options.pop(name) for name in names}).tried()
        super().__init__(**options)
        level = getattr(self, "std_cal_level", "group")
        what, scaled = f"std_cal_level is {level!r}", level == "group" or None
        require_scale(self.settings.estimator, scaled, what)

    def calculate_group_advantage(
        self, group_id: str, exps: list[Any], precomputed_std: torch.Tensor | None = None
    ) -> tuple[list[Any], dict[str, float]]:
        """Set `advantages` and `returns` of one task's experiences. Those of one run, an agent's
        steps, are one rollout; with one run for all, each is."""
        exps, metrics = super().calculate_group_advantage(group_id, exps, precomputed_std)
        if not exps:  # all rewards were equal, and Trinity leaves the group out
            return exps, metrics
        several = len({exp.eid.run for exp in exps}) > 1
        runs: dict[Any, list[Any]] = {}
        for place, exp in sorted(enumerate(exps), key=lambda pair: pair[1].eid.step):
            runs.setdefault(exp.eid.run if several else place, []).append(exp)
        named = [{name: x for e in run for name, x in e.metrics.items()} for run in runs.values()]
        scores = self.settings.scores([run[-1].reward for run in runs.values()], named)
        owners: dict[Any, tuple[str, float, float]] = {}
        samples: list[tuple[Any, Part]] = []
        for (key, run), score in zip(runs.items(), scores, strict=True):
            base = torch.cat([exp.advantages[exp.action_mask.bool()] for exp in run])
            owners[key] = (group_id, score, float(base[0]) if len(base) else float("nan"))
            for exp in run:  # a prompt that was cut has nothing, and a mask of another length
                mask = exp.action_mask.bool().tolist()
                ids, before = exp.tokens.tolist(), [False] * exp.prompt_length
                samples.append((key, (ids, before + mask) if any(mask) else ([], [])))
        credit, ours = credit_samples(samples, owners, self.settings)
        for exp, values in zip((exp for run in runs.values() for exp in run), credit, strict=True):
            added = values[exp.prompt_length :] if values else [0.0] * len(exp.advantages)
            exp.advantages = exp.advantages.float() + exp.advantages.new_tensor(added).float()
            exp.returns = exp.advantages.clone()
        return exps, metrics | ours


class TokenCreditGRPO(GRPOAlgorithm):
    """Trinity's GRPO with `TokenCreditAdvantage`; what would erase credit is refused at once."""

    @classmethod
    def default_config(cls) -> dict[str, Any]:
        """Trinity's own for GRPO, but for the advantage function."""
        return {**super().default_config(), "advantage_fn": f"{__name__}.TokenCreditAdvantage"}

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Trinity calls it before it starts anything."""
        super().check_config(config)
        algorithm, erased = config.algorithm, "which would erase token credit"
        masking = (algorithm.policy_loss_fn_args or {}).get("enable_sequence_masking", False)
        weights = (algorithm.rollout_correction or {}).get("rollout_is")
        expected = cls.default_config()["advantage_fn"]
        one_of("algorithm.policy_loss_fn", algorithm.policy_loss_fn or "ppo", LOSSES, erased)
        one_of("policy_loss_fn_args.enable_sequence_masking", masking, (False,), erased)
        one_of("rollout_correction.rollout_is", weights, (None, "token"), erased)
        one_of("algorithm.advantage_fn", algorithm.advantage_fn or expected, (expected,))
        TokenCreditAdvantage(**(algorithm.advantage_fn_args or {}))
