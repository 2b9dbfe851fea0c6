"""The formulas of KTAE and of the z-score of presence, one small pure function each.

They take numbers, NumPy arrays or torch tensors alike; the p-values, of which
`ktae.counting.p_values` are those of arrays, plain numbers.

Letters: of the `n_correct` correct and `n_incorrect` incorrect responses of a group, `a` and `b`
contain the token at least once; c = n_correct - a and d = n_incorrect - b do not.
"""

import math
from typing import Any

import numpy as np

from ktae.arrays import namespace

Number = Any
"""A float, a NumPy array or a torch tensor."""


def fisher_p_value(a: float, b: float, n_correct: float, n_incorrect: float, point: bool) -> float:
    """P-value of Fisher's exact test of the table [[a, b], [c, d]] (paper, eq. "fisher").

    With `point` it is the hypergeometric probability of this one table, as the paper prints it;
    otherwise the sum over all tables of the same margins that are no more probable than this one,
    as the paper's sentence says and `scipy.stats.fisher_exact` computes.

    The probabilities of the other tables are followed from this one by their ratios, so no
    factorial is formed; the slack of 1e-7 absorbs rounding on both sides of a tie. The result is
    exactly 1.0 whenever every table counts. Time is linear in min(a + b, n_correct, n_incorrect).
    """
    k = a + b
    total = as_extreme = weight = 1.0
    is_all = True
    x = a
    while x + 1 <= min(k, n_correct):  # tables with more correct responses that contain the token
        weight *= (n_correct - x) * (k - x) / ((x + 1) * (n_incorrect - k + x + 1))
        total += weight
        if weight <= 1.0 + 1e-7:
            as_extreme += weight
        else:
            is_all = False
        x += 1
    weight, x = 1.0, a
    while x - 1 >= max(0.0, k - n_incorrect):  # tables with fewer
        weight *= x * (n_incorrect - k + x) / ((n_correct - x + 1) * (k - x + 1))
        total += weight
        if weight <= 1.0 + 1e-7:
            as_extreme += weight
        else:
            is_all = False
        x -= 1
    if point:
        return 1.0 / total
    return 1.0 if is_all else as_extreme / total


def single_precision_p_value(a: float, b: float, n_correct: float, n_incorrect: float) -> float:
    """Fisher's two-sided p-value as the paper's authors compute it: in float32.

    Logarithms of factorials, their sums and the probabilities are rounded to float32, and tables
    are compared by <=. So tables that are equally probable may be told apart, and p may be just
    below 1 where it is 1. Only the last sum is exact here: the order of theirs depends on the
    machine, which matters for 5 of the 6,448 tables of 32 responses.

    Source: `fisher_exact_test` of the released code, described; nothing of it was taken over.
    """

    def log_binomial(n: float, k: float) -> np.float32:
        logs = np.float32(math.lgamma(n + 1.0)) - np.float32(math.lgamma(k + 1.0))
        return logs - np.float32(math.lgamma(n - k + 1.0))

    def probability(x: float) -> np.float32:
        logs = log_binomial(n_correct, x) + log_binomial(n_incorrect, a + b - x)
        return np.float32(math.exp(np.float64(logs - log_binomial(n_correct + n_incorrect, a + b))))

    observed, total = probability(a), 0.0
    x = max(0.0, a + b - n_incorrect)
    while x <= min(a + b, n_correct):
        weight = probability(x)
        total += np.float64(weight) if weight <= observed else 0.0
        x += 1
    return float(np.float32(total))


def fisher_score(p_value: Number) -> Number:
    """F = exp(-2 p), and exactly 0 where p = 1: no association, no score (paper, sec. 3.2)."""
    xp = namespace(p_value)
    return xp.where(p_value == 1.0, 0.0, xp.exp(-2.0 * p_value))


def information_gain(a: Number, b: Number, n_correct: Number, n_incorrect: Number) -> Number:
    """IG = H(Y) - H(Y|X) in bits: Y the correctness, X the token's presence (paper, eq. 8 and 9).

    Never negative; exactly 0 for a token that every response contains.
    """
    xp, n = namespace(a), n_correct + n_incorrect

    def entropy(x: Number, y: Number) -> Number:
        total = xp.where(x + y > 0, x + y, 1.0)
        bits = 0.0
        for share in (x / total, y / total):
            bits = bits - share * xp.log2(xp.where(share > 0, share, 1.0))
        return bits

    with_token = (a + b) / n * entropy(a, b)
    without_token = (n - a - b) / n * entropy(n_correct - a, n_incorrect - b)
    return (entropy(n_correct, n_incorrect) - with_token - without_token).clip(0.0)


