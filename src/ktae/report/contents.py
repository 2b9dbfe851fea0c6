"""What a report's page holds: everything but its looks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.estimators import as_estimator
from ktae.estimators.transforms import ignored_by
from ktae.files.text import counted
from ktae.report import (
    believing,
    blocks,
    changes,
    comparing,
    data,
    drafts,
    findings,
    marks,
    notes,
    overview,
    regrading,
    sampling,
    summary,
)
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump, Tell
from ktae.report.segments import holes_of, segments_of, turns_of
from ktae.report.units import Units, by_evidence
from ktae.tables import ngrams_of

LONGEST_PROMPT = 20_000
"""Characters of a prompt that are in the page."""


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
    place_b: np.ndarray
    """(B,) each rollout's place in the page; -1: it is not there."""


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
    dump, graded = regrading.grade_without_rewards(dump, tell) if regrade else (dump, 0)
    frame = frame_of(dump)
    dump.rollouts = frame.rollouts  # the same in another order: they lie in memory once
    tell("holding out pairs", 0, None)
    choice = believing.choose(frame, None if estimator is None else as_estimator(estimator))

    # Everything over all groups: outcomes, stated answers, credit, and what to act on first.
    regraded = regrading.regrade(frame, tell=tell) if regrade else None
    tell("scoring", 0, None)
    scored = summary.score(frame, choice.estimator)
    tokens = summary.token_numbers(frame, scored)
    ended, compared = marks.find(frame), comparing.compare_sides(frame)
    changed = changes.find_changes(frame, ended.finished_b)
    seen = drafts.Seen(frame, scored, tokens, regraded, ended, changed, compared, graded)
    found = findings.find(seen)

    units = scored.units
    look_at = [int(frame.group_b[x.rollout]) for draft in found[:4] for x in draft.places]
    shown = _shown(frame, units.mixed_g, look_at, max_tokens, max_groups)
    noted = notes.notes_of(frame, units.mixed_g, graded)
    if not shown.group_g.all():
        noted.insert(0, notes.of_sample(shown.rollout_b, shown.group_g, max_tokens, max_groups))
    if regraded is not None and not graded:
        text = regraded.in_words()
        noted.append(data.Note("graded-again", False, "Graded again", text, regraded.graded))
    noted += notes.about_estimator(frame, choice, regrade)

    page_blocks = _blocks(frame, scored, shown, tokens)
    credit, page_blocks["credit"] = _credit(choice, scored, shown)
    page = data.Page(
        version=data.VERSION,
        unit="word" if dump.unit == "words" else "token",
        findings=[draft.finished(frame, shown.place_b) for draft in found],
        advice=choice.advice,
        tiles=overview.tiles(frame, units.mixed_g),
        models=overview.models_table(frame),
        notes=noted,
        comparisons=compared.comparisons,
        opened=compared.opened,
        charts=summary.charts(frame, scored),
        credit=credit,
        signals=sorted(frame.signals[0]),
        unit_names=list(units.names),
        cells=units.cells.tolist(),
        n_correct=max(1, _mixed_responses(frame, units, 1)),
        n_incorrect=max(1, _mixed_responses(frame, units, 0)),
        groups=_groups(frame, scored, shown),
        rollouts=_rollouts(frame, scored, shown),
    )
    page_blocks["meta"] = blocks.as_json(page)
    return Contents(page, page_blocks, (int(shown.group_g.sum()), len(shown.group_g)))


def _blocks(
    frame: Frame,
    scored: summary.Scored,
    shown: Shown,
    tokens: summary.TokenNumbers,
) -> dict[str, str]:
    """What the page has beside its `Page`: texts, turns, and what has an entry a token."""
    # A token's number in the page is its rank by frequency, so that frequent ones take one byte.
    which_n = frame.which_n[shown.token_n]
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(frame.dump.texts)), kind="stable")
    page_blocks = {
        "tokens": blocks.varints(np.argsort(by_rank)[which_n]),
        "vocabulary": blocks.as_json(_vocabulary(frame, tokens, by_rank)),
    }
    for kind, cell_n in enumerate(scored.units.cell_un):
        page_blocks[f"unit-{kind}"] = blocks.varints(cell_n[shown.token_n] + 1)
    for name, values_n in sorted(frame.signals[0].items()):
        page_blocks[name] = blocks.fixed_point(values_n[shown.token_n])
    # Of a group that is not in the page, the list of groups has the beginning of its prompt.
    prompts = [
        prompt and prompt[: LONGEST_PROMPT if is_shown else 200]
        for prompt, is_shown in zip(frame.of_groups("prompt"), shown.group_g.tolist(), strict=True)
    ]
    page_blocks["texts"] = blocks.as_json({"prompt": prompts, "answer": frame.of_groups("answer")})
    page_blocks["turns"] = blocks.as_json({
        group: turns
        for group in np.flatnonzero(shown.group_g).tolist()
        if (turns := turns_of(frame, group, scored.credit_n)) is not None
    })  # fmt: skip
    return page_blocks


