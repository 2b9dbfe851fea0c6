"""The formulas of `ktae.statistics`, compiled, and what the backends make of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.backends._compiled import jit, kept

fisher_p_value = kept(statistics.fisher_p_value)  # for Python, too
fisher_score = jit(statistics.fisher_score)
single_precision_p_value = jit(statistics.single_precision_p_value)
information_gain = jit(statistics.information_gain)
relative_lengths = jit(statistics.relative_lengths)
saturated_term_frequency = jit(statistics.saturated_term_frequency)
effect_size = jit(statistics.effect_size)
frequency_contrast = jit(statistics.frequency_contrast)
presence_z = jit(statistics.presence_z)
sharpened = jit(statistics.sharpened)
squashed = jit(statistics.squashed)


class Totals(NamedTuple):
    """The margins of all of a group's tables. With graded scores n_true is their sum, and a rollout
    of score r adds the share r of its tokens to the correct ones'."""

    n: float
    n_true: float
    n_false: float
    length_true: float
    length_false: float
    variance: float
    """Of the scores, divided by n. Exactly 0 where there is nothing to compare."""


@jit
def group_totals(tokens, scores):
    """The totals over the rollouts of known correctness that have a token."""
    n, mean, squares, n_true, length_true, length_false = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(scores)):
        score = scores[i]
        if tokens[i] == 0 or np.isnan(score):
            continue
        n += 1
        deviation = score - mean  # Welford's algorithm: exactly 0 for equal scores
        mean += deviation / n
        squares += deviation * (score - mean)
        n_true += score
        length_true += score * tokens[i]
        length_false += (1.0 - score) * tokens[i]
    variance = squares / n if n > 0 else 0.0
    return Totals(float(n), n_true, n - n_true, length_true, length_false, variance)


@jit
def association(a, m, tested, totals, formula):
    """Strength, effect, p and information gain of a key that m rollouts hold, of total score a.

    Where the formula does without them, p and the gain are computed if they are to be `tested`.
    """
    table, p, gain = (a, m - a, totals.n_true, totals.n_false), 1.0, 0.0
    if tested or not formula.z:
        gain = information_gain(*table)
        if formula.single:
            p = single_precision_p_value(*table)
        else:
            p = fisher_p_value(*table, formula.point)
    if formula.z:
        mean = totals.n_true / totals.n
        strength, effect = 1.0, presence_z(a, m, totals.n, mean, totals.variance)
        if formula.sharp:
            effect = sharpened(effect, m, totals.n, mean, totals.variance)
    else:
        # The released code divides by h1 + h2, the paper does not: value_scale.
        strength = (formula.h1 * fisher_score(p) + formula.h2 * gain) * formula.value_scale
        effect = effect_size(*table)
    return strength, effect, p, gain


@kept
def associations(keys, formula):
    """(n, 2) strength and effect of keys that are (a, m, n, n_true, variance) each.

    Both are 0 where there is nothing to compare.
    """
    out = np.zeros((len(keys), 2))
    for i in range(len(keys)):
        a, m, n, n_true, variance = keys[i, 0], keys[i, 1], keys[i, 2], keys[i, 3], keys[i, 4]
        if variance > 0.0:
            totals = Totals(n, n_true, n - n_true, 0.0, 0.0, variance)
            out[i, 0], out[i, 1], _, _ = association(a, m, False, totals, formula)
    return out


@jit
def direction_of(effect, occur_true, occur_false, totals, formula):
    """The effect plus what the frequencies of the token in the two classes add to it."""
    if formula.h3 == 0.0:
        return effect
    lengths = totals.length_true, totals.length_false
    relative = relative_lengths(*lengths, totals.n_true, totals.n_false, formula.mean_lengths)
    tf = occur_true / lengths[0], occur_false / lengths[1]
    saturated_true = saturated_term_frequency(tf[0], relative[0], formula.k1, formula.b_len)
    saturated_false = saturated_term_frequency(tf[1], relative[1], formula.k1, formula.b_len)
    return effect + formula.h3 * frequency_contrast(saturated_true, saturated_false, formula.eps)


@jit
def credit_of(value, formula):
    """A z-score is credit as it is; the paper's value goes through a sigmoid."""
    scaled = formula.credit_scale * value if formula.z else squashed(value, formula.credit_scale)
    return scaled + 0.0  # a strength of 0 and an effect below 0 give -0.0
