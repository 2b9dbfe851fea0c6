"""What a report's page holds: everything but its looks."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any, NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.estimators.transforms import ignored_by
from ktae.files.text import counted
from ktae.report import believing, comparing, data, findings, overview, regrading, sampling, scoring
from ktae.report import units as unit_tests
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump, ProgressCallback
from ktae.report.scoring import Scored
from ktae.tables import ngrams_of

LONGEST_PROMPT, LONGEST_PROMPT_AWAY = 20_000, 200  # characters, of groups in the page and others
EXAMPLES = 5  # places of each finding whose groups are in the page, whatever its size

SAID, THOUGHT, CALL, OTHERS = KINDS = ("said", "thought", "call", "others")
"""The policy's text, reasoning or call of a tool; others': what is masked, as a tool's output."""

PARTS = re.compile(
    rb"(?P<thought><think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A(?:(?!<think).)*?</think(?:ing)?>)"
    rb"|(?P<call><(tool_call|function_call|code)>.*?(?:</(?:tool_call|function_call|code)>|\Z))",
    re.DOTALL,
)
"""What marks thoughts and calls. A template may have begun the thought in the prompt."""

Segment = tuple[str, int, int, float | None]
"""Kind, first token and the one after the last; where a turn begins, the mean credit of its tokens,
so that a longer turn looks no worse for it."""


class Contents(NamedTuple):
    """What a page holds."""

    page: data.Page
    blocks: dict[str, str]  # its data blocks, by name: see `ktae.report.data`
    shown: tuple[int, int]  # how many groups are in it, of how many


def contents(
    dump: Dump,
    estimator: AnEstimator | None = None,
    *,
    max_tokens: int = sampling.MAX_TOKENS,
    regrade: bool = True,
    tell: ProgressCallback = lambda phase, done, total: None,
) -> Contents:
    """What the page of a dump holds; the arguments are those of `ktae.report.page.write_report`."""
    frame = frame_of(dump)
    graded = regrading.grade(frame, tell) if regrade else None
    if graded and graded.is_verdict:
        frame = regrading.with_verdicts(frame, graded)
    dump.rollouts = frame.rollouts  # the same in another order: they lie in memory once
    tell("holding out pairs", 0, None)
    choice = believing.choose(frame, estimator)

    # Everything over all groups: outcomes, stated answers, credit, and what to act on first.
    tell("scoring", 0, None)
    scored = scoring.score(frame, choice.estimator)
    units, pairs = scored.units, comparing.compare_sides(frame)
    found = findings.find(frame, scored, graded, pairs)
    examples = [int(frame.group_b[x.row]) for finding in found for x in finding.places[:EXAMPLES]]
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, units.mixed_g, examples, max_tokens)
    shown_n = np.repeat(shown_g[frame.group_b], frame.lengths_b)

    credit_n, sizes = scored.credit_n[shown_n], [abs(pair.interval.value) for pair in pairs]
    largest, about_tables = float(np.abs(credit_n).max(initial=0)) or 1.0, ""
    if ngrams_of(choice.estimator) is None:
        about_tables = f"{choice.name} rests on more than single tokens, of which the table is."
    cells, number_kn = unit_tests.cells(units)
    prompts, answers = frame.of_groups("prompt"), frame.of_groups("answer")
    mixed_b = units.mixed_g[frame.group_b]
    notes = overview.notes_of(frame, graded, regrade and any(frame.accepted), shown_g)
    page = data.Page(
        version=data.VERSION,
        unit=dump.word,
        findings=[_settled(finding, frame, shown_g) for finding in found],
        advice=choice.advice,
        tiles=overview.tiles(frame),
        notes=[note._asdict() for note in notes],
        comparisons=[comparing.comparison(frame, pair, prompts) for pair in pairs],
        opened=int(np.argmax(sizes)) if sizes else 0,
        charts=overview.charts(frame),
        estimator=choice.name,
        largest=largest,
        about_tables=about_tables,
        ignored=[*map(int, ignored_by(choice.estimator, counted=True))],
        unit_names=list(units.tested),
        cells=cells.tolist(),
        n_correct=max(1, int((mixed_b & (frame.correct_b == 1)).sum())),
        n_incorrect=max(1, int((mixed_b & (frame.correct_b == 0)).sum())),
        groups=_groups(frame, units, shown_g),
        rollouts=_rollouts(frame, scored, np.flatnonzero(shown_g[frame.group_b])),
    )
    longest_g = np.where(shown_g, LONGEST_PROMPT, LONGEST_PROMPT_AWAY).tolist()
    prompts = [prompt and prompt[:n] for prompt, n in zip(prompts, longest_g, strict=True)]
    # Tokens are numbered by falling frequency.
    which_n = frame.which_n[shown_n]
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(dump.token_ids)), kind="stable")
    blocks = {
        "meta": data.json_block(page),
        "texts": data.json_block({"prompt": prompts, "answer": answers}),
        "vocabulary": data.json_block(_vocabulary(frame, scored, by_rank)),
        "tokens": data.integer_block(np.argsort(by_rank)[which_n]),
        "credit": data.credit_block(credit_n / largest),
        **{f"unit-{i}": data.integer_block(x[shown_n]) for i, x in enumerate(number_kn)},
    }
    return Contents(page, blocks, (int(shown_g.sum()), len(shown_g)))