def _shown(
    frame: Frame, mixed_g: np.ndarray, look_at: list[int], max_tokens: int, max_groups: int | None
) -> Shown:
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, mixed_g, look_at, max_tokens, max_groups)
    shown_b = shown_g[frame.group_b]
    place_b = np.where(shown_b, np.cumsum(shown_b) - 1, -1)
    return Shown(shown_g, shown_b, np.repeat(shown_b, frame.lengths_b), place_b)


def _credit(
    choice: believing.Choice, scored: summary.Scored, shown: Shown
) -> tuple[data.Credit, str]:
    """What colours the page, and its block."""
    credit_n = scored.credit_n[shown.token_n]
    largest = float(np.abs(credit_n).max(initial=0)) or 1.0
    note = ""
    if ngrams_of(choice.estimator) is None:
        note = f"{choice.name} rests on more than single tokens; the table is of the single token."
    ignored = [*ignored_by(choice.estimator, counted=True)]
    return data.Credit(choice.name, largest, note, ignored), blocks.small(credit_n / largest)


def _mixed_responses(frame: Frame, units: Units, verdict: int) -> int:
    return int((units.mixed_g[frame.group_b] & (frame.correct_b == verdict)).sum())


def _groups(frame: Frame, scored: summary.Scored, shown: Shown) -> data.Groups:
    size_g, origins, units = np.diff(frame.starts_g), frame.origins, scored.units
    correct_g = frame.sum_rollouts(frame.correct_b == 1).astype(int)
    known_g = frame.sum_rollouts(~np.isnan(frame.correct_b)).astype(int)
    return data.Groups(
        label=origins.label,
        files=origins.files,
        file=origins.file,
        step=frame.steps,
        shown=shown.group_g.astype(int).tolist(),
        size=size_g.tolist(),
        n_correct=correct_g.tolist(),
        known=known_g.tolist(),
        length=(frame.sum_rollouts(frame.lengths_b) / size_g).tolist(),
        credit_abs=summary.mean_credit_of_groups(frame, scored).tolist(),
        beyond=units.beyond_g.tolist(),
        evidence=[
            _evidence(frame, units, group, int(known_g[group]), int(correct_g[group]))
            for group in range(len(size_g))
        ],
        order=by_evidence(units).tolist(),
    )


def _evidence(frame: Frame, units: Units, group: int, known: int, n_correct: int) -> str:
    """What units say of correctness in a group, in a sentence."""
    if known < 2:
        return "Fewer than two responses have a verdict: there is nothing to compare."
    if n_correct in (0, known):
        kind = "correct" if n_correct else "incorrect"
        return f"All {known:,} responses are {kind}: there is nothing to compare."
    if not units.mixed_g[group]:
        return "Correct or incorrect responses are empty: there is nothing to compare."
    word = "word" if frame.dump.unit == "words" else "token"
    unit = {"token": word, "bigram": f"pair of {word}s", "trigram": f"run of three {word}s"}
    kinds = " or ".join(unit[name] for name in units.names)
    smallest = f"the smallest p of a {kinds} here is {units.best_p_g[group]:.2g}"
    if beyond := int(units.beyond_g[group]):
        ways = counted(beyond, "split")
        return f"{ways} of the responses beyond chance (underlined); {smallest}."
    return f"Chance explains every single colour here: {smallest}, before correction."


def _rollouts(frame: Frame, scored: summary.Scored, shown: Shown) -> data.Rollouts:
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


def _vocabulary(frame: Frame, tokens: summary.TokenNumbers, by_rank: np.ndarray) -> data.Vocabulary:
    numbers: dict[str, Any] = {
        name: values[by_rank].tolist() for name, values in tokens._asdict().items()
    }
    return data.Vocabulary(
        id=frame.dump.token_ids[by_rank].tolist(),
        text=[_text(frame.dump.texts[i]) for i in by_rank.tolist()],
        **numbers,
    )


def _text(piece: bytes | None) -> str | list[int] | None:
    """A token's text, or its bytes where it is part of a character."""
    try:
        return piece if piece is None else piece.decode()
    except UnicodeDecodeError:
        return list(piece or b"")
