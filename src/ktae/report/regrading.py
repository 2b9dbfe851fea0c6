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
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.evaluation.benchmarks import parse_answers
from ktae.grading import Outcome, Verdict
from ktae.grading.pool import Task, default_pool
from ktae.report import sampling
from ktae.report.columns import Frame
from ktae.report.inputs import Dump, Tell

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

LONGEST_ANSWER = 120
"""Characters of an answer that are in the page."""


class Difference(NamedTuple):
    """One rollout whose verdict is not ours."""

    rollout: int
    """Its place in `Columns`."""
    stored: float
    """The dump's verdict, 1 or 0."""
    verdict: Verdict
    """Ours."""

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
    """Rollouts with a text, a reference answer and a verdict."""
    graded: int
    """Those of them that were graded."""
    unanswered: list[int]
    """Graded ones without an answer that the grader can find, by their place in `Columns`."""
    undecided: int
    """Graded ones that it could not decide: out of time, or a reference that does not parse."""
    stopped: bool
    """Whether grading ended early, after `MAX_TIMEOUTS`."""
    asks_for_more: bool
    """Whether more than `MOST_DIFFER` of the incorrect rollouts are correct here."""

    def in_numbers(self) -> dict[str, Any]:
        """What was graded, as the page's script reads it."""
        numbers = {"total": len(self.differences), "unanswered": len(self.unanswered)}
        names = ("gradable", "graded", "undecided", "stopped", "asks_for_more")
        return numbers | {name: getattr(self, name) for name in names}

    def reasons(self, stored: float) -> Counter[str]:
        """How many rollouts of that verdict in the dump differ for each reason."""
        return Counter(x.verdict.reason for x in self.differences if x.stored == stored)


def regrade(
    columns: Frame,
    dump: Dump,
    most: int = MAX_GRADED,
    tell: Tell = lambda phase, done, total: None,
) -> Regraded | None:
    """Grade the rollouts and compare with their verdicts.

    Equal responses to equal answers are graded once. Every response has the grading pool's time
    limit.

    Args:
        columns: the rollouts.
        dump: where they come from; its tokens spell the rollouts without a response's text.
        most: bound on the graded rollouts.
        tell: is told how many are graded.

    Returns:
        None where nothing can be graded: no rollout has a reference answer and a verdict, or
        math-verify is not installed.
    """
    accepted, scorer = references(columns), own_scorer(dump)
    # What reasoning-gym's scorers need is not in a record.
    if not (can_grade() or scorer) or scorer == "reasoning-gym" or not any(accepted):
        return None
    has_text_b = pc.is_valid(columns.rollouts["response"]).to_numpy()[columns.order_b]
    gradable = [
        row
        for row in np.flatnonzero(~np.isnan(columns.correct_b)).tolist()
        # Where there is no text, the tokens spell it, if there is a tokenizer.
        if accepted[row] and (has_text_b[row] or dump.spell(columns.ids(row)).text)
    ]
    if not gradable:
        return None
    rows = sampling.whole_groups(gradable, columns.group_b, most)
    if scorer is not None:
        answers = [accepted[row][0] for row in rows]
        verdicts, stopped = _by_demo(dump, columns, rows, answers), False
    else:
        verdicts, stopped = _verdicts(_tasks(columns, dump, rows, accepted), tell)
    # Where we often find no answer, the dump states it in a form that our grader does not know.
    unanswered = [row for row, v in verdicts.items() if v.outcome is Outcome.UNANSWERED]
    n_right = sum(columns.correct_b[row] == 1 for row in verdicts)
    rare = sum(columns.correct_b[row] == 1 for row in unanswered) <= RARE * n_right
    differences = [
        Difference(row, float(columns.correct_b[row]), verdict)
        for row, verdict in verdicts.items()
        if verdict.correct not in (None, float(columns.correct_b[row]))
        and (rare or verdict.outcome is not Outcome.UNANSWERED)
    ]
    # The most frequent reason first: one cause shows itself as many rollouts.
    times = Counter(difference.reason for difference in differences)
    differences.sort(key=lambda x: (-times[x.reason], x.reason, x.rollout))
    n_wrong = sum(columns.correct_b[row] == 0 for row in verdicts)
    n_missed = sum(x.stored == 0 for x in differences)
    return Regraded(
        differences,
        gradable=len(gradable),
        graded=len(verdicts),
        unanswered=unanswered,
        undecided=sum(v.outcome is Outcome.UNDECIDED for v in verdicts.values()),
        stopped=stopped,
        asks_for_more=bool(n_missed > max(2, MOST_DIFFER * n_wrong)),
    )


