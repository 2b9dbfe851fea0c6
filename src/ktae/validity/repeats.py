"""The rollouts of a record as evidence: repeated ones share a verdict, so only the first is any.

Where identical rollouts of a group have different verdicts, none of them is evidence: the text
cannot be what they differ by.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.rollouts import groups

REPEATED = "repeated rollouts"
CONTRADICTORY = "identical rollouts with different verdicts"


class Counted(NamedTuple):
    """The B rollouts of a record, and which of its groups each is of."""

    ids: list[np.ndarray]
    masks: list[np.ndarray]
    """bool, false where a tool wrote the token."""
    counted: list[np.ndarray]
    """The ids where the mask is true."""
    correct_b: np.ndarray
    """NaN where unknown."""
    codes_b: np.ndarray
    first_rows: np.ndarray
    """(G,) the first row of each group."""


def counted_rollouts(rollouts: Any, tokenizer: Any) -> Counted:
    """The rollouts of a record; an InputError where groups cannot be compared."""
    codes_b, first_rows = groups.group_codes(rollouts)
    groups.require_comparable(codes_b)
    rollouts = groups.tokenized(rollouts, tokenizer)
    ids = groups.arrays_of(rollouts["token_ids"])
    pairs = zip(ids, groups.arrays_of(rollouts["mask"]), strict=True)
    masks = [np.ones(len(x), dtype=bool) if mask is None else mask for x, mask in pairs]
    counted = [x[mask] for x, mask in zip(ids, masks, strict=True)]
    return Counted(ids, masks, counted, rollouts["correct"].to_numpy(), codes_b, first_rows)


def rows_of_groups(codes_b: np.ndarray) -> list[np.ndarray]:
    """The rows of each group, in ascending order."""
    # Stable, so that "the first" of equal rollouts is the one that stands first in the dump.
    order = np.argsort(codes_b, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes_b[order])) + 1)


def distinct(
    rows: np.ndarray, counted: list[np.ndarray], correct_b: np.ndarray, left_out: dict[str, int]
) -> np.ndarray:
    """The first row of each distinct rollout of a group, whose `rows` are of known correctness.

    Those left out are added to `left_out`, by reason: `REPEATED` or `CONTRADICTORY`.
    """
    alike: dict[bytes, list[int]] = {}
    for row in rows.tolist():
        alike.setdefault(counted[row].tobytes(), []).append(row)
    kept = []
    for same in alike.values():
        # All of them: to keep one of each verdict would tell the estimator what cannot be known.
        if np.ptp(correct_b[same]):
            left_out[CONTRADICTORY] += len(same)
        else:
            left_out[REPEATED] += len(same) - 1
            kept.append(same[0])
    return np.array(kept, dtype=np.int64)


def repeated(
    codes_b: np.ndarray,
    counted: list[np.ndarray],
    correct_b: np.ndarray,
    left_out: dict[str, int] | None = None,
) -> np.ndarray:
    """(B,) bool: rollouts of known correctness that are no evidence, as `distinct` has it."""
    left_out = {REPEATED: 0, CONTRADICTORY: 0} if left_out is None else left_out
    known_b = ~np.isnan(correct_b)
    repeated_b: np.ndarray = known_b.copy()
    for rows in rows_of_groups(codes_b):
        repeated_b[distinct(rows[known_b[rows]], counted, correct_b, left_out)] = False
    return repeated_b


def in_words(left_out: dict[str, int]) -> list[str]:
    """What was left out, as one line for people, or none where nothing was."""
    some = []
    for reason, n in left_out.items():
        if n == 1:
            reason = reason.replace("groups", "group", 1).replace("rollouts", "rollout", 1)
        some += [f"{n:,} {reason}"] if n else []
    return [f"left out: {'; '.join(some)}"] if some else []
