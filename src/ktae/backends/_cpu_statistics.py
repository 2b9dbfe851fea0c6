"""The compiled statistics of the CPU backend: from counts to credit, by `ktae.statistics`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.backends._kernel import jit

IGNORED = 0
"""The index of all ignored tokens together: nothing is counted there, and its credit is 0."""

MEMO_ENTRIES = 1 << 18
"""Enough for groups of 1,022 rollouts: 6 MB, of which smaller groups touch the beginning."""
MEMO_PER_INDEX = 4
"""A memo of more entries for each used index costs more than it saves."""
LOW = 0xFFFFFFFF


class GroupTotals(NamedTuple):
    """The margins of all of a group's contingency tables. With graded scores n_true is their sum,
    and a rollout of score r adds the share r of its tokens to the correct ones'."""

    n: float
    """Rollouts."""
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
sharpened = jit(statistics.sharpened)
squashed = jit(statistics.squashed)


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
    variance = squares / n if n > 0 else 0.0
    return GroupTotals(float(n), n_true, n - n_true, length_true, length_false, variance)


@jit
def _tests(a, b, totals, formula):
    """P-value, Fisher score and information gain."""
    p = fisher_p_value(a, b, totals.n_true, totals.n_false, formula.point)
    return p, fisher_score(p), information_gain(a, b, totals.n_true, totals.n_false)


@jit
def _strength_and_effect(a, m, totals, formula):
    """What depends on the rollouts alone; m of them hold the token, of total score a."""
    if formula.z:
        mean = totals.n_true / totals.n
        z = presence_z(a, m, totals.n, mean, totals.variance)
        if formula.sharp:
            z = sharpened(z, m, totals.n, mean, totals.variance)
        return 1.0, z
    b = m - a
    _, fisher, gain = _tests(a, b, totals, formula)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    strength = (formula.h1 * fisher + formula.h2 * gain) * formula.value_scale
    return strength, effect_size(a, b, totals.n_true, totals.n_false)


@jit
def _contrast(occur_true, occur_false, totals, formula):
    mean_length = (totals.length_true + totals.length_false) / 2
    frequency_true = saturated_term_frequency(
        occur_true / totals.length_true, totals.length_true / mean_length, formula.k1, formula.b_len
    )
    frequency_false = saturated_term_frequency(
        occur_false / totals.length_false, totals.length_false / mean_length,
        formula.k1, formula.b_len,
    )  # fmt: skip
    return frequency_contrast(frequency_true, frequency_false, formula.eps)


@jit
def _direction(strength, effect, occur_true, occur_false, totals, formula):
    if strength > 0.0 and formula.h3 > 0.0:
        effect += formula.h3 * _contrast(occur_true, occur_false, totals, formula)
    return effect


@jit
def _credit(value, formula):
    return formula.credit_scale * value if formula.z else squashed(value, formula.credit_scale)


@jit
def fill_credit(n_used, totals, space, formula, memo, scores):
    """The credit of every used index. `scores` is None without graded scores, and the branch for
    them then not compiled."""
    if totals.variance == 0.0:
        space.credit[:n_used] = 0.0
    elif scores is not None:
        _fill_graded(n_used, totals, space, formula)
    else:
        _fill_verdicts(n_used, totals, space, formula, memo)


@jit
def _fill_verdicts(n_used, totals, space, formula, memo):
    """Strength and effect size depend on (a, b) alone, and so does the whole credit of a token that
    no rollout holds twice, which most are: each pair is computed once a group. NaN in `memo` means
    not yet. Groups that have too many pairs compute each token, which is linear too, since Fisher's
    test takes no more steps than there are rollouts with the token.
    """
    columns = int(totals.n_false) + 1
    n_pairs = (int(totals.n_true) + 1) * columns
    remembered = n_pairs <= min(len(memo), MEMO_PER_INDEX * n_used)
    if remembered:
        memo[:n_pairs] = np.nan
    for index in range(IGNORED + 1, n_used):
        pair, again = space.counts[2 * index], space.counts[2 * index + 1]
        a, b = pair >> 32, pair & LOW
        entry = a * columns + b if remembered else 0
        if again == 0 and remembered and not np.isnan(memo[entry, 2]):
            space.credit[index] = memo[entry, 2]
            continue
        if not remembered or np.isnan(memo[entry, 0]):
            memo[entry, 0], memo[entry, 1] = _strength_and_effect(
                float(a), float(a + b), totals, formula
            )
        strength, occurrences = memo[entry, 0], pair + again
        direction = _direction(
            strength, memo[entry, 1], float(occurrences >> 32), float(occurrences & LOW), totals,
            formula,
        )  # fmt: skip
        space.credit[index] = _credit(strength * direction, formula)
        if again == 0:
            memo[entry, 2] = space.credit[index]


@jit
def _fill_graded(n_used, totals, space, formula):
    """Nearly every token has its own pair (a, b), so nothing is remembered."""
    for index in range(IGNORED + 1, n_used):
        a, occur_true = space.scores[index, 0], space.scores[index, 1]
        m, again = space.counts[2 * index], space.counts[2 * index + 1]
        strength, effect = _strength_and_effect(a, float(m), totals, formula)
        occur_false = m + again - occur_true
        direction = _direction(strength, effect, occur_true, occur_false, totals, formula)
        space.credit[index] = _credit(strength * direction, formula)


@jit
def table_row(a, m, occur_true, occur_false, totals, formula, graded):
    """A, b, c, d, tf_true, tf_false, p, F, IG, direction, value and credit."""
    b = m - a
    tf_true = occur_true / totals.length_true if totals.length_true != 0.0 else occur_true
    tf_false = occur_false / totals.length_false if totals.length_false != 0.0 else occur_false
    p, fisher, gain, direction, value, credit = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if totals.variance > 0.0:
        if not (formula.z and graded):  # graded scores of a z-score may be anything
            p, fisher, gain = _tests(a, b, totals, formula)
        strength, direction = _strength_and_effect(a, m, totals, formula)
        if formula.h3 > 0.0:
            direction += formula.h3 * _contrast(occur_true, occur_false, totals, formula)
        value = strength * direction
        credit = _credit(value, formula)
    c, d = totals.n_true - a, totals.n_false - b
    return a, b, c, d, tf_true, tf_false, p, fisher, gain, direction, value, credit


@jit
def fisher_p_values(a, b, n_true, n_false):
    """Two-sided p-values of the tables of `a[i]` and `b[i]`, all of the same margins' totals."""
    p = np.empty(len(a))
    for i in range(len(a)):
        p[i] = fisher_p_value(a[i], b[i], n_true, n_false, False)
    return p
