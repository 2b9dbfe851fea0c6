"""Backoff: its evidence against an independent program, its null mean, its units by hand."""

from math import comb

import numpy as np
import pytest
from scipy import stats

import ktae
from ktae.estimators.backoff import evidence_table


@pytest.mark.parametrize(("n_correct", "n", "m"), [(8, 16, 5), (1, 16, 4), (15, 16, 1), (1, 2, 1)])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_evidence_by_scipy_s_one_sided_p(n_correct, n, m, order) -> None:
    a = np.arange(max(0, m - (n - n_correct)), min(m, n_correct) + 1)
    expected = []
    for x in a:
        table = [[x, m - x], [n_correct - x, n - n_correct - (m - x)]]
        mean = m * n_correct / n
        side = "greater" if x > mean else "less"
        p = stats.fisher_exact(table, alternative=side).pvalue
        variance = m * (n - m) * n_correct * (n - n_correct) / (n * n * (n - 1))
        digits, most = -np.log10(p), np.log10(comb(n, n_correct))
        expected.append((x - mean) / variance**0.5 * digits * (digits / most) ** (order - 1))
    weights = stats.hypergeom.pmf(a, n, n_correct, m)
    values = np.array(expected) - weights @ expected
    evidence = evidence_table(n_correct, n - n_correct, order)[a, m - a]
    np.testing.assert_allclose(evidence, values, rtol=0, atol=1e-6)  # float32
    assert weights @ evidence == pytest.approx(0, abs=1e-6)


def test_without_a_contrast_there_is_no_evidence() -> None:
    assert not evidence_table(0, 4, 1).any() and not evidence_table(4, 0, 1).any()
    assert evidence_table(2, 2, 1)[0, 0] == evidence_table(2, 2, 1)[2, 2] == 0


def credit_by_hand(ids: list[list[int]], correct: list[bool]) -> np.ndarray:
    """(B, T) the definition, word for word: units of one to three tokens around each token."""
    padded = [["<", "<", *row] for row in ids]
    units = [
        {tuple(row[i : i + k]) for k in (1, 2, 3) for i in range(len(row) - k + 1)}
        for row in padded
    ]
    n, n_correct = len(ids), sum(correct)
    credit = np.zeros((n, len(ids[0])))
    for i, row in enumerate(padded):
        for t in range(len(ids[0])):
            for k in (1, 2, 3):
                for start in range(t + 3 - k, min(t + 3, len(row) - k + 1)):
                    unit = tuple(row[start : start + k])
                    holds = np.array([unit in x for x in units])
                    a = int((holds & np.array(correct)).sum())
                    credit[i, t] += (
                        0.3 * evidence_table(n_correct, n - n_correct, k)[a, holds.sum() - a]
                    )
    return credit


def test_credit_is_that_of_the_definition() -> None:
    ids = np.random.default_rng(1).integers(0, 4, (7, 6))
    correct = [True, False, True, True, False, False, True]
    credit = ktae.token_credit(ids, np.ones(ids.shape), correct, np.zeros(7, int), "backoff")
    np.testing.assert_allclose(credit, credit_by_hand(ids.tolist(), correct), atol=1e-6)
