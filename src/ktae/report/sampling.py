"""Which groups' rollouts go into the page when there are too many for one file.

Groups are taken whole, so every table, value and picture of a group in the page is exact; and what
the page says over all groups is computed from all rollouts beforehand. The rule draws nothing at
random: the same dump gives the same page.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MAX_TOKENS = 6_000_000
"""Response tokens in a page; about 1.5 bytes each in the file."""

RULE = (
    "First come examples of the findings, then mixed groups, evenly spaced over the dump, then the "
    "others, as long as there is room."
)

GOLDEN = (5**0.5 - 1) / 2
"""The fractions of its multiples fill every gap evenly, however many are taken."""


def choose(
    tokens_g: np.ndarray, mixed_g: np.ndarray, flagged: Iterable[int], max_tokens: int
) -> np.ndarray:
    """(G,) bool: the groups that are taken by `RULE`, at least one; `flagged` are examples."""
    even = np.argsort(GOLDEN * np.arange(len(tokens_g)) % 1)
    mixed, others = even[mixed_g[even]].tolist(), even[~mixed_g[even]].tolist()
    order = np.array([*dict.fromkeys([*flagged, *mixed, *others])])
    n = np.searchsorted(np.cumsum(tokens_g[order]), max_tokens, side="right")
    return np.isin(np.arange(len(tokens_g)), order[: max(1, n)])