def relative_lengths(
    length_correct: Number,
    length_incorrect: Number,
    n_correct: Number,
    n_incorrect: Number,
    mean: bool,
) -> tuple[Number, Number]:
    """L / L_avg of the correct and of the incorrect responses (paper, eq. "tf").

    L is a class's token total, and L_avg the mean of both classes' totals, as in the released code.
    With `mean` L is the mean length of the class's responses, and L_avg that of all, as the paper
    has it.
    """
    total = length_correct + length_incorrect
    if mean:
        n = n_correct + n_incorrect
        return n * length_correct / (n_correct * total), n * length_incorrect / (
            n_incorrect * total
        )
    return 2.0 * length_correct / total, 2.0 * length_incorrect / total


def saturated_term_frequency(
    tf: Number, relative_length: Number, k1: float, b_len: float
) -> Number:
    """TF = (k1 + 1) tf / (k1 (1 - b_len + b_len L / L_avg) + tf), after BM25 (paper, eq. "tf").

    `tf` is the token's share of the class's tokens; `relative_length` is L / L_avg, as
    `relative_lengths` has it.
    """
    return (k1 + 1.0) * tf / (k1 * (1.0 - b_len + b_len * relative_length) + tf)


def effect_size(a: Number, b: Number, n_correct: Number, n_incorrect: Number) -> Number:
    """Asin √(a / n_correct) - asin √(b / n_incorrect): half of Cohen's h (paper: "direction")."""
    xp = namespace(a)
    return xp.arcsin(xp.sqrt(a / n_correct)) - xp.arcsin(xp.sqrt(b / n_incorrect))


def frequency_contrast(tf_correct: Number, tf_incorrect: Number, eps: float) -> Number:
    """TF_correct / (TF_incorrect + ε) - TF_incorrect / (TF_correct + ε) (paper, eq. "direction").

    The paper prints no ε and divides by zero for a token of one class; ε is the released code's.
    """
    return tf_correct / (tf_incorrect + eps) - tf_incorrect / (tf_correct + eps)


def squashed(value: Number) -> Number:
    """σ(value) - 1/2 (paper, eq. "advantage"), as a tanh: it cannot overflow."""
    return 0.5 * namespace(value).tanh(0.5 * value)


def presence_z(score_sum: Number, m: Number, n: Number, mean: Number, variance: Number) -> Number:
    """Permutation z-score of the scores of the `m` responses of `n` that contain a token.

    z = (Σ r - m r̄) / √(m (n - m) / (n - 1) · s²): the sum of a sample without replacement, less
    its mean, over its standard deviation (Cochran, Sampling Techniques, theorem 2.2). Its mean
    over all permutations of the scores is 0 and its variance 1. For scores 0 and 1 it is the
    signed hypergeometric z; for m = 1 GRPO's advantage (with the population's deviation) of the
    one response; |z| <= √(n - 1). A token in every response has exactly 0.

    `score_sum` is Σ r over the m responses that contain the token; `mean` and `variance` are r̄ and
    s² of all n, divided by n; not 0.
    """
    xp = namespace(m)
    deviation = xp.sqrt(xp.where(m == n, 1.0, m * (n - m) / (n - 1.0) * variance))
    return xp.where(m == n, 0.0, (score_sum - m * mean) / deviation)


def sharpened(z: Number, m: Number, n: Number, mean: Number, variance: Number) -> Number:
    """(z³ - E z³) / (n - 1): strong evidence keeps its weight, weak evidence fades.

    z² / (n - 1) is the share of the correctness's variance that presence explains (r²), so
    z³ / (n - 1) is z times that share; |.| <= √(n - 1), as for z. E z³ is the mean over all
    permutations of the labels, γ (n - 2m) √(n - 1) / ((n - 2) √(m (n - m))) with their skewness γ
    (third moment of a sample without replacement: Cochran, Sampling Techniques, section 2.15). So
    the mean over all permutations is 0, as that of z = `presence_z`. `mean` is r̄ of the n labels,
    and `variance` r̄ (1 - r̄), not 0.
    """
    xp = namespace(m)
    skewness = (1.0 - 2.0 * mean) / xp.sqrt(variance)
    spread = xp.where((n > 2) & (m < n), (n - 2.0) * xp.sqrt(m * (n - m)), 1.0)
    expected = xp.where(n > 2, skewness * (n - 2.0 * m) * xp.sqrt(n - 1.0) / spread, 0.0)
    return xp.where(m == n, 0.0, (z * z * z - expected) / (n - 1.0))
