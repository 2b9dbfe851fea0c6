"""What token-level advantages need of a trainer's settings, checked before anything is sampled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer

from ktae.errors import InputError, expected_one_of
from ktae.estimators import AdvantageEstimator, Estimator
from ktae.estimators.transforms import innermost, require_scale
from ktae.trainers.settings import one_of

Correctness = str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
"""The reward function that says what is correct, or its name; or several."""


def check_config(estimator: Estimator | None, config: GRPOConfig) -> None:
    """Refuse, before the model is loaded, settings that would erase token credit, or keep from the
    estimator what it needs."""
    if estimator is None:
        return
    level = config.importance_sampling_level
    one_of("importance_sampling_level", level, ("token",), "which averages token advantages away")
    # TRL runs the policy over what it sampled before it computes advantages where a batch of
    # rollouts serves several optimizer steps, and to correct vLLM's log-probabilities.
    steps = (config.steps_per_generation or 1) * config.num_iterations
    corrects = config.use_vllm and config.vllm_importance_sampling_correction
    if config.gradient_accumulation_steps % steps == 0 and not corrects:
        for name in sorted(estimator.needs_policy):
            raise without_policy(estimator, name)


def check_loss(trainer: type) -> None:
    """Refuse a class with the loss of another trainer of TRL's, which was not looked at."""
    owner = next(c for c in trainer.__mro__ if "_compute_loss" in vars(c))
    if owner is not GRPOTrainer and owner.__module__.startswith("trl."):
        raise InputError(
            f"{trainer.__name__} has the loss of {owner.__name__}, which is not known to take an "
            "advantage for each token; expected trl.GRPOTrainer's, or credit=None"
        )


def without_policy(estimator: Estimator, name: str) -> InputError:
    """The error where TRL hands over no log-probabilities or entropies."""
    return InputError(
        f"{estimator} needs {name}, and TRL computes none before the loss where each batch of "
        "rollouts serves one optimizer step; set steps_per_generation (a recipe's "
        "algorithm.minibatches) or num_iterations (algorithm.epochs) so that it serves two or more"
    )


def check_advantages(trainer: GRPOTrainer, estimator: Estimator, columns: Sequence[int]) -> None:
    """Refuse TRL's scale for an estimator that changes the rollout advantage: it computes that
    itself, of the verdicts. Warn of other rewards."""
    config, names = trainer.args, trainer.reward_func_names
    # TRL's advantage is of the weighted sum of the rewards.
    weights = trainer.reward_weights.tolist()
    scaled = {"group": True, "none": False}.get(config.scale_rewards)
    what = f"scale_rewards is {config.scale_rewards!r}"
    if config.multi_objective_aggregation != "sum_then_normalize":
        scaled = None
        what = f"multi_objective_aggregation is {config.multi_objective_aggregation!r}"
    elif not scaled and any(weights[column] != 1 for column in columns):
        scaled, what = None, f"{what} with reward_weights {config.reward_weights}"
    require_scale(estimator, scaled, what)
    others = [name for i, name in enumerate(names) if i not in columns and weights[i]]
    if isinstance(innermost(estimator), AdvantageEstimator) and others:
        logging.getLogger(__name__).warning(
            f"{estimator} changes the rollout advantage that the verdicts alone give; where the "
            f"other rewards ({', '.join(others)}) differ within a group, a token's advantage is "
            "too large or too small, and may turn its sign"
        )


def check_enough(data: Any, config: GRPOConfig) -> None:
    """Raise an InputError for a training set of fewer prompts than a batch of rollouts takes."""
    prompts = config.generation_batch_size // config.num_generations
    if hasattr(data, "__len__") and len(data) < prompts:
        raise InputError(
            f"the training set has prompts: {len(data)}; expected {prompts}, as many as a batch of "
            "rollouts takes (generation_batch_size / num_generations; a recipe's "
            "rollout.prompts_per_step): TRL would train on nothing"
        )


def correctness_columns(
    names: Sequence[str], functions: Sequence[Any], correctness: Correctness | None
) -> list[int]:
    """Which reward functions say whether a rollout is correct: the first that can tell counts.

    Raises:
        InputError: there are several and none is named, or a name is not one function's.
    """
    if not correctness:
        if len(names) == 1:
            return [0]
        choice = " or ".join(map(repr, dict.fromkeys(names)))
        raise InputError(f"there are {len(names)} reward functions; set correctness={choice}")
    columns = []
    for entry in correctness if isinstance(correctness, list | tuple) else [correctness]:
        places = [i for i, name in enumerate(names) if entry == name or entry is functions[i]]
        if len(places) != 1:
            hint = "expected the function itself" if places else expected_one_of(names, entry)
            raise InputError(
                f"correctness is {entry!r}, and {len(places) or 'no'} reward functions are; {hint}"
            )
        columns += places
    return columns


def check_infinite(rewards: torch.Tensor, names: Sequence[str]) -> None:
    """Refuse an infinite one of the (n, functions) rewards: TRL's loss would be NaN, or without a
    word its group would have no advantages."""
    if len(places := rewards.isinf().nonzero().tolist()):
        row, column = places[0]
        raise InputError(
            f"the reward function {names[column]} gave {float(rewards[row, column])}; expected a "
            "finite number, or None where it cannot tell"
        )


def turn_rewards_of(inputs: Sequence[dict[str, Any]], environments: Any) -> list[list[float]]:
    """The rewards of each rollout's turns: of its environment, or of a column of its row.

    Raises:
        InputError: a rollout has none.
    """
    rows = []
    for i, row in enumerate(inputs):
        rewards = row.get("turn_rewards")
        if rewards is None and environments is not None:
            rewards = getattr(environments[i], "turn_rewards", None)
        if rewards is None:
            raise InputError(
                f"rollout {i} of the batch has no turn_rewards; expected an attribute of that name "
                "of its environment (one number for each turn), or a column of the rollout_func"
            )
        rows.append([float(reward) for reward in rewards])
    return rows
