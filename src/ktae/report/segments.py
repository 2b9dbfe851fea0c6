"""The parts of a rollout: what the policy thought, called and said, and what others said to it."""

from __future__ import annotations

import itertools
import re

import numpy as np

from ktae.rollouts.spelling import Spelling

SAID, THOUGHT, CALL, OTHERS = "said", "thought", "call", "others"
"""Of the policy: plain text, reasoning, a call of a tool. Of others: what is masked, such as a
tool's output or a user's turn."""

PARTS = re.compile(
    rb"(?P<thought><think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A(?:(?!<think).)*?</think(?:ing)?>)"
    rb"|(?P<call><(tool_call|function_call|code)>.*?(?:</(?:tool_call|function_call|code)>|\Z))",
    re.DOTALL,
)
"""What marks thoughts and calls. A template may have begun the thought in the prompt."""


def segments_of(spelling: Spelling, mask_t: np.ndarray | None) -> list[tuple[str, int, int]]:
    """The segments of a rollout in order: kind, first token and the one after the last.

    None at all where everything is `SAID`.

    Args:
        spelling: the rollout's text and where its tokens end.
        mask_t: (T,) bool, which tokens the policy wrote; None: all.
    """
    n = len(spelling.ends_t)
    kind_t = np.zeros(n, dtype=np.int8)
    kinds = (SAID, THOUGHT, CALL, OTHERS)
    if b"<" in spelling.text:
        for match in PARTS.finditer(spelling.text):
            begin, end = spelling.tokens(*match.span())
            kind_t[begin:end] = kinds.index(THOUGHT if match["thought"] else CALL)
    if mask_t is not None:
        kind_t[~mask_t] = kinds.index(OTHERS)
    if not kind_t.any():
        return []
    edges = [0, *(np.flatnonzero(np.diff(kind_t)) + 1).tolist(), n]
    return [(kinds[kind_t[begin]], begin, end) for begin, end in itertools.pairwise(edges)]