def can_grade() -> bool:
    """Whether math-verify is installed."""
    return importlib.util.find_spec("math_verify") is not None


def references(columns: Frame) -> list[tuple[str, ...]]:
    """The accepted answers of each rollout; none where there is no reference answer.

    Of a worked solution what follows `####` is the answer, and a printed list holds several.
    """
    accepted: dict[str | None, tuple[str, ...]] = {None: ()}
    answers = columns.texts_of("answer")
    for answer in answers:
        if answer not in accepted:
            accepted[answer] = ()
            with contextlib.suppress(InputError):  # an empty list, or one of something else
                parts = parse_answers(answer or "", "answer")
                accepted[answer] = tuple(part for part in parts if part.strip())
    return [accepted[answer] for answer in answers]


def _tasks(
    columns: Frame, dump: Dump, rows: list[int], accepted: list[tuple[str, ...]]
) -> dict[int, Task]:
    responses = columns.record_of(np.array(rows, dtype=np.int64))["response"].to_pylist()
    tasks = {}
    for row, text in zip(rows, responses, strict=True):
        if text is None:
            text = dump.spell(columns.ids(row)).text.decode(errors="replace")
        tasks[row] = Task(text, accepted[row])
    return tasks


def token_of(difference: Difference, columns: Frame, dump: Dump) -> int:
    """Where to look: the last place of the answer that was graded, else the last token."""
    spelling = dump.spell(columns.ids(difference.rollout))
    answer = (difference.verdict.extracted or "").encode(errors="replace")
    begin = spelling.text.rfind(answer) if answer else -1
    if begin < 0:
        return max(0, len(spelling.ends_t) - 1)
    return spelling.tokens(begin, begin + len(answer))[0]


def own_scorer(dump: Dump) -> str | None:
    """The name of the scorer of a run folder's task; None: ktae's own grader gave the verdicts."""
    source = None if dump.recipe is None else dump.recipe.task_source
    return source if source in ("demo", "reasoning-gym") else None


def _by_demo(dump: Dump, columns: Frame, rows: list[int], answers: list[str]) -> dict[int, Verdict]:
    """The verdicts of the demo's language, which counts a response only if it ends with `<eos>`."""
    from ktae.demo import language_named

    language, verdicts = language_named(dump.recipe.demo.language), {}
    for row, answer in zip(rows, answers, strict=True):
        text = dump.spell(columns.ids(row)).text.decode(errors="replace")
        stated = language.extract_answer(text)
        right = language.is_correct(text, answer, text.rstrip().endswith("<eos>"))
        outcome = Outcome.CORRECT if right else Outcome.INCORRECT
        extracted = None if stated is None else str(stated)
        verdicts[row] = Verdict(outcome, extracted, f"by the scorer of {language.name}")
    return verdicts


def _verdicts(tasks: dict[int, Task], tell: Tell) -> tuple[dict[int, Verdict], bool]:
    """Each row's verdict, and whether grading ended early; then the last rows have none."""
    # Equal responses to equal answers are graded once.
    key_of = {row: (task.response, tuple(task.answers)) for row, task in tasks.items()}
    distinct = {key_of[row]: task for row, task in tasks.items()}
    verdicts: dict[tuple[str, tuple[str, ...]], Verdict] = {}
    timeouts = 0
    with contextlib.closing(default_pool().grade_all(distinct.values())) as graded:  # type: ignore[type-var]
        for key, verdict in zip(distinct, graded, strict=True):
            tell("grading", len(verdicts), len(distinct))
            verdicts[key] = verdict
            timeouts += verdict.reason.startswith("time limit")
            if timeouts >= MAX_TIMEOUTS:
                break
    of_rows = {row: verdicts[key] for row, key in key_of.items() if key in verdicts}
    return of_rows, len(verdicts) < len(distinct)
