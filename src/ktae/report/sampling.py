"""Which groups' rollouts go into the page when there are too many for one file.

Groups are taken whole, so every table, value and picture of a group in the page is exact; and what
the page says over all groups (Tokens, Groups, Training) is computed from all rollouts beforehand.
The rule draws nothing at random: the same dump gives the same page.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MAX_TOKENS = 6_000_000
"""Response tokens in a page; about 1.5 bytes each in the file."""

FLAGGED_SHARE = 0.25
"""The share of the room that may go to groups that findings are about."""

RULE = (
    "First come groups that findings are about, up to a quarter of the room; then mixed groups, "
    "evenly spaced over the dump; then the others, evenly spaced, as long as there is room."
)


def choose(
    tokens_g: np.ndarray,
    mixed_g: np.ndarray,
    flagged: Iterable[int],
    max_tokens: int,
    max_groups: int | None = None,
) -> np.ndarray:
    """(G,) bool: the groups that are taken by `RULE`, at least one.

    `flagged` are groups that findings are about, first things first; repetitions are skipped.
    """
    most = len(tokens_g) if max_groups is None else max_groups
    if tokens_g.sum() <= max_tokens and len(tokens_g) <= most:
        return np.ones(len(tokens_g), dtype=bool)
    chosen_g = np.zeros(len(tokens_g), dtype=bool)
    share = FLAGGED_SHARE
    kinds = [(flagged, int(max_tokens * share), max(1, int(most * share)))]
    kinds += [(evenly(np.flatnonzero(x)), max_tokens, most) for x in (mixed_g, ~mixed_g)]
    for groups, bound, n_most in kinds:
        used, number = int(tokens_g[chosen_g].sum()), int(chosen_g.sum())
        # In their order, until one does not fit.
        for group in groups:
            if chosen_g[group]:
                continue
            used, number = used + int(tokens_g[group]), number + 1
            if used > bound or number > n_most:
                break
            chosen_g[group] = True
    # Not even one group fits: the page has one all the same.
    if not chosen_g.any():
        chosen_g[np.argmax(mixed_g)] = True
    return chosen_g


def evenly(groups: np.ndarray) -> list[int]:
    """Ordered so that every beginning of the list is spread evenly: by bit-reversed position."""
    # 0, 4, 2, 6, 1, 5, 3, 7: each further place halves a gap between those before it.
    bits = max(1, int(len(groups) - 1).bit_length())
    reversed_ = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1 << bits))
    return [int(groups[i]) for i in reversed_ if i < len(groups)]
