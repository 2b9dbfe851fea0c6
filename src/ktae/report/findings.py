"""What to look at: findings about rollouts, groups and tokens, each with a count and its places.

The paper's case study: a rollout holds the right answer and gets no reward, since later text
overwrites it, or it is in a form that the grader does not parse. So incorrect rollouts are looked
for that state the reference answer as an answer: shortly after "answer", "boxed" or "####". It was
overwritten where the credit after it adds up to less than 0, and its mean is below that of what is
before. This needs no credit in favour of the answer, and no group with both verdicts.

All are leads to look at, not verdicts. `ktae.report.regrading` gives verdicts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import visible
from ktae.report.frame import Frame
from ktae.report.marks import FORMAT, Marks
from ktae.report.regrading import Regraded, references, token_of
from ktae.report.summary import Scored
from ktae.rollouts.tokens import standing_alone
from ktae.validity import repeats

LONGEST_ANSWER = 120
"""Characters of an answer that are in the page."""

TELLS = 0.2
"""How far the shares of correct and of incorrect rollouts with a token of an end or of a format
have to differ for it to be named."""

MOST_TOKENS = 6
"""Tokens of an end or of a format that are named."""

LONGEST_REFERENCE = 40
"""Characters. Longer reference answers are worked solutions; nobody repeats them by the letter."""

AS_ANSWER = rb"(?i:answer|box|####)[^\n]{0,24}?"
"""What stands shortly before an answer that is stated as one."""

COMMON = 0.1
"""Where more of a dump's incorrect rollouts state their reference answer, stating it is a habit."""

SHORTEST_TAIL = 3
"""Tokens that must follow an answer for it to count as overwritten."""


class Place(NamedTuple):
    """Where in a rollout something was found."""

    rollout: int
    """Its place in `Frame`."""
    token: int = -1
    """Where to look; -1: nowhere in particular."""
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

    def as_dict(self, place_b: np.ndarray, group_b: np.ndarray, unit: str) -> dict[str, Any]:
        """As the page's script reads it; `place_b` is each rollout's place in the page, or -1."""
        shown = [place for place in self.places if place_b[place.rollout] >= 0]
        groups = self.groups or sorted({int(group_b[place.rollout]) for place in self.places})
        return {
            "key": self.key,
            "title": in_units(self.title, unit),
            "about": in_units(self.about, unit),
            "kind": "tokens" if self.tokens else "rollouts" if self.places else "groups",
            "count": len(self.tokens) or len(self.places) or len(self.groups),
            "groups": groups,
            "rollouts": [int(place_b[place.rollout]) for place in shown],
            "tokens": [place.token for place in shown],
            "why": [place.why for place in shown] if any(p.why for p in shown) else [],
            "of_tokens": list(self.tokens),
        }


def find(frame: Frame, scored: Scored, regraded: Regraded | None, marks: Marks) -> list[Finding]:
    """All findings that hold anything, in the order in which they are worth a look."""
    asks_for_more = regraded is not None and regraded.asks_for_more  # then answers tell nothing
    overwritten, stated = ([], []) if asks_for_more else _stated_answers(frame, scored)
    findings = [
        *_of_verdicts(frame, regraded, {place.rollout for place in overwritten}),
        *_of_answers(frame, overwritten, stated),
        *_of_length(frame, regraded, marks),
        _rollouts(
            "copies",
            "Copies of another rollout of the group",
            "Of identical rollouts only the first is evidence; where their verdicts differ, none "
            "is.",
            _copies(frame),
        ),
        _of_format(frame, scored, marks),
        Finding(
            "beyond-chance",
            "Groups with tokens beyond chance",
            "At least one token is significant at a false discovery rate of 5 % over the tokens of "
            "its group. In the others chance explains every shade.",
            groups=np.flatnonzero(scored.beyond_g).tolist(),
        ),
    ]
    return [x for x in findings if x.places or x.groups or x.tokens]


def in_units(text: str, unit: str) -> str:
    """A sentence of the page about tokens, or about words where the dump was cut at words."""
    return text.replace("token", "word").replace("Token", "Word") if unit == "words" else text


