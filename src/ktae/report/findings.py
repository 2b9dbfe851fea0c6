"""What to look at: findings about rollouts, groups and tokens, each with a count and its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import visible
from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.report.marks import FORMAT, Marks
from ktae.report.regrading import Regraded, token_of
from ktae.report.suspicious import Flag
from ktae.report.totals import AllScored
from ktae.rollouts.groups import arrays_of, masks_of
from ktae.validity import repeats

LONGEST_ANSWER = 120
"""Characters of an answer that are in the page."""

OVERWRITTEN = "overwritten"
"""The kind of `Flag` of a rollout that goes on after the right answer."""

TELLS = 0.2
"""How far the shares of correct and of incorrect rollouts with a token of an end or of a format
have to differ for it to be named."""

MOST_TOKENS = 6
"""Tokens of an end or of a format that are named."""


class Place(NamedTuple):
    """Where in a rollout something was found."""

    rollout: int
    """Its place in `Frame`."""
    token: int | None = None
    """Where to look; None: nowhere in particular."""
    why: str = ""


class Finding(NamedTuple):
    """Something to look at."""

    key: str
    """What the page's address calls it."""
    title: str
    """What it is, as the heading of a list of such rollouts or groups."""
    about: str
    """What it means, in a sentence or two."""
    places: Sequence[Place] = ()
    groups: Sequence[int] = ()
    """Groups that it is about, where it is about groups."""
    tokens: Sequence[dict[str, Any]] = ()
    """Tokens that it is about: `id` and `text`, and the shares of `right` and `wrong` that have
    it."""


def find(
    frame: Frame,
    dump: Dump,
    scored: AllScored,
    flags: Sequence[Flag],
    regraded: Regraded | None,
    marks: Marks,
) -> list[Finding]:
    """All findings that hold anything, in the order in which they are worth a look."""
    findings = [
        *_of_verdicts(frame, dump, regraded, {x.rollout for x in flags if x.kind == OVERWRITTEN}),
        *_of_flags(frame, flags),
        *_of_length(frame, regraded, marks),
        *_of_copies(frame),
        _of_format(frame, dump, scored, marks),
        Finding(
            "beyond-chance",
            "Groups with tokens beyond chance",
            "At least one token is significant at a false discovery rate of 5 % over the tokens of "
            "its group. In the others chance explains every shade.",
            groups=np.flatnonzero(scored.discoveries_g).tolist(),
        ),
    ]
    return [x for x in findings if x.places or x.groups or x.tokens]


def in_units(text: str, unit: str) -> str:
    """A sentence of the page about tokens, or about words where the dump was cut at words."""
    return text.replace("token", "word").replace("Token", "Word") if unit == "words" else text


def _of_verdicts(
    frame: Frame, dump: Dump, regraded: Regraded | None, overwritten: Set[int]
) -> Iterator[Finding]:
    if regraded is None or regraded.asks_for_more:
        return
    for stored, key, title in (
        (0.0, "right-here", "Marked wrong, and right by our grader"),
        (1.0, "wrong-here", "Marked right, and wrong by our grader"),
    ):
        differences = [x for x in regraded.differences if x.stored == stored]
        places = [
            Place(
                difference.rollout,
                token_of(difference, frame, dump),
                f"{difference.reason[:1].upper()}{difference.reason[1:]}."
                + (
                    f" The answer found is “{difference.verdict.extracted[:LONGEST_ANSWER]}”."
                    if difference.verdict.extracted
                    else ""
                ),
            )
            for difference in differences
        ]
        about = "Either side may be wrong: read the answers side by side."
        if differences:
            reason, times = regraded.reasons(stored).most_common(1)[0]
            about = f"Most often: {reason} ({times:,}). {about}"
        if went_on := sum(x.rollout in overwritten for x in differences):
            about += f" {went_on:,} of them went on after the right answer."
        yield Finding(key, title, about, places)


def _of_flags(frame: Frame, flags: Sequence[Flag]) -> Iterator[Finding]:
    for kind, title, about in (
        (
            OVERWRITTEN,
            "Right answer, then overwritten",
            "It states the reference answer and goes on: a new question, a second thought.",
        ),
        (
            "answer stated",
            "Right answer stated, marked wrong",
            "Is it in a form that the grader does not parse, or is the reference wrong?",
        ),
        (
            "reads right",
            "Wrong, and reads like the right ones",
            "The mean credit of its tokens is that of the group's right rollouts.",
        ),
    ):
        places = [Place(x.rollout, x.token, x.why) for x in flags if x.kind == kind]
        yield Finding(kind.replace(" ", "-"), title, about, places)
    known_b = ~np.isnan(frame.correct_b)
    all_wrong_g = (frame.sum_rollouts(known_b) > 0) & (
        frame.sum_rollouts(frame.correct_b == 1) == 0
    )
    yield Finding(
        "all-wrong-but",
        "All-wrong groups with a right-looking answer",
        "Not one rollout counts as right, and one of them states the reference answer.",
        groups=sorted({x.group for x in flags if all_wrong_g[x.group]}),
    )


