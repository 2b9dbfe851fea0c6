"""What ktae's own grader says of the responses that have a reference answer.

Where the dump holds no verdict at all, ours are its verdicts. Elsewhere they are compared with the
dump's, which finds errors of its verifier, or of ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktae.grading import Outcome, Verdict
from ktae.grading.verdict import AS_TEXT, TIME_LIMIT
from ktae.grading.workers import Task, default_pool
from ktae.report import sampling
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import ProgressCallback
from ktae.rollouts import record

MAX_GRADED = 10_000  # responses beside the dump's verdicts; above, whole groups are left out
MAX_TIMEOUTS = 20  # after so many responses that ran out of time, no more are graded
RARE = 0.2  # where we find no answer in more correct responses, we do not know their form
MOST_DIFFER = 0.5  # above, the prompt probably asks for more than the reference, as in game of 24
FEWEST_PROMPTS = 10  # with one and the same reference, that ask for something else


class Graded(NamedTuple):
    """What our grader says, by each response's place in `Frame`."""

    verdicts: dict[int, Verdict]
    is_verdict: bool  # whether the dump has no verdict, so that these are its own
    differ: list[int]  # those with another verdict in the dump; the most frequent reason first
    unanswered: list[int]  # those in which the grader finds no answer
    as_text: list[int]  # incorrect ones whose reference is no value, compared letter by letter
    # Whether more than `MOST_DIFFER` of the incorrect responses are correct here, or some are and
    # all prompts share one reference answer. Then no single difference tells anything.
    asks_for_more: bool


def grade(frame: Frame, tell: ProgressCallback) -> Graded | None:
    """Grade the responses that have a reference answer; None where nothing can be graded."""
    accepted = frame.accepted
    # A task's own grader needs more than a record holds, and has given the verdicts.
    if not can_grade() or frame.dump.has_own_grader or not any(accepted):
        return None
    is_verdict = not frame.known_b.any()
    rows = np.flatnonzero(frame.known_b | is_verdict).tolist()
    rows = [row for row in rows if accepted[row] and text_of(frame, row)]
    if not rows:
        return None
    # Whole groups, as a part of one would be compared with nothing.
    sizes_g = np.bincount(frame.group_b[rows], minlength=len(frame.sizes_g))
    most = len(rows) if is_verdict else MAX_GRADED
    chosen_g = sampling.choose(sizes_g, sizes_g > 0, [], most)
    chosen = [row for row in rows if chosen_g[frame.group_b[row]]]
    verdicts = _verdicts(frame, chosen, tell)
    unanswered = [row for row, x in verdicts.items() if x.outcome is Outcome.UNANSWERED]
    stored = {row: float(frame.correct_b[row]) for row in verdicts}
    n_correct = sum(x == 1 for x in stored.values())
    is_rare = sum(stored[row] == 1 for row in unanswered) <= RARE * n_correct
    differ = [
        row
        for row, x in verdicts.items()
        if not is_verdict
        and x.correct not in (None, stored[row])
        and (is_rare or x.outcome is not Outcome.UNANSWERED)
    ]
    # One cause shows itself as many responses.
    times = Counter((stored[row], verdicts[row].reason) for row in differ)
    differ.sort(key=lambda row: (-times[stored[row], verdicts[row].reason], row))
    n_prompts = len({int(frame.group_b[row]) for row in verdicts})
    is_shared = n_prompts >= FEWEST_PROMPTS and len({accepted[row] for row in verdicts}) == 1
    n_missed = sum(stored[row] == 0 for row in differ)
    bound = (0 if is_shared else MOST_DIFFER) * (len(verdicts) - n_correct)
    as_text = [row for row, x in verdicts.items() if x.reason == AS_TEXT]
    asks_for_more = n_missed > max(2, bound)
    return Graded(verdicts, is_verdict, differ, unanswered, as_text, asks_for_more)


def with_verdicts(frame: Frame, graded: Graded) -> Frame:
    """The frame of a dump without verdicts, with ours: 1 for a correct response, 0 for others."""
    rollouts, verdicts = frame.rollouts, graded.verdicts
    correct_b = [verdicts[i].correct if i in verdicts else None for i in range(len(rollouts))]
    for name in ("correct", "reward"):
        field, place = record.SCHEMA.field(name), rollouts.column_names.index(name)
        rollouts = rollouts.set_column(place, field, pa.array(correct_b, field.type))
    return frame_of(dataclasses.replace(frame.dump, rollouts=rollouts))


def can_grade() -> bool:
    """Whether the parser of formulas is installed."""
    return importlib.util.find_spec("latex2sympy2_extended") is not None


def text_of(frame: Frame, row: int) -> str:
    """A response; where there is no text, the tokens spell it, if there is a tokenizer."""
    text = frame.rollouts["response"][row].as_py()
    return frame.spell(row).text.decode(errors="replace") if text is None else str(text)


def _verdicts(frame: Frame, rows: Sequence[int], tell: ProgressCallback) -> dict[int, Verdict]:
    """Each row's verdict; where grading ended early, the last rows have none."""
    # Equal responses to equal answers are graded once.
    rows_of: dict[Task, list[int]] = {}
    for row in rows:
        rows_of.setdefault(Task(text_of(frame, row), frame.accepted[row]), []).append(row)
    verdicts, timeouts = dict[int, Verdict](), 0
    with contextlib.closing(default_pool().grade_all(list(rows_of))) as graded:  # type: ignore[type-var]
        for n, (alike, verdict) in enumerate(zip(rows_of.values(), graded, strict=False)):
            tell("grading", n, len(rows_of))
            verdicts |= dict.fromkeys(alike, verdict)
            timeouts += verdict.rule == TIME_LIMIT
            if timeouts >= MAX_TIMEOUTS:
                break
    return {row: verdicts[row] for row in rows if row in verdicts}
