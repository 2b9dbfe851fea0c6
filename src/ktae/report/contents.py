"""What a report's page holds: everything but its looks."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.estimators.transforms import ignored_by
from ktae.files.text import counted
from ktae.report import (
    believing,
    blocks,
    comparing,
    data,
    findings,
    finished,
    notes,
    overview,
    regrading,
    sampling,
    scoring,
)
from ktae.report import units as unit_tests
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump, Tell
from ktae.report.scoring import Scored
from ktae.report.segments import segments_of
from ktae.tables import ngrams_of
from ktae.validity.permutation import mean_abs_credit

LONGEST_PROMPT, LONGEST_PROMPT_AWAY = 20_000, 200
"""Characters of a prompt that are in the page: of a group that is in it, and of one that is not."""

EXAMPLES = 5
"""Places of each finding whose groups are in the page, whatever its size."""


class Contents(NamedTuple):
    """What a page holds."""

    page: data.Page
    blocks: dict[str, str]
    """Its data blocks, by name: see `ktae.report.blocks`."""
    shown: tuple[int, int]
    """How many groups are in it, of how many."""


def contents(
    dump: Dump,
    estimator: AnEstimator | None = None,
    *,
    max_tokens: int = sampling.MAX_TOKENS,
    regrade: bool = True,
    tell: Tell = lambda phase, done, total: None,
) -> Contents:
    """What the page of a dump holds; the arguments are those of `ktae.report.page.write_report`."""
    frame = frame_of(dump)
    accepted = regrading.references(frame)
    graded = regrading.grade(frame, accepted, tell) if regrade else None
    if graded and graded.is_verdict:
        frame = regrading.with_verdicts(frame, graded)
    dump.rollouts = frame.rollouts  # the same in another order: they lie in memory once
    tell("holding out pairs", 0, None)
    choice = believing.choose(frame, estimator)

    # Everything over all groups: outcomes, stated answers, credit, and what to act on first.
    tell("scoring", 0, None)
    scored = scoring.score(frame, choice.estimator)
    units, totals = scored.units, scoring.token_totals(frame, scored)
    p_v = unit_tests.p_over_groups(units.tokens, len(totals.a))
    beyond_v = unit_tests.beyond_chance(units.tokens, p_v)
    pairs = comparing.compare_sides(frame)
    found = findings.find(
        frame, scored, totals, beyond_v, graded, accepted, finished.find(frame), pairs
    )
    examples = [int(frame.group_b[x.row]) for finding in found for x in finding.places[:EXAMPLES]]
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, units.mixed_g, examples, max_tokens)
    shown_n = np.repeat(shown_g[frame.group_b], frame.lengths_b)

    credit_n = scored.credit_n[shown_n]
    largest = float(np.abs(credit_n).max(initial=0)) or 1.0
    page_blocks = _texts(frame, shown_g)
    page_blocks["tokens"], page_blocks["vocabulary"] = _tokens(
        frame, frame.which_n[shown_n], totals, p_v, beyond_v
    )
    page_blocks["credit"] = blocks.small(credit_n / largest)
    for name, values_n in frame.signals[0].items():
        page_blocks[name] = blocks.fixed_point(values_n[shown_n])
    cells, number_kn = unit_tests.cells(units)
    for kind, number_n in enumerate(number_kn):
        page_blocks[f"unit-{kind}"] = blocks.integers(number_n[shown_n])
    prompts = frame.of_groups("prompt")
    sizes = [abs(pair.interval.value) for pair in pairs]
    n_correct, n_incorrect = scoring.mixed_responses(frame, units)
    page = data.Page(
        version=data.VERSION,
        unit=dump.word,
        findings=[_settled(finding, frame, shown_g) for finding in found],
        advice=choice.advice,
        tiles=overview.tiles(frame),
        notes=[
            note._asdict()
            for note in (
                *notes.of_sample(shown_g, frame.sizes_g, max_tokens),
                *notes.notes_of(frame, graded, regrade and any(accepted)),
            )
        ],
        comparisons=[comparing.comparison(frame, pair, prompts) for pair in pairs],
        opened=int(np.argmax(sizes)) if sizes else 0,
        charts=overview.charts(frame, scored),
        credit=_credit(choice, largest),
        signals=sorted(frame.signals[0]),
        unit_names=list(units.tested),
        cells=cells.tolist(),
        n_correct=n_correct,
        n_incorrect=n_incorrect,
        groups=_groups(frame, scored, shown_g),
        rollouts=_rollouts(frame, scored, np.flatnonzero(shown_g[frame.group_b])),
    )
    page_blocks["meta"] = blocks.as_json(page)
    return Contents(page, page_blocks, (int(shown_g.sum()), len(shown_g)))


def _settled(finding: data.Finding, frame: Frame, shown_g: np.ndarray) -> data.Finding:
    """A finding with its count and links, and of its places those that are in the page."""
    shown_b = shown_g[frame.group_b]
    shown = [place for place in finding.places if shown_b[place.row]]
    groups = [*finding.groups] or sorted({int(frame.group_b[x.row]) for x in finding.places})
    kind = "tokens" if finding.chips else "rollouts" if finding.places else "groups"
    if kind == "groups" and not groups:
        kind = "view"
    link, example = finding.link, None
    if link is None and kind in ("rollouts", "groups"):
        link = {"view": "rollouts", "finding": finding.key}
    if shown:
        first = next((x for x in shown if x.token >= 0), shown[0])
        group = int(frame.group_b[first.row])
        place = {"rollout": first.row - int(frame.starts_g[group]), "token": max(0, first.token)}
        example = {"view": "rollouts", "finding": finding.key, "group": group, **place}
    place_b = np.cumsum(shown_b) - 1
    return dataclasses.replace(
        finding,
        places=[place._replace(row=int(place_b[place.row])) for place in shown],
        groups=groups,
        link=link,
        example=example,
        count=len(finding.chips) or len(finding.places) or len(groups),
        kind=kind,
    )


def _texts(frame: Frame, shown_g: np.ndarray) -> dict[str, str]:
    """The block of prompts and reference answers."""
    prompts = [
        prompt and prompt[: LONGEST_PROMPT if is_shown else LONGEST_PROMPT_AWAY]
        for prompt, is_shown in zip(frame.of_groups("prompt"), shown_g.tolist(), strict=True)
    ]
    return {"texts": blocks.as_json({"prompt": prompts, "answer": frame.of_groups("answer")})}


def _tokens(
    frame: Frame, which_n: np.ndarray, totals: scoring.Tokens, p_v: np.ndarray, beyond_v: np.ndarray
) -> tuple[str, str]:
    """The blocks of the tokens and of the distinct ones, which are numbered by falling frequency.

    Of each: its id, its text (its bytes where it is part of a character; null where only its number
    is known), correct responses of mixed groups with it (a) and incorrect ones (b), and the rest of
    `ktae.report.scoring.Tokens`; p, and 1 where that is beyond chance among all tokens.
    """
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(p_v)), kind="stable")
    columns = {name: getattr(totals, name) for name in ("a", "b", "groups", "impact", "credit")}
    columns |= {"id": frame.dump.token_ids, "p": p_v, "beyond": beyond_v * 1}
    vocabulary: dict[str, Any] = {name: x[by_rank].tolist() for name, x in columns.items()}
    vocabulary["text"] = [_text(frame.dump.texts[i]) for i in by_rank.tolist()]
    return blocks.integers(np.argsort(by_rank)[which_n]), blocks.as_json(vocabulary)


def _text(piece: bytes | None) -> str | list[int] | None:
    """A token's text, or its bytes where it is part of a character."""
    try:
        return piece if piece is None else piece.decode()
    except UnicodeDecodeError:
        return list(piece or b"")


