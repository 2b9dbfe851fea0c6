"""Tokens that mark an end or a format, recognised by their place, and which rollouts are finished.

Such tokens tell whether a rollout came to its end and in the form that was asked for. A rollout
that was cut off has no answer, so they go with correctness and say nothing of the reasoning.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from ktae.report import sampling
from ktae.report.frame import Frame

END, FORMAT = 1, 2

AT_END = 0.95
"""Of a token's occurrences, the share at the end of a rollout that makes it an end."""

SOME_ENDS, MOST_ENDS = 0.1, 0.5
"""Of the rollouts, the share that has to end with it: if it looks special (<eos>), and if not."""

SPECIAL = re.compile(rb"\s*(<[^<>\s]*>|\[/?[A-Z_]+\]|</?\w+>)\s*")
"""What looks like a special token."""

FORMATS = re.compile(
    rb"\\(?:boxed|fbox)\s*\{|</[A-Za-z_]{1,20}>|<(?:think|answer)>|(?<!#)####(?=[^\n#]{0,80}\s*\Z)"
)
"""Where a token stands that makes the form of an answer; #### elsewhere is a heading."""

IN_FORMAT = 0.8
"""Of a token's occurrences, the share in `FORMATS` that makes it a token of the format."""

MAX_ROLLOUTS = 2000
"""Those in which `FORMATS` are looked for, evenly spaced."""

PLACES_AT_ONCE = 1 << 20
"""Tokens that are counted in one go, for which NumPy makes integers of 64 bits of them."""

LONG, AT_LIMIT, PEAK = 32, 3, 5
"""Rollouts were cut off at a length of so many tokens at least that so many share, and so many
times as many as share a length a little below."""

SHORTER = 0.05
"""The share of rollouts that are far shorter than the limit: lengths that are all alike are none.
"""


class Marks(NamedTuple):
    """What is recognised."""

    mark_v: np.ndarray
    """(V,) int64 for each distinct token: 0, `END` or `FORMAT`."""
    finished_b: np.ndarray
    """(B,) float64: 1, 0, NaN where it is not known."""
    rule: str
    """How it is known which rollouts are finished; empty where it is not."""


def find(frame: Frame) -> Marks:
    """The marks of a dump."""
    texts = frame.dump.texts
    # How often each token occurs, and which one each rollout ends with; an empty one with none, -1.
    occurs_v = np.zeros(len(texts), dtype=np.int64)
    for which_n in np.array_split(frame.which_n, len(frame.which_n) // PLACES_AT_ONCE + 1):
        occurs_v += np.bincount(which_n, minlength=len(texts))
    some = np.flatnonzero(frame.lengths_b)
    last_b = np.full(len(frame.lengths_b), -1, dtype=np.int64)
    last_b[some] = frame.which_n[frame.offsets_b[some + 1] - 1]
    mark_v = np.zeros(len(texts), dtype=np.int64)
    mark_v[_of_format(frame)] = FORMAT
    ends = _ends(texts, occurs_v, np.bincount(last_b[some], minlength=len(texts)))
    # An end that is also a token of the format is an end.
    mark_v[ends] = END
    # What looks like a special token, or has no text at all, is an end beyond doubt.
    sure = [i for i in ends if (text := texts[i]) is None or SPECIAL.fullmatch(text)]
    return Marks(mark_v, *_finished(frame, mark_v, last_b, sure))


def _ends(texts: list[bytes | None], occurs_v: np.ndarray, last_v: np.ndarray) -> list[int]:
    """Tokens that stand at the end of rollouts and nowhere else, and are no word or number."""
    n, ends = max(1, int(last_v.sum())), []
    for which in np.flatnonzero((last_v >= 2) & (last_v >= AT_END * occurs_v)).tolist():
        text = texts[which]
        # What looks special may be rare, as where most rollouts were cut off. Anything else has to
        # end most rollouts.
        if text is not None and SPECIAL.fullmatch(text):
            least = SOME_ENDS
        elif text is None or not re.search(rb"\w|[\x80-\xff]", text):
            least = MOST_ENDS
        else:
            continue
        if last_v[which] >= least * n:
            ends.append(which)
    return ends


def _of_format(frame: Frame) -> np.ndarray:
    """Places in `Dump.texts` of the tokens that stand nearly always in `FORMATS`."""
    texts = frame.dump.texts
    inside, every = np.zeros((2, len(texts)), dtype=np.int64)
    for row in sampling.evenly(np.arange(len(frame.group_b)))[:MAX_ROLLOUTS]:
        spelling, which_t = frame.spell(row), frame.which_n[frame.span(row)]
        inside_t = np.zeros(len(which_t), dtype=bool)
        for match in FORMATS.finditer(spelling.text):
            inside_t[slice(*spelling.tokens(*match.span()))] = True
        np.add.at(inside, which_t[inside_t], 1)
        np.add.at(every, which_t, 1)
    # Braces and backslashes have other work; what is all blank or a bracket is no mark either.
    places: np.ndarray = np.flatnonzero((inside >= 2) & (inside >= IN_FORMAT * every))
    return places[[re.search(rb"[\w#/<>]", texts[which] or b"") is not None for which in places]]


def _finished(
    frame: Frame, mark_v: np.ndarray, last_b: np.ndarray, ends: list[int]
) -> tuple[np.ndarray, str]:
    """Which rollouts are finished, by the first rule that applies."""
    # The dump knows best. Then an end of sequence, a limit of the length, and the format.
    said_b = _said(frame.rollouts["extra"])
    if not np.isnan(said_b).all():
        return said_b, "as the dump says"
    if ends:
        return np.isin(last_b, ends).astype(float), "it ends with an end of sequence"
    if limit := _limit(frame.lengths_b):
        return (frame.lengths_b < limit).astype(float), f"it is shorter than the limit, {limit:,}"
    has_b = frame.sum_tokens(mark_v[frame.which_n] == FORMAT) > 0
    if has_b.mean() >= MOST_ENDS:
        return has_b.astype(float), "it has the marks of the format, such as a box or a closing tag"
    return np.full(len(has_b), np.nan), ""


def _limit(lengths_b: np.ndarray) -> int:
    """The length at which rollouts were cut off; 0 if none is to be seen."""
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


def _said(extra: Any) -> np.ndarray:
    """(B,) whether a rollout is finished by the dump's own fields; NaN where they do not say."""
    said_b = np.full(len(extra), np.nan)
    pattern = '"(finish_reason|finished|truncated|is_truncated)"'
    there = pc.fill_null(pc.match_substring_regex(extra, pattern), False).to_numpy()
    for row in np.flatnonzero(there).tolist():
        fields = json.loads(extra[row].as_py())
        reason = fields.get("finish_reason")
        cut = fields.get("truncated", fields.get("is_truncated"))
        if isinstance(reason, str):
            said_b[row] = reason != "length"
        elif isinstance(fields.get("finished"), bool):
            said_b[row] = fields["finished"]
        elif isinstance(cut, bool):
            said_b[row] = not cut
    return said_b
