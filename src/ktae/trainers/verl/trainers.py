"""verl's trainer modes, with the token ids for the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import open_dict
from verl.trainer.ppo.v1 import PPOTrainerColocateAsync, PPOTrainerSeparateAsync, PPOTrainerSync

from ktae.trainers.verl import options
from ktae.trainers.verl.handover import Rollouts, handed_over, rollouts_of_infos, sessions_of
from ktae.trainers.verl.options import MODES

FIELDS = {"log_probs": "old_log_probs", "entropies": "entropy"}
"""What estimators may need of the policy, by verl's names. In `bypass_mode` it has no entropies."""


class KTAETrainer:
    """What the three modes have in common; it goes before a trainer of verl's."""

    hands_over_token_ids = True
    """No other trainer of verl's does."""

    def __init__(self, config: Any) -> None:
        with open_dict(config):
            # verl picks the replay buffer and a mode's options by the name of its own
            # (v1/trainer_base.py:129 and 153).
            v1 = config.trainer.v1
            v1.trainer_mode = v1.trainer_mode.removeprefix("ktae_")
        super().__init__(config)  # type: ignore[call-arg]

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        with handed_over(self._rollouts(batch)) as rollouts:
            computed = super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        metrics.update(rollouts.metrics)
        return computed

    def _rollouts(self, batch: Any) -> Rollouts:
        """The batch's responses and verdicts, in the order of its keys, from TransferQueue: verl
        itself fetches no responses (v1/trainer_base.py:1743)."""
        settings, _ = options.from_algorithm(self.config.algorithm)  # type: ignore[attr-defined]
        needs = settings.estimator.needs_policy
        sessions = sessions_of(batch.keys)
        fields = ["responses", "extra_fields", *(FIELDS[name] for name in sorted(needs))]
        data = tq.kv_batch_get(
            keys=batch.keys,
            partition_id=batch.partition_id,
            select_fields=[*fields, *(["prompts"] if sessions else [])],
        )
        extras = data.pop("extra_fields").tolist()
        infos = [extra.get("reward_extra_info") or {} for extra in extras]
        # int32 holds every vocabulary, and padded to the longest response it is much to hold
        responses = data["responses"].to(torch.int32).to_padded_tensor(0)
        rollouts = rollouts_of_infos(responses, infos, settings.correctness or "acc")
        if any("turn_rewards" in extra for extra in extras):
            rollouts.turn_rewards = [extra.get("turn_rewards") or [] for extra in extras]
        for name in needs:
            if FIELDS[name] in data:
                rollouts.policy[name] = data[FIELDS[name]].to_padded_tensor(0)
        if sessions:
            lengths = data["responses"].offsets().diff().tolist()
            prompts = [prompt.tolist() for prompt in data["prompts"].unbind()]
            rollouts.outputs = list(zip(prompts, lengths, strict=True))
            rollouts.sessions = sessions
        rollouts.padding = np.array([tag.get("is_padding", False) for tag in batch.tags], bool)
        return rollouts


class KTAETrainerSync(KTAETrainer, PPOTrainerSync):
    """`trainer.v1.trainer_mode=ktae_sync`."""


class KTAETrainerColocateAsync(KTAETrainer, PPOTrainerColocateAsync):
    """`trainer.v1.trainer_mode=ktae_colocate_async`."""


class KTAETrainerSeparateAsync(KTAETrainer, PPOTrainerSeparateAsync):
    """`trainer.v1.trainer_mode=ktae_separate_async`."""


CLASSES = (KTAETrainerSync, KTAETrainerColocateAsync, KTAETrainerSeparateAsync)
TRAINERS: dict[str, type[KTAETrainer]] = dict(zip(MODES, CLASSES, strict=True))
