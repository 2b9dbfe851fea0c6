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

    seed, ignored = config.control_seed, config.ignore_token_ids
    counted_bt = batch.mask if not ignored else (batch.mask != 0)
    for token_id in ignored:
        counted_bt &= batch.token_ids != token_id
    counted = batch._replace(mask=counted_bt)
    if config.control == "permuted-labels":
        counted = _with_permuted_labels(counted, group_b, seed)
    scale = config.term_scale / len(config.units)
    of_unit = dataclasses.replace(
        config, units=("token",), control="none", ignore_token_ids=(), term_scale=scale
    )
    # The backend adds the base in passing, unless the terms are still to be moved about.
    base_later = bool(ignored) or config.control not in ("none", "permuted-labels")
    total_bt: Any = None
    for unit in config.units:
        keys_bt = unit_keys(unit, batch.token_ids, counted_bt, tokenizer=tokenizer)
        own_base_b = base_b if total_bt is None and not base_later else 0 * base_b
        terms_bt = terms(counted._replace(token_ids=keys_bt), of_unit, own_base_b)
        if config.control == "shuffled-values":
            terms_bt = controls.shuffled_values(
                terms_bt, keys_bt, counted_bt, _evidence(batch), group_b, seed=seed
            )
        if total_bt is None:
            total_bt = terms_bt
        else:
            total_bt += terms_bt
    if config.control == "random-tokens":
        total_bt = controls.random_tokens(
            total_bt, counted_bt, token_ids=batch.token_ids, seed=seed
        )
    if config.control in controls.PARTS:
        total_bt = controls.PARTS[config.control](total_bt, counted_bt)
    if base_later:
        total_bt += base_b[:, None]
        total_bt *= batch.mask != 0
    return total_bt


def _evidence(batch: Any) -> Any:
    """(B,) float64 verdicts or scores, NaN for unknown."""
    unknown_b = batch.correct == UNKNOWN
    values_b = batch.correct if batch.scores is None else batch.scores
    if isinstance(values_b, np.ndarray):
        return np.where(unknown_b, np.nan, values_b)
    return values_b.double().masked_fill(unknown_b, float("nan"))


def _with_permuted_labels(batch: Any, group_b: Any, seed: int) -> Any:
    from ktae.controls import permuted_labels

    permuted_b = permuted_labels(batch.token_ids, batch.mask, _evidence(batch), group_b, seed=seed)
    unknown_b = batch.correct == UNKNOWN
    if batch.scores is not None:
        permuted_b[unknown_b] = 0
        return batch._replace(scores=permuted_b)
    permuted_b[unknown_b] = UNKNOWN
    is_array = isinstance(permuted_b, np.ndarray)
    return batch._replace(correct=permuted_b.astype(np.int8) if is_array else permuted_b.char())