def _settled(finding: data.Finding, frame: Frame, shown_g: np.ndarray) -> data.Finding:
    """A finding with its count and links, and of its places those that are in the page."""
    if not finding.places:
        return finding
    shown_b = shown_g[frame.group_b]
    shown = [place for place in finding.places if shown_b[place.row]]
    link, example = {"view": "rollouts", "finding": finding.key}, None
    if shown:
        first = next((x for x in shown if x.token >= 0), shown[0])
        group = int(frame.group_b[first.row])
        rollout = first.row - int(frame.starts_g[group])
        example = link | {"group": group, "rollout": rollout, "token": max(0, first.token)}
    place_b = np.cumsum(shown_b) - 1
    places = [place._replace(row=int(place_b[place.row])) for place in shown]
    n = len(finding.places)
    return dataclasses.replace(finding, places=places, link=link, example=example, count=n)


def _vocabulary(frame: Frame, scored: Scored, by_rank: np.ndarray) -> dict[str, list[Any]]:
    """Columns of the distinct tokens: those of `ktae.report.scoring.Tokens`, ids and texts.

    A text is bytes where it is part of a character, and null where only the id is known.
    """
    columns = scoring.token_totals(frame, scored)._asdict() | {"id": frame.dump.token_ids}
    texts = list[str | list[int] | None]()
    for piece in (frame.dump.texts[i] for i in by_rank.tolist()):
        try:
            texts.append(None if piece is None else piece.decode())
        except UnicodeDecodeError:
            texts.append(list(piece))
    return {name: x[by_rank].tolist() for name, x in columns.items()} | {"text": texts}


def _groups(frame: Frame, units: unit_tests.Units, shown_g: np.ndarray) -> data.Groups:
    word = frame.dump.word
    unit = {"token": word, "bigram": f"pair of {word}s", "trigram": f"run of three {word}s"}
    kinds = " or ".join(unit[name] for name in units.tested)
    evidence = []
    for is_mixed, beyond, p in zip(units.mixed_g, units.beyond_g, units.best_p_g, strict=True):
        smallest, ways = f"the smallest p of a {kinds} here is {p:.2g}", counted(beyond, "split")
        text = "Not both correct and incorrect responses with text: there is nothing to compare."
        if is_mixed and beyond:
            text = f"{ways} of the responses beyond chance (underlined); {smallest}."
        elif is_mixed:
            text = f"Chance explains every single colour here: {smallest}, before correction."
        evidence.append(text)
    return data.Groups(
        label=frame.origins.label,
        files=frame.origins.files,
        file=frame.origins.file,
        step=frame.steps,
        shown=shown_g.astype(int).tolist(),
        size=frame.sizes_g.tolist(),
        n_correct=frame.sum_rollouts(frame.correct_b == 1).astype(int).tolist(),
        known=frame.sum_rollouts(frame.known_b).astype(int).tolist(),
        length=(frame.sum_rollouts(frame.lengths_b) / frame.sizes_g).tolist(),
        beyond=units.beyond_g.tolist(),
        evidence=evidence,
        order=units.by_evidence.tolist(),
    )


def _rollouts(frame: Frame, scored: Scored, rows: np.ndarray) -> data.Rollouts:
    models = np.array(frame.rollouts["model"].to_pylist(), dtype=object)[rows].tolist()
    names = sorted({model for model in models if model is not None})
    credit_b = frame.sum_tokens(scored.credit_n) / np.maximum(frame.counted_b, 1)
    segments = (_segments(frame, row, scored.credit_n) for row in rows.tolist())
    return data.Rollouts(
        length=frame.lengths_b[rows].tolist(),
        reward=frame.reward_b[rows].tolist(),
        correct=frame.correct_b[rows].tolist(),
        advantage=frame.advantage_b[rows].tolist(),
        credit=credit_b[rows].tolist(),
        models=names,
        model=[-1 if model is None else names.index(model) for model in models],
        segments={place: x for place, x in enumerate(segments) if x},
    )


def _segments(frame: Frame, row: int, credit_n: np.ndarray) -> list[Segment]:
    """The segments of a rollout in order; none at all where everything is `SAID`.

    A turn is a run of the policy's own tokens that is as long as possible.
    """
    spelling, mask_t = frame.spell(row), frame.mask_n[frame.span(row)]
    kind_t = np.zeros(len(mask_t), dtype=np.int8)
    if b"<" in spelling.text:
        for match in PARTS.finditer(spelling.text):
            begin, end = spelling.tokens(*match.span())
            kind_t[begin:end] = KINDS.index(THOUGHT if match["thought"] else CALL)
    kind_t[~mask_t] = KINDS.index(OTHERS)
    if not kind_t.any():
        return []
    turns = np.flatnonzero(np.diff(np.concatenate([[False], mask_t, [False]]))).reshape(-1, 2)
    credit_t = credit_n[frame.span(row)]
    credit = {begin: float(credit_t[begin:end].mean()) for begin, end in turns.tolist()}
    edges = [0, *(np.flatnonzero(np.diff(kind_t)) + 1).tolist(), len(kind_t)]
    return [(KINDS[kind_t[a]], a, b, credit.get(a)) for a, b in itertools.pairwise(edges)]
