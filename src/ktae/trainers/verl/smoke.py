"""verl's own advantage function on what is there, without Ray and without a model: a batch goes
through verl's data classes and its function, as on the driver of a run. What a run on GPUs needs
besides is looked for, and not tried."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

import numpy as np
import torch

from ktae.trainers import check_version

WITHOUT_FLASH_ATTENTION = (
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa "
    "actor_rollout_ref.model.use_remove_padding=False"
)


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


def missing_for_gpus() -> Iterator[tuple[str, str, str]]:
    """What a run on GPUs needs and this installation lacks: its name, what is not there, and what
    to do."""
    version = ".".join(map(str, sys.version_info[:2]))
    if version != "3.12":
        remedy = "docs/gpus.md: the constraints and verl's flash-attention are for 3.12"
        yield "Python 3.12", f"this is {version}", remedy
    if torch.version.cuda is None:
        detail = f"torch {torch.__version__} is built without it"
        yield "CUDA", detail, "docs/gpus.md has what to install"
    elif not torch.cuda.is_available():
        detail = f"torch is built for CUDA {torch.version.cuda} and sees none, or an old driver"
        yield "a GPU", detail, "nvidia-smi prints both; CUDA 13 needs driver 580 or newer"
    if not any(importlib.util.find_spec(name) for name in ("vllm", "sglang")):
        remedy = "pip install -c constraints-gpu-verl.txt 'verl[vllm]'"
        yield "a rollout engine", "neither vllm nor sglang is installed", remedy
    if importlib.util.find_spec("flash_attn") is None:
        remedy = f"install it, or add {WITHOUT_FLASH_ATTENTION}"
        yield "flash-attention", "verl's default, is not installed", remedy
