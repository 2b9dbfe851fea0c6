"""The formulas against scipy, exact fractions and high-precision decimals.

Expected values never come from ktae: they come from `scipy.stats`, from `math.comb` and
`fractions.Fraction` (exact), or from `decimal` with 50 digits.
"""

import decimal
import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch

from ktae import stats
from ktae.counting import p_values

Table = tuple[int, int, int, int]
"""a, b, n_true, n_false."""

SIZES = range(1, 33)


def tables_of_size(n: int) -> Iterator[Table]:
    for n_true in range(n + 1):
        for a in range(n_true + 1):
            for b in range(n - n_true + 1):
                yield a, b, n_true, n - n_true


@cache
def exact_p_values(k: int, n_true: int, n_false: int) -> dict[int, tuple[Fraction, Fraction]]:
    """{a: (point, two-sided)} of every table with k rollouts that contain the token.

    A table's probability is its integer count comb(n_true, a) · comb(n_false, k - a) over the sum
    of all counts, so ties are ties between integers.
    """
    counts = {
        a: math.comb(n_true, a) * math.comb(n_false, k - a)
        for a in range(max(0, k - n_false), min(k, n_true) + 1)
    }
    total = sum(counts.values())
    return {
        a: (Fraction(count, total), Fraction(sum(c for c in counts.values() if c <= count), total))
        for a, count in counts.items()
    }


@pytest.mark.parametrize("n", SIZES)
def test_p_values_are_the_exact_fractions(n: int) -> None:
    """Origin: integer counts. 1.0 exactly where, and only where, the exact fraction is 1."""
    for a, b, n_true, n_false in tables_of_size(n):
        point, two_sided = exact_p_values(a + b, n_true, n_false)[a]
        got_point = stats.fisher_p_value(a, b, n_true, n_false, True)
        got_two_sided = stats.fisher_p_value(a, b, n_true, n_false, False)
        where = (a, b, n_true, n_false)
        assert got_point == pytest.approx(float(point), rel=1e-13), where
        assert got_two_sided == pytest.approx(float(two_sided), rel=1e-13), where
        assert (got_point == 1.0) == (point == 1), where
        assert (got_two_sided == 1.0) == (two_sided == 1), where


@pytest.mark.parametrize("size", [(47, 3), (20, 27), (150, 150), (1, 299), (211, 89)])
def test_p_values_of_large_groups(size: tuple[int, int]) -> None:
    """Origin: integer counts."""
    n_true, n_false = size
    for k in range(0, n_true + n_false + 1, 7):
        for a, expected in exact_p_values(k, n_true, n_false).items():
            for point, fraction in zip((True, False), expected, strict=True):
                got = stats.fisher_p_value(a, k - a, n_true, n_false, point)
                assert got == pytest.approx(float(fraction), rel=1e-11), (a, k, point)
                assert (got == 1.0) == (fraction == 1), (a, k, point)


def test_p_value_of_a_huge_group_underflows_to_zero() -> None:
    """The weights of the other tables overflow float64 here; the p-value is about 10^-3000."""
    assert stats.fisher_p_value(5000, 0, 5000, 5000, False) == 0.0
    assert stats.fisher_p_value(0, 5000, 5000, 5000, True) == 0.0
    assert stats.fisher_p_value(2500, 2500, 5000, 5000, False) == 1.0


def test_fisher_score() -> None:
    """Origin: e^-2, e^-1 and 1 to 17 digits."""
    assert stats.fisher_score(0.0) == 1.0
    assert stats.fisher_score(0.5) == pytest.approx(0.36787944117144233, rel=1e-15)
    assert stats.fisher_score(math.nextafter(1.0, 0.0)) == pytest.approx(
        0.1353352832366127, rel=1e-14
    )
    assert stats.fisher_score(1.0) == 0.0


