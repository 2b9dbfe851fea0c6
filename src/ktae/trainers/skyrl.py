"""SkyRL: token credit in its trainer, which `BasePPOExp.get_trainer` makes.

class Exp(BasePPOExp):
    def get_trainer(self, *args, **kwargs):
        trainer = super().get_trainer(*args, **kwargs)
        return use_credit(trainer, credit="trigrams")
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ktae.estimators.transforms import require_scale
from ktae.trainers.lists import scored
from ktae.trainers.settings import Settings, one_of

LOSSES = ("regular", "dual_clip", "cispo", "sapo", "clip_cov", "kl_cov", "importance_sampling")
"""Values of `trainer.algorithm.policy_loss_type` that weigh each token by its own advantage."""


def use_credit(trainer: Any, **options: Any) -> Any:
    """The same `RayPPOTrainer`, whose advantages have the credit of each token added to them.

    `options` are fields of `ktae.trainers.settings.Settings`. SkyRL hands over no named score, so
    a response is correct where its reward is above `threshold`.

    Raises:
        InputError: an option does not fit, or a setting of SkyRL's would erase credit.
    """
    settings = Settings(**options).tried()
    algorithm, why = trainer.cfg.trainer.algorithm, "whose rows are no whole rollouts"
    one_of("correctness", settings.correctness, (None,), "and SkyRL hands over the reward alone")
    one_of("step_wise_trajectories", trainer.cfg.generator.step_wise_trajectories, (False,), why)
    one_of("advantage_estimator", algorithm.advantage_estimator, ("grpo", "rloo", "maxrl"))
    one_of("policy_loss_type", algorithm.policy_loss_type, LOSSES, "which would erase credit")
    one_of("advantage_batch_normalize", algorithm.advantage_batch_normalize, (False,), "whitening")
    scaled = bool(algorithm.grpo_norm_by_std) if algorithm.advantage_estimator == "grpo" else None
    require_scale(settings.estimator, scaled, f"grpo_norm_by_std is {scaled}")
    compute = trainer.compute_advantages_and_returns

    @functools.wraps(compute)
    def with_credit(data: Any) -> Any:
        rewards, mask = data["rewards"].sum(dim=-1), data["response_mask"] != 0
        if data.get("loss_mask") is not None:  # 0 at what tools wrote
            mask = mask & (data["loss_mask"] != 0)
        ids = data["sequences"][:, -mask.shape[1] :]  # responses end where the sequences do
        data = compute(data)
        result = scored(ids, mask, rewards, data.metadata["uids"], settings)
        base = (data["advantages"] * mask).sum(1) / mask.sum(1).clamp(min=1)
        padding = torch.arange(len(mask)) >= len(mask) - data.metadata.get("pad_size", 0)
        trainer.all_metrics.update(result.metrics(base, padding=padding.numpy()))
        data["advantages"] = data["returns"] = data["advantages"] + result.credit
        return data

    trainer.compute_advantages_and_returns = with_credit
    return trainer
