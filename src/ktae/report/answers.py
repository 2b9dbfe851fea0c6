"""Findings about answers: rewarded without one, graded differently, stated and overwritten.

The paper's case study: a response holds the correct answer and gets no reward, since later text
overwrites it, or it is in a form that the grader does not parse. So incorrect responses are looked
for that state the reference answer as an answer: shortly after "answer", "boxed" or "####". It was
overwritten where the credit after it adds up to less than 0, and its mean is below that of what is
before. This needs no credit in favour of the answer, and no mixed group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ktae.files.text import counted
from ktae.report.drafts import BY_GRADER, Draft, Place, Seen, in_units, share_of
from ktae.report.frame import Frame
from ktae.report.regrading import references, token_of
from ktae.report.summary import Scored
from ktae.rollouts.tokens import standing_alone

LONGEST_ANSWER = 120
"""Characters of an answer that are in the page."""

LONGEST_REFERENCE = 40
"""Characters. Longer reference answers are worked solutions; nobody repeats them by the letter."""

AS_ANSWER = rb"(?i:answer|box|####)[^\n]{0,24}?"
"""What stands shortly before an answer that is stated as one."""

COMMON = 0.1
"""Where more of a dump's incorrect responses state their reference answer, stating it is a habit.
"""

SHORTEST_TAIL = 3
"""Tokens that must follow an answer for it to count as overwritten."""

FEWEST_ALIKE = 20
"""Outcomes that are all alike are suspicious from so many on."""


def alike(seen: Seen) -> Iterator[Draft]:
    """Where the grader itself is the suspect: every outcome the same, or references no values."""
    correct_b = seen.frame.correct_b[~np.isnan(seen.frame.correct_b)]
    regraded = seen.regraded
    if regraded and regraded.as_text > max(2, 0.2 * regraded.graded):
        yield Draft(
            *("as-text", "bad", "References compared as text"),
            f"{share_of(regraded.as_text, regraded.graded)} responses were compared letter by "
            f"letter, as their reference is no value: {regraded.example[:LONGEST_REFERENCE]!r}",
            "as the references stand in the file",
            "Their verdicts mean little. Give the bare answers as references.",
        )
    if len(correct_b) >= FEWEST_ALIKE and not np.ptp(correct_b):
        kind = "correct" if correct_b[0] else "incorrect"
        by = "ktae's grader" if seen.graded else "the dump"
        reference = next((x[0] for x in references(seen.frame) if x), "")
        like = f" A reference is {reference[:LONGEST_REFERENCE]!r}." if reference else ""
        yield Draft(
            *("all-alike", "warn", f"All {kind}"),
            f"Every one of {len(correct_b):,} responses is {kind}",
            f"as {by} has it",
            f"Nothing can be compared. If that is a surprise, check the reward or the reference "
            f"answers first.{like}",
        )
    if regraded and regraded.asks_for_more:
        yield Draft(
            *("asks-for-more", "warn", "Incorrect, with the reference answer"),
            "Many incorrect responses give the reference answer",
            BY_GRADER,
            "Either the dump's verifier misses most correct answers, or the prompt asks for more "
            "than the answer, as in the game of 24. So no single response is flagged for it.",
        )


def paid_without_answer(seen: Seen) -> Iterator[Draft]:
    """Responses that count as correct and hold no answer that our grader finds."""
    frame, regraded = seen.frame, seen.regraded
    if regraded is None or regraded.asks_for_more:
        return
    places = [
        Place(
            x.rollout, token_of(x, frame), "It is rewarded, and our grader finds no answer in it."
        )
        for x in regraded.differences
        if x.stored == 1 and x.verdict.outcome == "unanswered"
    ]
    if places:
        n = int((frame.correct_b == 1).sum())
        yield Draft(
            *("paid-without-answer", "bad", "Rewarded without an answer"),
            f"{share_of(len(places), n)} rewarded responses hold no answer that ktae's grader "
            "finds",
            BY_GRADER,
            "Read the example: the reward may be paid for something else than the answer.",
            places,
        )


def graders_differ(seen: Seen, overwritten: set[int]) -> Iterator[Draft]:
    """Responses that our grader grades otherwise than the dump."""
    frame, regraded = seen.frame, seen.regraded
    if regraded is None or regraded.asks_for_more:
        return
    for stored, key, title, verb in (
        (0.0, "correct-here", "Marked incorrect, correct by our grader", "incorrect"),
        (1.0, "incorrect-here", "Marked correct, incorrect by our grader", "correct"),
    ):
        differences = [
            x
            for x in regraded.differences
            if x.stored == stored and not (stored and x.verdict.outcome == "unanswered")
        ]
        if not differences:
            continue
        places = []
        for x in differences:
            why = f"{x.reason[:1].upper()}{x.reason[1:]}."
            if answer := x.verdict.extracted:
                why += f" The answer found is “{answer[:LONGEST_ANSWER]}”."
            places.append(Place(x.rollout, token_of(x, frame), why))
        (reason, times), *_ = Counter(x.verdict.reason for x in differences).most_common(1)
        about = f"Most often: {reason} ({times:,}). Read the answers side by side."
        if went_on := sum(x.rollout in overwritten for x in differences):
            about += f" {went_on:,} of them went on after the correct answer."
        n = int((frame.correct_b == stored).sum())
        is_one = "is" if len(places) == 1 else "are"
        yield Draft(
            *(key, "bad", title),
            f"{len(places):,} of {n:,} responses marked {verb} {is_one} "
            f"{'incorrect' if stored else 'correct'} by ktae's grader",
            BY_GRADER,
            about,
            places,
        )


def answers_stated(frame: Frame, overwritten: list[Place], stated: list[Place]) -> Iterator[Draft]:
    """Incorrect responses that state the correct answer, by `stated_answers`."""
    wrong = int((frame.correct_b == 0).sum())
    if overwritten:
        yield Draft(
            *("overwritten", "warn", "Correct answer, then overwritten"),
            f"{share_of(len(overwritten), wrong)} incorrect responses state the correct answer and "
            "then go on",
            "by the reference answer's text; the credit after it is negative",
            "A new question, a second thought: should the response have ended there?",
            overwritten,
        )
    if stated:
        yield Draft(
            *("answer-stated", "warn", "Correct answer stated, marked incorrect"),
            f"{share_of(len(stated), wrong)} incorrect responses state the reference answer",
            "by the reference answer's text",
            "Is it in a form that the grader does not parse, or is the reference incorrect?",
            stated,
        )
    known_g = frame.sum_rollouts(~np.isnan(frame.correct_b))
    all_wrong_g = (known_g > 0) & (frame.sum_rollouts(frame.correct_b == 1) == 0)
    groups = {int(frame.group_b[place.rollout]) for place in (*overwritten, *stated)}
    groups = {group for group in groups if all_wrong_g[group]}
    if groups:
        yield Draft(
            *("all-incorrect-but", "warn", "All incorrect, with the correct answer stated"),
            f"{counted(len(groups), 'group')} without a single correct response "
            f"{'has' if len(groups) == 1 else 'have'} one that states the reference answer",
            "by the reference answer's text",
            "Such a prompt gives no gradient, and perhaps it should.",
            groups=sorted(groups),
        )


def stated_answers(frame: Frame, scored: Scored) -> tuple[list[Place], list[Place]]:
    """Incorrect rollouts that state the correct answer and overwrite it or not, strongest first."""
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
            why += "Did later text overwrite a correct answer?"
        else:
            why += ", and what follows does not speak against it more than that. "
            why += "Is it in a form that the grader does not parse, or is the reference incorrect?"
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
