"""TRL's GRPO trainer with key-token advantages."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather, gather_object
from trl import GRPOTrainer

from ktae.arrays import on_host
from ktae.credit import AnEstimator, check_threshold, credit_table, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, resolved
from ktae.rollouts.tokens import vocabulary
from ktae.rollouts.trained_with import TrainedWith
from ktae.tables import table_estimator
from ktae.trainers import strongest
from ktae.trainers.lists import announce, warn_unless_verdicts
from ktae.trainers.metrics import PREFIX, Seen, step_metrics, verdict_metrics
from ktae.trainers.trl.checks import (
    Correctness,
    check_advantages,
    check_arguments,
    check_enough,
    check_infinite,
    check_scores,
    correctness_columns,
    without_policy,
)
from ktae.trainers.trl.dynamic_sampling import DynamicSampling
from ktae.trainers.trl.rollouts import CreditCell, RolloutBatch, Scored


class KTAETrainer(DynamicSampling, GRPOTrainer):
    """`GRPOTrainer` whose advantages are (B, T): TRL's rollout advantage plus the token credit.

    Args:
        *args: as for `trl.GRPOTrainer`.
        credit: an estimator of `ktae.estimators`, the name of a preset, or a function of your own
            from rollouts to credit (`ktae.estimators.CreditFunction`), which is tried on two
            rollouts of one token when the trainer is made. None trains on TRL's advantages,
            untouched.
        correctness: the reward function that says whether a rollout is correct, or its name: above
            `threshold` is correct, None (NaN) is unknown and stays unknown. Of several, such as one
            a task, the first counts that is not None. It may be left out where there is one reward
            function. Not the sum of the rewards, since a length penalty in it would turn correct
            rollouts into incorrect ones.
        threshold: rewards of the `correctness` function above it mean correct. A graded estimator
            takes these rewards as they are.
        on_rollouts: called with every training batch of rollouts of this process.
        **kwargs: as for `trl.GRPOTrainer`, and `resampling_rounds` of `DynamicSampling`.

    Raises:
        InputError: a setting contradicts token-level advantages, or `correctness` names no reward
            function.

    TRL accepts (B, T) advantages "to support subclasses" and promises no more, so the tests hold
    the loss's gradient to them. No TRL method is copied here: each override calls `super()`.
    """

    def __init__(
        self,
        *args: Any,
        credit: AnEstimator | None = "paper",
        correctness: Correctness | None = None,
        threshold: float = 0.0,
        on_rollouts: Callable[[RolloutBatch], None] | None = None,
        **kwargs: Any,
    ) -> None:
        estimator = None if credit is None else resolved(as_estimator(credit, "credit"))
        check_arguments(estimator, *args, **kwargs)
        check_threshold(threshold)
        super().__init__(*args, **kwargs)
        self.credit = estimator
        self.threshold = threshold
        self.on_rollouts = on_rollouts
        if self._tokenizer.pad_token_id is None:
            raise InputError(
                f"the tokenizer ({type(self._tokenizer).__name__}) has neither a padding nor an "
                "end-of-sequence token; set tokenizer.pad_token"
            )
        self._correctness_columns = correctness_columns(self, correctness)
        names = [self.reward_func_names[column] for column in self._correctness_columns]
        self._verdict_name = ", else ".join(names)
        if estimator is not None:
            check_advantages(self, estimator, self._correctness_columns)
        self._trackers = [name for name in strongest.TRACKERS if name in self.args.report_to]
        self._strongest: list[strongest.TokenSums] = []
        self._scored: list[list[Scored]] = []  # of each round of sampling
        self._env_mask: list[list[int]] | None = None
        self._entropies: torch.Tensor | None = None
        self._sampling = False
        self._batches: int | None = None
        self._group_size = self.num_generations
        if self.log_completions and self.accelerator.is_main_process:
            trained_with = TrainedWith.of(
                estimator, names[0] if names[1:] == [] else names, threshold
            )
            trained_with.write(Path(self.args.output_dir, "completions"))
        if estimator is not None:
            self._warm_up(estimator)

    def _warm_up(self, estimator: Estimator) -> None:
        """Load or compile the estimator now: it is no part of the first step.

        A function of the user's that gives something else than credit shows it here.
        """
        ids = torch.tensor([[0], [1]], device=self.accelerator.device)
        mask, correct, groups = torch.ones_like(ids, dtype=torch.uint8), ids[:, 0], ids[:, 0] * 0
        policy = {name: torch.zeros(ids.shape) for name in estimator.needs_policy}
        self._token_credit(estimator, ids, mask, correct.double(), groups, policy)
        tables = table_estimator(estimator)
        credit_table(ids.cpu(), mask.cpu(), correct.cpu(), groups.cpu(), tables)

    def _token_credit(
        self,
        estimator: Estimator,
        ids: torch.Tensor,
        mask: torch.Tensor,
        correct: torch.Tensor,
        groups: torch.Tensor,
        policy: dict[str, torch.Tensor],
    ) -> torch.Tensor:
        texts = vocabulary(self._tokenizer) if estimator.needs_vocabulary else None
        step = self._training_step()
        credit: torch.Tensor = token_credit(
            ids, mask, correct, groups, estimator, vocabulary=texts, step=step, policy=policy
        )
        return credit

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's.

        Raises:
            InputError: the training set has fewer prompts than a batch of rollouts takes.
        """
        check_enough(self.train_dataset, self.args)
        if self.accelerator.is_main_process:
            announce(self.credit, self._verdict_name, self.threshold, self.num_generations)
        self._batches = None  # counted from what a checkpoint says, if it begins with one
        return super().train(*args, **kwargs)

    def _training_step(self) -> int:
        """Batches of rollouts that were made before the present one.

        A trainer that goes on from a checkpoint begins with what TRL counts: optimizer steps, each
        of as many passes, of which a batch takes some.
        """
        if self._batches is not None:
            return self._batches + (not self.model.training)
        args = self.args
        passes = args.gradient_accumulation_steps
        done = self.state.global_step * passes + self._step % passes
        return int(done // (args.steps_per_generation * args.num_iterations))

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's. Its third result is the mask of tools and environments, if there is one, which it
        may zero later on."""
        generated = super()._generate(*args, **kwargs)
        masks = generated[2]
        self._env_mask = (
            None if masks is None else [np.asarray(on_host(mask)).tolist() for mask in masks]
        )
        return generated

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's, which it calls for the log-probabilities of what was sampled, before the rewards.

        The entropies come from the same pass. Later calls are of the reference model or the loss.
        """
        needs = self.credit is not None and "entropies" in self.credit.needs_policy
        if not needs or not self._sampling or self._entropies is not None:
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)
        computed = super()._get_per_token_logps_and_entropies(
            *args, **kwargs | {"compute_entropy": True}
        )
        self._entropies = computed[1]
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
            check_infinite(rewards, self.reward_func_names, self.scale_rewards)
        # TRL gathers the rewards of all processes, rank by rank (grpo_trainer.py:1579), but hands
        # over this process's rows alone.
        n = len(inputs)
        first_row = self.accelerator.process_index * n
        of_process = slice(first_row, first_row + n)
        # Of several verdicts the first that is there counts.
        first, *others = self._correctness_columns
        verdict = rewards[:, first]
        for column in others:
            verdict = torch.where(verdict.isnan(), rewards[:, column], verdict)
        verdict = verdict.masked_fill(verdict.isinf(), torch.nan)
        correct = torch.where(verdict.isnan(), verdict, (verdict > self.threshold).to(verdict))
        is_judged = self.credit is not None and self.credit.score_range is None
        if is_judged and self.accelerator.is_main_process:
            name, groups = self._verdict_name, np.arange(len(verdict)) // self._group_size
            arrays = (on_host(verdict), on_host(correct), groups)
            warn_unless_verdicts(f"reward function {name}", *arrays, self.threshold)
        evidence, correct = verdict[of_process], correct[of_process]
        if self.credit is None or self.credit.score_range is None:
            evidence = correct
        else:
            check_scores(evidence, self.credit, self._verdict_name)
        entropies, self._entropies = self._entropies, None  # the next round's are others
        none: list[Any] = [None] * n
        # As TRL reads it: of a row the places of the completion, and 1 where it is shorter.
        masks = [
            (mask or [])[: len(ids)] + [1] * (len(ids) - len(mask or []))
            for mask, ids in zip(self._env_mask or none, completion_ids_list, strict=True)
        ]
        rollouts = zip(
            inputs,
            map(list, completion_ids_list),
            masks,
            self._total_rewards[of_process],
            correct,
            evidence,
            none if entropies is None else entropies,
            strict=True,
        )
        self._scored.append([Scored(*rollout) for rollout in rollouts])
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._scored = []
        mode = "train" if self.model.training else "eval"  # TRL may change it while it generates
        self._group_size = self.num_generations if mode == "train" else self.num_generations_eval
        if mode == "train":
            self._batches = self._training_step() + (self._batches is not None)
        self._sampling = True
        try:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        finally:
            self._sampling, self._entropies = False, None
        if not self._scored:
            raise RuntimeError("this TRL does not call _calculate_rewards while it generates")
        # The rollouts that dynamic sampling kept, from whichever round they come.
        scored = [self._scored[number][row] for number, row in self._sources]
        correct = torch.stack([rollout.correct for rollout in scored])
        rollout_advantages = output["advantages"]
        credit = torch.zeros_like(output["completion_ids"], dtype=torch.float32)
        if self.credit is None:
            metrics = verdict_metrics(correct, total=_sum)
        else:
            started = _now(rollout_advantages.device)
            seen = self._estimate(output, scored)
            credit = seen.credit[seen.own, : credit.shape[1]]
            # (B, T): the loss unsqueezes advantages of one dimension alone (grpo_trainer.py:3058).
            # Here and not in the loss, for before that TRL shuffles the rows and splits them
            # (grpo_trainer.py:1543): then a row's group is not known any more.
            output["advantages"] = rollout_advantages.unsqueeze(1) + credit
            metrics = step_metrics(
                seen, rollout_advantages, self.credit, total=_sum, largest=_largest
            )
            seconds = _now(rollout_advantages.device) - started
            seconds = _largest(torch.tensor([seconds], device=credit.device)).item()
            metrics[f"{PREFIX}seconds"] = seconds
            if self._trackers and mode == "train":
                self._strongest.append(strongest.token_sums(seen))
            if self.log_completions:
                shown = [
                    CreditCell(round(x, 5) for x in row[: len(rollout.token_ids)])
                    for row, rollout in zip(credit.tolist(), scored, strict=True)
                ]
                self._logs["extra"]["token_credit"].extend(gather_object(shown))
        for name, value in metrics.items():
            self._metrics[mode][name].append(value)
        if self.on_rollouts is not None and mode == "train":
            self.on_rollouts(
                RolloutBatch(
                    step=self.state.global_step,
                    inputs=[rollout.inputs for rollout in scored],
                    token_ids=[rollout.token_ids for rollout in scored],
                    masks=[rollout.mask for rollout in scored],
                    rewards=torch.stack([rollout.reward for rollout in scored]),
                    correct=correct,
                    advantages=rollout_advantages,
                    credit=credit,
                    first_row=self.accelerator.process_index * len(scored),
                )
            )
        return output

    def _estimate(self, output: dict[str, Any], scored: list[Scored]) -> Seen:
        """The credit of the whole groups that this process's n rollouts belong to.

        Groups may be split over processes, so completions are gathered.
        """
        assert self.credit is not None
        n, ids = len(scored), output["completion_ids"]
        # Not TRL's completion_mask or tool_mask: `mask_truncated_completions` zeroes whole rows of
        # those, and a truncated rollout is still evidence on its tokens. As bytes, for where
        # accelerate pads a bool tensor it becomes int64, on some processes only.
        mask = torch.zeros(ids.shape, dtype=torch.uint8)
        for row, rollout in enumerate(scored):
            mask[row, : len(rollout.mask)] = torch.tensor(rollout.mask)
        policy = self._of_policy(output, scored)
        correct = torch.stack([rollout.correct for rollout in scored])
        evidence = torch.stack([rollout.evidence for rollout in scored])
        if "entropies" in policy and self.mask_truncated_completions:
            # TRL gives entropies of 0 throughout truncated rollouts: those are no evidence.
            unknown = (policy["entropies"] == 0).all(dim=1)
            evidence = evidence.masked_fill(unknown, torch.nan)
        # Groups are consecutive rows over all ranks, and a rank's rows may begin within one.
        group_size = self._group_size
        first_row = self.accelerator.process_index * n
        start = first_row // group_size * group_size
        stop = -(-(first_row + n) // group_size) * group_size

        def touched(values: torch.Tensor) -> torch.Tensor:
            if values.dim() == 2:  # each process pads to its own longest completion
                values = self.accelerator.pad_across_processes(values, dim=1)
            gathered: torch.Tensor = gather(values)[start:stop]
            return gathered

        batch = (touched(ids), touched(mask.to(ids.device)), touched(evidence))
        groups = torch.arange(stop - start) // group_size
        of_policy = {name: touched(values) for name, values in policy.items()}
        credit = self._token_credit(self.credit, *batch, groups, of_policy)
        of_process = slice(first_row - start, first_row - start + n)
        return Seen(*batch, touched(correct), groups, credit, of_process)

    def _of_policy(self, output: dict[str, Any], scored: list[Scored]) -> dict[str, torch.Tensor]:
        """(n, T) each, what the estimator needs of the policy: TRL's own, of its own pass."""
        assert self.credit is not None
        policy: dict[str, torch.Tensor] = {}
        for name in sorted(self.credit.needs_policy):
            # TRL leaves them out where the sampling policy is the one in the loss
            # (grpo_trainer.py:2657): there every ratio is 1.
            values = output.get("old_per_token_logps")
            if name == "entropies":
                values = self._padded_entropies(output["completion_ids"], scored)
            if values is None:
                raise InputError(without_policy(self.credit, name))
            policy[name] = values.float()
        return policy

    def _padded_entropies(self, ids: torch.Tensor, scored: list[Scored]) -> torch.Tensor | None:
        padded = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)
        for row, rollout in enumerate(scored):
            if rollout.entropies is None:
                return None
            width = min(len(rollout.entropies), ids.shape[1])
            padded[row, :width] = rollout.entropies[:width]
        return padded

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, with the estimator's share of the time that the steps since the last took, and
        the strongest tokens of those steps."""
        metrics = self._metrics["train" if self.model.training else "eval"]
        step_time = sum(metrics.get("step_time", ()))
        if step_time > 0 and f"{PREFIX}seconds" in metrics:
            share = sum(metrics[f"{PREFIX}seconds"]) / step_time
            metrics[f"{PREFIX}step_share"].append(share)
        super().log(logs, start_time)
        if self._strongest and self.model.training:
            sums = strongest.merged(gather_object(self._strongest))
            self._strongest = []
            if self.accelerator.is_main_process:
                rows = strongest.rows_of(sums, self._tokenizer)
                more = {"train/global_step": self.state.global_step}
                strongest.log(self._trackers, rows, **more)


def _sum(values: torch.Tensor) -> torch.Tensor:
    """Over processes."""
    # accelerate gathers along the first dimension, which a scalar lacks.
    total: torch.Tensor = gather(values.unsqueeze(0)).sum(dim=0)
    return total


def _largest(values: torch.Tensor) -> torch.Tensor:
    """The largest values over all processes."""
    largest: torch.Tensor = gather(values.unsqueeze(0)).amax(dim=0)
    return largest


def _now(device: torch.device) -> float:
    """Seconds on a clock, with the device's work so far done: a GPU would otherwise not be timed.

    TRL itself waits for the device at this point, when it takes the rewards' means.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
