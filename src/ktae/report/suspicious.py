"""Incorrect rollouts whose tokens speak for correctness, as in the paper's case study.

There a rollout holds the right answer and gets no reward: the answer is in a form that the grader
does not parse, or later text overwrites it. Three signs are looked for in mixed groups; the first
that holds is the flag. For the first two the reference answer must be stated as an answer (shortly
after "answer", "boxed" or "####"), its tokens' mean credit must be above 0, and the credit up to it
must add up to more than 0. An answer that more than half of the group's incorrect rollouts state
(and more than two) tells nothing: the prompt asks for it, as in "make 24".

- `overwritten`: the credit after the answer add up to less than 0.
- `answer stated`: they do not, or nothing follows.
- `reads right`: the rollout's mean credit is above 0 and at least the median of the group's correct
  rollouts. Its own verdict counts against its tokens, so it gets there in spite of it.

All are leads to look at, not verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ktae.report.columns import Columns
from ktae.report.summary import Scored

LONGEST_ANSWER = 40
"""Characters. Longer reference answers are worked solutions; nobody repeats them by the letter."""

STATED = rb"(?i:answer|box|####)[^\n]{0,24}?"
"""What stands shortly before an answer that is stated as one."""

SHORTEST_TAIL = 3
"""Tokens that must follow an answer for it to count as overwritten."""


class Flag(NamedTuple):
    """One suspicious rollout."""

    rollout: int
    """Its place in `Columns`."""
    group: int
    kind: str
    """`overwritten`, `answer stated` or `reads right`."""
    strength: float
    """For sorting: how far the sign is from not being one, in units of the credit."""
    token: int
    """Where to look: a token's place in the rollout."""
    why: str
    """The explanation, in words."""


def find(columns: Columns, scored: Scored, answers: dict[int, tuple[int, int]]) -> list[Flag]:
    """All flags, strongest first; a rollout has at most one.

    Args:
        columns: the rollouts.
        scored: their credit.
        answers: see `answer_places`.
    """
    counted_b = columns.sum_tokens(columns.mask_n)
    mean_b = columns.sum_tokens(scored.credit_n) / np.maximum(counted_b, 1)
    flags = []
    for group in np.flatnonzero((scored.n_true_g > 0) & (scored.n_false_g > 0)).tolist():
        rows = np.arange(columns.starts_g[group], columns.starts_g[group + 1])
        right = rows[(columns.correct_b[rows] == 1) & (counted_b[rows] > 0)]
        median = float(np.median(mean_b[right]))
        last = _usual_last_token(columns, right)
        wrong = rows[(columns.correct_b[rows] == 0) & (counted_b[rows] > 0)].tolist()
        tells = sum(row in answers for row in wrong) <= max(2, len(wrong) / 2)
        for row in wrong:
            flag = _answer_stated(columns, scored, row, answers.get(row)) if tells else None
            if flag is None and mean_b[row] > 0 and mean_b[row] >= median:
                why = _why_reads_right(columns, row, mean_b[row], median, last)
                flag = Flag(row, group, "reads right", float(mean_b[row] - median), 0, why)
            if flag is not None:
                flags.append(flag._replace(group=group))
    return sorted(flags, key=lambda flag: -flag.strength)


def _answer_stated(
    columns: Columns, scored: Scored, row: int, place: tuple[int, int] | None
) -> Flag | None:
    if place is None:
        return None
    begin, end = place
    credit_t = scored.credit_n[columns.offsets_b[row] : columns.offsets_b[row + 1]]
    before, after = float(credit_t[:end].sum()), float(credit_t[end:].sum())
    n_after = len(credit_t) - end
    if credit_t[begin:end].mean() <= 0 or before <= 0:
        return None
    why = (
        f"It states the reference answer, with tokens that speak for correctness. Up to there "
        f"(token {end:,} of {len(credit_t):,}) the credit adds up to {_signed(before, 2)}"
    )
    if after < 0 and n_after >= SHORTEST_TAIL:
        why += f"; those of the {n_after:,} tokens after it, to {_signed(after, 2)}. "
        why += "Did later text overwrite a right answer?"
        return Flag(row, 0, "overwritten", before / end - after / n_after, begin, why)
    why += ", and what follows does not speak against it. "
    why += "Is the answer in a form that the grader does not parse, or the reference wrong?"
    return Flag(row, 0, "answer stated", before / end, begin, why)


def _why_reads_right(
    columns: Columns,
    row: int,
    mean: float,
    median: float,
    last: int | None,
) -> str:
    ids_t = columns.ids_n[columns.offsets_b[row] : columns.offsets_b[row + 1]]
    why = (
        f"Its tokens' mean credit is {_signed(mean, 3)}, although its own verdict counts against "
        f"them; the median of the group's correct rollouts is {_signed(median, 3)}."
    )
    if last is not None and ids_t[-1] != last:
        why += " It does not end as the correct rollouts do: was it cut off at the length limit?"
    return why


def _signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def _usual_last_token(columns: Columns, right: np.ndarray) -> int | None:
    """The token that all correct rollouts of a group end with, if there is one."""
    last = set(columns.ids_n[columns.offsets_b[right + 1] - 1].tolist())
    return last.pop() if len(last) == 1 else None


def answer_places(
    columns: Columns, texts: list[bytes | None], which_n: np.ndarray
) -> dict[int, tuple[int, int]]:
    """Where each incorrect rollout last states its reference answer: first token, token after it.

    Args:
        columns: the rollouts.
        texts: the bytes of each distinct token.
        which_n: (N,) each token's place in `texts`.
    """
    places = {}
    for row, answer in _short_answers(columns):
        pieces = [
            texts[i] or b"" for i in which_n[columns.offsets_b[row] : columns.offsets_b[row + 1]]
        ]
        # Not inside a longer number or word: 5 is neither in 15 nor in 5.2.
        pattern = STATED + rb"(?<![\w.])(" + re.escape(answer.encode()) + rb")(?!\w|\.\d)"
        text = b"".join(pieces)
        found = [match.span(1) for match in re.finditer(pattern, text)]
        if found:
            ends = np.cumsum([len(piece) for piece in pieces])
            begin, end = found[-1]
            places[row] = (
                int(np.searchsorted(ends, begin, side="right")),
                int(np.searchsorted(ends, end, side="left")) + 1,
            )
    return places


def _short_answers(columns: Columns) -> Iterator[tuple[int, str]]:
    answers: list[Any] = columns.rollouts["answer"].to_pylist()
    for row in np.flatnonzero(columns.correct_b == 0).tolist():
        answer = (answers[row] or "").strip()
        if 0 < len(answer) <= LONGEST_ANSWER:
            yield row, answer
