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
"""a, b, n_correct, n_incorrect."""

SIZES = range(1, 33)


def tables_of_size(n: int) -> Iterator[Table]:
    for n_correct in range(n + 1):
        for a in range(n_correct + 1):
            for b in range(n - n_correct + 1):
                yield a, b, n_correct, n - n_correct


@cache
def exact_p_values(
    k: int, n_correct: int, n_incorrect: int
) -> dict[int, tuple[Fraction, Fraction]]:
    """{a: (point, two-sided)} of every table with k rollouts that contain the token.

    A table's probability is its integer count comb(n_correct, a) · comb(n_incorrect, k - a) over
    the sum of all counts, so ties are ties between integers.
    """
    counts = {
        a: math.comb(n_correct, a) * math.comb(n_incorrect, k - a)
        for a in range(max(0, k - n_incorrect), min(k, n_correct) + 1)
    }
    total = sum(counts.values())
    return {
        a: (Fraction(count, total), Fraction(sum(c for c in counts.values() if c <= count), total))
        for a, count in counts.items()
    }


@pytest.mark.parametrize("n", SIZES)
def test_p_values_are_the_exact_fractions(n: int) -> None:
    """Origin: integer counts. 1.0 exactly where, and only where, the exact fraction is 1."""
    for a, b, n_correct, n_incorrect in tables_of_size(n):
        point, two_sided = exact_p_values(a + b, n_correct, n_incorrect)[a]
        got_point = stats.fisher_p_value(a, b, n_correct, n_incorrect, True)
        got_two_sided = stats.fisher_p_value(a, b, n_correct, n_incorrect, False)
        where = (a, b, n_correct, n_incorrect)
        assert got_point == pytest.approx(float(point), rel=1e-13), where
        assert got_two_sided == pytest.approx(float(two_sided), rel=1e-13), where
        assert (got_point == 1.0) == (point == 1), where
        assert (got_two_sided == 1.0) == (two_sided == 1), where


@pytest.mark.parametrize("size", [(47, 3), (20, 27), (150, 150), (1, 299), (211, 89)])
def test_p_values_of_large_groups(size: tuple[int, int]) -> None:
    """Origin: integer counts."""
    n_correct, n_incorrect = size
    for k in range(0, n_correct + n_incorrect + 1, 7):
        for a, expected in exact_p_values(k, n_correct, n_incorrect).items():
            for point, fraction in zip((True, False), expected, strict=True):
                got = stats.fisher_p_value(a, k - a, n_correct, n_incorrect, point)
                assert got == pytest.approx(float(fraction), rel=1e-11), (a, k, point)
                assert (got == 1.0) == (fraction == 1), (a, k, point)


def test_p_value_of_a_huge_group_underflows_to_zero() -> None:
    """The weights of the other tables overflow float64 here; the p-value is about 10^-3000."""
    assert stats.fisher_p_value(5000, 0, 5000, 5000, False) == 0.0
    assert stats.fisher_p_value(0, 5000, 5000, 5000, True) == 0.0
    assert stats.fisher_p_value(2500, 2500, 5000, 5000, False) == 1.0


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
    for a, b, n_correct, n_incorrect in tables_of_size(n):
        with decimal.localcontext(prec=50):
            conditional = exact_entropy(a, b) + exact_entropy(n_correct - a, n_incorrect - b)
            expected = (exact_entropy(n_correct, n_incorrect) - conditional) / n
        got = stats.information_gain(a, b, n_correct, n_incorrect)
        assert got == pytest.approx(float(expected), abs=1e-14), (a, b, n_correct, n_incorrect)
        assert got >= 0.0


@pytest.mark.parametrize("tf", ["0", "1/1000000", "1/7", "1/2", "1"])
@pytest.mark.parametrize("relative_length", ["1/50", "3/4", "1", "99/50"])
@pytest.mark.parametrize(("k1", "b_len"), [("2", "1/2"), ("6/5", "3/4"), ("2", "0"), ("2", "1")])
def test_saturated_term_frequency(tf: str, relative_length: str, k1: str, b_len: str) -> None:
    """Origin: the formula of docs/estimators.md, 3 in exact fractions."""
    x, length, k, b = (Fraction(text) for text in (tf, relative_length, k1, b_len))
    expected = (k + 1) * x / (k * (1 - b + b * length) + x)
    got = stats.saturated_term_frequency(float(x), float(length), float(k), float(b))
    assert got == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize(("n_correct", "n_incorrect"), [(1, 1), (3, 13), (8, 8), (150, 7)])
def test_effect_size(n_correct: int, n_incorrect: int) -> None:
    """Origin: asin √x = atan2(√x, √(1 - x))."""

    def angle(x: int, n: int) -> float:
        return math.atan2(math.sqrt(x), math.sqrt(n - x))

    for a in range(n_correct + 1):
        for b in range(n_incorrect + 1):
            expected = angle(a, n_correct) - angle(b, n_incorrect)
            got = stats.effect_size(a, b, n_correct, n_incorrect)
            assert got == pytest.approx(expected, abs=1e-14)
            assert got == -stats.effect_size(b, a, n_incorrect, n_correct)
    assert stats.effect_size(n_correct, 0, n_correct, n_incorrect) == math.pi / 2


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


def test_formulas_are_the_same_of_numbers_arrays_and_tensors() -> None:
    """Every table of 9 responses at once, and one by one."""
    rows = [x for x in tables_of_size(9) if x[2] and x[3] and x[0] + x[1]]
    columns = np.array(rows, dtype=float).T
    n_correct, n_incorrect = columns[2:]
    for form in (np.asarray, torch.tensor):
        table = tuple(map(form, columns))
        gain, effect = stats.information_gain(*table), stats.effect_size(*table)
        variance = form(n_correct * n_incorrect / 81)
        moments = (
            table[0] + table[1],
            form(n_correct + n_incorrect),
            form(n_correct / 9),
            variance,
        )
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
