"""Findings about answers: rewarded without one, graded differently, stated and overwritten.

The paper's case study: a response holds the correct answer and gets no reward, since later text
overwrites it. So incorrect responses are looked for that state the reference answer as an answer:
shortly after "answer", "boxed" or "####". It was overwritten where the credit after it adds up to
less than 0, and its mean is below that of what is before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ktae.grading import Outcome
from ktae.report.data import Finding, Place, Tone, share_of, signed
from ktae.report.frame import Frame
from ktae.report.regrading import Graded
from ktae.report.scoring import Scored
from ktae.rollouts.tokens import standing_alone

LONGEST_ANSWER = 120  # characters that are in the page
LONGEST_REFERENCE = 40  # longer ones are worked solutions; nobody repeats them by the letter
AS_ANSWER = rb"(?i:answer|box|####)[^\n]{0,24}?"  # before an answer that is stated as one
COMMON = 0.1  # where more incorrect responses state their reference, stating it is a habit
SHORTEST_TAIL = 3  # tokens that must follow an answer for it to count as overwritten
FEWEST_ALIKE = 20  # outcomes that are all alike are suspicious from so many on
BY_GRADER = "by ktae's grader; either side may be wrong"


def suspect_grader(frame: Frame, graded: Graded | None) -> Iterator[Finding]:
    """Where the grader itself is the suspect: every outcome the same, or references no values."""
    if graded and len(graded.as_text) > max(2, 0.2 * len(graded.verdicts)):
        reference = frame.accepted[graded.as_text[0]][0][:LONGEST_REFERENCE]
        yield Finding(
            *("as-text", "bad", "References compared as text"),
            f"{share_of(len(graded.as_text), len(graded.verdicts))} responses were compared letter "
            f"by letter, as their reference is no value: {reference!r}",
            "as the references stand in the file",
            "Their verdicts mean little. Give the bare answers as references.",
        )
    correct = frame.correct_b[frame.known_b]
    if len(correct) >= FEWEST_ALIKE and not np.ptp(correct):
        kind = "correct" if correct[0] else "incorrect"
        by = "ktae's grader" if graded and graded.is_verdict else "the dump"
        reference = next((x[0] for x in frame.accepted if x), "")[:LONGEST_REFERENCE]
        yield Finding(
            *("all-alike", "warn", f"All {kind}"),
            f"Every one of {len(correct):,} responses is {kind}",
            f"as {by} has it",
            "Nothing can be compared. Check the reward or the reference answers first."
            + (f" A reference is {reference!r}." if reference else ""),
        )
    if graded and graded.asks_for_more:
        n = sum(frame.correct_b[row] == 0 for row in graded.differ)
        n_incorrect = sum(frame.correct_b[row] == 0 for row in graded.verdicts)
        yield Finding(
            *("asks-for-more", "warn", "Incorrect, with the reference answer"),
            f"{share_of(n, n_incorrect)} incorrect responses give the reference answer",
            BY_GRADER,
            "Either the dump's verifier misses most correct answers, or the prompt asks for more "
            "than the answer, as in the game of 24.",
        )


DISAGREEMENTS: tuple[tuple[int, Outcome, str, Tone, str, str, str], ...] = (
    (
        *(1, Outcome.UNANSWERED, "paid-without-answer", "bad", "Rewarded without an answer"),
        "rewarded responses hold no answer that ktae's grader finds",
        "Read the example: the reward may be paid for something else than the answer.",
    ),
    (
        *(0, Outcome.CORRECT, "correct-here", "bad", "Marked incorrect, correct by our grader"),
        "responses marked incorrect are correct by ktae's grader",
        "Read the answers side by side.",
    ),
    (
        *(1, Outcome.INCORRECT, "incorrect-here", "bad", "Marked correct, incorrect by our grader"),
        "responses marked correct are incorrect by ktae's grader",
        "Read the answers side by side.",
    ),
    (
        *(0, Outcome.UNANSWERED, "no-answer", "warn", "Incorrect, without an answer"),
        "incorrect responses give no answer that ktae's grader finds",
        "Read the example: how does it end? Many such responses may have been cut off.",
    ),
)
"""The dump's verdict and our outcome; key, tone, title, sentence and what to do."""


