"""The parts of rollouts: what the policy thought, called and said, and what others said to it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from ktae.report.frame import Frame
from ktae.rollouts import record
from ktae.turns import find_turns, shared_states

SAID, THOUGHT, CALL, OTHERS = KINDS = ("said", "thought", "call", "others")
"""Of the policy: plain text, reasoning, a call of a tool. Of others: what is masked, such as a
tool's output or a user's turn."""

PARTS = re.compile(
    rb"(?P<thought><think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A(?:(?!<think).)*?</think(?:ing)?>)"
    rb"|(?P<call><(tool_call|function_call|code)>.*?(?:</(?:tool_call|function_call|code)>|\Z))",
    re.DOTALL,
)
"""What marks thoughts and calls. A template may have begun the thought in the prompt."""

LONGEST_TURN = 60
"""Tokens of a shared state, and of a turn taken there, that are in the page."""

MOST_CHOICES = 8
"""Turns of a shared state that are in the page, those of most rollouts; the others are counted."""


def segments_of(frame: Frame, row: int) -> list[tuple[str, int, int]]:
    """The segments of a rollout in order: kind, first token and the one after the last.

    None at all where everything is `SAID`.
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
    edges = [0, *(np.flatnonzero(np.diff(kind_t)) + 1).tolist(), len(kind_t)]
    return [(KINDS[kind_t[begin]], begin, end) for begin, end in itertools.pairwise(edges)]


def holes_of(frame: Frame, row: int) -> np.ndarray:
    """Begin and end of every masked stretch of a rollout, in turn."""
    padded = np.concatenate([[True], frame.mask_n[frame.span(row)], [True]])
    return np.flatnonzero(np.diff(padded))


def states_of(
    frame: Frame, group: int, rank_v: np.ndarray, place_b: np.ndarray
) -> list[dict[str, Any]] | None:
    """What the rollouts of a group did in the states that they share; None without several turns.

    Tokens and rollouts are numbered as in the page, by `rank_v` and `place_b`.
    """
    rows = np.arange(*frame.starts_g[group : group + 2])
    if (frame.counted_b[rows] == frame.lengths_b[rows]).all():
        return None
    spans = [frame.span(row) for row in rows]
    arrays = record.pad([rank_v[frame.which_n[x]] for x in spans], [frame.mask_n[x] for x in spans])
    if not find_turns(arrays[1]).number.any():
        return None
    return [
        {
            "seen": state.token_ids[:LONGEST_TURN],
            "rollouts": sorted({place_b[rows[row]] for x in state.choices for row in x.rollouts}),
            "choices": [
                {"done": x.token_ids[:LONGEST_TURN], "rollouts": place_b[rows[list(x.rollouts)]]}
                for x in state.choices[:MOST_CHOICES]
            ],
            "others": max(0, len(state.choices) - MOST_CHOICES),
        }
        for state in shared_states(*arrays, frame.correct_b[rows], np.zeros_like(rows))
    ]