def _rollouts(key: str, title: str, about: str, rows: Iterable[int]) -> Finding:
    return Finding(key, title, about, [Place(row) for row in rows])


def _of_verdicts(
    frame: Frame, regraded: Regraded | None, overwritten: set[int]
) -> Iterator[Finding]:
    if regraded is None or regraded.asks_for_more:
        return
    for stored, key, title in (
        (0.0, "right-here", "Marked wrong, and right by our grader"),
        (1.0, "wrong-here", "Marked right, and wrong by our grader"),
    ):
        differences = [x for x in regraded.differences if x.stored == stored]
        if not differences:
            continue
        places = []
        for x in differences:
            why = f"{x.reason[:1].upper()}{x.reason[1:]}."
            if answer := x.verdict.extracted:
                why += f" The answer found is “{answer[:LONGEST_ANSWER]}”."
            places.append(Place(x.rollout, token_of(x, frame), why))
        (reason, times), *_ = Counter(x.verdict.reason for x in differences).most_common(1)
        about = f"Most often: {reason} ({times:,}). "
        about += "Either side may be wrong: read the answers side by side."
        if went_on := sum(x.rollout in overwritten for x in differences):
            about += f" {went_on:,} of them went on after the right answer."
        yield Finding(key, title, about, places)


def _of_answers(frame: Frame, overwritten: list[Place], stated: list[Place]) -> Iterator[Finding]:
    yield Finding(
        "overwritten",
        "Right answer, then overwritten",
        "It states the reference answer and goes on: a new question, a second thought.",
        overwritten,
    )
    yield Finding(
        "answer-stated",
        "Right answer stated, marked wrong",
        "Is it in a form that the grader does not parse, or is the reference wrong?",
        stated,
    )
    known_g = frame.sum_rollouts(~np.isnan(frame.correct_b))
    all_wrong_g = (known_g > 0) & (frame.sum_rollouts(frame.correct_b == 1) == 0)
    groups = {int(frame.group_b[place.rollout]) for place in (*overwritten, *stated)}
    yield Finding(
        "all-wrong-but",
        "All-wrong groups with a right-looking answer",
        "Not one rollout counts as right, and one of them states the reference answer.",
        groups=sorted(group for group in groups if all_wrong_g[group]),
    )


def _stated_answers(frame: Frame, scored: Scored) -> tuple[list[Place], list[Place]]:
    """Incorrect rollouts that state the right answer, and overwrite it or not; strongest first."""
    wrong_b = (frame.correct_b == 0) & (frame.counted_b > 0)
    answers = {row: place for row, place in _answer_places(frame) if wrong_b[row]}
    rows = np.array(list(answers), dtype=np.int64)
    # Where many state it, the prompt may ask for it, as in "make 24". Then a group in which most
    # incorrect rollouts do so tells nothing.
    n_stated_g = np.bincount(frame.group_b[rows], minlength=len(frame.labels))
    many_g = n_stated_g > np.maximum(2, frame.sum_rollouts(wrong_b) / 2)
    if len(rows) > COMMON * wrong_b.sum():
        rows = rows[~many_g[frame.group_b[rows]]]
    places: tuple[list[tuple[float, Place]], ...] = ([], [])
    for row in rows.tolist():
        begin, end = answers[row]
        credit_t = scored.credit_n[frame.span(row)]
        before, after = float(credit_t[:end].sum()), float(credit_t[end:].sum())
        n_after = len(credit_t) - end
        why = f"It states the reference answer (up to token {end:,} of {len(credit_t):,}"
        why += f"; the credit up to there adds up to {_signed(before)})"
        strength = before / end
        # The tail speaks against correctness, token for token more than what stands before it.
        is_over = after < 0 and n_after >= SHORTEST_TAIL and after / n_after < before / end
        if is_over:
            strength -= after / n_after
            why += f". Of the {n_after:,} tokens after it the credit adds up to {_signed(after)}. "
            why += "Did later text overwrite a right answer?"
        else:
            why += ", and what follows does not speak against it more than that. "
            why += "Is the answer in a form that the grader does not parse, or the reference wrong?"
        place = Place(row, begin, in_units(why, frame.dump.unit))
        places[not is_over].append((strength, place))
    overwritten, stated = (sorted(x, key=lambda pair: -pair[0]) for x in places)
    return [place for _, place in overwritten], [place for _, place in stated]


