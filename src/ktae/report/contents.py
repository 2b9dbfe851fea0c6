"""What a report's page holds: everything but its looks."""

from __future__ import annotations

from typing import NamedTuple

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
from ktae.report.segments import holes_of, segments_of, turns_of
from ktae.tables import ngrams_of
from ktae.validity.permutation import mean_abs_credit

LONGEST_PROMPT, LONGEST_PROMPT_AWAY = 20_000, 200
"""Characters of a prompt that are in the page: of a group that is in it, and of one that is not."""


class Contents(NamedTuple):
    """What a page holds."""

    page: data.Page
    blocks: dict[str, str]
    """Its data blocks, by name: see `ktae.report.blocks`."""
    shown: tuple[int, int]
    """How many groups are in it, of how many."""


class Shown(NamedTuple):
    """What of a dump is in the page."""

    group_g: np.ndarray
    """(G,) bool, and the same of its B rollouts and N tokens."""
    rollout_b: np.ndarray
    token_n: np.ndarray


def contents(
    dump: Dump,
    estimator: AnEstimator | None = None,
    *,
    max_tokens: int = sampling.MAX_TOKENS,
    max_groups: int | None = None,
    regrade: bool = True,
    tell: Tell = lambda phase, done, total: None,
) -> Contents:
    """What the page of a dump holds; the arguments are those of `ktae.report.write_report`."""
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
    compared = comparing.compare_sides(frame)
    found = findings.find(
        *(frame, scored, totals, beyond_v, graded, accepted), finished.find(frame), compared
    )
    look_at = [int(frame.group_b[x.row]) for draft in found[:4] for x in draft.places]
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, units.mixed_g, look_at, max_tokens, max_groups)
    shown_b = shown_g[frame.group_b]
    shown = Shown(shown_g, shown_b, np.repeat(shown_b, frame.lengths_b))
    place_b = np.where(shown_b, np.cumsum(shown_b) - 1, -1)

    noted = notes.notes_of(frame, units.mixed_g, graded, choice)
    noted = [*notes.of_sample(shown_g, frame.sizes_g, max_tokens), *noted]
    noted += notes.about_grading(frame, graded, any(accepted)) if regrade else []
    page_blocks = _blocks(frame, scored, shown)
    _tokens(frame, shown, totals, p_v, beyond_v, page_blocks)
    credit, page_blocks["credit"] = _credit(choice, scored, shown)
    cells, number_kn = unit_tests.cells(units)
    for kind, number_n in enumerate(number_kn):
        page_blocks[f"unit-{kind}"] = blocks.varints(number_n[shown.token_n])
    prompts = frame.of_groups("prompt")
    n_correct, n_incorrect = scoring.mixed_responses(frame, units)
    page = data.Page(
        version=data.VERSION,
        unit="word" if dump.unit == "words" else "token",
        findings=[draft.finished(frame, place_b) for draft in found],
        advice=choice.advice,
        tiles=overview.tiles(frame),
        models=overview.models_table(frame),
        notes=noted,
        comparisons=[comparing.comparison(frame, pair, prompts) for pair in compared.pairs],
        opened=compared.opened,
        charts=overview.charts(frame, scored),
        credit=credit,
        signals=sorted(frame.signals[0]),
        unit_names=list(units.tested),
        cells=cells.tolist(),
        n_correct=n_correct,
        n_incorrect=n_incorrect,
        groups=_groups(frame, scored, shown),
        rollouts=_rollouts(frame, scored, shown),
    )
    page_blocks["meta"] = blocks.as_json(page)
    return Contents(page, page_blocks, (int(shown_g.sum()), len(shown_g)))


def _blocks(frame: Frame, scored: Scored, shown: Shown) -> dict[str, str]:
    """What the page has beside its `Page`, but for its tokens: signals, texts and turns."""
    page_blocks = {
        name: blocks.fixed_point(values_n[shown.token_n])
        for name, values_n in sorted(frame.signals[0].items())
    }
    prompts = [
        prompt and prompt[: LONGEST_PROMPT if is_shown else LONGEST_PROMPT_AWAY]
        for prompt, is_shown in zip(frame.of_groups("prompt"), shown.group_g.tolist(), strict=True)
    ]
    page_blocks["texts"] = blocks.as_json({"prompt": prompts, "answer": frame.of_groups("answer")})
    page_blocks["turns"] = blocks.as_json({
        group: turns
        for group in np.flatnonzero(shown.group_g).tolist()
        if (turns := turns_of(frame, group, scored.credit_n)) is not None
    })  # fmt: skip
    return page_blocks


def _tokens(
    frame: Frame,
    shown: Shown,
    totals: scoring.Tokens,
    p_v: np.ndarray,
    beyond_v: np.ndarray,
    page_blocks: dict[str, str],
) -> None:
    """Tokens are numbered by falling frequency, so that frequent ones take one byte."""
    which_n = frame.which_n[shown.token_n]
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(p_v)), kind="stable")
    page_blocks["tokens"] = blocks.varints(np.argsort(by_rank)[which_n])
    columns = (totals.a, totals.b, totals.groups, totals.impact, totals.credit, p_v, beyond_v * 1)
    page_blocks["vocabulary"] = blocks.as_json(
        data.Vocabulary(
            frame.dump.token_ids[by_rank].tolist(),
            [_text(frame.dump.texts[i]) for i in by_rank.tolist()],
            *(column[by_rank].tolist() for column in columns),
        )
    )


def _text(piece: bytes | None) -> str | list[int] | None:
    """A token's text, or its bytes where it is part of a character."""
    try:
        return piece if piece is None else piece.decode()
    except UnicodeDecodeError:
        return list(piece or b"")


def _credit(choice: believing.Choice, scored: Scored, shown: Shown) -> tuple[data.Credit, str]:
    """What colours the page, and its block."""
    credit_n = scored.credit_n[shown.token_n]
    largest = float(np.abs(credit_n).max(initial=0)) or 1.0
    note = ""
    if ngrams_of(choice.estimator) is None:
        note = f"{choice.name} rests on more than single tokens; the table is of the single token."
    ignored = [*ignored_by(choice.estimator, counted=True)]
    return data.Credit(choice.name, largest, note, ignored), blocks.small(credit_n / largest)


def _groups(frame: Frame, scored: Scored, shown: Shown) -> data.Groups:
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
        shown=shown.group_g.astype(int).tolist(),
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


def _rollouts(frame: Frame, scored: Scored, shown: Shown) -> data.Rollouts:
    rows = np.flatnonzero(shown.rollout_b)
    models = np.array(frame.rollouts["model"].to_pylist(), dtype=object)[rows].tolist()
    names = sorted({model for model in models if model is not None})
    credit_b = frame.sum_tokens(scored.credit_n) / np.maximum(frame.counted_b, 1)
    masked = np.flatnonzero(frame.counted_b[rows] < frame.lengths_b[rows]).tolist()
    return data.Rollouts(
        length=frame.lengths_b[rows].tolist(),
        reward=frame.reward_b[rows].tolist(),
        correct=frame.correct_b[rows].tolist(),
        advantage=frame.advantage_b[rows].tolist(),
        credit=credit_b[rows].tolist(),
        models=names,
        model=[-1 if model is None else names.index(model) for model in models],
        holes={i: holes_of(frame, rows[i]).tolist() for i in masked},
        segments={i: x for i, row in enumerate(rows.tolist()) if (x := segments_of(frame, row))},
    )
