"""The formulas of KTAE, one small pure function each.

All are functions over plain numbers that call nothing but each other, `math` and a little of NumPy.
So one text serves all: the naive and the NumPy backend call them as they stand (`direction` and
`credit` with arrays, too), the CPU backend compiles them.

Letters: of the `n_true` correct and `n_false` incorrect rollouts of a group, `a` and `b` contain
the token at least once; c = n_true - a and d = n_false - b do not. With graded scores r from 0 to 1
a rollout is correct by the share r and incorrect by 1 - r: `a` is then the sum of r over the
rollouts that contain the token, `b` that of 1 - r, and so on.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Formula(NamedTuple):
    """The numbers of a statistic of contingency tables, as every backend takes them.

    What `ktae.estimators.KTAE` and `PresenceZ` come to; those explain the settings.
    """

    h1: float
    h2: float
    h3: float
    k1: float
    b_len: float
    eps: float
    value_scale: float
    """What the strength of association is multiplied by."""
    credit_scale: float
    """What the squashed value, or the z-score, is multiplied by."""
    point: bool
    """Fisher's p-value is the probability of the one table."""
    z: bool
    """The statistic is `presence_z`, and the credit linear in it; h1 to eps play no part."""
    sharp: bool = False
    """The z-score goes through `sharpened`; of verdicts alone."""
    single: bool = False
    """Fisher's p-value is `single_precision_p_value`."""
    mean_lengths: bool = False
    """See `relative_lengths`."""


class Margins(NamedTuple):
    """What all of a group's tables have in common. With graded scores n_true is their sum."""

    n: float
    n_true: float
    n_false: float
    variance: float
    """Of the scores, divided by n. Exactly 0 where there is nothing to compare."""


class Lengths(NamedTuple):
    """The tokens of a group's correct and incorrect rollouts; a rollout of score r adds the share r
    of its tokens to the correct ones'."""

    true: float
    false: float


def totals(tokens: Sequence[int], scores: Sequence[float]) -> tuple[Margins, Lengths]:
    """The totals over a group's rollouts of known correctness that have a token.

    Args:
        tokens: how many tokens each rollout has.
        scores: its score, NaN where unknown.
    """
    n, mean, squares, n_true, length_true, length_false = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(scores)):
        score = scores[i]
        if tokens[i] == 0 or math.isnan(score):
            continue
        n += 1
        deviation = score - mean  # Welford's algorithm: exactly 0 for equal scores
        mean += deviation / n
        squares += deviation * (score - mean)
        n_true += score
        length_true += score * tokens[i]
        length_false += (1.0 - score) * tokens[i]
    variance = squares / n if n > 0 else 0.0
    return Margins(float(n), n_true, n - n_true, variance), Lengths(length_true, length_false)


def association(
    a: float, m: float, margins: Margins, formula: Formula, tested: bool
) -> tuple[float, float, float, float]:
    """Strength, effect, p-value and information gain of a token.

    Args:
        a: the scores' sum over the rollouts that contain the token.
        m: how many these are.
        margins: of a group in which scores differ.
        formula: its numbers.
        tested: compute p and the gain also where the formula does without them.
    """
    table, p, gain = (a, m - a, margins.n_true, margins.n_false), 1.0, 0.0
    if tested or not formula.z:
        gain = information_gain(*table)
        if formula.single:
            p = single_precision_p_value(*table)
        else:
            p = fisher_p_value(*table, formula.point)
    if formula.z:
        mean = margins.n_true / margins.n
        strength, effect = 1.0, presence_z(a, m, margins.n, mean, margins.variance)
        if formula.sharp:
            effect = sharpened(effect, m, margins.n, mean, margins.variance)
    else:
        # The released code divides by h1 + h2, the paper does not: value_scale.
        strength = (formula.h1 * fisher_score(p) + formula.h2 * gain) * formula.value_scale
        effect = effect_size(*table)
    return strength, effect, p, gain


def direction(
    effect: float,
    occur_true: float,
    occur_false: float,
    margins: Margins,
    lengths: Lengths,
    formula: Formula,
) -> float:
    """The effect, plus h3 times what the token's frequencies in the two classes say."""
    if formula.h3 == 0.0:
        return effect
    relative = relative_lengths(
        lengths.true, lengths.false, margins.n_true, margins.n_false, formula.mean_lengths
    )
    tf_true, tf_false = occur_true / lengths.true, occur_false / lengths.false
    saturated_true = saturated_term_frequency(tf_true, relative[0], formula.k1, formula.b_len)
    saturated_false = saturated_term_frequency(tf_false, relative[1], formula.k1, formula.b_len)
    return effect + formula.h3 * frequency_contrast(saturated_true, saturated_false, formula.eps)


