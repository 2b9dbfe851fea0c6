"""What a page says first: findings, ranked by what a person would act on, each in one sentence.

Paid without an answer; accuracy fell or rose; one run better than another; graders that disagree;
responses cut off; answers that were overwritten; copies; and last, what single tokens tell.

The paper's case study: a response holds the correct answer and gets no reward, since later text
overwrites it, or it is in a form that the grader does not parse. So incorrect responses are looked
for that state the reference answer as an answer: shortly after "answer", "boxed" or "####". It was
overwritten where the credit after it adds up to less than 0, and its mean is below that of what is
before. This needs no credit in favour of the answer, and no mixed group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.inference import LEVEL, sign_flip_p_value, t_interval
from ktae.report.changes import Change
from ktae.report.comparing import Compared, in_points
from ktae.report.comparing import sentence as comparison_sentence
from ktae.report.data import Chip, Finding, Kind, Link, Tone
from ktae.report.frame import Frame
from ktae.report.marks import FORMAT, Marks
from ktae.report.overview import percent
from ktae.report.regrading import Regraded, references, token_of
from ktae.report.summary import Scored, TokenNumbers, chip
from ktae.rollouts.tokens import standing_alone
from ktae.validity import repeats

LONGEST_ANSWER = 120
"""Characters of an answer that are in the page."""

MOST_TOKENS = 6
"""Tokens that are named."""

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

COUNT = "a count; nothing is estimated"
BY_GRADER = "by ktae's grader; either side may be wrong"


MINOR = 0.01
"""A warning about fewer than this share of the responses is none."""

FEWEST_BAD = 3
"""And one about fewer responses is no headline, whatever it is about."""

RANK: dict[Tone, int] = {"bad": 0, "warn": 1, "good": 1, "plain": 2}


class Place(NamedTuple):
    """Where in a rollout something was found."""

    rollout: int
    """Its place in `Frame`."""
    token: int = -1
    """Where to look; -1: nowhere in particular."""
    why: str = ""


class Draft(NamedTuple):
    """A finding before it is known which rollouts the page holds."""

    key: str
    tone: Tone
    title: str
    sentence: str
    sure: str
    about: str
    places: Sequence[Place] = ()
    groups: Sequence[int] = ()
    chips: Sequence[Chip] = ()
    link: Link | None = None

    def finished(self, frame: Frame, place_b: np.ndarray) -> Finding:
        """As the page has it; `place_b` is each rollout's place in the page, or -1."""
        shown = [place for place in self.places if place_b[place.rollout] >= 0]
        groups = [*self.groups] or sorted({int(frame.group_b[x.rollout]) for x in self.places})
        kind: Kind = "tokens" if self.chips else "rollouts" if self.places else "view"
        if groups and kind == "view":
            kind = "groups"
        link, example = self.link, None
        if link is None and kind in ("rollouts", "groups"):
            link = {"view": "rollouts", "finding": self.key}
        if shown:
            first = next((x for x in shown if x.token >= 0), shown[0])
            group = int(frame.group_b[first.rollout])
            example = {
                "view": "rollouts",
                "group": group,
                "rollout": first.rollout - int(frame.starts_g[group]),
                "token": max(0, first.token),
                "finding": self.key,
            }
        unit = frame.dump.unit
        return Finding(
            key=self.key,
            tone=self.tone,
            sentence=in_units(self.sentence, unit),
            sure=in_units(self.sure, unit),
            about=in_units(self.about, unit),
            title=in_units(self.title, unit),
            count=len(self.chips) or len(self.places) or len(groups),
            kind=kind,
            link=link,
            example=example,
            groups=groups,
            rollouts=[int(place_b[place.rollout]) for place in shown],
            tokens=[place.token for place in shown],
            why=[place.why for place in shown] if any(x.why for x in shown) else [],
            chips=list(self.chips),
        )


class Seen(NamedTuple):
    """What findings are made of."""

    frame: Frame
    scored: Scored
    tokens: TokenNumbers
    regraded: Regraded | None
    marks: Marks
    changes: list[Change]
    compared: Compared
    graded: int
    """Responses whose verdict is our grader's alone."""


