"""NeMo-RL: token credit on top of the advantage estimator that its configuration names."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ktae.trainers.lists import scored
from ktae.trainers.settings import Settings, one_of


def use_in_nemo_rl(**options: Any) -> None:
    """Let NeMo-RL's GRPO train on token advantages, in this process: call it before its script.

    `options` are fields of `ktae.trainers.settings.Settings`. `correctness` is a key of NeMo-RL's
    batch with a number for each response, such as `reward1`; without it, the reward counts.
    """
    from nemo_rl.algorithms import grpo

    settings = Settings(**options).tried()
    create = grpo._create_advantage_estimator

    @functools.wraps(create)
    def create_with_credit(master_config: Any) -> TokenCredit:
        level = getattr(master_config.loss_fn, "sequence_level_importance_ratios", False)
        one_of("loss_fn.sequence_level_importance_ratios", level, (False,), "which erases credit")
        return TokenCredit(create(master_config), settings)

    grpo._create_advantage_estimator = create_with_credit


class TokenCredit:
    """An advantage estimator of NeMo-RL, plus the credit of each token."""

    def __init__(self, inner: Any, settings: Settings) -> None:
        self.inner, self.settings = inner, settings
        self.last_metrics: dict[str, float] = {}

    def compute_advantage(
        self, prompt_ids: Any, rewards: Any, mask: Any, repeated_batch: Any, **more: Any
    ) -> torch.Tensor:
        """(B, S) advantages, at the positions of prompt and response as `mask` has them."""
        arguments = {"repeated_batch": repeated_batch, **more}
        base = self.inner.compute_advantage(prompt_ids, rewards, mask, **arguments)
        ids = torch.zeros(mask.shape, dtype=torch.int64)
        for row, messages in enumerate(repeated_batch["message_log"]):
            tokens = torch.cat([message["token_ids"] for message in messages])
            ids[row, : len(tokens)] = tokens
        name, scores = self.settings.correctness, rewards
        if name is not None:
            one_of("correctness", name, [*repeated_batch])
            scores = repeated_batch[name]
        groups = torch.unique(prompt_ids.reshape(len(ids), -1), dim=0, return_inverse=True)[1]
        result = scored(ids, mask.cpu() != 0, scores, groups.tolist(), self.settings)
        self.last_metrics = result.metrics((base * mask).sum(1) / mask.sum(1).clamp(min=1))
        return base + result.credit.to(base)
