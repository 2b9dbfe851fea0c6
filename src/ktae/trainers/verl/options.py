"""The options under `algorithm.credit` of verl's configuration, and what of the rest they need."""

from __future__ import annotations

from typing import Any

from ktae.errors import InputError
from ktae.estimators.transforms import require_scale
from ktae.trainers.settings import Settings, one_of
from ktae.trainers.verl.names import without_mode

BASES = ("grpo", "grpo_vectorized", "rloo", "rloo_vectorized")
"""Rollout advantages of verl that the credit can be added to: all are equal over a rollout."""

LOSS_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode"
"""Where verl's configuration names the policy loss."""


def from_algorithm(algorithm: Any) -> tuple[Settings, str]:
    """The options of a run, from the node `algorithm` of its configuration.

    Returns:
        Of `algorithm.credit.*` the estimator, its own settings and `transforms`, as in a recipe's
        section `credit`; `threshold`, which `acc` (or, without one, the reward) is compared with;
        `tokenizer`. And `base`, the rollout advantage underneath, by verl's name for it.

    Raises:
        InputError: an unknown option (the nearest known one is named) or a value out of range.
    """
    from omegaconf import OmegaConf

    algorithm = algorithm or {}
    # A node of OmegaConf's, or a mapping where verl's configuration is a plain one.
    node = algorithm.get("credit", "paper")
    section = OmegaConf.to_container(OmegaConf.create({"credit": node}), resolve=True)["credit"]
    named: dict[str, Any] = {"base": "grpo"}
    if isinstance(section, dict):
        section = {"estimator": "paper"} | section
        named |= {k: section.pop(k) for k in ("base", "threshold", "tokenizer") if k in section}
    base = named.pop("base")
    try:
        settings = Settings(section, **named)
        one_of("base", base, BASES)
    except InputError as error:
        raise InputError(
            f"algorithm.credit: {error} (beside the estimator's own: base, threshold, tokenizer)"
        ) from None
    scaled, what = None, f"algorithm.credit.base is {base!r}"
    if base.startswith("grpo"):
        scaled = bool(algorithm.get("norm_adv_by_std_in_grpo", True))
        what = f"algorithm.norm_adv_by_std_in_grpo is {scaled}"
    require_scale(settings.estimator, scaled, what)
    return settings, base


def checked(config: Any, *, has_token_ids: bool) -> Settings:
    """The settings of verl's whole configuration, refused where its loss or trainer rules them out.

    Raises:
        InputError: as `from_algorithm`; the trainer hands over no token ids; or the policy loss
            is verl's one that averages the advantages of a rollout.
    """
    from omegaconf import OmegaConf

    if not has_token_ids:
        raise InputError(without_mode(config.trainer.v1.trainer_mode))
    settings, _ = from_algorithm(config.algorithm)
    if OmegaConf.select(config, LOSS_MODE) == "geo_mean":
        raise InputError(
            f"{LOSS_MODE}=geo_mean averages the advantages of a rollout's tokens, so token credit "
            "would have no effect; expected another loss, such as vanilla or gspo"
        )
    return settings
