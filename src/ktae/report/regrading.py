"""Where ktae's own grader disagrees with a dump's verdict: errors of its verifier, or of ours.

All rollouts with a reference answer, a text and a verdict are graded, those of groups that are all
correct or all incorrect too. One that is correct in the dump and in which the grader finds no
answer is listed only where that is rare: otherwise the answers are stated in a way that the grader
does not know.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.grading import Outcome, Verdict
from ktae.grading.workers import Task, default_pool
from ktae.report import sampling
from ktae.report.frame import Frame
from ktae.report.inputs import Dump, Tell
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


class Difference(NamedTuple):
    """A rollout's place in `Frame`, its verdict in the dump, 1 or 0, and ours, which is another."""

    rollout: int
    stored: float
    verdict: Verdict

    @property
    def reason(self) -> str:
        """The dump's verdict, ours, and the rule that found and decided ours."""
        words = {"correct": "right", "incorrect": "wrong"}
        here = words.get(self.verdict.outcome, self.verdict.outcome)
        stored = "right" if self.stored else "wrong"
        return f"{stored} in the dump, {here} here ({self.verdict.reason})"


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
    """Whether more than `MOST_DIFFER` of the incorrect rollouts are correct here."""

    def in_numbers(self) -> dict[str, Any]:
        """What was graded, as the page's script reads it."""
        counts = {"total": len(self.differences), "unanswered": len(self.unanswered)}
        return {k: v for k, v in self._asdict().items() if k != "differences"} | counts


def regrade(
    frame: Frame, most: int = MAX_GRADED, tell: Tell = lambda phase, done, total: None
) -> Regraded | None:
    """Grade at most `most` rollouts, and compare with their verdicts.

    None where nothing can be graded: no rollout has a reference answer and a verdict, or
    math-verify is not installed.
    """
    accepted, scorer = references(frame), own_scorer(frame.dump)
    # A task's own grader needs more than a record holds, and has given the verdicts.
    if not can_grade() or scorer or not any(accepted):
        return None
    responses = frame.rollouts["response"]

    def text_of(row: int) -> str:
        # Where there is no text, the tokens spell it, if there is a tokenizer.
        text = responses[row].as_py()
        return frame.spell(row).text.decode(errors="replace") if text is None else str(text)

    is_null_b = responses.is_null().to_numpy()
    gradable = [
        row
        for row in np.flatnonzero(~np.isnan(frame.correct_b)).tolist()
        if accepted[row] and (not is_null_b[row] or text_of(row))
    ]
    if not gradable:
        return None
    # Whole groups: a part of one would be compared with nothing.
    gradable_g = np.bincount(frame.group_b[gradable], minlength=len(frame.labels))
    chosen_g = sampling.choose(gradable_g, gradable_g > 0, [], most)
    rows = [row for row in gradable if chosen_g[frame.group_b[row]]]
    verdicts = _verdicts({row: Task(text_of(row), accepted[row]) for row in rows}, tell)
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
    return Regraded(
        differences,
        gradable=len(gradable),
        graded=len(verdicts),
        unanswered=unanswered,
        undecided=sum(v.outcome is Outcome.UNDECIDED for v in verdicts.values()),
        stopped=len(verdicts) < len(rows),
        asks_for_more=bool(n_missed > max(2, MOST_DIFFER * (len(verdicts) - n_right))),
    )


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


def own_scorer(dump: Dump) -> str | None:
    """The name of the grader of a run's task; None: ktae's own grader gave the verdicts."""
    return dump.grader


def _verdicts(tasks: dict[int, Task], tell: Tell) -> dict[int, Verdict]:
    """Each row's verdict; where grading ended early, the last rows have none."""
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
            timeouts += verdict.reason.startswith("time limit")
            if timeouts >= MAX_TIMEOUTS:
                break
    return {row: verdicts[row] for row in tasks if row in verdicts}
