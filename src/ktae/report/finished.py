"""Which responses are finished, and which were cut off."""

from __future__ import annotations

import numpy as np

from ktae.report.frame import Frame, json_fields

LONG, AT_LIMIT, PEAK = 32, 3, 5
"""Responses were cut off at a length of so many tokens at least that so many share, and so many
times as many as share a length a little below."""

SHORTER = 0.05
"""The share of responses that are far shorter than the limit: lengths that are all alike are none.
"""


def find(frame: Frame) -> tuple[np.ndarray, str]:
    """(B,) float64: 1, 0, NaN where it is not known; and by which rule.

    It is what the dump says, else a limit of length, where there is one to be seen.
    """
    finished_b = np.full(len(frame.lengths_b), np.nan)
    names = ("finish_reason", "finished", "truncated", "is_truncated")
    for row, fields in json_fields(frame.rollouts["extra"], names):
        if isinstance(reason := fields.get("finish_reason"), str):
            finished_b[row] = reason != "length"
        elif isinstance(finished := fields.get("finished"), bool):
            finished_b[row] = finished
        elif isinstance(cut := fields.get("truncated", fields.get("is_truncated")), bool):
            finished_b[row] = not cut
    if not np.isnan(finished_b).all():
        return finished_b, "as the dump says"
    if limit := _limit(frame.lengths_b):
        finished_b = (frame.lengths_b < limit).astype(float)
        return finished_b, f"it is shorter than the limit, {limit:,}"
    return finished_b, ""


def _limit(lengths_b: np.ndarray) -> int:
    """The length at which responses were cut off; 0 if none is to be seen."""
    times = np.bincount(lengths_b)
    most = len(times) - 1
    if most < LONG:
        return 0
    # Text that is tokenised again may be a token or two longer than the limit.
    limit = most - int(np.argmax(times[: most - 3 : -1]))
    below = times[int(0.9 * most) : most - 2].mean()
    is_far_shorter = (lengths_b < 0.8 * limit).mean() >= SHORTER
    is_peak = times[limit] >= max(AT_LIMIT, PEAK * below)
    return limit if is_peak and is_far_shorter else 0