def _credit(choice: believing.Choice, largest: float) -> data.Credit:
    note = ""
    if ngrams_of(choice.estimator) is None:
        note = f"{choice.name} rests on more than single tokens; the table is of the single token."
    return data.Credit(
        choice.name, largest, note, [*map(int, ignored_by(choice.estimator, counted=True))]
    )


def _groups(frame: Frame, scored: Scored, shown_g: np.ndarray) -> data.Groups:
    origins, units = frame.origins, scored.units
    known_g, correct_g = (
        frame.sum_rollouts(x).astype(int) for x in (frame.known_b, frame.correct_b == 1)
    )
    credit_b = frame.sum_tokens(np.abs(scored.credit_n))
    credit_g = mean_abs_credit(*map(frame.sum_rollouts, (credit_b, scored.compared_b)))
    return data.Groups(
        label=origins.label,
        files=origins.files,
        file=origins.file,
        step=frame.steps,
        shown=shown_g.astype(int).tolist(),
        size=frame.sizes_g.tolist(),
        n_correct=correct_g.tolist(),
        known=known_g.tolist(),
        length=(frame.sum_rollouts(frame.lengths_b) / frame.sizes_g).tolist(),
        credit_abs=credit_g.tolist(),
        beyond=units.beyond_g.tolist(),
        evidence=[
            _evidence(frame, units, group, known, correct)
            for group, (known, correct) in enumerate(
                zip(known_g.tolist(), correct_g.tolist(), strict=True)
            )
        ],
        order=units.by_evidence.tolist(),
    )


def _evidence(frame: Frame, units: unit_tests.Units, group: int, known: int, n_correct: int) -> str:
    """What units say of correctness in a group, in a sentence."""
    if known < 2:
        return "Fewer than two responses have a verdict: there is nothing to compare."
    if n_correct in (0, known):
        kind = "correct" if n_correct else "incorrect"
        return f"All {known:,} responses are {kind}: there is nothing to compare."
    if not units.mixed_g[group]:
        return "Correct or incorrect responses are empty: there is nothing to compare."
    word = frame.dump.word
    unit = {"token": word, "bigram": f"pair of {word}s", "trigram": f"run of three {word}s"}
    kinds = " or ".join(unit[name] for name in units.tested)
    smallest = f"the smallest p of a {kinds} here is {units.best_p_g[group]:.2g}"
    if beyond := int(units.beyond_g[group]):
        ways = counted(beyond, "split")
        return f"{ways} of the responses beyond chance (underlined); {smallest}."
    return f"Chance explains every single colour here: {smallest}, before correction."


def _rollouts(frame: Frame, scored: Scored, rows: np.ndarray) -> data.Rollouts:
    models = np.array(frame.rollouts["model"].to_pylist(), dtype=object)[rows].tolist()
    names = sorted({model for model in models if model is not None})
    credit_b = frame.sum_tokens(scored.credit_n) / np.maximum(frame.counted_b, 1)
    return data.Rollouts(
        length=frame.lengths_b[rows].tolist(),
        reward=frame.reward_b[rows].tolist(),
        correct=frame.correct_b[rows].tolist(),
        advantage=frame.advantage_b[rows].tolist(),
        credit=credit_b[rows].tolist(),
        models=names,
        model=[-1 if model is None else names.index(model) for model in models],
        segments={
            place: segments
            for place, row in enumerate(rows.tolist())
            if (segments := segments_of(frame, row, scored.credit_n))
        },
    )
