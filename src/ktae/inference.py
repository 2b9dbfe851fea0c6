"""Statistical inference: exact tests and false discovery rates, each once."""

from __future__ import annotations

import math

import numpy as np

P_VALUE_FLOOR = 1e-12
"""`stratified_p_value` is exact to about this; it never returns less."""


def stratified_p_value(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Two-sided exact test of several 2x2 tables [[a, b], [c, d]] that share one hypothesis.

    With every table's margins given, Σa is a sum of independent hypergeometric numbers; p is the
    probability of all values of the sum that are no more probable than the one seen. For one table
    that is Fisher's exact test, for many the exact form of the Mantel-Haenszel test: groups are
    never pooled, so hard and easy prompts cannot fake an association.

    Args:
        a, b, c, d: (n_tables,) counts.

    Source: C. R. Mehta, N. R. Patel, R. Gray, "Computing an exact confidence interval for the
    common odds ratio in several 2x2 contingency tables", JASA 80 (1985).
    """
    margins, repeats = np.unique(
        np.stack([a + b, a + c, b + d], axis=1), axis=0, return_counts=True
    )
    width = int(np.minimum(a + b, a + c).sum()) + 1
    size = 1 << math.ceil(math.log2(max(width, 2)))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for (m, n_true, n_false), repeat in zip(margins.tolist(), repeats.tolist(), strict=True):
        tables = math.comb(n_true + n_false, m)
        pmf_of_table = [
            math.comb(n_true, k) * math.comb(n_false, m - k) / tables
            for k in range(min(m, n_true) + 1)
        ]
        spectrum *= np.fft.rfft(pmf_of_table, size) ** repeat
    pmf = np.maximum(np.fft.irfft(spectrum, size)[:width], 0.0)
    no_more_probable = pmf <= pmf[int(a.sum())] * (1 + 1e-7) + P_VALUE_FLOOR / width
    return float(np.clip(pmf[no_more_probable].sum(), P_VALUE_FLOOR, 1.0))


def n_discoveries(p: np.ndarray, times: np.ndarray, level: float) -> int:
    """How many of m tests are significant at a false discovery rate of `level`.

    The k smallest p-values, for the largest k whose k-th is at most `level` k / m (Benjamini and
    Hochberg 1995). Exact p-values of small tables are discrete and larger than uniform ones on
    average, so that the rate is kept, with room to spare, and few are found.

    Args:
        p: (C,) p-values.
        times: (C,) how many tests have each of them.
    """
    order = np.argsort(p, kind="stable")
    p, rank = p[order], np.cumsum(times[order])
    if not len(rank) or not rank[-1]:
        return 0
    kept = p <= level * rank / rank[-1]
    # Equal p-values count together: `rank` of the last of them holds for all.
    return int(rank[kept].max(initial=0))