def credit(value: float, formula: Formula) -> float:
    """A z-score is credit as it is; the paper's value goes through a sigmoid."""
    scaled = formula.credit_scale * value if formula.z else squashed(value, formula.credit_scale)
    return scaled + 0.0  # a strength of 0 and an effect below 0 give -0.0


def fisher_p_value(a: float, b: float, n_true: float, n_false: float, point: bool) -> float:
    """P-value of Fisher's exact test of the table [[a, b], [c, d]] (paper, eq. "fisher").

    With `point` it is the hypergeometric probability of this one table, as the paper prints it;
    otherwise the sum over all tables of the same margins that are no more probable than this one,
    as the paper's sentence says and `scipy.stats.fisher_exact` computes.

    The probabilities of the other tables are followed from this one by their ratios, so no
    factorial is formed. Ratios of integers round the same way on both sides of a tie to a few
    units in the last place; the slack of 1e-7 absorbs that. The result is exactly 1.0 whenever
    every table counts. Time is linear in min(a + b, n_true, n_false).

    Graded scores make the cells fractions. Then the tables are those whose `a` differs from this
    one by an integer, and the ratios are those of the gamma function, Γ(x + 1) = x Γ(x).
    """
    k = a + b
    low = max(0, k - n_false) - 1e-9  # sums of fractions may miss the last table by their rounding
    high = min(k, n_true) + 1e-9
    total = 1.0
    as_extreme = 1.0
    left_out = 0
    weight = 1.0
    x = a
    while x + 1 <= high:  # tables with more correct rollouts that contain the token
        weight *= (n_true - x) * (k - x) / ((x + 1) * (n_false - k + x + 1))
        total += weight
        if weight <= 1.0 + 1e-7:
            as_extreme += weight
        else:
            left_out += 1
        x += 1
    weight = 1.0
    x = a
    while x - 1 >= low:  # tables with fewer
        weight *= x * (n_false - k + x) / ((n_true - x + 1) * (k - x + 1))
        total += weight
        if weight <= 1.0 + 1e-7:
            as_extreme += weight
        else:
            left_out += 1
        x -= 1
    if point:
        return 1.0 / total
    if left_out == 0:
        return 1.0
    return as_extreme / total


def single_precision_p_value(a: float, b: float, n_true: float, n_false: float) -> float:
    """Fisher's two-sided p-value as the paper's authors compute it: in float32.

    Logarithms of factorials, their sums and the probabilities are rounded to float32, and tables
    are compared by <=. So tables that are equally probable may be told apart, and p may be just
    below 1 where it is 1. Only the last sum is exact here: the order of theirs depends on the
    machine. That changes whether p is 1 in none of the 920 tables of 16 rollouts, and in 5 of the
    6,448 of 32.

    Source: `fisher_exact_test` of the released code, described; nothing of it was taken over.
    """

    def log_binomial(n: float, k: float) -> np.float32:
        logs = np.float32(math.lgamma(n + 1.0)) - np.float32(math.lgamma(k + 1.0))
        return logs - np.float32(math.lgamma(n - k + 1.0))

    def probability(x: float) -> np.float32:
        logs = log_binomial(n_true, x) + log_binomial(n_false, a + b - x)
        return np.float32(math.exp(np.float64(logs - log_binomial(n_true + n_false, a + b))))

    seen, total = probability(a), 0.0
    x = a - math.floor(a - max(0.0, a + b - n_false) + 1e-9)  # sums of fractions may round
    while x <= min(a + b, n_true) + 1e-9:
        # Rounding may bring a cell of fractions below 0.
        weight = probability(min(max(x, a + b - n_false, 0.0), a + b, n_true))
        total += np.float64(weight) if weight <= seen else 0.0
        x += 1
    return float(np.float32(total))


def fisher_score(p_value: float) -> float:
    """F = exp(-2 p), and exactly 0 where p = 1: no association, no score (paper, sec. 3.2)."""
    return 0.0 if p_value == 1.0 else math.exp(-2.0 * p_value)


def information_gain(a: float, b: float, n_true: float, n_false: float) -> float:
    """IG = H(Y) - H(Y|X) in bits: Y the correctness, X the token's presence (paper, eq. 8 and 9).

    Never negative; exactly 0 for a token that every rollout contains.
    """

    def entropy(x: float, y: float) -> float:
        bits = 0.0
        if x > 0 and y > 0:
            n = x + y
            bits = -(x / n) * math.log2(x / n) - (y / n) * math.log2(y / n)
        return bits

    n = n_true + n_false
    with_token = (a + b) / n * entropy(a, b)
    without_token = (n - a - b) / n * entropy(n_true - a, n_false - b)
    return max(0.0, entropy(n_true, n_false) - with_token - without_token)


