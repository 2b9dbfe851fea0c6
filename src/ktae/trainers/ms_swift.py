"""ms-swift: token credit in its GRPO trainer, from a file that `--external_plugins` names.

from ktae.trainers.ms_swift import use_in_swift
use_in_swift(credit="trigrams", correctness="accuracy")
"""

from __future__ import annotations

from typing import Any

from accelerate.utils import gather_object

from ktae.trainers.lists import Rollout, credit_of
from ktae.trainers.settings import Settings, one_of


def use_in_swift(**options: Any) -> None:
    """Let `swift rlhf --rlhf_type grpo` train on token advantages, in this process.

    `correctness` is a reward function's name; without it the weighted sum of the rewards counts.
    """
    from swift.rlhf_trainers.grpo_trainer import GRPOTrainer

    trainer, settings = GRPOTrainer, Settings(**options).tried()
    trainer._postprocess_batch = with_credit(trainer._postprocess_batch, settings)


def with_credit(postprocess: Any, settings: Settings) -> Any:
    """ms-swift's `_postprocess_batch`, with credit added to the (B, T) advantages that it fills."""

    def _postprocess_batch(self: Any, samples: list[Any], batches: list[dict[str, Any]]) -> None:
        one_of("importance_sampling_level", self.importance_sampling_level, ("token",))
        one_of("loss_type", self.loss_type, ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"))
        for name, allowed in (("padding_free", False), ("sequence_parallel_size", 1)):
            one_of(name, getattr(self.template, name), (allowed,))
        postprocess(self, samples, batches)
        names, rewards = self.reward_func_names, self._rewards_per_func
        one_of("correctness", settings.correctness, (None, *names))
        scores = (rewards * self.reward_weights.to(rewards)).nansum(dim=1)
        if settings.correctness is not None:
            scores = rewards[:, names.index(settings.correctness)]
        rows: list[Any] = []  # of this process, in the order of its samples
        for batch in batches:
            mask = batch["grpo_batch"].completion_mask
            ids = batch["model_inputs"]["input_ids"][:, -mask.shape[1] :]
            rows += zip(ids.tolist(), mask.tolist(), strict=True)
        pairs = zip(rows, (sample.prompt_id for sample in samples), strict=True)
        everywhere = gather_object(list(pairs))  # a group may be spread over processes
        scored = zip(everywhere, scores.tolist(), strict=True)
        credited = credit_of([Rollout([part], group, x) for (part, group), x in scored], settings)
        first = self.accelerator.process_index * len(rows)
        ours = iter(credited.parts[first : first + len(rows)])
        for batch in batches:
            advantages = batch["grpo_batch"].advantages
            added = advantages.new_tensor([next(ours)[0] for _ in range(len(advantages))])
            batch["grpo_batch"].advantages = advantages + added
        for name, value in credited.metrics().items():
            self._metrics["train" if self.model.training else "eval"][name].append(value)

    return _postprocess_batch
