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
from ktae.report.columns import Frame
from ktae.report.inputs import Dump

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

LONG, AT_LIMIT, PEAK = 32, 3, 5
"""Rollouts were cut off at a length of so many tokens at least that so many share, and so many
times as many as share a length a little below."""


class Marks(NamedTuple):
    """What is recognised."""

    mark_v: np.ndarray
    """(V,) int64 for each distinct token: 0, `END` or `FORMAT`."""
    finished_b: np.ndarray
    """(B,) float64: 1, 0, NaN where it is not known."""
    rule: str
    """How it is known which rollouts are finished; empty where it is not."""


def find(frame: Frame, dump: Dump) -> Marks:
    """The marks of a dump."""
    # How often each token occurs, and which one each rollout ends with.
    occurs_v = np.zeros(len(dump.texts), dtype=np.int64)
    for _, _, columns in frame.parts():
        occurs_v += np.bincount(dump.which(columns.ids_n), minlength=len(occurs_v))
    # An empty rollout ends with no token: -1.
    some = np.flatnonzero(frame.lengths_b)
    last_b = np.full(len(frame.lengths_b), -1, dtype=np.int64)
    last_b[some] = dump.which(np.array([frame.ids(row)[-1] for row in some.tolist()], dtype=int))
    mark_v = np.zeros(len(dump.texts), dtype=np.int64)
    mark_v[_of_format(frame, dump)] = FORMAT
    ends = _ends(dump.texts, occurs_v, np.bincount(last_b[some], minlength=len(occurs_v)))
    # An end that is also a token of the format is an end.
    mark_v[ends] = END
    # What looks like a special token, or has no text at all, is an end beyond doubt.
    sure = [i for i in ends if (text := dump.texts[i]) is None or SPECIAL.fullmatch(text)]
    return Marks(mark_v, *_finished(frame, dump, mark_v, last_b, sure))


def _ends(texts: list[bytes | None], occurs_v: np.ndarray, last_v: np.ndarray) -> list[int]:
    """Tokens that stand at the end of rollouts and nowhere else, and are no word or number.

    Args:
        texts: the V distinct tokens' bytes.
        occurs_v: (V,) how often each occurs.
        last_v: (V,) and how often at an end.
    """
    n = max(1, int(last_v.sum()))
    often_v = (last_v >= 2) & (last_v >= AT_END * occurs_v)

    def is_end(which: int) -> bool:
        text = texts[which]
        # What looks special may be rare, as where most rollouts were cut off. Anything else has to
        # end most rollouts.
        if text is not None and SPECIAL.fullmatch(text):
            return bool(last_v[which] >= SOME_ENDS * n)
        is_word = text is not None and re.search(rb"\w|[\x80-\xff]", text) is not None
        return not is_word and bool(last_v[which] >= MOST_ENDS * n)

    return [which for which in np.flatnonzero(often_v).tolist() if is_end(which)]


def _of_format(frame: Frame, dump: Dump) -> np.ndarray:
    """Places in `Dump.texts` of the tokens that stand nearly always in `FORMATS`."""
    texts = dump.texts
    rows = sampling.evenly(np.arange(len(frame.group_b)))[:MAX_ROLLOUTS]
    inside, every = (np.zeros(len(texts), dtype=np.int64) for _ in range(2))
    for row in rows:
        spelling = dump.spell(frame.ids(row))
        which_t = dump.which(frame.ids(row))
        inside_t = np.zeros(len(which_t), dtype=bool)
        for match in FORMATS.finditer(spelling.text):
            inside_t[slice(*spelling.tokens(*match.span()))] = True
        np.add.at(inside, which_t[inside_t], 1)
        np.add.at(every, which_t, 1)
    # Braces and backslashes have other work; what is all blank or a bracket is no mark either.
    places: np.ndarray = np.flatnonzero((inside >= 2) & (inside >= IN_FORMAT * every))
    return places[[re.search(rb"[\w#/<>]", texts[which] or b"") is not None for which in places]]


def _finished(
    frame: Frame, dump: Dump, mark_v: np.ndarray, last_b: np.ndarray, ends: list[int]
) -> tuple[np.ndarray, str]:
    """Which rollouts are finished, by the first rule that applies."""
    # The dump knows best. Then an end of sequence, a limit of the length, and the format.
    said_b = _said(frame.rollouts["extra"])[frame.order_b]
    if not np.isnan(said_b).all():
        return said_b, "as the dump says"
    if ends:
        return np.isin(last_b, ends).astype(float), "it ends with an end of sequence"
    if limit := _limit(frame.lengths_b):
        return (frame.lengths_b < limit).astype(float), f"it is shorter than the limit, {limit:,}"
    has_b = np.zeros(len(last_b), dtype=bool)
    for _, rows, columns in frame.parts():
        has_b[rows] = columns.sum_tokens(mark_v[dump.which(columns.ids_n)] == FORMAT) > 0
    if has_b.mean() >= MOST_ENDS and len(has_b):
        return has_b.astype(float), "it has the marks of the format, such as a box or a closing tag"
    return np.full(len(has_b), np.nan), ""


def _limit(lengths_b: np.ndarray) -> int:
    """The length at which rollouts were cut off; 0 if none is to be seen.

    Text that is tokenised again may be a token or two longer than the limit.
    """
    times = np.bincount(lengths_b, minlength=1)
    most = len(times) - 1
    if most < LONG:
        return 0
    limit = most - int(np.argmax(times[: most - 3 : -1]))
    below = times[int(0.9 * most) : most - 2].mean()
    return limit if times[limit] >= max(AT_LIMIT, PEAK * below) else 0


def _said(extra: Any) -> np.ndarray:
    """(B,) whether a rollout is finished by the dump's own fields, NaN where they do not say."""
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
