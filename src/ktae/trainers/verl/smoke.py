"""verl's own advantage function on what is there: does it give the advantages of token credit?

It is tried without Ray and without a model: a batch of two groups goes through verl's data classes
and its function, as on the driver of a run. What a run on GPUs needs beside is looked for, and not
tried.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

import numpy as np
import torch

from ktae.batch import make_batch
from ktae.counting import naive
from ktae.estimators import KTAE
from ktae.trainers import check_version

WITHOUT_FLASH_ATTENTION = (
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa "
    "actor_rollout_ref.model.use_remove_padding=False"
)


def advantage_error() -> float:
    """Largest difference of verl's advantages with `adv_estimator=ktae` and the reference's.

    Raises:
        InputError: verl is absent or too old.
    """
    check_version("verl")
    import verl.trainer.ppo.ray_trainer as ray_trainer
    from omegaconf import OmegaConf
    from verl import DataProto

    import ktae.trainers.verl  # noqa: F401  # the plug-in
    from ktae.trainers.verl.handover import handed_over, rollouts_of_infos

    algorithm = OmegaConf.create(
        {
            "adv_estimator": "ktae",
            "norm_adv_by_std_in_grpo": True,
            "credit": {"estimator": "paper"},
        }
    )
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, (8, 12))
    lengths = rng.integers(4, 13, 8)
    mask = np.arange(12) < lengths[:, None]
    correct = np.array([1.0, 0, 0, 1, 1, 1, 0, 1])
    groups = np.repeat([0, 1], 4)
    scores = torch.zeros(8, 12)
    scores[range(8), lengths - 1] = torch.from_numpy(correct).float()
    data = DataProto.from_dict(
        tensors={
            "responses": torch.from_numpy(ids),
            "response_mask": torch.from_numpy(mask).long(),
            "token_level_rewards": scores,
        },
        non_tensors={"uid": groups.astype(str).astype(object)},
    )
    infos = [{"acc": verdict} for verdict in correct.tolist()]
    with handed_over(rollouts_of_infos(data.batch["responses"], infos)):
        plain, with_credit = (
            ray_trainer.compute_advantage(data, adv_estimator=name, config=algorithm)
            .batch["advantages"]
            .numpy()
            .copy()
            for name in ("grpo", "ktae")
        )
    batch = make_batch(ids, mask, correct, groups)
    expected = KTAE().by_units().credit(batch, naive.credit)
    assert np.abs(expected).max() > 0.1
    return float(np.abs(with_credit - plain - expected).max())


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
