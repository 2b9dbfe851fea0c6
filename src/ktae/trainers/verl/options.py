"""The options under `algorithm.credit` of verl's configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

from ktae.backends import BACKENDS
from ktae.batch import Vocabulary
from ktae.credit import check_threshold
from ktae.errors import InputError
from ktae.estimators import Estimator, from_section, preset
from ktae.estimators.transforms import require_scale
from ktae.rollouts.tokens import kept_tokenizer, vocabulary
from ktae.trainers.verl.names import MODES

BASES = ("grpo", "grpo_vectorized", "rloo", "rloo_vectorized")
"""Rollout advantages of verl that the credit can be added to."""

_OWN = ("base", "threshold", "backend", "tokenizer")


@dataclasses.dataclass(frozen=True)
class Options:
    """All of `algorithm.credit.*`."""

    estimator: Estimator
    """From `estimator`, its settings and `transforms`, as in a recipe's section `credit`."""
    base: str = "grpo"
    """The rollout advantage underneath, by verl's name for it."""
    threshold: float = 0.0
    """A rollout is correct where `acc` (or, without one, its reward) is above this."""
    backend: str = "auto"
    """What computes the credit; see `ktae.backends`."""
    tokenizer: str | None = None
    """The model's folder or hub name, for units that are made of text."""


def from_algorithm(algorithm: Any) -> Options:
    """The options of a run, from the node `algorithm` of its configuration.

    Raises:
        InputError: an unknown option (the nearest known one is named) or a value out of range.
    """
    options = _from_node((algorithm or {}).get("credit"))
    scaled, what = None, f"algorithm.credit.base is {options.base!r}"
    if options.base.startswith("grpo"):
        scaled = bool((algorithm or {}).get("norm_adv_by_std_in_grpo", True))
        what = f"algorithm.norm_adv_by_std_in_grpo is {scaled}"
    require_scale(options.estimator, scaled, what)
    return options


def _from_node(node: Any) -> Options:
    """The options in the node `algorithm.credit`."""
    if node is None:
        return Options(preset("paper"))
    if isinstance(node, str):
        return Options(_estimator(node))
    if not hasattr(node, "items"):
        raise InputError(
            f"algorithm.credit is {node!r}; expected options, such as algorithm.credit.estimator"
        )
    given = {name: _plain(value) for name, value in node.items()}
    own = {name: given.pop(name) for name in _OWN if name in given}
    options = Options(_estimator({"estimator": "paper"} | given), **own)
    _check(options)
    return options


LOSS_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode"
"""Where verl's configuration names the policy loss."""


def checked(config: Any, *, is_old: bool) -> Options:
    """The options of verl's whole configuration, refused where its loss or trainer rules them out.

    Raises:
        InputError: as `from_algorithm`, `check_loss` and, for the old trainer,
            `check_old_trainer`.
    """
    options = from_algorithm(config.algorithm)
    check_loss(config)
    if is_old:
        check_old_trainer(options)
    return options


def check_old_trainer(options: Options) -> None:
    """Refuse what verl's old trainer (`trainer.use_v1=False`) does not hand over.

    Raises:
        InputError: the estimator needs entropies, of which it keeps the mean alone, or the step.
    """
    estimator = options.estimator
    missing = ["entropies"] if "entropies" in estimator.needs_policy else []
    if estimator.needs_step:
        missing.append("step")
    for name in missing:
        raise InputError(
            f"algorithm.credit: {estimator} needs {name}, which verl's old trainer "
            f"(trainer.use_v1=False) does not hand over; expected trainer.v1.trainer_mode="
            f"{MODES[0]} with trainer.use_v1=True, or another estimator"
        )


def check_loss(config: Any) -> None:
    """Refuse the one policy loss of verl's that averages the advantages of a rollout.

    Args:
        config: verl's whole configuration.

    Raises:
        InputError: the loss is `geo_mean`.
    """
    from omegaconf import OmegaConf

    if OmegaConf.select(config, LOSS_MODE) == "geo_mean":
        raise InputError(
            f"{LOSS_MODE}=geo_mean averages the advantages of a rollout's tokens, so token credit "
            "would have no effect; expected another loss, such as vanilla or gspo"
        )


def vocabulary_of(options: Options) -> Vocabulary | None:
    """The tokens' texts, where the estimator looks at them."""
    if not options.estimator.needs_vocabulary or not options.tokenizer:
        return None
    return vocabulary(tokenizer_named(options.tokenizer))


def _estimator(section: Any) -> Estimator:
    try:
        return from_section(section)
    except InputError as error:
        raise InputError(
            f"algorithm.credit: {error} (beside the estimator's own: {', '.join(_OWN)})"
        ) from None


def check_here(options: Options) -> None:
    """Refuse what the process that computes the advantages cannot do; another one cannot tell.

    Raises:
        InputError: the backend cannot be used, or the tokenizer cannot be loaded.
    """
    reason = None if options.backend == "auto" else BACKENDS[options.backend].missing()
    if reason:
        raise InputError(
            f"algorithm.credit.backend is {options.backend!r}, and where verl computes advantages "
            f"{reason}; expected auto, or one that can be used there"
        )
    if options.tokenizer:
        tokenizer_named(options.tokenizer)


def tokenizer_named(name: str) -> Any:
    """The tokenizer of `algorithm.credit.tokenizer`, loaded once.

    Raises:
        InputError: it cannot be loaded.
    """
    try:
        return kept_tokenizer(name)
    except InputError as error:
        raise InputError(f"algorithm.credit.tokenizer: {error}") from None


def _check(options: Options) -> None:
    _check_tokenizer(options)
    if options.base not in BASES:
        raise InputError(f"algorithm.credit.base is {options.base!r}; expected {', '.join(BASES)}")
    check_threshold(options.threshold, "algorithm.credit.threshold")
    known = ("auto", *BACKENDS)
    if options.backend not in known:
        raise InputError(
            f"algorithm.credit.backend is {options.backend!r}; expected {', '.join(known)}"
        )


def _check_tokenizer(options: Options) -> None:
    if not isinstance(options.tokenizer, str | None):
        raise InputError(
            f"algorithm.credit.tokenizer is {options.tokenizer!r}; expected the model's folder or "
            "hub name"
        )
    if options.estimator.needs_vocabulary and not options.tokenizer:
        raise InputError(
            "algorithm.credit has a unit that is made of text; expected "
            "algorithm.credit.tokenizer, the model's folder or hub name, too"
        )


def _plain(value: Any) -> Any:
    """A node of the configuration as plain lists and mappings."""
    if hasattr(value, "items"):
        return {name: _plain(inner) for name, inner in value.items()}
    is_list = not isinstance(value, str) and hasattr(value, "__iter__")
    return [_plain(inner) for inner in value] if is_list else value
