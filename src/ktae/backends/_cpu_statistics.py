"""The compiled statistics of the CPU backend: from counts to credit, by `ktae.statistics`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.backends._kernel import jit

IGNORED = 0
"""The index of all ignored tokens together: nothing is counted there, and its credit is 0."""

MEMO_ENTRIES = 1 << 18
"""Enough for a group of 1,022 rollouts: 5 MB, of which smaller groups touch less."""
MEMO_PER_INDEX = 4
"""A memo of more entries for each used index costs more than it saves."""
KEPT_MARGIN = 64
"""What was computed for groups of so many rollouts of each class serves later groups, too."""
LOW = 0xFFFFFFFF


class Memo(NamedTuple):
    """What depends on a pair (a, b) alone: how many correct and incorrect rollouts hold a key.

    A group has few pairs. Strength and effect size depend on nothing else but the group's numbers
    of rollouts of each class, so that other groups with these find them here. (A z-score depends on
    the variance, too, which may differ in its last bit: it serves its own group alone.)
    """

    values: np.ndarray
    """(n, 2) float64: strength and effect size, NaN where not yet computed."""
    credit: np.ndarray
    """(n,) float32: the whole credit of this group's keys that no rollout holds twice, or NaN."""
    begins: np.ndarray
    """(margin, margin) int32, by (n_true, n_false) where both are smaller: one more than where the
    pairs of such groups begin in `values`. 0 where they are not there."""
    used: np.ndarray
    """(1,) int64: the entries of `values` that groups found by `begins` use."""


def empty_memo(n_groups: int, largest: int) -> Memo:
    """A memo for groups of at most `largest` rollouts, which remembers nothing yet."""
    most_pairs = (largest // 2 + 1) * ((largest + 1) // 2 + 1)
    n = min(n_groups * most_pairs, MEMO_ENTRIES)
    margin = min(largest, KEPT_MARGIN) + 1
    return Memo(
        np.empty((n, 2)), np.empty(n, dtype=np.float32), np.zeros((margin, margin), dtype=np.int32),
        np.zeros(1, dtype=np.int64),
    )  # fmt: skip


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
def fill_credit(n_used, totals, space, formula, scores):
    """The credit of every used index. `scores` is None without graded scores, and the branch for
    them then not compiled."""
    if totals.variance == 0.0:
        space.credit[:n_used] = 0.0
    elif scores is not None:
        _fill_graded(n_used, totals, space, formula)
    else:
        _fill_verdicts(n_used, totals, space, formula)


@jit
def _pairs_of(n_true, n_false, n_pairs, formula, memo):
    """Where in `memo.values` this group's pairs begin; they are NaN where no group had them yet.

    Those of a large group, and z-scores, take a place that the next group may have.
    """
    keeps = max(n_true, n_false) < len(memo.begins) and not formula.z
    if keeps and memo.begins[n_true, n_false] > 0:
        return memo.begins[n_true, n_false] - 1
    if memo.used[0] + n_pairs > len(memo.values):
        memo.begins[:] = 0
        memo.used[0] = 0
    begin = memo.used[0]
    memo.values[begin : begin + n_pairs] = np.nan
    if keeps:
        memo.begins[n_true, n_false] = begin + 1
        memo.used[0] += n_pairs
    return begin


@jit
def _fill_verdicts(n_used, totals, space, formula):
    """Each pair (a, b) is computed once, and the whole credit of a key that no rollout holds twice,
    which most are, once a group. Groups that have too many pairs compute each key, which is linear
    too, since Fisher's test takes no more steps than there are rollouts with the key.
    """
    # A field read within the loop would be counted as a reference each time, which takes longer.
    counts, credit, values, whole = space.counts, space.credit, space.memo.values, space.memo.credit
    n_true, n_false = int(totals.n_true), int(totals.n_false)
    columns = n_false + 1
    n_pairs = (n_true + 1) * columns
    remembered = n_pairs <= min(len(values), MEMO_PER_INDEX * n_used)
    begin = _pairs_of(n_true, n_false, n_pairs, formula, space.memo) if remembered else 0
    if remembered:
        whole[:n_pairs] = np.nan
    for index in range(IGNORED + 1, n_used):
        pair, again = counts[2 * index], counts[2 * index + 1]
        a, b = pair >> 32, pair & LOW
        entry = a * columns + b if remembered else 0
        if again == 0 and remembered and not np.isnan(whole[entry]):
            credit[index] = whole[entry]
            continue
        if not remembered or np.isnan(values[begin + entry, 0]):
            strength, effect = _strength_and_effect(float(a), float(a + b), totals, formula)
            if remembered:
                values[begin + entry, 0], values[begin + entry, 1] = strength, effect
        else:
            strength, effect = values[begin + entry, 0], values[begin + entry, 1]
        occurrences = pair + again
        direction = _direction(
            strength, effect, float(occurrences >> 32), float(occurrences & LOW), totals, formula
        )
        credit[index] = _credit(strength * direction, formula)
        if remembered and again == 0:
            whole[entry] = credit[index]


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