def _signed(number: float) -> str:
    return f"{number:+z.2f}".replace("-", "−")


def _answer_places(frame: Frame) -> Iterator[tuple[int, tuple[int, int]]]:
    """Where incorrect rollouts last state their answer: the first token, and the one after it."""
    accepted = references(frame)
    for row in np.flatnonzero(frame.correct_b == 0).tolist():
        answer = accepted[row][0].strip() if len(accepted[row]) == 1 else ""
        if not 0 < len(answer) <= LONGEST_REFERENCE:
            continue
        spelling = frame.spell(row)
        pattern = AS_ANSWER + rb"(" + standing_alone(answer) + rb")"
        spans = [match.span(1) for match in re.finditer(pattern, spelling.text)]
        if spans:
            yield row, spelling.tokens(*spans[-1])


def _of_length(frame: Frame, regraded: Regraded | None, marks: Marks) -> Iterator[Finding]:
    cut_b = marks.finished_b == 0
    right, wrong = (int((frame.correct_b == x).sum()) for x in (1, 0))
    cut_right, cut_wrong = (int((cut_b & (frame.correct_b == x)).sum()) for x in (1, 0))
    yield _rollouts(
        "unfinished",
        "Cut off or unfinished",
        f"{cut_wrong:,} of {wrong:,} wrong rollouts and {cut_right:,} of {right:,} right ones. "
        f"Finished means: {marks.rule}.",
        np.flatnonzero(cut_b).tolist(),
    )
    unanswered = [] if regraded is None else regraded.unanswered
    wrong_rows = [row for row in unanswered if frame.correct_b[row] == 0]
    # Where right ones have none either, our grader does not know the form of the answers.
    many = len(wrong_rows) > wrong / 2 and len(unanswered) - len(wrong_rows) < right / 10
    yield _rollouts(
        "no-answer",
        "Probably cut off: wrong, without an answer" if many else "Wrong, without an answer",
        f"Our grader finds no answer in {len(wrong_rows):,} of {wrong:,} wrong rollouts.",
        wrong_rows,
    )
    yield _rollouts(
        "empty",
        "Empty rollouts",
        "They have no token that counts.",
        np.flatnonzero(frame.counted_b == 0).tolist(),
    )


def _copies(frame: Frame) -> list[int]:
    """Rollouts that repeat another one of their group."""
    spans = map(frame.span, range(len(frame.lengths_b)))
    counted = [frame.which_n[span][frame.mask_n[span]] for span in spans]
    # Empty ones are alike, too, and have a finding of their own.
    verdict_b = np.where(frame.counted_b > 0, np.nan_to_num(frame.correct_b, nan=2.0), np.nan)
    rows = np.flatnonzero(repeats.repeated(frame.group_b, counted, verdict_b))
    return list(rows.tolist())


def _of_format(frame: Frame, scored: Scored, marks: Marks) -> Finding:
    """Tokens of an end or of a format that tell right from wrong."""
    dump, mixed_b = frame.dump, scored.mixed_g[frame.group_b]
    n_right, n_wrong = (max(1, int((mixed_b & (frame.correct_b == x)).sum())) for x in (1, 0))
    right, wrong = scored.totals.a / n_right, scored.totals.b / n_wrong
    apart = np.where(marks.mark_v > 0, np.abs(right - wrong), 0.0)
    strongest = np.argsort(-apart, kind="stable")[:MOST_TOKENS]
    strongest = strongest[apart[strongest] >= TELLS]
    tokens = [
        {
            "token": i,
            "id": dump.token_ids[i],
            "text": visible((dump.texts[i] or b"").decode(errors="replace")),
            "right": right[i],
            "wrong": wrong[i],
        }
        for i in strongest.tolist()
    ]
    kinds = sorted({"format" if mark == FORMAT else "end" for mark in marks.mark_v[strongest]})
    return Finding(
        "format",
        f"Tokens of the {' and the '.join(kinds)} that go with correctness",
        "They tell which rollouts came to their end in the form that was asked for, and nothing of "
        "the reasoning.",
        tokens=tokens,
    )
