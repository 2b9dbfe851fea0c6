"""TRL's GRPO trainer with key-token advantages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from accelerate.utils import gather, gather_object
from trl import GRPOTrainer

from ktae.config import KTAEConfig
from ktae.custom import Estimator, estimator_terms, takes_scores
from ktae.estimator import check_threshold, key_token_table
from ktae.trl.checks import (
    check_arguments,
    check_decay_steps,
    check_padding,
    check_scores,
    correctness_column,
)
from ktae.trl.dynamic_sampling import DynamicSampling
from ktae.trl.metrics import Estimated, step_metrics, table_config


class RolloutBatch(NamedTuple):
    """One generation batch of this process, as the trainer hands it to `on_rollouts`."""

    step: int
    """Optimizer steps done before these rollouts were sampled."""
    inputs: list[dict[str, Any]]
    """The data set's rows, one for each of the n rollouts."""
    token_ids: list[list[int]]
    """The n completions, unpadded."""
    rewards: torch.Tensor
    """(n,) the sum of the weighted reward functions; NaN where none could tell."""
    correct: torch.Tensor
    """(n,) 1, 0, or NaN for unknown."""
    advantages: torch.Tensor
    """(n,) TRL's rollout advantages."""
    terms: torch.Tensor
    """(n, T) key-token terms, right-padded with 0."""
    first_row: int
    """Global number of the first rollout; a group is `num_generations` consecutive rollouts."""


class _Scored(NamedTuple):
    """What `_calculate_rewards` keeps of one round of sampling: this process's n rollouts."""

    inputs: list[dict[str, Any]]
    token_ids: list[list[int]]
    tool_mask: list[list[int]] | None
    """0 where a tool wrote the token and not the policy."""
    rewards: torch.Tensor
    correct: torch.Tensor
    evidence: torch.Tensor
    """(n,) what the estimator gets for `correct`: the same, or with a graded config the scores."""


