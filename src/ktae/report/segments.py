"""The parts of rollouts: what the policy thought, called and said, and what others said to it."""

from __future__ import annotations

import itertools
import re

import numpy as np

from ktae.report.frame import Frame

SAID, THOUGHT, CALL, OTHERS = KINDS = ("said", "thought", "call", "others")
"""The policy's plain text, reasoning or call of a tool; others': what is masked, such as a
tool's output or a user's turn."""

PARTS = re.compile(
    rb"(?P<thought><think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A(?:(?!<think).)*?</think(?:ing)?>)"
    rb"|(?P<call><(tool_call|function_call|code)>.*?(?:</(?:tool_call|function_call|code)>|\Z))",
    re.DOTALL,
)
"""What marks thoughts and calls. A template may have begun the thought in the prompt."""

Segment = tuple[str, int, int, float | None]
"""Kind, first token and the one after the last; where a turn begins, the mean credit of its tokens,
so that a longer turn looks no worse for it."""


def segments_of(frame: Frame, row: int, credit_n: np.ndarray) -> list[Segment]:
    """The segments of a rollout in order; none at all where everything is `SAID`.

    A turn is a run of the policy's own tokens that is as long as possible.
    """
    spelling, mask_t = frame.spell(row), frame.mask_n[frame.span(row)]
    kind_t = np.zeros(len(mask_t), dtype=np.int8)
    if b"<" in spelling.text:
        for match in PARTS.finditer(spelling.text):
            begin, end = spelling.tokens(*match.span())
            kind_t[begin:end] = KINDS.index(THOUGHT if match["thought"] else CALL)
    kind_t[~mask_t] = KINDS.index(OTHERS)
    if not kind_t.any():
        return []
    turns = np.flatnonzero(np.diff(np.concatenate([[False], mask_t, [False]]))).reshape(-1, 2)
    credit_t = credit_n[frame.span(row)]
    credit = {begin: float(credit_t[begin:end].mean()) for begin, end in turns.tolist()}
    edges = [0, *(np.flatnonzero(np.diff(kind_t)) + 1).tolist(), len(kind_t)]
    return [
        (KINDS[kind_t[begin]], begin, end, credit.get(begin))
        for begin, end in itertools.pairwise(edges)
    ]
