"""The oracle: Algorithm 1 of the paper as plain loops and dicts. Slow, short, and the reference
that every other backend is tested against."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from ktae import statistics
from ktae.arrays import MAX_TOKEN_ID
from ktae.backends import CreditTable
from ktae.batch import Batch, bad_token_id
from ktae.statistics import Formula

Row = tuple[int, float, float, float, float, float, float, float, float, float, float, float, float]
"""token_id, a, b, c, d, tf_true, tf_false, p, F, IG, direction, value, credit."""


def credit(batch: Batch, formula: Formula) -> np.ndarray:
    """(B, T) float32 credit."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    tokens_of = tokens_of_rows(batch)
    for rows in groups_of(batch):
        credit_of = {row[0]: row[-1] for row in _rows_of_table(batch, rows, tokens_of, formula)}
        for i in rows:
            if not math.isnan(batch.evidence[i]) or batch.look_up_unknown:
                for t, token in tokens_of[i]:
                    out[i, t] = credit_of.get(token, 0.0)
    return out


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the whole batch."""
    tokens_of = tokens_of_rows(batch)
    labels: list[object] = []
    entries: list[Row] = []
    assert batch.labels is not None
    for label, rows in zip(batch.labels, groups_of(batch), strict=True):
        of_group = _rows_of_table(batch, rows, tokens_of, formula)
        entries += of_group
        labels += [label] * len(of_group)
    columns = zip(*entries, strict=True) if entries else [()] * 13
    cells = np.float64 if batch.graded else np.int64
    kinds = [np.int64] + [cells] * 4 + [np.float64] * 8
    arrays = [np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)]
    return CreditTable(np.array(labels, dtype=batch.labels.dtype), *arrays)


def groups_of(batch: Batch) -> list[list[int]]:
    """Each group's row numbers."""
    rows: defaultdict[int, list[int]] = defaultdict(list)
    for i, group in enumerate(batch.group_b.tolist()):
        rows[group].append(i)
    return [rows[group] for group in sorted(rows)]


def tokens_of_rows(batch: Batch) -> list[list[tuple[int, int]]]:
    """For each row its unmasked (position, token id)."""
    tokens_of = []
    for i, (ids, mask) in enumerate(zip(batch.token_ids, batch.mask, strict=True)):
        tokens = [(t, int(token)) for t, token in enumerate(ids) if mask[t] != 0]
        for t, token in tokens:
            if not 0 <= token <= MAX_TOKEN_ID:
                raise bad_token_id(batch.token_ids, i, t)
        tokens_of.append(tokens)
    return tokens_of


def _rows_of_table(
    batch: Batch, rows: list[int], tokens_of: list[list[tuple[int, int]]], formula: Formula
) -> list[Row]:
    """Lines 2 to 10 of Algorithm 1 for one group: one row a distinct token, sorted by token.

    A rollout of score r counts as r correct and 1 - r incorrect ones; without graded scores that
    is one or none.
    """
    scores: list[float] = []
    length = [0.0, 0.0]  # tokens of the incorrect and the correct rollouts
    contain: defaultdict[int, list[float]] = defaultdict(list)  # scores of the rollouts with it
    occur: defaultdict[int, list[float]] = defaultdict(list)  # the same once an occurrence
    for i in rows:
        tokens = [token for _, token in tokens_of[i] if token not in batch.ignored]
        score = float(batch.evidence[i])
        if math.isnan(score) or not tokens:
            continue
        scores.append(score)
        length[0] += (1 - score) * len(tokens)
        length[1] += score * len(tokens)
        for token in tokens:
            occur[token].append(score)
        for token in set(tokens):
            contain[token].append(score)
    n_true = sum(scores)
    n_false = len(scores) - n_true
    entries: list[Row] = []
    for token in sorted(contain):
        a = sum(contain[token])
        b = len(contain[token]) - a
        occur_true = sum(occur[token])
        tf_true = occur_true / (length[1] or 1.0)
        tf_false = (len(occur[token]) - occur_true) / (length[0] or 1.0)
        row = (token, a, b, n_true - a, n_false - b, tf_true, tf_false)
        if len(set(scores)) < 2:  # nothing to compare
            entries.append((*row, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        elif formula.z:
            mean, variance = float(np.mean(scores)), float(np.var(scores))
            moments = (len(contain[token]), len(scores), mean, variance)
            z = statistics.presence_z(a, *moments)
            if formula.sharp:
                z = statistics.sharpened(z, *moments)
            tests = (1.0, 0.0, 0.0)  # of verdicts only: other scores may be anything
            if not batch.graded:
                tests = _value(row, length, formula)[:3]
            entries.append((*row, *tests, z, z, formula.credit_scale * z))
        else:
            entries.append((*row, *_value(row, length, formula)))
    return entries


def _value(
    row: tuple[int, float, float, float, float, float, float],
    length: list[float],
    formula: Formula,
) -> tuple[float, float, float, float, float, float]:
    """P-value, Fisher score, information gain, direction, value and credit."""
    _, a, b, c, d, tf_true, tf_false = row
    n_true, n_false = a + c, b + d
    if formula.single:
        p = statistics.single_precision_p_value(a, b, n_true, n_false)
    else:
        p = statistics.fisher_p_value(a, b, n_true, n_false, formula.point)
    fisher = statistics.fisher_score(p)
    gain = statistics.information_gain(a, b, n_true, n_false)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    strength = (formula.h1 * fisher + formula.h2 * gain) * formula.value_scale
    relative = statistics.relative_lengths(
        length[1], length[0], n_true, n_false, formula.mean_lengths
    )
    saturated_true, saturated_false = (
        statistics.saturated_term_frequency(tf, of_class, formula.k1, formula.b_len)
        for tf, of_class in zip((tf_true, tf_false), relative, strict=True)
    )
    contrast = statistics.frequency_contrast(saturated_true, saturated_false, formula.eps)
    direction = statistics.effect_size(a, b, n_true, n_false) + formula.h3 * contrast
    value = strength * direction
    return p, fisher, gain, direction, value, statistics.squashed(value, formula.credit_scale)