def test_tables_of_sixteen_without_association_score_zero() -> None:
    """935 tables of 16 rollouts have both classes; where a token occurs, 268 score exactly 0.

    Origin: the feasibility study, by which the released code's float32 gives 244 of the 268
    e^-2. (The 15 further tables with p = 1 belong to a token that is in no rollout.)
    """
    score_of = {
        table: stats.fisher_score(stats.fisher_p_value(*table, False))
        for table in tables_of_size(16)
        if table[2] and table[3]
    }
    assert len(score_of) == 935
    unscored = [table for table, score in score_of.items() if score == 0.0]
    assert sum(a + b > 0 for a, b, _, _ in unscored) == 268
    assert sum(a + b == 0 for a, b, _, _ in unscored) == 15
    p = {table: stats.single_precision_p_value(*table) for table in score_of}
    assert sum(p[table] != 1.0 for table in unscored) == 245, "one more than in the study"
    exact = {table: stats.fisher_p_value(*table, False) for table in score_of}
    off = [abs(p[table] - exact[table]) for table in p]
    assert sum(x > 1e-3 for x in off) == 20 and round(max(off), 3) == 0.458


@cache
def log2_of_integer(n: int) -> Decimal:
    with decimal.localcontext(prec=50):
        return Decimal(n).ln() / Decimal(2).ln()


def exact_entropy(x: int, y: int) -> Decimal:
    """H of a class of x and one of y, times x + y: n·log2 n - x·log2 x - y·log2 y."""
    with decimal.localcontext(prec=50):
        bits = Decimal(0)
        for sign, count in ((1, x + y), (-1, x), (-1, y)):
            if count:
                bits += sign * count * log2_of_integer(count)
        return bits


@pytest.mark.parametrize("n", SIZES)
def test_information_gain(n: int) -> None:
    """Origin: `decimal` with 50 digits."""
    for a, b, n_true, n_false in tables_of_size(n):
        with decimal.localcontext(prec=50):
            conditional = exact_entropy(a, b) + exact_entropy(n_true - a, n_false - b)
            expected = (exact_entropy(n_true, n_false) - conditional) / n
        got = stats.information_gain(a, b, n_true, n_false)
        assert got == pytest.approx(float(expected), abs=1e-14), (a, b, n_true, n_false)
        assert got >= 0.0


