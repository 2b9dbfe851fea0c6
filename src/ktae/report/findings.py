"""What a page says first: findings, ranked by what a person would act on, each in one sentence.

Paid without an answer; accuracy fell or rose; one run better than another; graders that disagree;
responses cut off; answers that were overwritten; copies; and last, what single tokens tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ktae.files.text import counted
from ktae.inference import ALPHA, sign_flip_p_value, t_interval
from ktae.report.answers import (
    alike,
    answers_stated,
    graders_differ,
    paid_without_answer,
    stated_answers,
)
from ktae.report.changes import Change
from ktae.report.comparing import Compared, in_points
from ktae.report.comparing import sentence as comparison_sentence
from ktae.report.data import Chip, Tone
from ktae.report.drafts import COUNT, Draft, Place, Seen, p_text, share_of
from ktae.report.frame import Frame
from ktae.report.overview import percent
from ktae.report.summary import chip
from ktae.validity import repeats

MOST_TOKENS = 6
"""Tokens that are named."""

MINOR = 0.01
"""A warning about fewer than this share of the responses is none."""

FEWEST_BAD = 3
"""And one about fewer responses is no headline, whatever it is about."""

RANK: dict[Tone, int] = {"bad": 0, "warn": 1, "good": 1, "plain": 2}


def find(seen: Seen) -> list[Draft]:
    """All findings, the one to act on first before the others."""
    asks_for_more = seen.regraded is not None and seen.regraded.asks_for_more
    overwritten, stated = ([], []) if asks_for_more else stated_answers(seen.frame, seen.scored)
    drafts = [
        *alike(seen),
        *paid_without_answer(seen),
        *(_change(change) for change in seen.changes),
        *_runs(seen.compared),
        *_models(seen.frame),
        *graders_differ(seen, {place.rollout for place in overwritten}),
        *_cut_off(seen),
        *answers_stated(seen.frame, overwritten, stated),
        *_copies(seen.frame),
        *_tokens(seen),
    ]
    drafts = [_minor(draft, seen.frame) for draft in drafts]
    ranked = sorted(drafts, key=lambda draft: RANK[draft.tone])
    if not ranked or ranked[0].tone == "plain":
        ranked.insert(0, _in_sum(seen.frame))
    return ranked


def _minor(draft: Draft, frame: Frame) -> Draft:
    """What is about hardly any response is no warning."""
    n = len(draft.places)
    few = n < MINOR * len(frame.group_b) if n else bool(draft.groups)
    is_minor = few if draft.tone == "warn" else 0 < n < FEWEST_BAD
    return draft._replace(tone="plain") if is_minor else draft


def _in_sum(frame: Frame) -> Draft:
    """The headline where nothing needs to be acted on."""
    known = frame.correct_b[~np.isnan(frame.correct_b)]
    n = counted(len(frame.group_b), "response")
    sentence = f"{n} without a verdict: correctness is unknown"
    if len(known):
        right = int((known == 1).sum())
        sentence = f"Accuracy is {percent(right / len(known))} ({share_of(right, len(known))})"
    return Draft(
        *("accuracy", "plain", "Accuracy", sentence, COUNT),
        "Nothing that ktae looks for needs to be acted on first. The smaller things are below.",
        link={"view": "rollouts"},
    )


def _models(frame: Frame) -> Iterator[Draft]:
    """The best and the worst of several models, on the prompts that both answered."""
    names = np.array([name or "" for name in frame.rollouts["model"].to_pylist()])
    known = ~np.isnan(frame.correct_b)
    sides = {
        name: (
            frame.sum_rollouts(known & (names == name)),
            frame.sum_rollouts((names == name) & (frame.correct_b == 1)),
        )
        for name in np.unique(names[known & (names != "")]).tolist()
    }
    if len(sides) < 2 or len(frame.dump.names) > 1:
        return
    ranked = sorted(sides, key=lambda name: sides[name][1].sum() / sides[name][0].sum())
    (n_a, right_a), (n_b, right_b) = (sides[name] for name in (ranked[0], ranked[-1]))
    both = (n_a > 0) & (n_b > 0)
    if both.sum() < 5:
        return
    change = right_b[both] / n_b[both] - right_a[both] / n_a[both]
    pairs = len(sides) * (len(sides) - 1) / 2  # any two could have been the best and the worst
    p = min(1.0, pairs * sign_flip_p_value(change))
    if p < ALPHA:
        low, high = (
            percent(right[both].sum() / n[both].sum())
            for n, right in ((n_a, right_a), (n_b, right_b))
        )
        yield Draft(
            *("models", "warn", "Models differ"),
            f"Models differ: accuracy is {low} for {ranked[0]} and {high} for {ranked[-1]}",
            f"{in_points(t_interval(change))}, {p_text(p)}, paired over "
            f"{counted(int(both.sum()), 'prompt')}",
            "Where their responses are pooled in a group, a token may only identify the stronger "
            "model.",
            link={"view": "overview"},
        )


def _change(change: Change) -> Draft:
    def number(x: float) -> str:
        if change.name in ("accuracy", "share cut off"):
            return percent(x)
        return f"{x:,.0f} tokens" if change.name == "response length" else f"{x:.3g}"

    name = change.name[0].upper() + change.name[1:]
    verb = "rose" if change.after > change.before else "fell"
    is_bad = {"accuracy": verb == "fell", "share cut off": verb == "rose"}.get(change.name, False)
    until, since = (
        f"step {x:,}" if x == y else f"steps {x:,} to {y:,}"
        for x, y in ((change.first, change.until), (change.since, change.last))
    )
    return Draft(
        f"{change.name.replace(' ', '-')}-{verb}",
        "bad" if is_bad else "good" if change.name == "accuracy" else "plain",
        f"{name} {verb}",
        f"{name} {verb} from {number(change.before)} ({until}) to {number(change.after)} ({since})",
        f"{p_text(change.p)} over groups dealt anew to the steps; most likely at step "
        f"{change.since:,}",
        f"At the last step it is {number(change.at_last)}. Read responses from before and after.",
        link={"view": "training"},
    )


def _runs(compared: Compared) -> Iterator[Draft]:
    if not compared.by_run:
        return
    for comparison, difference in zip(compared.comparisons, compared.differences, strict=True):
        tone: Tone = "plain"
        if difference.shown:
            tone = "good" if difference.interval.value > 0 else "bad"
        yield Draft(
            f"run-{len(comparison.b)}-{comparison.b}",
            tone,
            f"{comparison.a} and {comparison.b}",
            comparison_sentence(comparison.a, comparison.b, difference),
            f"{comparison.b} minus {comparison.a}: {in_points(difference.interval)}, "
            f"{p_text(difference.p)}, paired over {counted(difference.prompts, 'prompt')}",
            f"Of these prompts {comparison.n_won:,} are better with {comparison.b}, "
            f"{comparison.n_lost:,} are worse and {comparison.n_same:,} are the same.",
            link={"view": "compare"},
        )


def _cut_off(seen: Seen) -> Iterator[Draft]:
    frame, regraded = seen.frame, seen.regraded
    cut_b = seen.marks.finished_b == 0
    n = len(cut_b)
    right, wrong = (int((frame.correct_b == x).sum()) for x in (1, 0))
    cut_right, cut_wrong = (int((cut_b & (frame.correct_b == x)).sum()) for x in (1, 0))
    if cut_b.any():
        yield Draft(
            *("unfinished", "warn", "Cut off or unfinished"),
            f"{percent(cut_b.mean())} of responses are cut off or unfinished "
            f"({share_of(int(cut_b.sum()), n)})",
            f"finished means: {seen.marks.rule}",
            f"{share_of(cut_wrong, wrong)} incorrect responses and {share_of(cut_right, right)} "
            "correct ones. If most of them are incorrect, the length limit costs accuracy.",
            [Place(row) for row in np.flatnonzero(cut_b).tolist()],
        )
    unanswered = [] if regraded is None else regraded.unanswered
    rows = [row for row in unanswered if frame.correct_b[row] == 0]
    if rows:
        # Where correct ones have none either, our grader does not know the form of the answers.
        many = len(rows) > wrong / 2 and len(unanswered) - len(rows) < right / 10
        yield Draft(
            *("no-answer", "warn", "Incorrect, without an answer"),
            f"{share_of(len(rows), wrong)} incorrect responses give no answer",
            "by ktae's grader, which may not know the form of the answers",
            "Probably they were cut off." if many else "Read the example: what does it end with?",
            [Place(row) for row in rows],
        )
    empty = np.flatnonzero(frame.counted_b == 0).tolist()
    if empty:
        yield Draft(
            *("empty", "warn", "Empty responses"),
            f"{share_of(len(empty), n)} responses are empty",
            COUNT,
            "They have no token that counts.",
            [Place(row) for row in empty],
        )


def _copies(frame: Frame) -> Iterator[Draft]:
    """Rollouts that repeat another one of their group."""
    spans = map(frame.span, range(len(frame.lengths_b)))
    counted_ids = [frame.which_n[span][frame.mask_n[span]] for span in spans]
    # Empty ones are alike, too, and have a finding of their own.
    verdict_b = np.where(frame.counted_b > 0, np.nan_to_num(frame.correct_b, nan=2.0), np.nan)
    rows = np.flatnonzero(repeats.repeated(frame.group_b, counted_ids, verdict_b)).tolist()
    if rows:
        n = len(frame.lengths_b)
        yield Draft(
            *("copies", "plain", "Copies of another response of the group"),
            f"{percent(len(rows) / n)} of responses are copies of another of their group "
            f"({share_of(len(rows), n)})",
            COUNT,
            "Of identical responses only the first is evidence; where their verdicts differ, none "
            "is. Many copies mean little exploration.",
            [Place(row) for row in rows],
        )


def _tokens(seen: Seen) -> Iterator[Draft]:
    """What tokens tell beyond chance, corrected over all groups and all tokens of the dump."""
    frame, numbers, units = seen.frame, seen.tokens, seen.scored.units
    known_b = units.mixed_g[frame.group_b] & ~np.isnan(frame.correct_b)
    n_right = max(1, int((known_b & (frame.correct_b == 1)).sum()))
    n_wrong = max(1, int((known_b & (frame.correct_b == 0)).sum()))
    beyond = numbers.beyond & (numbers.impact != 0)
    order = np.argsort(-np.abs(numbers.impact), kind="stable")

    def chips(which: Any) -> list[Chip]:
        shares = ((i, numbers.a[i] / n_right, numbers.b[i] / n_wrong) for i in which)
        return [
            chip(frame, i, f"in {percent(x)} of correct, {percent(y)} of incorrect")
            for i, x, y in shares
        ]

    sure = "false discovery rate of 2 % over all tokens of the dump, within groups"
    others = [i for i in order.tolist() if beyond[i]]
    if others:
        yield Draft(
            *("tokens", "plain", "Tokens that go with correctness"),
            f"{counted(len(others), 'token')} {'goes' if len(others) == 1 else 'go'} with "
            "correctness, beyond chance",
            sure,
            "That is an association. Where a group mixes models it may only tell the stronger one.",
            chips=chips(others[:MOST_TOKENS]),
        )
    groups = np.flatnonzero(units.beyond_g)
    if len(groups):
        yield Draft(
            *("beyond-chance", "plain", "Groups with tokens beyond chance"),
            f"In {counted(len(groups), 'group')} single colours are beyond chance",
            f"false discovery rate of 2 % over {units.tests:,} splits of responses, all groups "
            "together",
            "There a token is underlined. In all other groups chance explains every single colour.",
            groups=groups.tolist(),
        )