def relative_lengths(
    length_true: float, length_false: float, n_true: float, n_false: float, mean: bool
) -> tuple[float, float]:
    """L / L_avg of the correct and of the incorrect rollouts (paper, eq. "tf").

    L is a class's token total, and L_avg the mean of both classes' totals, as in the released code.
    With `mean` L is the mean length of the class's rollouts, and L_avg that of all, as the paper
    has it: "the average lengths of the concatenated correct and incorrect rollouts" and "the
    average rollout length across all G rollouts".
    """
    total = length_true + length_false
    if mean:
        n = n_true + n_false
        return n * length_true / (n_true * total), n * length_false / (n_false * total)
    return 2.0 * length_true / total, 2.0 * length_false / total


def saturated_term_frequency(tf: float, relative_length: float, k1: float, b_len: float) -> float:
    """TF = (k1 + 1) tf / (k1 (1 - b_len + b_len L / L_avg) + tf), after BM25 (paper, eq. "tf").

    `tf` is the token's share of the class's tokens; `relative_length` is L / L_avg, as
    `relative_lengths` has it.
    """
    return (k1 + 1.0) * tf / (k1 * (1.0 - b_len + b_len * relative_length) + tf)


def effect_size(a: float, b: float, n_true: float, n_false: float) -> float:
    """Asin √(a / n_true) - asin √(b / n_false): half of Cohen's h (paper, eq. "direction")."""
    share_true = min(1.0, max(0.0, a / n_true))  # sums of fractions may round to beyond
    share_false = min(1.0, max(0.0, b / n_false))
    return math.asin(math.sqrt(share_true)) - math.asin(math.sqrt(share_false))


def frequency_contrast(tf_true: float, tf_false: float, eps: float) -> float:
    """TF_true / (TF_false + ε) - TF_false / (TF_true + ε) (paper, eq. "direction").

    The paper prints no ε and divides by zero for a token of one class; ε is the released code's.
    """
    return tf_true / (tf_false + eps) - tf_false / (tf_true + eps)


def squashed(value: float, credit_scale: float) -> float:
    """`credit_scale · (σ(value) - 0.5)` (paper, eq. "advantage"), as a tanh: it cannot overflow."""
    tanh: float = np.tanh(0.5 * value)
    return credit_scale * 0.5 * tanh


def presence_z(score_sum: float, m: float, n: float, mean: float, variance: float) -> float:
    """Permutation z-score of the scores of the `m` rollouts of `n` that contain a token.

    z = (Σ r - m r̄) / √(m (n - m) / (n - 1) · s²): the sum of a sample without replacement, less
    its mean, over its standard deviation (Cochran, Sampling Techniques, theorem 2.2). Its mean
    over all permutations of the scores is 0 and its variance 1. For scores 0 and 1 it is the
    signed hypergeometric z; for m = 1 GRPO's advantage (with the population's deviation) of the
    one rollout; |z| <= √(n - 1). A token in every rollout has exactly 0.

    Args:
        score_sum: Σ r over the rollouts that contain the token.
        m: how many these are.
        n: the group's rollouts.
        mean: r̄ of all n.
        variance: s² of all n (divided by n, not by n - 1); not 0.
    """
    if m == n:
        return 0.0
    return (score_sum - m * mean) / math.sqrt(m * (n - m) / (n - 1.0) * variance)


def sharpened(z: float, m: float, n: float, mean: float, variance: float) -> float:
    """(z³ - E z³) / (n - 1): strong evidence keeps its weight, weak evidence fades.

    z² / (n - 1) is the share of the verdicts' variance that presence explains (r²), so z³ / (n - 1)
    is z times that share; |.| <= √(n - 1), as for z. E z³ is the mean over all permutations of the
    verdicts, γ (n - 2m) √(n - 1) / ((n - 2) √(m (n - m))) with their skewness γ (third moment of a
    sample without replacement: Cochran, Sampling Techniques, section 2.15). So the mean over all
    permutations is 0, as that of z.

    Args:
        z: `presence_z`.
        m: rollouts that contain the token.
        n: the group's rollouts.
        mean: r̄ of the n verdicts.
        variance: r̄ (1 - r̄); not 0.
    """
    if m == n:
        return 0.0
    cube = z * z * z
    if n > 2:
        skewness = (1.0 - 2.0 * mean) / math.sqrt(variance)
        cube -= skewness * (n - 2.0 * m) * math.sqrt(n - 1.0) / ((n - 2.0) * math.sqrt(m * (n - m)))
    return cube / (n - 1.0)