class KTAETrainer(DynamicSampling, GRPOTrainer):
    """`GRPOTrainer` whose advantages are (B, T): TRL's rollout advantage plus the key-token term.

    Args:
        *args: as for `trl.GRPOTrainer`.
        ktae: the estimator's settings, or a function of your own from rollouts to terms
            (`ktae.custom.TermFunction`), which is tried on two rollouts of one token when the
            trainer is made; None trains on TRL's advantages, untouched.
        correctness: the name of the reward function that says whether a rollout is correct: above
            `threshold` is correct, None (NaN) is unknown and stays unknown. It may be left out
            where there is one reward function. Not the sum of the rewards, since a length penalty
            in it would turn correct rollouts into incorrect ones.
        threshold: rewards of the `correctness` function above it mean correct. With a graded
            config the estimator takes these rewards as they are.
        decay_steps: the terms' weight falls linearly from 1 to 0 over so many optimizer steps; 0
            keeps it at 1. What tokens tell may be worth much early and nothing late:
            `ktae-lab align` along a run shows it.
        on_rollouts: called with every training batch of rollouts of this process.
        **kwargs: as for `trl.GRPOTrainer`, and `resampling_rounds` of `DynamicSampling`.

    Raises:
        InputError: a setting contradicts token-level advantages, or `correctness` names no
            reward function.

    TRL accepts (B, T) advantages "to support subclasses" and promises no more, so the tests hold
    the loss's gradient to them. No TRL method is copied here: each override calls `super()`.
    """

    def __init__(
        self,
        *args: Any,
        ktae: Estimator | None = KTAEConfig.paper(),  # noqa: B008  # frozen
        correctness: str | None = None,
        threshold: float = 0.0,
        decay_steps: int = 0,
        on_rollouts: Callable[[RolloutBatch], None] | None = None,
        **kwargs: Any,
    ) -> None:
        check_arguments(ktae, *args, **kwargs)
        check_decay_steps(decay_steps)
        check_threshold(threshold)
        super().__init__(*args, **kwargs)
        self.ktae = ktae
        self.threshold = threshold
        self.decay_steps = decay_steps
        self.on_rollouts = on_rollouts
        check_padding(self._tokenizer)
        self._correctness_column = correctness_column(self.reward_func_names, correctness)
        self._scored: list[_Scored] = []
        self._tool_mask: list[list[int]] | None = None
        if ktae is not None:
            self._warm_up(ktae)

    def _warm_up(self, ktae: Estimator) -> None:
        """Load or compile the estimator now: it is no part of the first step.

        A function of the user's that gives something else than terms shows it here.
        """
        ids = torch.tensor([[0], [1]], device=self.accelerator.device)
        mask, correct, groups = torch.ones_like(ids, dtype=torch.uint8), ids[:, 0], ids[:, 0] * 0
        estimator_terms(ktae, ids, mask, correct.double(), groups, tokenizer=self._tokenizer)
        config = table_config(ktae)
        key_token_table(ids.cpu(), mask.cpu(), correct.cpu(), groups.cpu(), config)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        """TRL's. Its third result is the tool mask, which it may zero later on."""
        generated = super()._generate(*args, **kwargs)
        self._tool_mask = generated[2]
        return generated

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        first_row = self.accelerator.process_index * len(inputs)
        own = slice(first_row, first_row + len(inputs))
        verdict = rewards[own, self._correctness_column]
        if takes_scores(self.ktae):
            check_scores(verdict, self.ktae, self.reward_func_names[self._correctness_column])
        correct = torch.where(verdict.isnan(), verdict, (verdict > self.threshold).to(verdict))
        token_ids = [list(ids) for ids in completion_ids_list]
        self._scored.append(
            _Scored(
                inputs,
                token_ids,
                self._tool_mask,
                self._total_rewards[own],
                correct,
                verdict if takes_scores(self.ktae) else correct,
            )
        )
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._scored = []
        mode = "train" if self.model.training else "eval"  # TRL may change it while it generates
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        scored = self._merged_scores()
        rollout_advantages = output["advantages"]
        terms = torch.zeros_like(output["completion_ids"], dtype=torch.float32)
        if self.ktae is not None:
            started = _now(rollout_advantages.device)
            estimated = self._estimate(output, scored, mode)
            terms = estimated.terms[estimated.own, : terms.shape[1]]
            output["advantages"] = rollout_advantages.unsqueeze(1) + terms
            metrics = step_metrics(estimated, rollout_advantages, self.ktae)
            metrics["weight"] = self._term_weight()
            seconds = _now(rollout_advantages.device) - started
            metrics["seconds"] = gather(torch.tensor([seconds], device=terms.device)).max().item()
            for name, value in metrics.items():
                self._metrics[mode][f"ktae/{name}"].append(value)
            if self.log_completions:
                rows = zip(terms.tolist(), scored.token_ids, strict=True)
                own = [[round(x, 5) for x in row[: len(ids)]] for row, ids in rows]
                self._logs["extra"]["token_terms"].extend(gather_object(own))
        if self.on_rollouts is not None and mode == "train":
            self.on_rollouts(
                RolloutBatch(
                    step=self.state.global_step,
                    inputs=scored.inputs,
                    token_ids=scored.token_ids,
                    rewards=scored.rewards,
                    correct=scored.correct,
                    advantages=rollout_advantages,
                    terms=terms,
                    first_row=self.accelerator.process_index * len(scored.token_ids),
                )
            )
        return output

    def _merged_scores(self) -> _Scored:
        """Of the rollouts that dynamic sampling kept, from whichever round they come."""
        rounds, self._scored = self._scored, []
        if not rounds:
            raise RuntimeError("this TRL does not call _calculate_rewards while it generates")
        kept = [(rounds[r], row) for r, row in self._sources]
        return _Scored(
            [scored.inputs[row] for scored, row in kept],
            [scored.token_ids[row] for scored, row in kept],
            None
            if rounds[0].tool_mask is None
            else [(scored.tool_mask or [])[row] for scored, row in kept],
            torch.stack([scored.rewards[row] for scored, row in kept]),
            torch.stack([scored.correct[row] for scored, row in kept]),
            torch.stack([scored.evidence[row] for scored, row in kept]),
        )

    def _token_mask(self, output: dict[str, Any], scored: _Scored) -> torch.Tensor:
        """(n, T) uint8: 1 where the policy wrote the token, truncated rollouts included.

        Not TRL's completion_mask or tool_mask: `mask_truncated_completions` zeroes whole rows of
        those, and a truncated rollout is still evidence on its tokens.
        """
        ids = output["completion_ids"]
        mask = torch.zeros(ids.shape, dtype=torch.uint8)
        for row, own in enumerate(scored.tool_mask or scored.token_ids):
            mask[row, : len(own)] = torch.tensor(own) if scored.tool_mask else 1
        return mask.to(ids.device)

    def _estimate(self, output: dict[str, Any], scored: _Scored, mode: str) -> Estimated:
        """The key-token terms of the whole groups that this process's n rollouts belong to.

        Groups may be split over processes, so completions are gathered.
        """
        assert self.ktae is not None
        n = len(output["completion_ids"])
        ids = gather(self.accelerator.pad_across_processes(output["completion_ids"], dim=1))
        # As bytes: where accelerate pads a bool tensor it becomes int64, on some processes only.
        mask = self._token_mask(output, scored)
        mask = gather(self.accelerator.pad_across_processes(mask, dim=1))
        correct, evidence = gather(scored.correct), gather(scored.evidence)
        group_size = self.num_generations if mode == "train" else self.num_generations_eval
        first_row = self.accelerator.process_index * n
        start = first_row // group_size * group_size
        stop = -(-(first_row + n) // group_size) * group_size
        touched = slice(start, stop)
        batch = (ids[touched], mask[touched], evidence[touched])
        groups = torch.arange(stop - start) // group_size
        terms = estimator_terms(self.ktae, *batch, groups, tokenizer=self._tokenizer)
        if self.decay_steps:
            terms = self._term_weight() * terms
        own = slice(first_row - start, first_row - start + n)
        return Estimated(*batch, correct[touched], groups, own, terms)

    def _term_weight(self) -> float:
        """What the terms of this step are multiplied by."""
        if self.decay_steps == 0:
            return 1.0
        done: int = self.state.global_step
        return max(0.0, 1.0 - done / self.decay_steps)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's, with the estimator's share of the time that the steps since the last took."""
        metrics = self._metrics["train" if self.model.training else "eval"]
        step_time = sum(metrics.get("step_time", ()))
        if step_time > 0 and "ktae/seconds" in metrics:
            metrics["ktae/step_share"].append(sum(metrics["ktae/seconds"]) / step_time)
        super().log(logs, start_time)


def _now(device: torch.device) -> float:
    """Seconds on a clock, with the device's work so far done: a GPU would otherwise not be timed.

    TRL itself waits for the device at this point, when it takes the rewards' means.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
