"""Where ktae's own grader disagrees with a dump's verdict: errors of its verifier, or of ours.

All rollouts with a reference answer, a text and a verdict are graded, those of groups that are all
correct or all incorrect too. One that is correct in the dump and in which the grader finds no
answer is listed only where that is rare: otherwise the answers are stated in a way that the grader
does not know.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktae.errors import InputError
from ktae.grading import Outcome, Verdict
from ktae.grading.verdict import AS_TEXT, TIME_LIMIT
from ktae.grading.workers import Task, default_pool
from ktae.report import sampling
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump, Tell
from ktae.rollouts import record
from ktae.rollouts.answers import parse_answers

MAX_GRADED = 10_000
"""Rollouts that are graded; above, whole groups are left out, evenly over the dump."""

MAX_TIMEOUTS = 20
"""After so many responses that ran out of time, no more are graded."""

RARE = 0.2
"""Of the rollouts that are correct in the dump, the share in which we find no answer up to which
those are listed."""

MOST_DIFFER = 0.5
"""Above this share of incorrect rollouts that are correct here, the prompt probably asks for more
than the reference answer, as in the game of 24."""


FEWEST_PROMPTS = 10
"""So many prompts with one and the same reference answer ask for something else."""


class Difference(NamedTuple):
    """A rollout's place in `Frame`, its verdict in the dump, 1 or 0, and ours, which is another."""

    rollout: int
    stored: float
    verdict: Verdict

    @property
    def reason(self) -> str:
        """The dump's verdict, ours, and the rule that found and decided ours."""
        stored = "correct" if self.stored else "incorrect"
        return f"{stored} in the dump, {self.verdict.outcome} here ({self.verdict.reason})"


class Regraded(NamedTuple):
    """What `regrade` returns."""

    differences: list[Difference]
    """The most frequent reason first, then in the dump's order."""
    gradable: int
    """Rollouts with a text, a reference answer and a verdict; of them the next three."""
    graded: int
    unanswered: list[int]
    """Those in which the grader finds no answer, by their place in `Frame`."""
    undecided: int
    """Out of time, or of a reference that does not parse."""
    stopped: bool
    """Whether grading ended early, after `MAX_TIMEOUTS`."""
    asks_for_more: bool
    """Whether more than `MOST_DIFFER` of the incorrect rollouts are correct here, or some are and
    all prompts share one reference answer."""
    as_text: int = 0
    """Incorrect ones whose reference is no value, so that it was compared letter by letter."""
    example: str = ""
    """Such a reference."""

    def in_words(self) -> str:
        """What was graded, in a sentence or two."""
        words = (
            f"{self.graded:,} of {self.gradable:,} responses with a reference answer were graded"
        )
        words += "." if self.differences else ", and all verdicts agree."
        if self.undecided:
            words += f" {self.undecided:,} could not be decided."
        return words + (" Grading ended early: too many ran out of time." if self.stopped else "")


def regrade(
    frame: Frame, most: int = MAX_GRADED, tell: Tell = lambda phase, done, total: None
) -> Regraded | None:
    """Grade at most `most` rollouts, and compare with their verdicts.

    None where nothing can be graded: no rollout has a reference answer and a verdict, or
    math-verify is not installed.
    """
    accepted = references(frame)
    gradable = _gradable(frame, accepted, ~np.isnan(frame.correct_b))
    if not gradable:
        return None
    rows = _whole_groups(frame, gradable, most)
    verdicts = _verdicts_of(frame, accepted, rows, tell)
    # Where we often find no answer, the dump states it in a form that our grader does not know.
    unanswered = [row for row, v in verdicts.items() if v.outcome is Outcome.UNANSWERED]
    n_right = sum(frame.correct_b[row] == 1 for row in verdicts)
    rare = sum(frame.correct_b[row] == 1 for row in unanswered) <= RARE * n_right
    differences = [
        Difference(row, float(frame.correct_b[row]), verdict)
        for row, verdict in verdicts.items()
        if verdict.correct not in (None, float(frame.correct_b[row]))
        and (rare or verdict.outcome is not Outcome.UNANSWERED)
    ]
    # The most frequent reason first: one cause shows itself as many rollouts.
    times = Counter(difference.reason for difference in differences)
    differences.sort(key=lambda x: (-times[x.reason], x.reason, x.rollout))
    n_missed = sum(x.stored == 0 for x in differences)
    n_wrong = len(verdicts) - n_right
    prompts = {frame.group_b[row] for row in verdicts}
    # One reference for all prompts is not what they ask for.
    is_shared = len(prompts) >= FEWEST_PROMPTS and len({accepted[row] for row in verdicts}) == 1
    asks_for_more = n_missed > max(2, (0 if is_shared else MOST_DIFFER) * n_wrong)
    as_text = [row for row, v in verdicts.items() if v.reason == AS_TEXT]
    return Regraded(
        differences,
        gradable=len(gradable),
        graded=len(verdicts),
        unanswered=unanswered,
        undecided=sum(v.outcome is Outcome.UNDECIDED for v in verdicts.values()),
        stopped=len(verdicts) < len(rows),
        asks_for_more=bool(asks_for_more),
        as_text=len(as_text),
        example=accepted[as_text[0]][0] if as_text else "",
    )


