"""Repeated rollouts: identical ones share a verdict, so only the first of them is evidence."""

from __future__ import annotations

import numpy as np

REPEATED = "repeated rollouts"
OTHER_VERDICT = "repeated rollouts with another verdict"


def rows_of_groups(codes_b: np.ndarray) -> list[np.ndarray]:
    """The rows of each group, in ascending order."""
    order = np.argsort(codes_b, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes_b[order])) + 1)


def distinct(
    rows: np.ndarray, counted: list[np.ndarray], correct_b: np.ndarray, left_out: dict[str, int]
) -> np.ndarray:
    """The first row of each distinct rollout of a group; those left out are added to `left_out`.

    Args:
        rows: of one group, of known correctness.
        counted: each rollout's counted token ids.
        correct_b: (B,) the verdicts.
        left_out: how many rollouts were left out, by reason: `REPEATED` or `OTHER_VERDICT`.
    """
    first: dict[bytes, int] = {}
    for row in rows.tolist():
        same = first.setdefault(counted[row].tobytes(), row)
        if same != row:
            differ = correct_b[same] != correct_b[row]
            left_out[OTHER_VERDICT if differ else REPEATED] += 1
    return np.array(list(first.values()), dtype=np.int64)


def repeated(codes_b: np.ndarray, counted: list[np.ndarray], correct_b: np.ndarray) -> np.ndarray:
    """(B,) bool: rollouts of known correctness that equal an earlier one of their group.

    Args:
        codes_b: (B,) the groups.
        counted: as in `distinct`.
        correct_b: (B,) the verdicts, NaN where unknown.
    """
    known_b = ~np.isnan(correct_b)
    repeated_b: np.ndarray = known_b.copy()
    left_out = {REPEATED: 0, OTHER_VERDICT: 0}
    for rows in rows_of_groups(codes_b):
        repeated_b[distinct(rows[known_b[rows]], counted, correct_b, left_out)] = False
    return repeated_b


def in_words(left_out: dict[str, int]) -> list[str]:
    """What was left out, as one line for people, or none where nothing was."""
    some = [f"{n:,} {reason}" for reason, n in left_out.items() if n]
    return [f"left out: {'; '.join(some)}"] if some else []