def find(seen: Seen) -> list[Draft]:
    """All findings, the one to act on first before the others."""
    asks_for_more = seen.regraded is not None and seen.regraded.asks_for_more
    overwritten, stated = ([], []) if asks_for_more else _stated_answers(seen.frame, seen.scored)
    drafts = [
        *_alike(seen),
        *_paid_without_answer(seen),
        *(_change(change) for change in seen.changes),
        *_runs(seen.compared),
        *_models(seen.frame),
        *_graders(seen, {place.rollout for place in overwritten}),
        *_cut_off(seen),
        *_answers(seen.frame, overwritten, stated),
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
        sentence = f"Accuracy is {percent(right / len(known))} ({_share(right, len(known))})"
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
    if p < LEVEL:
        low, high = (
            percent(right[both].sum() / n[both].sum())
            for n, right in ((n_a, right_a), (n_b, right_b))
        )
        yield Draft(
            *("models", "warn", "Models differ"),
            f"Models differ: accuracy is {low} for {ranked[0]} and {high} for {ranked[-1]}",
            f"{in_points(t_interval(change))}, {_p(p)}, paired over "
            f"{counted(int(both.sum()), 'prompt')}",
            "Where their responses are pooled in a group, a token may only identify the stronger "
            "model.",
            link={"view": "overview"},
        )


def in_units(text: str, unit: str) -> str:
    """A sentence of the page about tokens, or about words where the dump was cut at words."""
    return text.replace("token", "word").replace("Token", "Word") if unit == "words" else text


def _p(p: float) -> str:
    return "p < .001" if p < 0.001 else f"p = {p:.2g}"


def _share(n: int, total: int) -> str:
    return f"{n:,} of {total:,}"


def _alike(seen: Seen) -> Iterator[Draft]:
    """Where the grader itself is the suspect: every outcome the same, or references no values."""
    correct_b = seen.frame.correct_b[~np.isnan(seen.frame.correct_b)]
    regraded = seen.regraded
    if regraded and regraded.as_text > max(2, 0.2 * regraded.graded):
        yield Draft(
            *("as-text", "bad", "References compared as text"),
            f"{_share(regraded.as_text, regraded.graded)} responses were compared letter by "
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


def _paid_without_answer(seen: Seen) -> Iterator[Draft]:
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
            f"{len(places):,} {'response was' if len(places) == 1 else 'responses were'} rewarded "
            f"without an answer (of {n:,} that count as correct)",
            BY_GRADER,
            "Read the example: the reward may be paid for something else than the answer.",
            places,
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
        f"{_p(change.p)} over groups dealt anew to the steps; the change is most likely at step "
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
            f"{_p(difference.p)}, paired over {counted(difference.prompts, 'prompt')}",
            f"Of these prompts {comparison.n_won:,} are better with {comparison.b}, "
            f"{comparison.n_lost:,} are worse and {comparison.n_same:,} are the same.",
            link={"view": "compare"},
        )


def _graders(seen: Seen, overwritten: set[int]) -> Iterator[Draft]:
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
            f"({_share(int(cut_b.sum()), n)})",
            f"finished means: {seen.marks.rule}",
            f"{_share(cut_wrong, wrong)} incorrect responses and {_share(cut_right, right)} "
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
            f"{_share(len(rows), wrong)} incorrect responses give no answer",
            "by ktae's grader, which may not know the form of the answers",
            "Probably they were cut off." if many else "Read the example: what does it end with?",
            [Place(row) for row in rows],
        )
    empty = np.flatnonzero(frame.counted_b == 0).tolist()
    if empty:
        yield Draft(
            *("empty", "warn", "Empty responses"),
            f"{_share(len(empty), n)} responses are empty",
            COUNT,
            "They have no token that counts.",
            [Place(row) for row in empty],
        )


def _answers(frame: Frame, overwritten: list[Place], stated: list[Place]) -> Iterator[Draft]:
    wrong = int((frame.correct_b == 0).sum())
    if overwritten:
        yield Draft(
            *("overwritten", "warn", "Correct answer, then overwritten"),
            f"{_share(len(overwritten), wrong)} incorrect responses state the correct answer and "
            "then go on",
            "by the reference answer's text; the credit after it is negative",
            "A new question, a second thought: should the response have ended there?",
            overwritten,
        )
    if stated:
        yield Draft(
            *("answer-stated", "warn", "Correct answer stated, marked incorrect"),
            f"{_share(len(stated), wrong)} incorrect responses state the reference answer",
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


def _stated_answers(frame: Frame, scored: Scored) -> tuple[list[Place], list[Place]]:
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
            f"({_share(len(rows), n)})",
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
    of_form = [i for i in order.tolist() if beyond[i] and seen.marks.mark_v[i]][:MOST_TOKENS]
    if of_form:
        kinds = sorted({"format" if seen.marks.mark_v[i] == FORMAT else "end" for i in of_form})
        yield Draft(
            *("format", "plain", "Tokens of the end or format that go with correctness"),
            f"Tokens of the {' and the '.join(kinds)} go with correctness",
            sure,
            "They tell which responses came to their end in the form that was asked for, and "
            "nothing of the reasoning.",
            chips=chips(of_form),
        )
    others = [i for i in order.tolist() if beyond[i] and not seen.marks.mark_v[i]]
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
