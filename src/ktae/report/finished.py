"""Which responses are finished, and which were cut off: the first rule that applies."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from ktae.report.frame import Frame

AT_END = 0.95
"""The least share of an end of sequence's occurrences that stand at the end of a response."""

SOME_END, MOST_END = 0.1, 0.5
"""The share of responses that has to end with it: if it looks special (<eos>), and if only its
number is known."""

SPECIAL = re.compile(rb"\s*(<[^<>\s]*>|\[/?[A-Z_]+\]|</?\w+>)\s*")
"""What looks like a special token."""

LONG, AT_LIMIT, PEAK = 32, 3, 5
"""Responses were cut off at a length of so many tokens at least that so many share, and so many
times as many as share a length a little below."""

SHORTER = 0.05
"""The share of responses that are far shorter than the limit: lengths that are all alike are none.
"""


class Finished(NamedTuple):
    """Which responses are finished."""

    finished_b: np.ndarray
    """(B,) float64: 1, 0, NaN where it is not known."""
    rule: str
    """How that is known; empty where it is not."""


def find(frame: Frame) -> Finished:
    """What the dump says; else whether an end of sequence stands last; else a limit of length."""
    by_dump_b = _by_dump(frame.rollouts["extra"])
    if not np.isnan(by_dump_b).all():
        return Finished(by_dump_b, "as the dump says")
    filled = np.flatnonzero(frame.lengths_b)
    last_b = np.full(len(frame.lengths_b), -1, dtype=np.int64)
    last_b[filled] = frame.which_n[frame.offsets_b[filled + 1] - 1]
    if ends := _ends(frame, np.bincount(last_b[filled], minlength=1)):
        return Finished(np.isin(last_b, ends).astype(float), "it ends with an end of sequence")
    if limit := _limit(frame.lengths_b):
        finished_b = (frame.lengths_b < limit).astype(float)
        return Finished(finished_b, f"it is shorter than the limit, {limit:,}")
    return Finished(np.full(len(last_b), np.nan), "")


def _by_dump(extra: Any) -> np.ndarray:
    """(B,) whether a response is finished by the dump's own fields; NaN where they do not say."""
    finished_b = np.full(len(extra), np.nan)
    pattern = '"(finish_reason|finished|truncated|is_truncated)"'
    named = pc.fill_null(pc.match_substring_regex(extra, pattern), False).to_numpy()
    for row in np.flatnonzero(named).tolist():
        fields = json.loads(extra[row].as_py())
        if isinstance(reason := fields.get("finish_reason"), str):
            finished_b[row] = reason != "length"
        elif isinstance(finished := fields.get("finished"), bool):
            finished_b[row] = finished
        elif isinstance(cut := fields.get("truncated", fields.get("is_truncated")), bool):
            finished_b[row] = not cut
    return finished_b


def _ends(frame: Frame, last_v: np.ndarray) -> list[int]:
    """Ends of sequence: tokens that look special and stand last in responses and nowhere else."""
    ends, n = [], last_v.sum()
    for which in np.flatnonzero(last_v >= max(2, SOME_END * n)).tolist():
        text = frame.dump.texts[which]
        looks_so = last_v[which] >= MOST_END * n if text is None else SPECIAL.fullmatch(text)
        if looks_so and last_v[which] >= AT_END * np.count_nonzero(frame.which_n == which):
            ends.append(which)
    return ends


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
