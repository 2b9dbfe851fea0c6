"""The grader as a reward function of a trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktae.errors import InputError
from ktae.grading.pool import Task, default_pool
from ktae.grading.verdict import Verdict


def accuracy(
    completions: Sequence[Any], answer: Sequence[str | Sequence[str]], **_: Any
) -> list[float | None]:
    """TRL's form of a reward function: 1.0 correct, 0.0 incorrect or unanswered, None undecided.

    None is what TRL's trainers take for "no reward from this function": an undecided rollout is
    left out, never counted as incorrect.

    Args:
        completions: B texts, or B conversations whose last message's content is graded.
        answer: B accepted answers, or lists of them (the data set's column `answer`).

    Raises:
        InputError: the two differ in length, or an entry is no text.
    """
    return [verdict.correct for verdict in verdicts(completions, answer)]


def verdicts(completions: Sequence[Any], answer: Sequence[str | Sequence[str]]) -> list[Verdict]:
    """The verdicts behind `accuracy`, with the extracted answers."""
    if len(completions) != len(answer):
        raise InputError(f"{len(answer)} answers for {len(completions)} completions")
    texts = [text_of(completion) for completion in completions]
    tasks = [Task(text, accepted) for text, accepted in zip(texts, answer, strict=True)]
    return list(default_pool().grade_all(tasks))


def text_of(completion: Any) -> str:
    """A completion's text: itself, or its last message's content."""
    if isinstance(completion, str):
        return completion
    try:
        content = completion[-1]["content"]
    except (TypeError, KeyError, IndexError):
        content = None
    if not isinstance(content, str):
        raise InputError(
            f"completion is {completion!r:.100}; expected text, or messages that end in text"
        )
    return content
