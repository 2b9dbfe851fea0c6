"""What a page says first: findings, ranked by what a person would act on, each in one sentence.

Paid without an answer; accuracy fell or rose; one run better than another; graders that disagree;
responses cut off; answers that were overwritten; copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ktae.files.text import counted
from ktae.report import answers, comparing
from ktae.report.changes import changes
from ktae.report.data import COUNT, Finding, Place, Tone, percent, share_of
from ktae.report.frame import Frame, json_fields
from ktae.report.regrading import Graded
from ktae.report.scoring import Scored

MINOR = 0.01  # a warning about fewer than this share of the responses is none
FEWEST_BAD = 3  # and one about fewer responses is no headline, whatever it is about
ORDER = (
    *("as-text", "paid", "all-alike", "asks", "accuracy", "run-", "correct-here"),
    *("incorrect-here", "unfinished", "no-answer", "empty", "overwritten"),
)
"""How findings of one tone follow each other, by how their keys begin; others come last."""

# Responses were cut off at a length of so many tokens at least that so many share, so many times as
# many as share a length a little below, where such a share of responses is far shorter.
LONG, AT_LIMIT, PEAK, SHORTER = 32, 3, 5, 0.05

RANK: dict[Tone, int] = {"bad": 0, "warn": 1, "good": 1, "plain": 2}


def find(
    frame: Frame, scored: Scored, graded: Graded | None, pairs: list[comparing.Pair]
) -> list[Finding]:
    """All findings, the one to act on first before the others."""
    finished_b, rule = _finished(frame)
    listed = [
        *answers.suspect_grader(frame, graded),
        *changes(frame, finished_b),
        *comparing.runs(frame, pairs),
        *cut_off(frame, finished_b, rule),
        *empty(frame),
        *copies(frame),
    ]
    if graded is None or not graded.asks_for_more:
        listed += answers.disagreements(frame, graded) if graded else []
        listed += answers.overwritten(frame, scored)

    def rank(finding: Finding) -> tuple[int, int]:
        first = [i for i, key in enumerate(ORDER) if finding.key.startswith(key)]
        return RANK[finding.tone], min(first, default=len(ORDER))

    # What is about hardly any response is no warning.
    for i, x in enumerate(listed):
        least = MINOR * len(frame.group_b) if x.tone == "warn" else FEWEST_BAD
        if 0 < len(x.places) < least:
            listed[i] = dataclasses.replace(x, tone="plain")
    ranked = sorted(listed, key=rank)
    if not ranked or ranked[0].tone == "plain":
        ranked.insert(0, accuracy(frame))
    return ranked


def accuracy(frame: Frame) -> Finding:
    """The headline where nothing needs to be acted on; of several inputs for each."""
    inputs, parts = frame.origins.inputs, []
    input_b = frame.origins.input_g[frame.group_b]
    for i, name in enumerate(inputs or [""]):
        known = frame.correct_b[frame.known_b & ((input_b == i) | (not inputs))]
        if len(known):
            share = f"{percent(known.mean())} ({share_of(int(known.sum()), len(known))})"
            parts.append(share + (f" in {name}" if name else ""))
    responses = counted(len(frame.group_b), "response")
    return Finding(
        *("accuracy", "plain", "Accuracy"),
        "Accuracy is " + ", ".join(parts)
        if parts
        else f"{responses} without a verdict: correctness is unknown",
        COUNT,
        "Nothing stands out. Smaller findings are below.",
        link={"view": "rollouts"},
    )


def cut_off(frame: Frame, finished_b: np.ndarray, rule: str) -> Iterator[Finding]:
    """Responses that are not finished, by a rule."""
    cut_b = finished_b == 0
    if not cut_b.any():
        return
    n, n_cut = len(cut_b), int(cut_b.sum())
    correct, incorrect = (
        share_of(int((cut_b & (frame.correct_b == x)).sum()), int((frame.correct_b == x).sum()))
        for x in (1, 0)
    )
    yield Finding(
        *("unfinished", "warn", "Cut off or unfinished"),
        f"{percent(n_cut / n)} of responses are cut off or unfinished ({share_of(n_cut, n)})",
        f"finished means: {rule}",
        f"{incorrect} incorrect responses and {correct} correct ones. If most of them are "
        "incorrect, the length limit costs accuracy.",
        [Place(row) for row in np.flatnonzero(cut_b).tolist()],
    )


def empty(frame: Frame) -> Iterator[Finding]:
    """Responses without a token that counts."""
    rows = np.flatnonzero(frame.counted_b == 0).tolist()
    if rows:
        yield Finding(
            *("empty", "warn", "Empty responses"),
            f"{share_of(len(rows), len(frame.group_b))} responses are empty",
            COUNT,
            f"They have no {frame.dump.word} that counts.",
            [Place(row) for row in rows],
        )


def copies(frame: Frame) -> Iterator[Finding]:
    """Responses that repeat another one of their group."""
    # Empty ones are alike, too, and have a finding of their own.
    verdict_b = np.where(frame.counted_b > 0, np.nan_to_num(frame.correct_b, nan=2.0), np.nan)
    rows = np.flatnonzero(frame.repeated(verdict_b)).tolist()
    if rows:
        n = len(frame.lengths_b)
        yield Finding(
            *("copies", "plain", "Copies of another response of the group"),
            f"{percent(len(rows) / n)} of responses are copies of another of their group "
            f"({share_of(len(rows), n)})",
            COUNT,
            "Of identical responses only the first is evidence; where their verdicts differ, none "
            "is. Many copies mean little exploration.",
            [Place(row) for row in rows],
        )


def _finished(frame: Frame) -> tuple[np.ndarray, str]:
    """(B,) 1, 0 or NaN, as the dump says or else a limit of length shows; and by which rule."""
    lengths_b = frame.lengths_b
    finished_b = np.full(len(lengths_b), np.nan)
    names = ("finish_reason", "finished", "truncated", "is_truncated")
    for row, fields in json_fields(frame.rollouts["extra"], names):
        if isinstance(reason := fields.get("finish_reason"), str):
            finished_b[row] = reason != "length"
        elif isinstance(finished := fields.get("finished"), bool):
            finished_b[row] = finished
        elif isinstance(cut := fields.get("truncated", fields.get("is_truncated")), bool):
            finished_b[row] = not cut
    if not np.isnan(finished_b).all():
        return finished_b, "as the dump says"
    times = np.bincount(lengths_b)
    most = len(times) - 1
    if most >= LONG:
        # Text that is tokenised again may be a token or two longer than the limit.
        limit = most - int(np.argmax(times[: most - 3 : -1]))
        below = times[int(0.9 * most) : most - 2].mean()
        is_far_shorter = (lengths_b < 0.8 * limit).mean() >= SHORTER
        if is_far_shorter and times[limit] >= max(AT_LIMIT, PEAK * below):
            return (lengths_b < limit).astype(float), f"it is shorter than the limit, {limit:,}"
    return finished_b, ""
