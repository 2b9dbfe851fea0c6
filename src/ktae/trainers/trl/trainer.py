"""TRL's GRPO trainer with key-token advantages."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from types import EllipsisType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather, gather_object
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOTrainer

from ktae.arrays import above, on_host
from ktae.credit import AnEstimator
from ktae.estimators import as_estimator, resolved, to_text
from ktae.trainers.lists import scored
from ktae.trainers.metrics import PREFIX, Scored, verdict_metrics
from ktae.trainers.settings import Settings, announce
from ktae.trainers.trl import checks
from ktae.trainers.trl.checks import Correctness
from ktae.trainers.trl.config import with_settings
from ktae.trainers.trl.dynamic_sampling import DynamicSampling


class RolloutBatch(NamedTuple):
    """One generation batch of this process, as the trainer hands it to `on_rollouts`."""

    step: int
    """Optimizer steps done before these rollouts were sampled."""
    inputs: list[dict[str, Any]]
    """The data set's rows, one for each of the n rollouts."""
    token_ids: list[list[int]]
    """The n completions, unpadded."""
    masks: list[list[int]]
    """For each token of each of them 1, or 0 where a tool or an environment wrote it."""
    rewards: torch.Tensor
    """(n,) the sum of the weighted reward functions; NaN where none could tell."""
    correct: torch.Tensor
    """(n,) 1, 0, or NaN for unknown."""
    advantages: torch.Tensor
    """(n,) TRL's rollout advantages."""
    credit: torch.Tensor
    """(n, T) token credit, right-padded with 0."""
    first_row: int
    """Global number of the first rollout; a group is `num_generations` consecutive rollouts."""


class CreditCell(list[float]):
    """A rollout's credit in the table of completions, which TRL also prints: in few words."""

    def __str__(self) -> str:
        """How many numbers it has, and the largest."""
        return f"{len(self)} tokens, |max| {max(map(abs, self), default=0):.2f}"


def of_processes(values: np.ndarray) -> np.ndarray:
    """(processes, n) of each process's (n,) numbers."""
    return np.asarray(on_host(gather(torch.tensor(values[None], device=PartialState().device))))


