"""What is added to verl, each part at the moment verl imports the place it goes to: nothing of verl
is imported here, since the plug-in is loaded in every Ray process, and the driver's alone needs it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import sys
from types import ModuleType
from typing import Any

from wrapt import when_imported

from ktae.errors import InputError
from ktae.trainers import check_version
from ktae.trainers.settings import announce
from ktae.trainers.verl import options
from ktae.trainers.verl.options import ESTIMATOR


def install() -> None:
    """Register the estimator and the trainer modes with verl, now or when verl gets there.

    Raises:
        InputError: the verl that is being imported is too old.
    """
    if (verl := sys.modules.get("verl")) is not None:
        try:
            check_version("verl", verl.__version__)
        except InputError as error:
            # verl notes what a plug-in raises at level DEBUG (verl/__init__.py:75), and would only
            # say later that it knows no "ktae".
            logging.getLogger(__name__).warning("algorithm.adv_estimator=ktae is off: %s", error)
            raise

    @when_imported("verl.utils.import_utils")
    def hide_trl_without_value_head(import_utils: Any) -> None:
        # verl 0.9 patches a model of TRL's wherever it finds TRL, and its actors fail to start with
        # a TRL that no longer has that model (1.16 does not). Only verl's critics would use it.
        available = import_utils.is_trl_available

        @functools.cache
        def is_trl_available() -> bool:
            model = "trl.experimental.ppo"  # without TRL, nobody may ask for its spec
            return bool(available()) and importlib.util.find_spec(model) is not None

        import_utils.is_trl_available = is_trl_available

    @when_imported("verl.trainer.ppo.core_algos")
    def add_estimator(core_algos: ModuleType) -> None:
        from ktae.trainers.verl.advantages import verl_advantages

        core_algos.register_adv_est(ESTIMATOR)(verl_advantages)

    @when_imported("verl.trainer.ppo.v1")
    def add_trainers(v1: ModuleType) -> None:
        from ktae.trainers.verl.trainers import TRAINERS

        for mode, trainer in TRAINERS.items():
            v1.register_trainer(mode)(trainer)
        _check_first(v1.PPOTrainer)

    when_imported("verl.trainer.ppo.ray_trainer")(lambda old: _check_first(old.RayPPOTrainer))


def _check_first(trainer: Any) -> None:
    """Let verl's trainers, also under their own names, refuse what they cannot do before the models
    are loaded, and not at the first advantages."""
    start = trainer.__init__

    @functools.wraps(start)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = (*args, kwargs.get("config"))[0]
        name = config.algorithm.adv_estimator
        has_token_ids = getattr(self, "hands_over_token_ids", False)
        if name == ESTIMATOR:
            settings = options.checked(config, has_token_ids=has_token_ids)
            settings.vocabulary()  # only here, for whoever starts the run may be another machine
            size = (config.get("actor_rollout_ref") or {}).get("rollout", {}).get("n", 1)
            correctness = f"{settings.correctness} (or else the reward)"
            announce(settings.estimator, correctness, settings.threshold, size)
        elif has_token_ids or config.algorithm.get("credit"):
            raise InputError(
                f"algorithm.adv_estimator={name} computes no token credit; expected {ESTIMATOR}, "
                "or no algorithm.credit and a trainer.v1.trainer_mode of verl's own"
            )
        return start(self, *args, **kwargs)

    trainer.__init__ = checked
