"""What token-level advantages need of a trainer's settings, checked before anything is sampled."""

from __future__ import annotations

import inspect
import logging
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from ktae.arrays import on_host
from ktae.batch import in_words, out_of_range
from ktae.errors import InputError
from ktae.estimators import AdvantageEstimator, Estimator
from ktae.estimators.transforms import innermost, require_scale
from ktae.files.text import counted


def check_arguments(
    estimator: Estimator | None, /, *args: Any, correctness: str | None = None, **kwargs: Any
) -> None:
    """Refuse, before the model is loaded, settings of `GRPOTrainer` that contradict an estimator.

    `correctness` names the reward function that says whether a rollout is correct.

    Raises:
        InputError: a setting would erase token credit, or keeps from the estimator what it needs.
    """
    kwargs.pop("resampling_rounds", None)  # DynamicSampling's
    arguments = inspect.signature(GRPOTrainer).bind_partial(*args, **kwargs).arguments
    config = arguments.get("args")
    if config is None:
        return
    if not isinstance(config, GRPOConfig):
        raise InputError(
            f"args is a {type(config).__name__}; expected a trl.GRPOConfig (asynchronous GRPO "
            "takes one advantage a rollout)"
        )
    if estimator is None:
        return
    if config.importance_sampling_level != "token":
        raise InputError(
            f"importance_sampling_level is {config.importance_sampling_level!r}, which averages "
            "token advantages away; set it to 'token', or credit=None"
        )
    if config.use_liger_kernel:
        raise InputError(
            "use_liger_kernel is set; Liger's GRPO loss takes one advantage a rollout, and token "
            "advantages are not proven with its kernels; unset it, or credit=None"
        )
    # TRL runs the policy over what it sampled before it computes advantages where a batch of
    # rollouts serves several optimizer steps, and to correct vLLM's log-probabilities.
    steps = (config.steps_per_generation or 1) * config.num_iterations
    corrects = config.use_vllm and config.vllm_importance_sampling_correction
    if config.gradient_accumulation_steps % steps == 0 and not corrects:
        for name in sorted(estimator.needs_policy):
            raise InputError(without_policy(estimator, name))
    _require_scale(config, estimator, arguments.get("reward_funcs"), correctness)


def without_policy(estimator: Estimator, name: str) -> str:
    """The message for an engine that hands over no log-probabilities or entropies."""
    return (
        f"{estimator} needs {name}, and TRL computes none before the loss where each batch of "
        "rollouts serves one optimizer step; set steps_per_generation (a recipe's "
        "algorithm.minibatches) or num_iterations (algorithm.epochs) so that it serves two or more"
    )


def _require_scale(
    config: GRPOConfig, estimator: Estimator, rewards: Any, correctness: str | None
) -> None:
    """An estimator that changes the rollout advantage computes it itself, of the verdicts."""
    rewards = rewards if isinstance(rewards, list | tuple) else [rewards]
    names = [str(getattr(reward, "__name__", reward)) for reward in rewards]
    # TRL's advantage is of the weighted sum of the rewards; too few weights are its own to refuse.
    weights = [*(config.reward_weights or ()), *[1.0] * len(rewards)]
    verdict = names.index(correctness) if correctness in names else 0
    scaled = {"group": True, "none": False}.get(config.scale_rewards)
    what = f"scale_rewards is {config.scale_rewards!r}"
    if config.multi_objective_aggregation != "sum_then_normalize":
        scaled = None
        what = f"multi_objective_aggregation is {config.multi_objective_aggregation!r}"
    elif not scaled and weights[verdict] != 1:
        scaled, what = None, f"{what} with reward_weights {config.reward_weights}"
    require_scale(estimator, scaled, what)
    others = [name for i, name in enumerate(names) if i != verdict and weights[i]]
    if isinstance(innermost(estimator), AdvantageEstimator) and others:
        logging.getLogger(__name__).warning(
            "%s changes the rollout advantage that the verdicts alone give; where the other "
            "rewards (%s) differ within a group, a token's advantage is too large or too small, "
            "and may turn its sign",
            estimator,
            ", ".join(others),
        )


def check_enough(data: Any, config: GRPOConfig) -> None:
    """Raise an InputError for a training set of fewer prompts than a batch of rollouts takes."""
    prompts = config.generation_batch_size // config.num_generations
    if hasattr(data, "__len__") and len(data) < prompts:
        raise InputError(
            f"the training set has {counted(len(data), 'prompt')}, and a batch of rollouts takes "
            f"{prompts} (generation_batch_size {config.generation_batch_size} / num_generations "
            f"{config.num_generations}; a recipe's rollout.prompts_per_step): TRL would train on "
            "nothing; expected at least as many prompts"
        )


def correctness_column(names: list[str], correctness: str | None) -> int:
    """Which reward function says whether a rollout is correct.

    Raises:
        InputError: there are several and none is named, or the name is not among them.
    """
    if correctness is None and len(names) == 1:
        return 0
    if correctness is None or correctness not in names:
        raise InputError(
            f"correctness is {correctness!r}; expected the reward function that says whether a "
            f"rollout is correct: {', '.join(map(repr, names))}"
        )
    if names.count(correctness) > 1:
        raise InputError(
            f"correctness is {correctness!r}, and {names.count(correctness)} reward functions have "
            "that name; expected names of their own: define them by def, or set __name__"
        )
    return names.index(correctness)


def check_rewards(rewards: Any, names: list[str]) -> None:
    """Raise an InputError for an infinite reward, with which TRL's advantages are NaN.

    Args:
        rewards: (n, functions), NaN where a function could not tell.
        names: those of the functions.
    """
    infinite = rewards.isinf()
    if infinite.any():
        row, column = infinite.nonzero()[0].tolist()
        raise InputError(
            f"the reward function {names[column]} gave {float(rewards[row, column])}; expected a "
            "finite number, or None where it cannot tell"
        )


def check_scores(scores: Any, estimator: Estimator, name: str) -> None:
    """Raise an InputError if a graded score of this process's rollouts is out of range.

    The estimator would find it on the CPU and let it pass on a GPU, where looking makes it wait.
    """
    if estimator.score_range is None:
        return
    scores = on_host(scores)
    outside = scores[out_of_range(scores, estimator.score_range)]
    if len(outside):
        raise InputError(
            f"the reward function {name} gave {outside[0]:g}; {estimator} is graded, so its "
            f"rewards are the scores, {in_words(estimator.score_range)}"
        )
