"""The compiled judgement of the CPU backend: from counts to terms, by `ktae.statistics`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.backends._kernel_cache import jit
from ktae.config import KTAEConfig

IGNORED = 0
"""The index of all ignored tokens together: nothing is counted there, and its term is 0."""

MEMO_ENTRIES = 1 << 12
LOW = 0xFFFFFFFF


class Weights(NamedTuple):
    """`KTAEConfig` as numba takes it."""

    h1: float
    h2: float
    h3: float
    k1: float
    b_len: float
    eps: float
    value_scale: float
    term_scale: float
    point: bool
    z: bool
    """The statistic is the z-score, and the term linear in it."""


def kernel_weights(config: KTAEConfig) -> tuple[Weights, np.ndarray]:
    """The config's numbers as the kernels take them, and its ignored token ids."""
    return Weights(**config.numbers()), np.array(config.ignore_token_ids, dtype=np.int64)


class GroupTotals(NamedTuple):
    """The margins of all of a group's contingency tables. With graded scores n_true is their sum,
    and a rollout of score r adds the share r of its tokens to the correct ones'."""

    n_true: float
    n_false: float
    length_true: float
    length_false: float
    variance: float
    """Of the scores, divided by n. Exactly 0 where there is nothing to compare."""


fisher_p_value = jit(statistics.fisher_p_value)
fisher_score = jit(statistics.fisher_score)
information_gain = jit(statistics.information_gain)
saturated_term_frequency = jit(statistics.saturated_term_frequency)
effect_size = jit(statistics.effect_size)
frequency_contrast = jit(statistics.frequency_contrast)
presence_z = jit(statistics.presence_z)
squashed = jit(statistics.term)


@jit
def group_totals(tokens, correct, scores):
    """The totals over the rollouts of known correctness that have a token."""
    n, mean, squares, n_true, length_true, length_false = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(tokens)):
        if tokens[i] == 0 or correct[i] < 0:
            continue
        score = float(correct[i])
        if scores is not None:
            score = scores[i]
        n += 1
        deviation = score - mean  # Welford's algorithm: exactly 0 for equal scores
        mean += deviation / n
        squares += deviation * (score - mean)
        n_true += score
        length_true += score * tokens[i]
        length_false += (1.0 - score) * tokens[i]
    return GroupTotals(n_true, n - n_true, length_true, length_false, squares / max(n, 1))


@jit
def _tests(a, b, totals, weights):
    """P-value, Fisher score and information gain."""
    p = fisher_p_value(a, b, totals.n_true, totals.n_false, weights.point)
    return p, fisher_score(p), information_gain(a, b, totals.n_true, totals.n_false)


@jit
def _strength_and_effect(a, m, totals, weights):
    """What depends on the rollouts alone; m of them hold the token, of total score a."""
    if weights.z:
        n = np.round(totals.n_true + totals.n_false)
        return 1.0, presence_z(a, m, n, totals.n_true / n, totals.variance)
    b = m - a
    _, fisher, gain = _tests(a, b, totals, weights)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    strength = (weights.h1 * fisher + weights.h2 * gain) * weights.value_scale
    return strength, effect_size(a, b, totals.n_true, totals.n_false)


@jit
def _contrast(occur_true, occur_false, totals, weights):
    mean_length = (totals.length_true + totals.length_false) / 2
    frequency_true = saturated_term_frequency(
        occur_true / totals.length_true, totals.length_true / mean_length, weights.k1, weights.b_len
    )
    frequency_false = saturated_term_frequency(
        occur_false / totals.length_false, totals.length_false / mean_length,
        weights.k1, weights.b_len,
    )  # fmt: skip
    return frequency_contrast(frequency_true, frequency_false, weights.eps)


@jit
def _direction(strength, effect, occur_true, occur_false, totals, weights):
    if strength > 0.0 and weights.h3 > 0.0:
        effect += weights.h3 * _contrast(occur_true, occur_false, totals, weights)
    return effect


@jit
def _term(value, weights):
    return weights.term_scale * value if weights.z else squashed(value, weights.term_scale)


@jit
def judge_group(n_used, totals, space, weights, memo):
    """The term of every used index."""
    if totals.variance == 0.0:
        space.terms[:n_used] = 0.0
    elif len(space.scores) > 0:
        _judge_graded(n_used, totals, space, weights)
    else:
        _judge_verdicts(n_used, totals, space, weights, memo)


@jit
def _judge_verdicts(n_used, totals, space, weights, memo):
    """Strength and effect size depend on (a, b) alone, and so does the whole term of a token that
    no rollout holds twice, which most are: each pair is computed once a group. NaN in `memo` means
    not yet. Groups too large for the memo compute each token, which is linear too, since Fisher's
    test takes no more steps than there are rollouts with the token.
    """
    columns = int(totals.n_false) + 1
    n_pairs = (int(totals.n_true) + 1) * columns
    remembered = n_pairs <= len(memo)
    if remembered:
        memo[:n_pairs] = np.nan
    for index in range(IGNORED + 1, n_used):
        pair, occurrences = space.rollouts[index], space.occurrences[index]
        a, b = pair >> 32, pair & LOW
        entry = a * columns + b if remembered else 0
        if occurrences == pair and remembered and not np.isnan(memo[entry, 2]):
            space.terms[index] = memo[entry, 2]
            continue
        if not remembered or np.isnan(memo[entry, 0]):
            memo[entry, 0], memo[entry, 1] = _strength_and_effect(
                float(a), float(a + b), totals, weights
            )
        strength = memo[entry, 0]
        direction = _direction(
            strength, memo[entry, 1], float(occurrences >> 32), float(occurrences & LOW), totals,
            weights,
        )  # fmt: skip
        space.terms[index] = _term(strength * direction, weights)
        if occurrences == pair:
            memo[entry, 2] = space.terms[index]


@jit
def _judge_graded(n_used, totals, space, weights):
    """Nearly every token has its own pair (a, b), so nothing is remembered."""
    for index in range(IGNORED + 1, n_used):
        a, occur_true = space.scores[index, 0], space.scores[index, 1]
        strength, effect = _strength_and_effect(a, float(space.rollouts[index]), totals, weights)
        occur_false = space.occurrences[index] - occur_true
        direction = _direction(strength, effect, occur_true, occur_false, totals, weights)
        space.terms[index] = _term(strength * direction, weights)


@jit
def table_row(a, m, occur_true, occur_false, totals, weights, graded):
    """A, b, c, d, tf_true, tf_false, p, F, IG, direction, value and term."""
    row = np.zeros(12)
    b = m - a
    row[0], row[1], row[2], row[3] = a, b, totals.n_true - a, totals.n_false - b
    row[4] = occur_true / totals.length_true if totals.length_true != 0.0 else occur_true
    row[5] = occur_false / totals.length_false if totals.length_false != 0.0 else occur_false
    row[6] = 1.0
    if totals.variance > 0.0:
        if not (weights.z and graded):  # graded scores of a z-score may be anything
            row[6], row[7], row[8] = _tests(a, b, totals, weights)
        strength, direction = _strength_and_effect(a, m, totals, weights)
        if weights.h3 > 0.0:
            direction += weights.h3 * _contrast(occur_true, occur_false, totals, weights)
        row[9], row[10] = direction, strength * direction
        row[11] = _term(row[10], weights)
    return row