def disagreements(frame: Frame, graded: Graded) -> Iterator[Finding]:
    """Responses of which our grader says something else than the dump."""
    for stored, outcome, key, tone, title, sentence, about in DISAGREEMENTS:
        rows = [
            row
            for row in (graded.unanswered if key == "no-answer" else graded.differ)
            if frame.correct_b[row] == stored and graded.verdicts[row].outcome is outcome
        ]
        if rows:
            (reason, times), *_ = Counter(graded.verdicts[x].reason for x in rows).most_common(1)
            often = f"Most often: {reason} ({times:,}). " if reason else ""
            places = []
            for row in rows:
                verdict, spelling = graded.verdicts[row], frame.spell(row)
                why = f"{'Correct' if stored else 'Incorrect'} in the dump, {outcome} here"
                why += f" ({verdict.reason})." if verdict.reason else "."
                if verdict.extracted:
                    why += f" The answer found is “{verdict.extracted[:LONGEST_ANSWER]}”."
                # The last place of the answer that was graded, else the last token.
                answer = (verdict.extracted or "").encode(errors="replace")
                begin, token = spelling.text.rfind(answer), max(0, len(spelling.ends_t) - 1)
                if answer and begin >= 0:
                    token = spelling.tokens(begin, begin + len(answer))[0]
                places.append(Place(row, token, why))
            words = f"{share_of(len(rows), int((frame.correct_b == stored).sum()))} {sentence}"
            yield Finding(key, tone, title, words, BY_GRADER, often + about, places)


def overwritten(frame: Frame, scored: Scored) -> Iterator[Finding]:
    """Incorrect responses that state the correct answer and go on, strongest first."""
    incorrect_b = (frame.correct_b == 0) & (frame.counted_b > 0)
    # Where responses last state their reference answer: its first token, and the one after it.
    answers = dict[int, tuple[int, int]]()
    for row in np.flatnonzero(incorrect_b).tolist():
        accepted = frame.accepted[row]
        answer = accepted[0].strip() if len(accepted) == 1 else ""
        if 0 < len(answer) <= LONGEST_REFERENCE:
            spelling = frame.spell(row)
            pattern = AS_ANSWER + rb"(" + standing_alone(answer) + rb")"
            if stated := [*re.finditer(pattern, spelling.text)]:
                answers[row] = spelling.tokens(*stated[-1].span(1))
    rows = np.array(list(answers), dtype=np.int64)
    # Where many state it, the prompt may ask for it, as in "make 24". Then a group in which most
    # incorrect responses do so tells nothing.
    n_stated_g = np.bincount(frame.group_b[rows], minlength=len(frame.sizes_g))
    is_common_g = n_stated_g > np.maximum(2, frame.sum_rollouts(incorrect_b) / 2)
    if len(rows) > COMMON * incorrect_b.sum():
        rows = rows[~is_common_g[frame.group_b[rows]]]
    places: list[tuple[float, Place]] = []
    for row in rows.tolist():
        begin, end = answers[row]
        credit_t = scored.credit_n[frame.span(row)]
        before, after = float(credit_t[:end].sum()), float(credit_t[end:].sum())
        n_after = len(credit_t) - end
        # The tail speaks against correctness, token for token more than what stands before it.
        if after < 0 and n_after >= SHORTEST_TAIL and after / n_after < before / end:
            why = f"It states the reference answer (up to {frame.dump.word} {end:,} of "
            why += f"{len(credit_t):,}); the credit up to there adds up to {signed(before)}, and "
            why += f"after it to {signed(after)}."
            places.append((before / end - after / n_after, Place(row, begin, why)))
    if places:
        yield Finding(
            *("overwritten", "warn", "Correct answer, then overwritten"),
            f"{share_of(len(places), int((frame.correct_b == 0).sum()))} incorrect responses state "
            "the correct answer and then go on",
            "by the reference answer's text; the credit after it is negative",
            "A new question, a second thought: should the response have ended there?",
            [place for _, place in sorted(places, key=lambda pair: -pair[0])],
        )
