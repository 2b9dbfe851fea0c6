"""verl's trainer modes, with the token ids for the estimator."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import open_dict
from verl.trainer.ppo.v1 import (
    PPOTrainerColocateAsync,
    PPOTrainerSeparateAsync,
    PPOTrainerSync,
)

from ktae.errors import InputError
from ktae.trainers import strongest
from ktae.trainers.verl import names, options
from ktae.trainers.verl.handover import Rollouts, handed_over, rollouts_of_infos, sessions_of

FIELDS = {"log_probs": "old_log_probs", "entropies": "entropy"}
"""What estimators may need of the policy, by verl's names. In `bypass_mode` it has no entropies."""


class KTAETrainer:
    """What the three modes have in common; it goes before a trainer of verl's.

    Raises:
        InputError: the estimator is not `ktae`, or an option of it is unknown or out of range;
            before anything is loaded.
    """

    stock_mode: ClassVar[str]

    def __init__(self, config: Any) -> None:
        if config.algorithm.adv_estimator != names.ESTIMATOR:
            raise InputError(
                f"trainer.v1.trainer_mode={config.trainer.v1.trainer_mode} with "
                f"algorithm.adv_estimator={config.algorithm.adv_estimator}; "
                f"expected algorithm.adv_estimator=ktae, or trainer_mode={self.stock_mode}"
            )
        with open_dict(config):
            # verl picks the replay buffer and a mode's options by this name
            # (v1/trainer_base.py:129 and 153).
            config.trainer.v1.trainer_mode = self.stock_mode
        super().__init__(config)  # type: ignore[call-arg]

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        loggers = self.config.trainer.logger  # type: ignore[attr-defined]  # a name, or several
        loggers = [loggers] if isinstance(loggers, str) else list(loggers)
        trackers = [name for name in strongest.TRACKERS if name in loggers]
        with handed_over(self._rollouts(batch)) as rollouts:
            rollouts.wants_sums = bool(trackers)
            computed = super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        metrics.update(rollouts.metrics)
        if rollouts.sums is not None:
            # Not among the metrics: verl's file and tensorboard take numbers alone.
            rows = strongest.rows_of(rollouts.sums, self.tokenizer)  # type: ignore[attr-defined]
            strongest.log(trackers, rows, step=self.global_steps)  # type: ignore[attr-defined]
        return computed

    def _rollouts(self, batch: Any) -> Rollouts:
        """The batch's responses and verdicts, from TransferQueue: rows in the order of its keys.

        verl itself fetches no responses (v1/trainer_base.py:1743).
        """
        done: int = self.global_steps - 1  # type: ignore[attr-defined]  # counted from 1
        chosen = options.from_algorithm(self.config.algorithm)  # type: ignore[attr-defined]
        needs = chosen.settings.estimator.needs_policy
        data = tq.kv_batch_get(
            keys=batch.keys,
            partition_id=batch.partition_id,
            select_fields=["responses", "extra_fields", *(FIELDS[name] for name in sorted(needs))],
        )
        infos = [
            fields.get("reward_extra_info") or {} for fields in data.pop("extra_fields").tolist()
        ]
        lengths = data["responses"].offsets().diff().tolist()
        # int32 holds every vocabulary, and padded to the longest response it is much to hold
        responses = data["responses"].to(torch.int32).to_padded_tensor(0)
        rollouts = rollouts_of_infos(responses, infos, done)
        for name in needs:
            if FIELDS[name] in data:
                rollouts.policy[name] = data[FIELDS[name]].to_padded_tensor(0)
        rollouts.sessions = sessions_of(batch.keys)
        if rollouts.sessions is not None:
            fetched = tq.kv_batch_get(
                keys=batch.keys, partition_id=batch.partition_id, select_fields=["prompts"]
            )
            prompts = [prompt.tolist() for prompt in fetched["prompts"].unbind()]
            rollouts.turns = list(zip(prompts, lengths, strict=True))
        padding = np.array([tag.get("is_padding", False) for tag in batch.tags], dtype=bool)
        rollouts.padding = padding if padding.any() else None
        return rollouts


class KTAETrainerSync(KTAETrainer, PPOTrainerSync):
    """`trainer.v1.trainer_mode=ktae_sync`."""

    stock_mode = "sync"


class KTAETrainerColocateAsync(KTAETrainer, PPOTrainerColocateAsync):
    """`trainer.v1.trainer_mode=ktae_colocate_async`."""

    stock_mode = "colocate_async"


class KTAETrainerSeparateAsync(KTAETrainer, PPOTrainerSeparateAsync):
    """`trainer.v1.trainer_mode=ktae_separate_async`."""

    stock_mode = "separate_async"


TRAINERS: dict[str, type[KTAETrainer]] = dict(
    zip(
        names.MODES,
        (KTAETrainerSync, KTAETrainerColocateAsync, KTAETrainerSeparateAsync),
        strict=True,
    )
)
