"""The options under `algorithm.credit` of verl's configuration, what of the rest they need, and
what verl calls the parts of the plug-in."""

from __future__ import annotations

from typing import Any

from ktae.errors import InputError
from ktae.estimators import DEFAULT
from ktae.estimators.transforms import require_scale
from ktae.trainers.settings import Settings, one_of

ESTIMATOR = "ktae"
"""Its name in `algorithm.adv_estimator`."""

REWARD = "pkg://ktae.trainers.verl.reward"
"""The reward function, in `reward.custom_reward_function.path`."""

MODES = ("ktae_sync", "ktae_colocate_async", "ktae_separate_async")
"""Trainer modes: verl's own of the same names, plus the token ids that the estimator needs."""

BASES = ("grpo", "grpo_vectorized", "rloo", "rloo_vectorized")
"""Rollout advantages of verl that the credit can be added to: all are equal over a rollout."""

OPTIONS = ("base", "correctness", "threshold", "tokenizer")
"""Those of `algorithm.credit` that are none of the estimator's."""

SECTION = "algorithm.credit, such as +algorithm.credit.estimator=trigrams"

NO_TOKEN_IDS = (
    "algorithm.adv_estimator=ktae gets no token ids here; set trainer.use_v1=True, and "
    f"trainer.v1.trainer_mode to one of {', '.join(MODES)}"
)

LOSS_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode"
"""Where verl's configuration names the policy loss."""


def from_algorithm(algorithm: Any) -> tuple[Settings, str]:
    """The options of a run, from `algorithm.credit.*` of its configuration, and `base`, the rollout
    advantage underneath, by verl's name. `correctness` is the key of the reward function's result
    that says what is correct.

    Raises:
        InputError: an unknown option (the nearest known one is named) or a value out of range; or
            another key of `algorithm` that looks like `credit`.
    """
    from omegaconf import OmegaConf

    algorithm = algorithm or {}
    for key in map(str, algorithm):
        if key != "credit" and (key.startswith("cred") or key == "ktae"):
            raise InputError(f"algorithm.{key} is no key of verl's or ktae's; expected {SECTION}")
    # A node of OmegaConf's, or a mapping where verl's configuration is a plain one.
    node = algorithm.get("credit", DEFAULT)
    section = OmegaConf.to_container(OmegaConf.create({"credit": node}), resolve=True)["credit"]
    named: dict[str, Any] = {"base": "grpo", "correctness": "acc"}
    if isinstance(section, dict):
        section = {"estimator": DEFAULT} | section
        named |= {k: section.pop(k) for k in OPTIONS if k in section}
    base = named.pop("base")
    settings = Settings(section, **named)
    one_of("algorithm.credit.base", base, BASES)
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
        raise InputError(NO_TOKEN_IDS)
    settings, _ = from_algorithm(config.algorithm)
    if OmegaConf.select(config, LOSS_MODE) == "geo_mean":
        raise InputError(
            f"{LOSS_MODE}=geo_mean averages the advantages of a rollout's tokens, so token credit "
            "would have no effect; expected another loss, such as vanilla or gspo"
        )
    return settings
