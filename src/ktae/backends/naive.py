"""The oracle: Algorithm 1 of the paper as plain loops and dicts. Slow, short, and the reference
that every other backend is tested against."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ktae import statistics
from ktae.batch import UNKNOWN, Batch, bad_token_id
from ktae.config import MAX_TOKEN_ID, KTAEConfig
from ktae.table import KeyTokenTable

Row = tuple[int, int, int, int, int, float, float, float, float, float, float, float, float]
"""token_id, a, b, c, d, tf_true, tf_false, p, F, IG, direction, value, term."""


def terms(
    batch: Batch, config: KTAEConfig, base_b: np.ndarray, *, memory_bytes: int = 0
) -> np.ndarray:
    """(B, T) float32: each unmasked token's term plus its rollout's `base_b`."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    tokens_of = _tokens(batch)
    for rows in _groups(batch):
        term_of = {row[0]: row[-1] for row in _judge(batch, rows, tokens_of, config)}
        for i in rows:
            known = batch.correct[i] != UNKNOWN
            for t, token in tokens_of[i]:
                out[i, t] = base_b[i] + (term_of.get(token, 0.0) if known else 0.0)
    return out


def table(batch: Batch, config: KTAEConfig) -> KeyTokenTable:
    """The key-token table of the whole batch."""
    tokens_of = _tokens(batch)
    labels: list[object] = []
    found: list[Row] = []
    for label, rows in zip(batch.group_ids, _groups(batch), strict=True):
        judged = _judge(batch, rows, tokens_of, config)
        found += judged
        labels += [label] * len(judged)
    columns = zip(*found, strict=True) if found else [()] * 13
    kinds = [np.int64] * 5 + [np.float64] * 8
    arrays = [np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)]
    return KeyTokenTable(np.array(labels, dtype=batch.group_ids.dtype), *arrays)


def _groups(batch: Batch) -> list[list[int]]:
    return [
        batch.rows[start:stop].tolist()
        for start, stop in zip(batch.starts[:-1], batch.starts[1:], strict=True)
    ]


def _tokens(batch: Batch) -> list[list[tuple[int, int]]]:
    """For each row its unmasked (position, token id)."""
    tokens_of = []
    for i, (ids, mask) in enumerate(zip(batch.token_ids, batch.mask, strict=True)):
        tokens = [(t, int(token)) for t, token in enumerate(ids) if mask[t] != 0]
        for t, token in tokens:
            if not 0 <= token <= MAX_TOKEN_ID:
                raise bad_token_id(batch.token_ids, i, t)
        tokens_of.append(tokens)
    return tokens_of


def _judge(
    batch: Batch, rows: list[int], tokens_of: list[list[tuple[int, int]]], config: KTAEConfig
) -> list[Row]:
    """Lines 2 to 10 of Algorithm 1 for one group: one row a distinct token, sorted by token."""
    n = [0, 0]  # incorrect, correct rollouts
    length = [0, 0]  # their tokens
    contain: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    occur: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for i in rows:
        tokens = [token for _, token in tokens_of[i] if token not in config.ignore_token_ids]
        if batch.correct[i] == UNKNOWN or not tokens:
            continue
        is_true = int(batch.correct[i])
        n[is_true] += 1
        length[is_true] += len(tokens)
        contain[is_true].update(set(tokens))
        occur[is_true].update(tokens)
    n_false, n_true = n
    judged: list[Row] = []
    for token in sorted(contain[0].keys() | contain[1].keys()):
        a, b = contain[1][token], contain[0][token]
        tf_false, tf_true = (occur[y][token] / max(length[y], 1) for y in (0, 1))
        counts = (token, a, b, n_true - a, n_false - b, tf_true, tf_false)
        if n_true == 0 or n_false == 0:
            judged.append((*counts, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
            continue
        p = statistics.fisher_p_value(a, b, n_true, n_false, config.fisher == "point")
        fisher = statistics.fisher_score(p)
        gain = statistics.information_gain(a, b, n_true, n_false)
        strength = config.h1 * fisher + config.h2 * gain
        if config.normalize:  # the released code does, the paper does not
            strength /= config.h1 + config.h2
        mean_length = (length[0] + length[1]) / 2
        saturated_true, saturated_false = (
            statistics.saturated_term_frequency(
                tf, length[y] / mean_length, config.k1, config.b_len
            )
            for tf, y in ((tf_true, 1), (tf_false, 0))
        )
        contrast = statistics.frequency_contrast(saturated_true, saturated_false, config.eps)
        direction = statistics.effect_size(a, b, n_true, n_false) + config.h3 * contrast
        value = strength * direction
        term = statistics.term(value, config.term_scale)
        judged.append((*counts, p, fisher, gain, direction, value, term))
    return judged