@pytest.mark.parametrize(("n_true", "n_false"), [(1, 1), (5, 11), (8, 8), (3, 44), (299, 1)])
def test_information_gain_at_the_edges(n_true: int, n_false: int) -> None:
    def gain(a: int, b: int) -> float:
        return stats.information_gain(a, b, n_true, n_false)

    share = n_true / (n_true + n_false)
    entropy = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    assert gain(n_true, n_false) == 0.0, "a token of every rollout tells nothing, exactly"
    assert gain(0, 0) == 0.0, "nor does a token of none"
    assert gain(n_true, 0) == pytest.approx(entropy, rel=1e-12), "this one tells all"
    assert gain(0, n_false) == pytest.approx(entropy, rel=1e-12)
    assert stats.information_gain(n_true // 2, 0, n_true, 0) == 0.0, "one class only"
    one_bit = stats.information_gain(n_true, 0, n_true, n_true)
    assert one_bit == 1.0, "even classes told apart are one bit, exactly"


@pytest.mark.parametrize("tf", ["0", "1/1000000", "1/7", "1/2", "1"])
@pytest.mark.parametrize("relative_length", ["1/50", "3/4", "1", "99/50"])
@pytest.mark.parametrize(("k1", "b_len"), [("2", "1/2"), ("6/5", "3/4"), ("2", "0"), ("2", "1")])
def test_saturated_term_frequency(tf: str, relative_length: str, k1: str, b_len: str) -> None:
    """Origin: the formula of docs/estimators.md, 3 in exact fractions."""
    x, length, k, b = (Fraction(text) for text in (tf, relative_length, k1, b_len))
    expected = (k + 1) * x / (k * (1 - b + b * length) + x)
    got = stats.saturated_term_frequency(float(x), float(length), float(k), float(b))
    assert got == pytest.approx(float(expected), rel=1e-14)


def test_relative_lengths_by_hand() -> None:
    """3 correct rollouts with 30 tokens and one incorrect one with 20: 30 of 25, 10 of 12.5."""
    assert stats.relative_lengths(30, 20, 3, 1, False) == pytest.approx((1.2, 0.8))
    assert stats.relative_lengths(30, 20, 3, 1, True) == pytest.approx((0.8, 1.6))


@pytest.mark.parametrize(("n_true", "n_false"), [(1, 1), (3, 13), (8, 8), (150, 7)])
def test_effect_size(n_true: int, n_false: int) -> None:
    """Origin: asin √x = atan2(√x, √(1 - x))."""

    def angle(x: int, n: int) -> float:
        return math.atan2(math.sqrt(x), math.sqrt(n - x))

    for a in range(n_true + 1):
        for b in range(n_false + 1):
            expected = angle(a, n_true) - angle(b, n_false)
            got = stats.effect_size(a, b, n_true, n_false)
            assert got == pytest.approx(expected, abs=1e-14)
            assert got == -stats.effect_size(b, a, n_false, n_true)
    assert stats.effect_size(n_true, 0, n_true, n_false) == math.pi / 2


def test_frequency_contrast() -> None:
    """Origin: by hand. 0.6/0.3 - 0.3/0.6 = 1.5; with ε = 0.1, 6/4 - 3/7 = 15/14."""
    assert stats.frequency_contrast(0.6, 0.3, 1e-300) == pytest.approx(1.5, rel=1e-15)
    assert stats.frequency_contrast(0.6, 0.3, 0.1) == pytest.approx(15 / 14, rel=1e-14)
    assert stats.frequency_contrast(0.3, 0.6, 0.1) == pytest.approx(-15 / 14, rel=1e-14)
    assert stats.frequency_contrast(0.6, 0.0, 1e-5) == pytest.approx(60000.0, rel=1e-14)
    assert stats.frequency_contrast(0.0, 0.6, 1e-5) == pytest.approx(-60000.0, rel=1e-14)
    assert stats.frequency_contrast(0.0, 0.0, 1e-5) == 0.0


@pytest.mark.parametrize("value", ["1e-12", "0.001", "0.3", "1", "5", "20", "40"])
def test_squashed_is_the_centred_sigmoid(value: str) -> None:
    """Origin: 1 / (1 + e^-v) - 1/2 in `decimal` with 50 digits."""
    with decimal.localcontext(prec=50):
        expected = float(1 / (1 + (-Decimal(value)).exp()) - Decimal("0.5"))
    assert stats.squashed(float(value)) == pytest.approx(expected, rel=1e-14)
    assert stats.squashed(-float(value)) == -stats.squashed(float(value))


@pytest.mark.parametrize("value", [0.0, 710.0, 1e308, math.inf])
def test_squashed_does_not_overflow(value: float) -> None:
    expected = 0.5 if value else 0.0
    assert stats.squashed(value) == expected
    assert stats.squashed(-value) == -expected


def test_formulas_are_the_same_of_numbers_arrays_and_tensors() -> None:
    """Every table of 9 responses at once, and one by one."""
    rows = [x for x in tables_of_size(9) if x[2] and x[3] and x[0] + x[1]]
    columns = np.array(rows, dtype=float).T
    n_true, n_false = columns[2:]
    for form in (np.asarray, torch.tensor):
        table = tuple(map(form, columns))
        gain, effect = stats.information_gain(*table), stats.effect_size(*table)
        variance = form(n_true * n_false / 81)
        moments = (table[0] + table[1], form(n_true + n_false), form(n_true / 9), variance)
        z = stats.presence_z(table[0], *moments)
        sharp = stats.sharpened(z, *moments)
        for i, row in enumerate(rows):
            m, mean = row[0] + row[1], row[2] / 9
            alone = stats.presence_z(row[0], m, 9, mean, mean * (1 - mean))
            assert gain[i] == pytest.approx(float(stats.information_gain(*row)), abs=1e-15)
            assert effect[i] == pytest.approx(float(stats.effect_size(*row)), abs=1e-15)
            assert z[i] == pytest.approx(float(alone), abs=1e-12)
            expected = stats.sharpened(alone, m, 9, mean, mean * (1 - mean))
            assert sharp[i] == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("method", ["two-sided", "point", "float32"])
def test_p_values_of_arrays(method: str) -> None:
    rows = list(tables_of_size(12))
    got = p_values(tuple(np.array(rows, dtype=float).T), method)
    for p, row in zip(got, rows, strict=True):
        if method == "float32":
            assert p == pytest.approx(stats.single_precision_p_value(*row), rel=1e-6)
        else:
            assert p == stats.fisher_p_value(*row, method == "point")
