"""The grader as a reward function, for what trainers and data sets hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktae.errors import InputError
from ktae.grading.workers import Task, default_pool


def accuracy(completions: Sequence[Any], answer: Sequence[Any], **_: Any) -> list[float | None]:
    """TRL's form of a reward function: 1.0 correct, 0.0 incorrect or unanswered, None undecided.

    TRL's trainers take None for "no reward from this function": such a rollout is left out, as one
    whose answer is None (a row of another task).

    Args:
        completions: B texts, or B conversations whose last message of the policy is graded.
        answer: B accepted answers, texts or numbers, or lists of them (the column `answer`).

    Raises:
        InputError: the two differ in length, or an entry is neither text nor number.
    """
    if len(completions) != len(answer):
        raise InputError(f"{len(answer)} answers for {len(completions)} completions")
    rows = [row for row, each in enumerate(answer) if each is not None]
    tasks = [Task(text_of(completions[row]), accepted(answer[row])) for row in rows]
    rewards = dict(zip(rows, default_pool().grade_all(tasks), strict=True))
    return [rewards[row].correct if row in rewards else None for row in range(len(answer))]


def accepted(answer: Any) -> Any:
    """Numbers as text, arrays as lists: what data sets and Parquet files of other hands hold."""
    plain = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(plain, list | tuple):
        return [accepted(each) for each in plain]
    is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
    return str(plain) if is_number else plain


def text_of(completion: Any) -> str:
    """A completion's text: itself, or what the policy wrote in its last message, maybe nothing."""
    if isinstance(completion, str):
        return completion
    try:
        written = [message for message in completion[:] if message["role"] == "assistant"]
        content = (written[-1].get("content") or "") if written else ""
        if isinstance(content, str):
            return content
        return "".join(part["text"] for part in content if part["type"] == "text")
    except (TypeError, KeyError, AttributeError):
        expected = "expected text, or messages with role and content"
        raise InputError(f"completion is {completion!r:.100}; {expected}") from None
