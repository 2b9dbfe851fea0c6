"""The parts of rollouts: what the policy thought, called and said, and what others said to it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from ktae.report.data import Choice, State, Turn, Turns
from ktae.report.frame import Frame
from ktae.turns import find_turns, shared_states

SAID, THOUGHT, CALL, OTHERS = KINDS = ("said", "thought", "call", "others")
"""The policy's plain text, reasoning or call of a tool; others': what is masked, such as a
tool's output or a user's turn."""

PARTS = re.compile(
    rb"(?P<thought><think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A(?:(?!<think).)*?</think(?:ing)?>)"
    rb"|(?P<call><(tool_call|function_call|code)>.*?(?:</(?:tool_call|function_call|code)>|\Z))",
    re.DOTALL,
)
"""What marks thoughts and calls. A template may have begun the thought in the prompt."""

LONGEST_TURN, LONGEST_TEXT = 40, 90
"""Tokens and characters of a turn, or of a shared state, that are in the page."""

MOST_TURNS = 24
"""Turns of a rollout that are listed."""

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


def turns_of(frame: Frame, group: int, credit_n: np.ndarray) -> Turns | None:
    """The turns of a group's rollouts and what was done in shared states; None without several.

    A turn's credit is the mean over its tokens, so that a longer turn looks no worse for it.
    """
    rows = np.arange(*frame.starts_g[group : group + 2])
    if (frame.counted_b[rows] == frame.lengths_b[rows]).all():
        return None
    (which_bt, _), (mask_bt, _) = (frame.padded(rows, x) for x in (frame.which_n, frame.mask_n))
    turns = find_turns(mask_bt)
    if not turns.number.any():
        return None
    listed: list[list[Turn]] = [[] for _ in rows]
    left_out = [0] * len(rows)
    columns = (turns.row, turns.number, turns.start, turns.stop)
    for row, number, start, stop in zip(*(x.tolist() for x in columns), strict=True):
        if number >= MOST_TURNS:
            left_out[row] += 1
            continue
        begin = int(frame.offsets_b[rows[row]])
        text = _in_short(frame, which_bt[row, start:stop])
        listed[row].append(Turn(start, text, float(credit_n[begin + start : begin + stop].mean())))
    largest = max((abs(turn.credit) for row in listed for turn in row), default=0.0) or 1.0
    states = [
        State(
            _in_short(frame, state.token_ids) if state.token_ids else "",
            len({row for choice in state.choices for row in choice.rollouts}),
            [
                Choice(_in_short(frame, x.token_ids), len(x.rollouts), int(x.correct), x.known)
                for x in state.choices[:MOST_CHOICES]
            ],
            max(0, len(state.choices) - MOST_CHOICES),
        )
        for state in shared_states(which_bt, mask_bt, frame.correct_b[rows], np.zeros_like(rows))
    ]
    return Turns(listed, left_out, largest, states)


def _in_short(frame: Frame, which_t: Any) -> str:
    """The first words of some tokens, on one line."""
    which = np.asarray(which_t[:LONGEST_TURN], dtype=np.int64).tolist()
    pieces = [frame.dump.texts[i] for i in which]
    if any(piece is None for piece in pieces):
        return " ".join(f"⟨{frame.dump.token_ids[i]}⟩" for i in which)
    text = " ".join(b"".join(x or b"" for x in pieces).decode(errors="replace").split())
    return (f"{text[:LONGEST_TEXT]}…" if len(text) > LONGEST_TEXT else text) or "(empty)"
