"""The formulas of `ktae.statistics` as Triton functions, over tensors of tokens, in float64.

Tied tables need that precision, and 1e-6 in the credit would be close without it.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from ktae.statistics import Formula


class Settings(NamedTuple):
    """A formula and what else is known when a kernel is compiled.

    Compile-time constants keep their double precision, which kernel arguments would lose, and a
    weight of 0 drops its formula.
    """

    formula: Formula
    has_scores: bool
    ignored: tuple[int, ...]


@triton.jit
def fisher_score(a, b, n_true, n_false, settings: tl.constexpr):
    """`statistics.fisher_p_value` and `fisher_score`, both tails in step."""
    k = a + b
    c, d = n_true - a, n_false - b
    # How many tables there are; sums of fractions may miss the last one by their rounding.
    n_above = tl.floor(tl.minimum(k, n_true) - a + 1e-9).to(tl.int32)
    n_below = tl.floor(a - tl.maximum(k - n_false, 0.0) + 1e-9).to(tl.int32)
    above = tl.full(a.shape, 1.0, dtype=tl.float64)
    below = above
    total, as_extreme = above, above
    left_out = tl.zeros_like(n_above)
    for step in range(0, tl.max(tl.maximum(n_above, n_below), 0)):
        up = above * ((c - step) * (b - step) / ((a + step + 1.0) * (d + step + 1.0)))
        down = below * ((a - step) * (d - step) / ((c + step + 1.0) * (b + step + 1.0)))
        above = tl.where(step < n_above, up, 0.0)
        below = tl.where(step < n_below, down, 0.0)
        total += above + below
        as_extreme += tl.where(above <= 1.0 + 1e-7, above, 0.0)
        as_extreme += tl.where(below <= 1.0 + 1e-7, below, 0.0)
        left_out += (above > 1.0 + 1e-7).to(tl.int32) + (below > 1.0 + 1e-7).to(tl.int32)
    two_sided = tl.where(left_out == 0, 1.0, as_extreme / total)
    p_value = 1.0 / total if settings.formula.point else two_sided
    return tl.where(p_value == 1.0, 0.0, tl.exp(-2.0 * p_value))


@triton.jit
def _entropy(x, y):
    """H in bits of the shares x and y of x + y, 0 where one of them is 0."""
    mixed = (x > 0.0) & (y > 0.0)
    p = tl.where(mixed, x, 1.0) / tl.where(mixed, x + y, 2.0)
    return tl.where(mixed, -p * tl.log2(p) - (1.0 - p) * tl.log2(1.0 - p), 0.0)


@triton.jit
def information_gain(a, b, n_true, n_false):
    """`statistics.information_gain`."""
    c, d = n_true - a, n_false - b
    n = n_true + n_false
    gain = _entropy(a + c, b + d) - (a + b) / n * _entropy(a, b) - (c + d) / n * _entropy(c, d)
    # With the token in every rollout, or in none, X tells nothing: exactly 0, not to rounding.
    return tl.where((a + b == n) | (a + b == 0.0), 0.0, tl.maximum(gain, 0.0))


@triton.jit
def _asin_sqrt(x, n):
    """Asin √(x / n) in float64, which Triton's portable functions lack.

    For the smaller of the two shares, three halvings sin(θ/2) = sin θ / √(2 + 2 cos θ) bring the
    sine below 0.1, where four terms of the series leave an error of 2e-12.
    """
    x = tl.minimum(tl.maximum(x, 0.0), n)  # sums of fractions may round to beyond
    is_large = x + x > n
    sine = tl.sqrt(tl.where(is_large, n - x, x) / n)
    for _ in tl.static_range(3):
        sine = sine / tl.sqrt(2.0 + 2.0 * tl.sqrt(1.0 - sine * sine))
    s2 = sine * sine
    series = 1.0 + s2 * (1 / 6 + s2 * (3 / 40 + s2 * (15 / 336 + s2 * (105 / 3456))))
    angle = 8.0 * sine * series
    return tl.where(is_large, 1.5707963267948966 - angle, angle)


@triton.jit
def presence_z(a, m, totals):
    """`statistics.presence_z`."""
    n = tl.floor(totals[0] + totals[1] + 0.5)
    spread = m * (n - m) / tl.maximum(n - 1.0, 1.0) * totals[4]
    z = (a - m * (totals[0] / n)) / tl.sqrt(tl.where(spread > 0.0, spread, 1.0))
    return tl.where(spread > 0.0, z, 0.0)


@triton.jit
def sharpened(z, m, totals):
    """`statistics.sharpened`."""
    n = tl.floor(totals[0] + totals[1] + 0.5)
    spread = m * (n - m) * totals[4]
    tells = spread > 0.0
    skewed = (1.0 - 2.0 * (totals[0] / n)) * (n - 2.0 * m) * tl.sqrt(tl.maximum(n - 1.0, 1.0))
    expected = skewed / (tl.sqrt(tl.where(tells, spread, 1.0)) * tl.maximum(n - 2.0, 1.0))
    cube = z * z * z - tl.where(n > 2.0, expected, 0.0)
    return tl.where(tells, cube / tl.maximum(n - 1.0, 1.0), 0.0)


@triton.jit
def strength_and_effect(a, m, totals, settings: tl.constexpr):
    """What depends on the rollouts alone; `m` of them hold the token, of total score `a`."""
    strength = tl.zeros_like(a)
    if settings.formula.z:
        strength += 1.0
        effect = presence_z(a, m, totals)
        if settings.formula.sharp:
            effect = sharpened(effect, m, totals)
    else:
        n_true, n_false = totals[0], totals[1]
        b = m - a
        if settings.formula.h1 > 0:
            strength += settings.formula.h1 * fisher_score(a, b, n_true, n_false, settings)
        if settings.formula.h2 > 0:
            strength += settings.formula.h2 * information_gain(a, b, n_true, n_false)
        # The released code divides by h1 + h2, the paper does not: value_scale.
        strength *= settings.formula.value_scale
        effect = _asin_sqrt(a, n_true) - _asin_sqrt(b, n_false)
    return strength, effect


@triton.jit
def _saturated(occurrences, length, mean_length, settings: tl.constexpr):
    """`statistics.saturated_term_frequency` of a class of `length` tokens, times length / length:
    that saves a division for each token."""
    saturation = settings.formula.k1 * (
        1.0 - settings.formula.b_len + settings.formula.b_len * (length / mean_length)
    )
    return (settings.formula.k1 + 1.0) * occurrences / (saturation * length + occurrences)


@triton.jit
def credit(strength, effect, occur_true, occur_false, totals, settings: tl.constexpr):
    """`statistics.squashed`, or the z-score's own."""
    direction = effect
    if settings.formula.h3 > 0:
        mean_length = (totals[2] + totals[3]) / 2.0
        true = _saturated(occur_true, totals[2], mean_length, settings)
        false = _saturated(occur_false, totals[3], mean_length, settings)
        contrast = true / (false + settings.formula.eps) - false / (true + settings.formula.eps)
        direction += settings.formula.h3 * contrast
    value = tl.where(strength > 0.0, strength * direction, 0.0)
    if settings.formula.z:
        size = settings.formula.credit_scale * tl.abs(value)
    else:
        # σ(v) - 0.5 = (1 - e) / (1 + e) / 2 with e = exp(-v), for |v| so that nothing overflows.
        e = tl.exp(-tl.abs(value))
        size = settings.formula.credit_scale * 0.5 * (1.0 - e) / (1.0 + e)
    return tl.where(value < 0.0, -size, size).to(tl.float32)
