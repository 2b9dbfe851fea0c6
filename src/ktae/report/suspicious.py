"""Incorrect rollouts that may be right: leads to errors of the verifier, or of the reference.

The paper's case study: a rollout holds the right answer and gets no reward, since the answer is in
a form that the grader does not parse, or later text overwrites it. Three signs are looked for; the
first that holds is the flag.

- `overwritten`: the reference answer is stated as an answer (shortly after "answer", "boxed" or
  "####"), the credit after it adds up to less than 0, and its mean is below that of what is before.
- `answer stated`: it is stated, and what follows does not speak so against it, or nothing follows.
- `reads right`: the rollout's mean credit is above 0 and at least the median of the group's correct
  rollouts. Its own verdict counts against its tokens, so it gets there in spite of it.

The first two need no credit in favour of the answer. In a group of one class all credit is 0, so
there only `answer stated` is found. An answer that more than half of a group's incorrect rollouts
state (and more than two) tells nothing where the dump's other incorrect rollouts state theirs as
well: the prompt asks for it, as in "make 24".

All are leads to look at, not verdicts. `ktae.report.regrading` gives verdicts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.report.regrading import references
from ktae.report.summary import Scored
from ktae.rollouts.spelling import standing_alone

LONGEST_ANSWER = 40
"""Characters. Longer reference answers are worked solutions; nobody repeats them by the letter."""

STATED = rb"(?i:answer|box|####)[^\n]{0,24}?"
"""What stands shortly before an answer that is stated as one."""

COMMON = 0.1
"""Where more of a dump's incorrect rollouts state their reference answer, stating it is a habit."""

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


def find(
    columns: Frame,
    scored: Scored,
    answers: dict[int, tuple[int, int]],
    halves: dict[int, tuple[float, float]],
) -> list[Flag]:
    """All flags, strongest first; a rollout has at most one.

    Args:
        columns: the rollouts.
        scored: their credit.
        answers: see `answer_places`.
        halves: the sums of the credit up to the end of each answer, and after it.
    """
    counted_b = columns.counted_b
    mean_b = scored.credit_b / np.maximum(counted_b, 1)
    wrong_b = (columns.correct_b == 0) & (counted_b > 0)
    # Where many state it, stating the answer may be what the prompt asks for. Then a group in
    # which most incorrect rollouts do so tells nothing.
    common = len(answers) > COMMON * wrong_b.sum()
    flags = []
    for group in np.unique(columns.group_b[wrong_b]).tolist():
        rows = np.arange(columns.starts_g[group], columns.starts_g[group + 1])
        wrong = rows[wrong_b[rows]].tolist()
        n_stated = sum(row in answers for row in wrong)
        tells = not common or n_stated <= max(2, len(wrong) / 2)
        mixed = scored.n_true_g[group] > 0 and scored.n_false_g[group] > 0
        for row in wrong:
            flag = None
            if tells and row in answers:
                n_tokens = int(columns.lengths_b[row])
                flag = _answer_stated(row, n_tokens, answers[row], halves[row])
            # Without both verdicts in the group all credit is 0, and says nothing.
            if flag is None and mixed:
                flag = _reads_right(columns, mean_b, rows[counted_b[rows] > 0], row)
            if flag is not None:
                flags.append(flag._replace(group=group))
    return sorted(flags, key=lambda flag: -flag.strength)


def _answer_stated(
    row: int, n_tokens: int, place: tuple[int, int], credit: tuple[float, float]
) -> Flag:
    begin, end = place
    before, after = credit
    n_after = n_tokens - end
    why = f"It states the reference answer (up to token {end:,} of {n_tokens:,}"
    why += f"; the credit up to there adds up to {_signed(before, 2)})"
    # The tail speaks against correctness, token for token more than what stands before it.
    if after < 0 and n_after >= SHORTEST_TAIL and after / n_after < before / end:
        why += f". Of the {n_after:,} tokens after it the credit adds up to {_signed(after, 2)}. "
        why += "Did later text overwrite a right answer?"
        return Flag(row, 0, "overwritten", before / end - after / n_after, begin, why)
    why += ", and what follows does not speak against it more than that. "
    why += "Is the answer in a form that the grader does not parse, or the reference wrong?"
    return Flag(row, 0, "answer stated", before / end, begin, why)


def _reads_right(columns: Frame, mean_b: np.ndarray, rows: np.ndarray, row: int) -> Flag | None:
    """The third sign; `rows` are the group's, those without a counted token left out."""
    mean = float(mean_b[row])
    if mean <= 0:
        return None
    right = rows[columns.correct_b[rows] == 1]
    median = float(np.median(mean_b[right]))
    # A usual correct rollout has more: nothing to look at.
    if mean < median:
        return None
    why = (
        f"Its tokens' mean credit is {_signed(mean, 3)}, although its own verdict counts against "
        f"them; the median of the group's right rollouts is {_signed(median, 3)}."
    )
    usual = {int(columns.ids(other)[-1]) for other in right.tolist()}
    if len(usual) == 1 and columns.ids(row)[-1] not in usual:
        why += " It does not end as the right rollouts do: was it cut off at the length limit?"
    return Flag(row, 0, "reads right", mean - median, 0, why)


def _signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def answer_places(columns: Frame, dump: Dump) -> dict[int, tuple[int, int]]:
    """Where each incorrect rollout last states its answer: the first token, the one after it."""
    accepted = references(columns)
    places = {}
    for row in np.flatnonzero(columns.correct_b == 0).tolist():
        answer = accepted[row][0].strip() if len(accepted[row]) == 1 else ""
        if not 0 < len(answer) <= LONGEST_ANSWER:
            continue
        spelling = dump.spell(columns.ids(row))
        pattern = STATED + rb"(" + standing_alone(answer) + rb")"
        spans = [match.span(1) for match in re.finditer(pattern, spelling.text)]
        if spans:
            places[row] = spelling.tokens(*spans[-1])
    return places
