"""DAPO's dynamic sampling for TRL's GRPO trainer, which has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import gather, gather_object

from ktae.errors import InputError
from ktae.trainers.settings import one_of

if TYPE_CHECKING:
    from trl import GRPOTrainer as _Trainer
else:
    _Trainer = object  # a mixin: the trainer comes after it

LOSSES = ("dapo", "cispo", "vespo")
"""Losses that divide by the number of unmasked tokens in the whole batch, which can be told."""

FILL = {"importance_sampling_ratio": 1, "tool_mask": 1}
"""What TRL pads with; token ids with the padding token, everything else with 0."""

Source = tuple[int, int]
"""Where a rollout of the batch comes from: the round, and the row in that round's batch."""


class DynamicSampling(_Trainer):
    """Mixin before `trl.GRPOTrainer`: groups whose rewards are all equal are sampled anew.

        class Trainer(DynamicSampling, GRPOTrainer): ...
        Trainer(..., resampling_rounds=3)

    Such a group has no advantage and dilutes the batch (DAPO, arXiv:2503.14476, sec. 3.2). While
    any process holds one, and for at most `resampling_rounds` rounds, every process samples a
    batch of the same shape from prompts drawn at random, and its groups of unequal rewards take
    the places of those of equal ones. What is left then is dropped from the loss and from what the
    loss is divided by.

    Compared is what TRL makes the advantage of: the weighted sum of the rewards, or each reward
    with `multi_objective_aggregation="normalize_then_sum"`. (DAPO's paper compares correctness, so
    with overlong shaping it drops all-incorrect groups that this keeps.) Unknown rewards (None) are
    not compared; a group with fewer than two known ones counts as equal. TRL's own metrics average
    over all rounds; its table of completions shows the batch that is trained on. With 0 rounds it
    is off.

    Raises:
        InputError: the data set has no length or no random access, or has images; a process's
            rollouts are not whole groups; or the loss divides by something else than the tokens of
            the whole batch (`LOSSES` do not).
    """

    def __init__(self, *args: Any, resampling_rounds: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.resampling_rounds = resampling_rounds
        self._total_rewards = self._compared_rewards = torch.empty(0)
        self._drawn_at, self._prompt_draws = -1, np.random.default_rng()
        if not resampling_rounds:
            return
        dataset, config = self.train_dataset, self.args
        why = "and dynamic sampling takes groups out of what the loss is divided by"
        one_of("loss_type", self.loss_type, LOSSES, why)
        has_images = {"image", "images"} & set(getattr(dataset, "column_names", None) or ())
        if has_images or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise InputError(
                f"the training set is a {type(dataset).__name__}; dynamic sampling expects one "
                "with a length and random access, and without images"
            )
        rows = config.per_device_train_batch_size * config.steps_per_generation
        if rows % self.num_generations:
            raise InputError(
                f"each process samples {rows} rollouts at a time (per_device_train_batch_size × "
                "steps_per_generation); dynamic sampling expects a multiple of num_generations, "
                f"{self.num_generations}"
            )

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        rewards: torch.Tensor = super()._calculate_rewards(*args, **kwargs)
        total = (rewards * self.reward_weights.to(rewards).unsqueeze(0)).nansum(dim=1)
        total[rewards.isnan().all(dim=1)] = torch.nan
        self._total_rewards = total
        apart = self.multi_objective_aggregation == "normalize_then_sum"
        self._compared_rewards = rewards if apart else total.unsqueeze(1)
        return rewards

    def _sample_round(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        return output

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        n, size = len(inputs), self.num_generations
        training = self.model.training  # before TRL generates, which may change it
        output = self._sample_round(inputs)
        if not training:
            return output
        metrics = self._metrics["train"]
        equal = self._equal_groups()
        metrics["dynamic_sampling/equal_groups"].append(float(equal.mean()))
        if not self.resampling_rounds:
            return output
        first_row = self.accelerator.process_index * n
        of_process = slice(first_row // size, (first_row + n) // size)
        equal = equal[of_process]
        sources = [(0, row) for row in range(n)]
        rounds, tables = [output], [self._table()]
        # As many rounds on every process, whichever of them holds such a group.
        while len(rounds) <= self.resampling_rounds and self._total(torch.tensor(equal.sum())):
            rounds.append(self._sample_round(self._draw_inputs(n)))
            tables.append(self._table())
            unequal = np.flatnonzero(~self._equal_groups()[of_process])
            # A good group takes the whole place of one that taught nothing: rows of one prompt stay
            # together, as TRL's advantages and our groups expect it.
            for slot, group in zip(np.flatnonzero(equal), unequal, strict=False):
                for i in range(size):
                    sources[slot * size + i] = (len(rounds) - 1, int(group) * size + i)
                equal[slot] = False
        output = merge(rounds, sources, self._tokenizer.pad_token_id)
        if len(rounds) > 1:
            sources = gather_object([(r, first_row + row) for r, row in sources])
            for key, column in self._columns().items():
                if all(len(table.get(key, ())) == len(sources) for table in tables):
                    # It keeps the last batch, so these take the place of the rows that are there.
                    column.extend(tables[r][key][row] for r, row in sources)
        self._drop(output, torch.from_numpy(np.repeat(equal, size)))
        metrics["dynamic_sampling/rounds"].append(len(rounds) - 1)
        return output

    def _equal_groups(self) -> np.ndarray:
        """(groups of all processes,) bool: no reward of the last round differs within the group.
        NaN is not compared."""
        rewards = self._compared_rewards
        groups = rewards.view(-1, self.num_generations, rewards.shape[1])
        highest = groups.nan_to_num(nan=-torch.inf).amax(dim=1)
        lowest = groups.nan_to_num(nan=torch.inf).amin(dim=1)
        # With less than two known rewards the difference is 0 or -inf.
        equal: np.ndarray = (highest - lowest <= 1e-8).all(dim=1).cpu().numpy()
        return equal

    def _total(self, count: torch.Tensor) -> torch.Tensor:
        """Over all processes."""
        total: torch.Tensor = gather(count.to(self.accelerator.device)).sum()
        return total

    def _draw_inputs(self, n_rows: int) -> list[dict[str, Any]]:
        """A process's part of prompts drawn for all, each repeated for its group."""
        # The same draws on every process. They begin anew with each optimizer step, so that a run
        # that goes on from a checkpoint draws the same.
        if (step := self.state.global_step) != self._drawn_at:
            self._prompt_draws = np.random.default_rng([self.args.seed, 1, step])
            self._drawn_at = step
        n_prompts = n_rows // self.num_generations
        total = n_prompts * self.accelerator.num_processes
        n_data = len(self.train_dataset)
        drawn = self._prompt_draws.choice(n_data, size=total, replace=n_data < total)
        first = self.accelerator.process_index * n_prompts
        prompts = [self.train_dataset[int(i)] for i in drawn[first : first + n_prompts]]
        return [dict(row) for row in prompts for _ in range(self.num_generations)]

    def _drop(self, output: dict[str, Any], dropped: torch.Tensor) -> None:
        """Take rollouts out of the loss and out of what the loss is divided by."""
        mask = output["completion_mask"]
        kept = (~dropped).unsqueeze(1).to(mask.device)
        loss_mask = output["completion_mask"] = mask * kept.to(mask.dtype)
        # A model that sees only masked tokens gives log-probabilities of 0: the ratio has to be 1.
        for key in ("old_per_token_logps", "ref_per_token_logps", "sampling_per_token_logps"):
            if key in output:
                output[key] = torch.where(kept, output[key], 0.0)
        if "tool_mask" in output:
            loss_mask = loss_mask * output["tool_mask"]
        # What the losses divide by (grpo_trainer.py:3170).
        output["num_items_in_batch"] = self._total(loss_mask.sum())
        share = int(self._total(dropped.sum())) / (len(dropped) * self.accelerator.num_processes)
        self._metrics["train"]["dynamic_sampling/dropped_groups"].append(share)

    def _columns(self) -> dict[tuple[str, str], Any]:
        """The columns of TRL's table of completions, which holds the last batch."""
        logs = self._logs
        parts = {"": {name: logs[name] for name in ("prompt", "completion", "advantages")}}
        parts |= {part: logs[part] for part in ("rewards", "extra")}
        return {(part, name): x for part, columns in parts.items() for name, x in columns.items()}

    def _table(self) -> dict[tuple[str, str], list[Any]]:
        return {key: list(column) for key, column in self._columns().items()}


def merge(
    rounds: Sequence[Mapping[str, Any]], sources: Sequence[Source], pad_token_id: int
) -> dict[str, Any]:
    """One batch whose row i is `rounds[r]`'s row j, where `sources[i]` is (r, j).

    Rounds differ in width: prompts are padded on the left and everything else on the right, token
    ids with `pad_token_id` and the rest as `FILL` says. A scalar is taken from the first round.
    """
    merged = dict(rounds[0])
    for key, first in rounds[0].items():
        is_tensor = isinstance(first, torch.Tensor)
        if is_tensor and first.dim() == 0:
            continue
        parts = [batch[key] for batch in rounds]
        if is_tensor and first.dim() == 2:
            is_ids = key in ("prompt_ids", "completion_ids")
            value = pad_token_id if is_ids else FILL.get(key, 0)
            width = max(part.shape[1] for part in parts)
            for i, part in enumerate(parts):
                missing = width - part.shape[1]
                sides = (missing, 0) if key.startswith("prompt_") else (0, missing)
                parts[i] = torch.nn.functional.pad(part, sides, value=value)
        rows = [parts[r][row] for r, row in sources]
        merged[key] = torch.stack(rows) if is_tensor else rows
    return merged
