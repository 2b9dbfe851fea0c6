"""Which groups' rollouts go into the page when there are too many for one file: first examples of
the findings, then mixed groups, evenly spaced over the dump, then the others.

Groups are taken whole, so every table, value and picture of a group in the page is exact; and what
the page says over all groups is computed from all rollouts beforehand. The rule draws nothing at
random: the same dump gives the same page.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MAX_TOKENS = 6_000_000  # response tokens in a page; about 1.5 bytes each in the file
GOLDEN = (5**0.5 - 1) / 2  # the fractions of its multiples fill every gap evenly


def choose(
    tokens_g: np.ndarray, mixed_g: np.ndarray, flagged: Iterable[int], max_tokens: int
) -> np.ndarray:
    """(G,) bool: the groups that are taken, at least one; `flagged` are examples of findings."""
    even = np.argsort(GOLDEN * np.arange(len(tokens_g)) % 1)
    mixed, others = even[mixed_g[even]].tolist(), even[~mixed_g[even]].tolist()
    order = np.array([*dict.fromkeys([*flagged, *mixed, *others])])
    n = np.searchsorted(np.cumsum(tokens_g[order]), max_tokens, side="right")
    return np.isin(np.arange(len(tokens_g)), order[: max(1, n)])
