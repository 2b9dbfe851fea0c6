"""What token-level advantages need of a trainer's settings, checked before anything is sampled."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from ktae.arrays import on_host
from ktae.batch import in_words, out_of_range
from ktae.errors import InputError, expected_one_of
from ktae.estimators import AdvantageEstimator, Estimator
from ktae.estimators.transforms import innermost, require_scale
from ktae.files.text import counted


def check_arguments(
    estimator: Estimator | None, /, *args: Any, correctness: str | None = None, **kwargs: Any
) -> None:
    """Before the model is loaded: the settings of `GRPOTrainer`, and its data set.

    `correctness` names the reward function that says whether a rollout is correct.

    Raises:
        InputError: a setting contradicts token advantages, or the training set is of no use.
    """
    kwargs = {key: value for key, value in kwargs.items() if key != "resampling_rounds"}
    _require_known(kwargs)
    arguments = inspect.signature(GRPOTrainer).bind_partial(*args, **kwargs).arguments
    _check_data_set(arguments)
    config = arguments.get("args")
    if config is None:
        return
    if not isinstance(config, GRPOConfig):
        raise InputError(
            f"args is a {type(config).__name__}; expected a trl.GRPOConfig (asynchronous GRPO "
            "takes one advantage a rollout)"
        )
    if estimator is not None:
        _refuse_contradictions(config)
        _require_policy(config, estimator)
        _require_scale(config, estimator, arguments.get("reward_funcs"), correctness)


def _require_known(names: Iterable[str]) -> None:
    """Refuse an argument that neither `GRPOTrainer` nor `KTAETrainer` has."""
    of_trl = inspect.signature(GRPOTrainer).parameters
    if any(one.kind is one.VAR_KEYWORD for one in of_trl.values()):
        return  # another package has extended it
    for name in names:
        if name in of_trl:
            continue
        if name in _ELSEWHERE:
            hint = f"did you mean {_ELSEWHERE[name]!r}?"
        elif name in inspect.signature(GRPOConfig).parameters:
            hint = f"it is a setting of args: GRPOConfig({name}=...)"
        else:
            hint = expected_one_of((*_OWN, *of_trl), name)
        raise InputError(f"KTAETrainer has no argument {name!r}; {hint}")


_OWN = ("credit", "correctness", "threshold", "on_rollouts", "resampling_rounds")
_ELSEWHERE = {
    "estimator": "credit", "adv_estimator": "credit", "tokenizer": "processing_class",
    "config": "args", "training_args": "args", "dataset": "train_dataset",
}  # fmt: skip
"""What arguments are called on our command line, in verl, and in older versions of TRL."""


def _require_scale(
    config: GRPOConfig, estimator: Estimator, rewards: Any, correctness: str | None
) -> None:
    """An estimator that changes the rollout advantage computes it itself, of the verdicts."""
    rewards = rewards if isinstance(rewards, list | tuple) else [rewards]
    # Too few weights are TRL's to refuse.
    weights = [*(config.reward_weights or ()), *[1.0] * len(rewards)]
    own = next((i for i, x in enumerate(rewards) if _name(x) == correctness), 0)
    scaled = {"group": True, "none": False}.get(config.scale_rewards)
    what = f"scale_rewards is {config.scale_rewards!r}"
    if config.multi_objective_aggregation != "sum_then_normalize":
        scaled = None
        what = f"multi_objective_aggregation is {config.multi_objective_aggregation!r}"
    elif not scaled and weights[own] != 1:
        scaled, what = None, f"{what} with reward_weights {config.reward_weights}"
    require_scale(estimator, scaled, what)
    others = [_name(x) for i, x in enumerate(rewards) if i != own and weights[i]]
    if isinstance(innermost(estimator), AdvantageEstimator) and others:
        logging.getLogger(__name__).warning(
            "%s changes the rollout advantage that the verdicts alone give; where the other "
            "rewards (%s) differ within a group, a token's advantage is too large or too small, "
            "and may turn its sign",
            estimator,
            ", ".join(others),
        )


def _name(reward: Any) -> str:
    return str(getattr(reward, "__name__", reward))


def _refuse_contradictions(config: GRPOConfig) -> None:
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


def _require_policy(config: GRPOConfig, estimator: Estimator) -> None:
    """Whether TRL runs the policy over what it sampled before it computes advantages.

    It does where a batch of rollouts serves several optimizer steps, and to correct vLLM's.
    """
    steps = (config.steps_per_generation or 1) * config.num_iterations
    corrects = config.use_vllm and config.vllm_importance_sampling_correction
    if config.gradient_accumulation_steps % steps == 0 and not corrects:
        for name in sorted(estimator.needs_policy):
            raise InputError(without_policy(estimator, name))


def without_policy(estimator: Estimator, name: str) -> str:
    """The message for an engine that hands over no log-probabilities or entropies."""
    return (
        f"{estimator} needs {name}, and TRL computes none before the loss where each batch of "
        "rollouts serves one optimizer step; set steps_per_generation (a recipe's "
        "algorithm.minibatches) or num_iterations (algorithm.epochs) so that it serves two or more"
    )


def _check_data_set(arguments: dict[str, Any]) -> None:
    """Where an environment brings its own prompts, TRL needs no column `prompt`."""
    data = arguments.get("train_dataset")
    if data is None or arguments.get("environment_factory") is not None:
        return
    columns = getattr(data, "column_names", None)
    if columns is not None and "prompt" not in columns:
        raise InputError(
            f"the training set has the columns {', '.join(columns) or '(none)'}; "
            "expected a column 'prompt'"
        )
    if hasattr(data, "__len__") and len(data) == 0:
        raise InputError("the training set is empty")


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


def check_padding(tokenizer: Any) -> None:
    """Raise an InputError for a tokenizer that can neither pad nor end a text."""
    if tokenizer.pad_token_id is None:
        raise InputError(
            f"the tokenizer ({type(tokenizer).__name__}) has neither a padding nor an "
            "end-of-sequence token; set tokenizer.pad_token"
        )
