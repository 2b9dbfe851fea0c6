"""Several units and controls, made of the one thing that a backend computes: one unit's terms."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ktae.batch import UNKNOWN
from ktae.config import KTAEConfig


def is_composed(config: KTAEConfig) -> bool:
    """Whether it takes more than one call of a backend."""
    return config.units != ("token",) or config.control != "none"


def composed_terms(
    terms: Callable[[Any, KTAEConfig, Any], Any],
    batch: Any,
    group_b: Any,
    config: KTAEConfig,
    base_b: Any,
    *,
    tokenizer: Any,
) -> Any:
    """(B, T) float32: the mean of the units' terms, under the control, plus `base_b`.

    Args:
        terms: a backend's `terms(batch, config, base_b)`.
        batch: a `Batch` of arrays or, on a device, `Tensors`.
        group_b: (B,) each rollout's group.
        config: what `is_composed`.
        base_b: (B,) float64.
        tokenizer: for the units that are made of text.
    """
    from ktae import controls
    from ktae.units import unit_keys

    if config.control == "permuted-labels":
        batch = _with_permuted_labels(batch, group_b, config)
    single = dataclasses.replace(config, units=("token",), control="none")
    counted_bt = batch.mask != 0
    for token_id in config.ignore_token_ids:
        counted_bt &= batch.token_ids != token_id
    of_unit = dataclasses.replace(single, ignore_token_ids=())
    total_bt: Any = 0
    for unit in config.units:
        keys_bt = unit_keys(unit, batch.token_ids, counted_bt, tokenizer=tokenizer)
        own = batch._replace(token_ids=keys_bt, mask=counted_bt)
        total_bt += terms(own, of_unit, 0 * base_b)
    total_bt /= len(config.units)
    where = {"token_ids": batch.token_ids, "mask": counted_bt}
    if config.control == "shuffled-values":
        total_bt = controls.shuffled_values(
            total_bt, **where, groups=group_b, seed=config.control_seed
        )
    elif config.control == "random-tokens":
        total_bt = controls.random_tokens(total_bt, **where, seed=config.control_seed)
    total_bt += base_b[:, None]
    total_bt *= batch.mask != 0
    return total_bt


def _with_permuted_labels(batch: Any, group_b: Any, config: KTAEConfig) -> Any:
    from ktae.controls import permuted_labels

    unknown_b = batch.correct == UNKNOWN
    values_b = batch.correct if batch.scores is None else batch.scores
    values_b = (
        np.where(unknown_b, np.nan, values_b)
        if isinstance(unknown_b, np.ndarray)
        else (values_b.double().masked_fill(unknown_b, float("nan")))
    )
    permuted_b = permuted_labels(
        batch.token_ids, batch.mask, values_b, group_b, seed=config.control_seed
    )
    permuted_b[unknown_b] = 0
    if batch.scores is not None:
        return batch._replace(scores=permuted_b)
    permuted_b[unknown_b] = UNKNOWN
    as_int8 = permuted_b.astype(np.int8) if isinstance(unknown_b, np.ndarray) else permuted_b.char()
    return batch._replace(correct=as_int8)