def _of_length(frame: Frame, regraded: Regraded | None, marks: Marks) -> Iterator[Finding]:
    cut_b = marks.finished_b == 0
    right, wrong = (int((frame.correct_b == x).sum()) for x in (1, 0))
    cut_right, cut_wrong = (int((cut_b & (frame.correct_b == x)).sum()) for x in (1, 0))
    yield Finding(
        "unfinished",
        "Cut off or unfinished",
        f"{cut_wrong:,} of {wrong:,} wrong rollouts and {cut_right:,} of {right:,} right ones. "
        f"Finished means: {marks.rule}.",
        [Place(row) for row in np.flatnonzero(cut_b).tolist()],
    )
    unanswered = [] if regraded is None else regraded.unanswered
    wrong_rows = [row for row in unanswered if frame.correct_b[row] == 0]
    # Where right ones have none either, our grader does not know the form of the answers.
    many = len(wrong_rows) > wrong / 2 and len(unanswered) - len(wrong_rows) < right / 10
    yield Finding(
        "no-answer",
        "Probably cut off: wrong, without an answer" if many else "Wrong, without an answer",
        f"Our grader finds no answer in {len(wrong_rows):,} of {wrong:,} wrong rollouts.",
        [Place(row) for row in wrong_rows],
    )
    yield Finding(
        "empty",
        "Empty rollouts",
        "They have no token that counts.",
        [Place(row) for row in np.flatnonzero(frame.counted_b == 0).tolist()],
    )


def _of_copies(frame: Frame) -> Iterator[Finding]:
    """Rollouts that repeat another one of their group."""
    ids, masks = arrays_of(frame.rollouts["token_ids"]), list(masks_of(frame.rollouts))
    counted = [
        ids[row] if masks[row] is None else ids[row][masks[row]] for row in frame.order_b.tolist()
    ]
    # Empty ones are alike, too, and have a finding of their own.
    verdict_b = np.where(frame.counted_b > 0, np.nan_to_num(frame.correct_b, nan=2.0), np.nan)
    copies_b = repeats.repeated(frame.group_b, counted, verdict_b)
    yield Finding(
        "copies",
        "Copies of another rollout of the group",
        "Of identical rollouts only the first is evidence; where their verdicts differ, none is.",
        [Place(row) for row in np.flatnonzero(copies_b).tolist()],
    )


def _of_format(frame: Frame, dump: Dump, scored: AllScored, marks: Marks) -> Finding:
    """Tokens of an end or of a format that tell right from wrong."""
    mixed_b = ((scored.scored.n_true_g > 0) & (scored.scored.n_false_g > 0))[frame.group_b]
    right, wrong = (max(1, int((mixed_b & (frame.correct_b == x)).sum())) for x in (1, 0))
    share_right, share_wrong = scored.totals.a / right, scored.totals.b / wrong
    apart = np.where(marks.mark_v > 0, np.abs(share_right - share_wrong), 0.0)
    strongest = np.argsort(-apart, kind="stable")[:MOST_TOKENS]
    tokens = [
        {
            "token": int(i),
            "id": dump.token_ids[i],
            "text": visible((dump.texts[i] or b"").decode(errors="replace")),
            "right": share_right[i],
            "wrong": share_wrong[i],
        }
        for i in strongest.tolist()
        if apart[i] >= TELLS
    ]
    kinds = {"format" if marks.mark_v[x["token"]] == FORMAT else "end" for x in tokens}
    return Finding(
        "format",
        f"Tokens of the {' and the '.join(sorted(kinds))} that go with correctness",
        "They tell which rollouts came to their end in the form that was asked for, and nothing of "
        "the reasoning.",
        tokens=tokens,
    )


def as_dicts(
    findings: Sequence[Finding], place_b: np.ndarray, group_b: np.ndarray, unit: str
) -> list[dict[str, Any]]:
    """As the page's script reads them.

    Args:
        findings: what was found.
        place_b: (B,) each rollout's place in the page, -1 for none.
        group_b: (B,) each rollout's group.
        unit: as in `Dump`.
    """
    dicts = []
    for x in findings:
        shown = [place for place in x.places if place_b[place.rollout] >= 0]
        groups = x.groups or sorted({int(group_b[place.rollout]) for place in x.places})
        dicts.append(
            {
                "key": x.key,
                "title": in_units(x.title, unit),
                "about": in_units(x.about, unit),
                "kind": "tokens" if x.tokens else "rollouts" if x.places else "groups",
                "count": len(x.tokens) or len(x.places) or len(x.groups),
                "groups": groups,
                "rollouts": [int(place_b[place.rollout]) for place in shown],
                "tokens": [-1 if place.token is None else place.token for place in shown],
                "why": [place.why for place in shown] if any(p.why for p in shown) else [],
                "of_tokens": list(x.tokens),
            }
        )
    return dicts
