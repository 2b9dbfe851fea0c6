"""What verl calls the parts of the plug-in."""

from __future__ import annotations

ESTIMATOR = "ktae"
"""Its name in `algorithm.adv_estimator`."""

REWARD = "pkg://ktae.trainers.verl.reward"
"""The reward function, in `reward.custom_reward_function.path`."""

MODES = ("ktae_sync", "ktae_colocate_async", "ktae_separate_async")
"""Trainer modes: verl's own of the same names, plus the token ids that the estimator needs."""


def without_mode(mode: str | None = None) -> str:
    """What to say where the estimator runs without the token ids of a KTAE trainer mode."""
    what = f" with trainer.v1.trainer_mode={mode}" if mode else ""
    return (
        f"algorithm.adv_estimator=ktae{what} gets no token ids; set trainer.v1.trainer_mode to "
        f"one of {', '.join(MODES)} (with trainer.use_v1=True)"
    )