def grade_without_rewards(
    dump: Dump, tell: Tell = lambda phase, done, total: None
) -> tuple[Dump, int]:
    """The dump with our grader's verdicts where it has references and not a single verdict; and
    how many responses were graded."""
    frame = frame_of(dump)
    accepted = references(frame)
    if not np.isnan(frame.correct_b).all():
        return dump, 0
    rows = _gradable(frame, accepted, np.ones(len(frame.correct_b), dtype=bool))
    if not rows:
        return dump, 0
    verdicts = _verdicts_of(frame, accepted, rows, tell)
    correct_b: list[float | None] = [None] * len(frame.correct_b)
    for row, verdict in verdicts.items():
        correct_b[row] = verdict.correct
    rollouts = frame.rollouts
    for name in ("correct", "reward"):
        field, place = record.SCHEMA.field(name), rollouts.column_names.index(name)
        rollouts = rollouts.set_column(place, field, pa.array(correct_b, field.type))
    return dataclasses.replace(dump, rollouts=rollouts), len(verdicts)


def _text_of(frame: Frame, row: int) -> str:
    """A response; where there is no text, the tokens spell it, if there is a tokenizer."""
    text = frame.rollouts["response"][row].as_py()
    return frame.spell(row).text.decode(errors="replace") if text is None else str(text)


def _gradable(frame: Frame, accepted: list[tuple[str, ...]], asked_b: np.ndarray) -> list[int]:
    """Rows with a text and a reference answer; none where there is nothing to grade with."""
    # A task's own grader needs more than a record holds, and has given the verdicts.
    if not can_grade() or frame.dump.grader is not None or not any(accepted):
        return []
    is_null_b = frame.rollouts["response"].is_null().to_numpy()
    return [
        row
        for row in np.flatnonzero(asked_b).tolist()
        if accepted[row] and (not is_null_b[row] or _text_of(frame, row))
    ]


def _whole_groups(frame: Frame, gradable: list[int], most: int) -> list[int]:
    """Of these rows whole groups, as a part of one would be compared with nothing."""
    gradable_g = np.bincount(frame.group_b[gradable], minlength=len(frame.labels))
    chosen_g = sampling.choose(gradable_g, gradable_g > 0, [], most)
    return [row for row in gradable if chosen_g[frame.group_b[row]]]


def can_grade() -> bool:
    """Whether the parser of formulas is installed."""
    return importlib.util.find_spec("latex2sympy2_extended") is not None


def references(frame: Frame) -> list[tuple[str, ...]]:
    """The accepted answers of each rollout; none where there is no reference answer.

    Of a worked solution what follows `####` is the answer, and a printed list holds several.
    """
    accepted: dict[str | None, tuple[str, ...]] = {None: ()}
    answers = frame.rollouts["answer"].to_pylist()
    for answer in answers:
        if answer not in accepted:
            accepted[answer] = ()
            with contextlib.suppress(InputError):  # an empty list, or one of something else
                parts = parse_answers(answer, "answer")
                accepted[answer] = tuple(part for part in parts if part.strip())
    return [accepted[answer] for answer in answers]


def token_of(difference: Difference, frame: Frame) -> int:
    """Where to look: the last place of the answer that was graded, else the last token."""
    spelling = frame.spell(difference.rollout)
    answer = (difference.verdict.extracted or "").encode(errors="replace")
    begin = spelling.text.rfind(answer) if answer else -1
    if begin < 0:
        return max(0, len(spelling.ends_t) - 1)
    return spelling.tokens(begin, begin + len(answer))[0]


def _verdicts_of(
    frame: Frame, accepted: list[tuple[str, ...]], rows: list[int], tell: Tell
) -> dict[int, Verdict]:
    """Each row's verdict; where grading ended early, the last rows have none."""
    tasks = {row: Task(_text_of(frame, row), accepted[row]) for row in rows}
    # Equal responses to equal answers are graded once.
    rows_of: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for row, task in tasks.items():
        rows_of.setdefault((task.response, tuple(task.answers)), []).append(row)
    distinct = [tasks[rows[0]] for rows in rows_of.values()]
    verdicts, timeouts = dict[int, Verdict](), 0
    with contextlib.closing(default_pool().grade_all(distinct)) as graded:  # type: ignore[type-var]
        for n, (rows, verdict) in enumerate(zip(rows_of.values(), graded, strict=False)):
            tell("grading", n, len(distinct))
            verdicts |= dict.fromkeys(rows, verdict)
            timeouts += verdict.rule == TIME_LIMIT
            if timeouts >= MAX_TIMEOUTS:
                break
    return {row: verdicts[row] for row in tasks if row in verdicts}
