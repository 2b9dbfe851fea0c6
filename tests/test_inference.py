"""Statistical inference, against definitions and against SciPy."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from ktae.inference import P_VALUE_FLOOR, n_discoveries, stratified_p_value


def enumerated_p(tables):
    """Over all values of each a, with the margins given: the definition."""
    choices = []
    for a, b, c, d in tables:
        m, n_true, n_false = a + b, a + c, b + d
        total = math.comb(n_true + n_false, m)
        choices.append(
            [(k, math.comb(n_true, k) * math.comb(n_false, m - k) / total) for k in range(m + 1)]
        )
    of_sum = {}
    for combination in itertools.product(*choices):
        total = sum(k for k, _ in combination)
        of_sum[total] = of_sum.get(total, 0.0) + math.prod(p for _, p in combination)
    seen = of_sum[sum(table[0] for table in tables)]
    return sum(p for p in of_sum.values() if p <= seen * (1 + 1e-7))


def test_stratified_p_value_is_the_definition():
    rng = np.random.default_rng(3)
    for _ in range(50):
        tables = rng.integers(0, 4, (rng.integers(1, 5), 4))
        tables[:, 3] += 1
        assert stratified_p_value(*tables.T) == pytest.approx(enumerated_p(tables.tolist()))


def test_stratified_p_value_of_one_table_is_fishers():
    for a, b, c, d in itertools.product(range(5), repeat=4):
        if a + b + c + d:
            p = stratified_p_value(*(np.array([cell]) for cell in (a, b, c, d)))
            assert p == pytest.approx(scipy.stats.fisher_exact([[a, b], [c, d]])[1], abs=1e-12)


def test_stratified_p_value_of_many_tables_is_small_but_never_0():
    a, b, c, d = (np.full(2000, cell) for cell in (4, 0, 0, 4))
    assert stratified_p_value(a, b, c, d) == P_VALUE_FLOOR
    assert stratified_p_value(a // 2, b + 2, c + 2, d // 2) == pytest.approx(1.0)


def test_discoveries_against_scipy():
    rng = np.random.default_rng(0)
    for size in (1, 5, 40):
        for _ in range(50):
            p = rng.choice([0.001, 0.004, 0.02, 0.03, 0.2, 1.0], size)
            times = rng.integers(0, 4, size)
            each = np.repeat(p, times)
            expected = (scipy.stats.false_discovery_control(each) <= 0.05).sum() if len(each) else 0
            assert n_discoveries(p, times, 0.05) == expected
