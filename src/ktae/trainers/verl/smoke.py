"""verl's own advantage function on what is there, without Ray and without a model: a batch goes
through verl's data classes and its function, as on the driver of a run."""

from __future__ import annotations

import numpy as np
import torch

from ktae.trainers import check_version


def added_credit(
    ids: np.ndarray, mask: np.ndarray, correct: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """(B, T) what verl's `adv_estimator=ktae` adds to its `grpo` with the paper's estimator.

    Raises:
        InputError: verl is absent or too old.
    """
    check_version("verl")
    import verl.trainer.ppo.ray_trainer as ray_trainer
    from omegaconf import OmegaConf
    from verl import DataProto

    import ktae.trainers.verl  # noqa: F401  # the plug-in
    from ktae.trainers.verl.handover import handed_over, rollouts_of_infos

    options = {"norm_adv_by_std_in_grpo": True, "credit": {"estimator": "paper"}}
    rewards = np.zeros(ids.shape, dtype=np.float32)
    rewards[:, 0] = correct
    columns = {"responses": ids, "response_mask": mask * 1, "token_level_rewards": rewards}
    data = DataProto.from_dict(
        tensors={name: torch.from_numpy(column) for name, column in columns.items()},
        non_tensors={"uid": groups.astype(str).astype(object)},
    )
    infos = [{"acc": verdict} for verdict in correct.tolist()]
    advantages = {}
    with handed_over(rollouts_of_infos(data.batch["responses"], infos)):
        for name in ("grpo", "ktae"):
            config = OmegaConf.create({"adv_estimator": name, **options})
            computed = ray_trainer.compute_advantage(data, adv_estimator=name, config=config)
            advantages[name] = computed.batch["advantages"].numpy().copy()
    added: np.ndarray = advantages["ktae"] - advantages["grpo"]
    return added