def now(device: torch.device) -> float:
    """Seconds on a clock, with a GPU's work so far done. TRL waits for it at this point, too."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class KTAETrainer(DynamicSampling, GRPOTrainer):
    """`GRPOTrainer` whose advantages are (B, T): TRL's rollout advantage plus the token credit.

    Args:
        *args: as for `trl.GRPOTrainer`. `args` may be a `KTAEConfig`, which has the next three as
            fields; given here, they go before it.
        credit: an estimator of `ktae.estimators`, the name of one, or a function of your own
            from rollouts to credit (`ktae.estimators.CreditFunction`). None trains on TRL's
            advantages, untouched.
        correctness: the reward function that says whether a rollout is correct, or its name: above
            `threshold` is correct, None (NaN) is unknown. Of several, such as one a task, the first
            counts that is not None. It may be left out where there is one reward function.
        threshold: see `correctness`. A graded estimator takes these rewards as they are.
        on_rollouts: called with every training batch of rollouts of this process.
        **kwargs: as for `trl.GRPOTrainer`, and `resampling_rounds` of `DynamicSampling`.

    An estimator of rewards by turn takes them from the attribute `turn_rewards` of a rollout's
    environment, or from a column of that name of the data set or of the `rollout_func`.

    Raises:
        InputError: a setting contradicts token-level advantages, or `correctness` names no reward
            function.

    TRL accepts (B, T) advantages "to support subclasses" and promises no more, so the tests hold
    the loss's gradient to them. No TRL method is copied here: each override calls `super()`.
    """

    _tag_names: ClassVar[list[str]] = [*GRPOTrainer._tag_names, "ktae"]

    def __init__(
        self,
        *args: Any,
        credit: AnEstimator | EllipsisType | None = ...,
        correctness: Correctness | None = None,
        threshold: float | None = None,
        on_rollouts: Callable[[RolloutBatch], None] | None = None,
        **kwargs: Any,
    ) -> None:
        rounds = {k: kwargs.pop(k) for k in ("resampling_rounds",) if k in kwargs}
        arguments = dict(inspect.signature(GRPOTrainer).bind_partial(*args, **kwargs).arguments)
        short: dict[str, Any] = {"correctness": correctness, "threshold": threshold}
        keywords = {name: value for name, value in short.items() if value is not None}
        if credit is not ...:  # None means something
            keywords["credit"] = credit
        config = arguments["args"] = with_settings(arguments, keywords)
        estimator = None
        if config.credit is not None:
            estimator = resolved(as_estimator(config.credit, "credit"))
            checks.check_loss(type(self))
            checks.check_config(estimator, config)
        self.credit, self.threshold, self.on_rollouts = estimator, config.threshold, on_rollouts
        config.credit = None if estimator is None else to_text(estimator)
        super().__init__(**arguments, **rounds)
        checks.check_enough(self.train_dataset, self.args)
        names, self._correctness_columns = self.reward_func_names, []
        if estimator is not None or config.correctness is not None or len(names) == 1:
            columns = checks.correctness_columns(names, self.reward_funcs, config.correctness)
            self._correctness_columns = columns
        chosen = [names[column] for column in self._correctness_columns]
        self._correctness_name = ", else ".join(chosen)
        if config.correctness is not None:
            self.args.correctness = chosen  # names, also where functions were given
        self._kept: dict[str, Any] = {}  # of the present round of sampling
        self._env_mask: list[list[int]] | None = None
        self._sampling = False
        self._group_size = self.num_generations
        if estimator is not None:
            checks.check_advantages(self, estimator, self._correctness_columns)
            self._settings = Settings(
                estimator, self._correctness_name, self.threshold, self._tokenizer
            ).tried("log_probs", "entropies")
            self._name = f"{GRPOTrainer._name} with token credit (ktae, {to_text(estimator)})"

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's."""
        if self.accelerator.is_main_process:
            announce(self.credit, self._correctness_name, self.threshold, self.num_generations)
        return super().train(*args, **kwargs)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        generated = super()._generate(*args, **kwargs)
        masks = generated[2]  # of tools and environments; TRL may zero it later on
        self._env_mask = (
            None if masks is None else [np.asarray(on_host(mask)).tolist() for mask in masks]
        )
        return generated

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's, whose first call is of what was sampled: the entropies come from the same pass.
        Later calls are of the reference model or the loss."""
        needs = self.credit is not None and "entropies" in self.credit.needs_policy
        if not needs or not self._sampling or "rollout_entropies" in self._kept:
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)
        kwargs |= {"compute_entropy": True}
        computed = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._kept["rollout_entropies"] = computed[1]
        return computed

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if self.credit is not None:
            checks.check_infinite(rewards, self.reward_func_names)
        # The first of several that gave a number counts; without any all are unknown.
        score = torch.full_like(rewards[:, 0], torch.nan)
        for column in self._correctness_columns:
            score = torch.where(score.isnan(), rewards[:, column], score)
        correct = torch.where(score.isnan(), score, above(score, self.threshold).to(score))
        # TRL gathers the rewards of all processes, rank by rank (grpo_trainer.py:1579), but hands
        # over this process's rows alone.
        n = len(inputs)
        first_row = self.accelerator.process_index * n
        of_process = slice(first_row, first_row + n)
        # As TRL reads it: of a row the places of the completion, and 1 where it is shorter.
        masks = [
            mask[: len(ids)] + [1] * (len(ids) - len(mask))
            for mask, ids in zip(self._env_mask or [[]] * n, completion_ids_list, strict=True)
        ]
        self._kept |= {
            "rollout_inputs": inputs,
            "rollout_token_ids": list(map(list, completion_ids_list)),
            "rollout_masks": masks,
            "rollout_rewards": self._total_rewards[of_process],
            "rollout_scores": score[of_process],
            "rollout_correct": correct[of_process],
        }
        if self.credit is not None and self.credit.needs_turn_rewards:
            self._kept["rollout_turn_rewards"] = checks.turn_rewards_of(inputs, self.environments)
        return rewards

    def _sample_round(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """With what is kept of each rollout: dynamic sampling may take some of several rounds."""
        self._kept = {}
        self._sampling = True
        try:
            return super()._sample_round(inputs) | self._kept
        finally:
            self._sampling = False

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        mode = "train" if self.model.training else "eval"  # TRL may change it while it generates
        self._group_size = self.num_generations if mode == "train" else self.num_generations_eval
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        prefix = "rollout_"
        names = [name for name in output if name.startswith(prefix)]
        kept = {name.removeprefix(prefix): output.pop(name) for name in names}
        rollout_advantages = output["advantages"]
        credit = torch.zeros_like(output["completion_ids"], dtype=torch.float32)
        metrics = {}
        if self.credit is None:
            if self._correctness_columns:
                metrics = verdict_metrics(kept["correct"], of_processes)
        else:
            started = now(rollout_advantages.device)
            result = self._estimate(output, kept)
            credit = result.credit[result.own, : credit.shape[1]]
            # (B, T): the loss unsqueezes advantages of one dimension alone (grpo_trainer.py:3058).
            # Here and not in the loss, for before that TRL shuffles the rows and splits them
            # (grpo_trainer.py:1543): then a row's group is not known any more.
            output["advantages"] = rollout_advantages.unsqueeze(1) + credit
            metrics = result.metrics(rollout_advantages, gather=of_processes)
            seconds = now(rollout_advantages.device) - started
            metrics[f"{PREFIX}seconds"] = float(of_processes(np.array([seconds])).max())
            self._log_advantages(output["advantages"], credit, kept)
        for name, value in metrics.items():
            self._metrics[mode][name].append(value)
        if self.on_rollouts is not None and mode == "train":
            batch = RolloutBatch(
                step=self.state.global_step,
                advantages=rollout_advantages,
                credit=credit,
                first_row=self.accelerator.process_index * len(credit),
                **{name: value for name, value in kept.items() if name in RolloutBatch._fields},
            )
            self.on_rollouts(batch)
        return output

    def _log_advantages(
        self, advantages: torch.Tensor, credit: torch.Tensor, kept: dict[str, Any]
    ) -> None:
        """In TRL's table of completions, what trains instead of what TRL computed: each rollout's
        mean over the tokens of the policy. With `log_completions` its credit by token, too."""
        means, cells = [], []
        for row, values, mask in zip(advantages, credit.tolist(), kept["masks"], strict=True):
            counted = row[: len(mask)][torch.tensor(mask, device=row.device) != 0]
            means.append(float(counted.mean()) if len(counted) else 0.0)
            cells.append(CreditCell(round(x, 5) for x in values[: len(mask)]))
        means = gather_object(means)
        logged = self._logs["advantages"]
        for _ in range(min(len(means), len(logged))):
            logged.pop()
        logged.extend(means)
        if self.log_completions:
            self._logs["extra"]["token_credit"].extend(gather_object(cells))

    def _estimate(self, output: dict[str, Any], kept: dict[str, Any]) -> Scored:
        """The credit of the whole groups that this process's n rollouts belong to, which may be
        split over processes."""
        estimator, ids, scores = self._settings.estimator, output["completion_ids"], kept["scores"]
        # Not TRL's completion_mask or tool_mask: `mask_truncated_completions` zeroes whole rows of
        # those, and a truncated rollout is still evidence on its tokens. As bytes, for where
        # accelerate pads a bool tensor it becomes int64, on some processes only.
        mask = torch.zeros(ids.shape, dtype=torch.uint8)
        for row, of_row in enumerate(kept["masks"]):
            mask[row, : len(of_row)] = torch.tensor(of_row)
        # TRL leaves log-probabilities out where the sampling policy is the one in the loss
        # (grpo_trainer.py:2657): there every ratio is 1.
        known = {"log_probs": output.get("old_per_token_logps"), "entropies": kept.get("entropies")}
        policy: dict[str, Any] = {name: known[name] for name in sorted(estimator.needs_policy)}
        for name, values in policy.items():
            if values is None:
                raise checks.without_policy(estimator, name)
        if "entropies" in policy and self.mask_truncated_completions:
            # TRL gives entropies of 0 throughout truncated rollouts: those are no evidence.
            scores = scores.masked_fill((policy["entropies"] == 0).all(dim=1), torch.nan)
        # Groups are consecutive rows over all ranks, and a rank's rows may begin within one.
        n, size = len(ids), self._group_size
        first_row = self.accelerator.process_index * n
        start, stop = first_row // size * size, -(-(first_row + n) // size) * size

        def touched(values: torch.Tensor) -> torch.Tensor:
            if values.dim() == 2:  # each process pads to its own longest completion
                fill = torch.nan if values.dtype == torch.float64 else 0  # turn rewards
                values = self.accelerator.pad_across_processes(values, dim=1, pad_index=fill)
            gathered: torch.Tensor = gather(values)[start:stop]
            return gathered

        batch = (touched(ids), touched(mask.to(ids.device)), touched(scores))
        groups = np.arange(stop - start) // size
        options: dict[str, Any] = {
            "policy": {name: touched(values.float()) for name, values in policy.items()}
        }
        if estimator.needs_turn_rewards:
            rows = [torch.tensor(row).double() for row in kept["turn_rewards"]]
            padded = pad_sequence(rows, batch_first=True, padding_value=torch.nan)
            options["turn_rewards"] = touched(padded.to(ids.device))
        result = scored(*batch, groups.tolist(), self._settings, **options)
        of_process = slice(first_row - start, first_row - start + n)
        return result._replace(correct=touched(kept["correct"]), own=of_process)
