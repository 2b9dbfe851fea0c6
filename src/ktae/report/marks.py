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
from ktae.report.columns import Columns
from ktae.report.spelling import spell

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


def find(columns: Columns, texts: list[bytes | None], which_n: np.ndarray) -> Marks:
    """The marks of a dump.

    Args:
        columns: the rollouts.
        texts: the V distinct tokens' bytes, None for a token without text.
        which_n: (N,) each token's place in `texts`.
    """
    mark_v = np.zeros(len(texts), dtype=np.int64)
    mark_v[_of_format(columns, texts, which_n)] = FORMAT
    ends = _ends(columns, texts, which_n)
    mark_v[ends] = END
    sure = [which for which in ends if _is_special(texts[which])]
    return Marks(mark_v, *_finished(columns, which_n, mark_v, sure))


def _is_special(text: bytes | None) -> bool:
    """Whether a token looks like a special one, or has no text at all."""
    return text is None or SPECIAL.fullmatch(text) is not None


def _last_n(columns: Columns) -> np.ndarray:
    """(N,) bool: the last token of each rollout."""
    last_n = np.zeros(len(columns.ids_n), dtype=bool)
    last_n[columns.offsets_b[1:][columns.lengths() > 0] - 1] = True
    return last_n


def _ends(columns: Columns, texts: list[bytes | None], which_n: np.ndarray) -> list[int]:
    """Tokens that stand at the end of rollouts and nowhere else, and are no word or number."""
    occurs_v = np.bincount(which_n, minlength=len(texts))
    last_v = np.bincount(which_n[_last_n(columns)], minlength=len(texts))
    n = max(1, int(last_v.sum()))
    often_v = (last_v >= 2) & (last_v >= AT_END * occurs_v)

    def is_end(which: int) -> bool:
        text = texts[which]
        if text is not None and SPECIAL.fullmatch(text):
            return bool(last_v[which] >= SOME_ENDS * n)
        is_word = text is not None and re.search(rb"\w|[\x80-\xff]", text) is not None
        return not is_word and bool(last_v[which] >= MOST_ENDS * n)

    return [which for which in np.flatnonzero(often_v).tolist() if is_end(which)]


def _of_format(columns: Columns, texts: list[bytes | None], which_n: np.ndarray) -> np.ndarray:
    """Places in `texts` of the tokens that stand nearly always in `FORMATS`."""
    n = len(columns.group_b)
    rows = sampling.evenly(np.arange(n))[:MAX_ROLLOUTS]
    inside, every = (np.zeros(len(texts), dtype=np.int64) for _ in range(2))
    for row in rows:
        start = columns.offsets_b[row]
        spelling = spell(columns, texts, which_n, row)
        which_t = which_n[start : columns.offsets_b[row + 1]]
        inside_t = np.zeros(len(which_t), dtype=bool)
        for match in FORMATS.finditer(spelling.text):
            inside_t[slice(*spelling.tokens(*match.span()))] = True
        if inside_t.any():
            inside += np.bincount(which_t[inside_t], minlength=len(texts))
        every += np.bincount(which_t, minlength=len(texts))
    # Braces and backslashes have other work; what is all blank or a bracket is no mark either.
    found: np.ndarray = np.flatnonzero((inside >= 2) & (inside >= IN_FORMAT * every))
    return found[[re.search(rb"[\w#/<>]", texts[which] or b"") is not None for which in found]]


def _finished(
    columns: Columns, which_n: np.ndarray, mark_v: np.ndarray, ends: list[int]
) -> tuple[np.ndarray, str]:
    """Which rollouts are finished, by the first rule that applies."""
    said_b = _said(columns.rollouts["extra"])
    if not np.isnan(said_b).all():
        return said_b, "as the dump says"
    lengths_b = columns.lengths()
    if ends:
        ends_n = _last_n(columns) & np.isin(which_n, ends)
        return (columns.sum_tokens(ends_n) > 0).astype(float), "it ends with an end of sequence"
    if limit := _limit(lengths_b):
        return (lengths_b < limit).astype(float), f"it is shorter than the limit, {limit:,}"
    has_b = columns.sum_tokens(mark_v[which_n] == FORMAT) > 0
    if has_b.mean() >= MOST_ENDS and len(has_b):
        return has_b.astype(float), "it has the marks of the format, such as a box or a closing tag"
    return np.full(len(lengths_b), np.nan), ""


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
