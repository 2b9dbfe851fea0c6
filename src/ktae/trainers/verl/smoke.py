"""verl's smallest job on what is there: does its own `compute_advantage` give token credit?

Without Ray and without a model: a batch of two groups goes through verl's data classes, its
configuration and its function, as on the driver of a run. What a run on GPUs needs beside is
looked for, and not tried.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ktae.backends import naive
from ktae.batch import make_batch
from ktae.estimators import KTAE
from ktae.trainers import versions
from ktae.trainers.verl.check import compose

WITHOUT_FLASH_ATTENTION = (
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa "
    "actor_rollout_ref.model.use_remove_padding=False"
)


def advantage_error() -> float:
    """Largest difference of verl's advantages with `adv_estimator=ktae` and the reference's.

    Raises:
        InputError: verl is absent or of another version.
    """
    versions.check("verl")
    import verl.trainer.ppo.ray_trainer as ray_trainer
    from verl import DataProto

    import ktae.trainers.verl  # noqa: F401  # the plug-in

    settings = {"algorithm.adv_estimator": "ktae", "trainer.v1.trainer_mode": "ktae_sync"}
    config: Any = compose(settings)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, (8, 12))
    lengths = rng.integers(4, 13, 8)
    mask = np.arange(12) < lengths[:, None]
    correct = np.array([1, 0, 0, 1, 1, 1, 0, 1])
    groups = np.repeat([0, 1], 4)
    scores = torch.zeros(8, 12)
    scores[torch.arange(8), torch.from_numpy(lengths - 1)] = torch.from_numpy(correct).float()
    data = DataProto.from_dict(
        tensors={
            "responses": torch.from_numpy(ids),
            "response_mask": torch.from_numpy(mask).long(),
            "token_level_rewards": scores,
        },
        non_tensors={"uid": groups.astype(str).astype(object), "acc": correct.astype(float)},
    )
    plain, with_credit = (
        ray_trainer.compute_advantage(data, adv_estimator=name, config=config.algorithm)
        .batch["advantages"]
        .numpy()
        .copy()
        for name in ("grpo", "ktae")
    )
    expected = naive.credit(make_batch(ids, mask, correct, groups), KTAE().formula())
    if np.abs(expected).max() < 0.1:
        raise RuntimeError("in this batch token credit is nearly 0")
    return float(np.abs(with_credit - plain - expected).max())


def missing_for_gpus() -> Iterator[tuple[str, str, str]]:
    """What a run on GPUs needs and this installation lacks: its name, what is not there, and what
    to do."""
    if not torch.cuda.is_available():
        yield "a GPU", f"torch {torch.__version__} sees none", "docs/gpus.md has what to install"
    if not any(importlib.util.find_spec(name) for name in ("vllm", "sglang")):
        remedy = "pip install -c constraints-gpu-verl.txt 'verl[vllm]'"
        yield "a rollout engine", "neither vllm nor sglang is installed", remedy
    if importlib.util.find_spec("flash_attn") is None:
        remedy = f"install it, or add {WITHOUT_FLASH_ATTENTION}"
        yield "flash-attention", "verl's default, is not installed", remedy
