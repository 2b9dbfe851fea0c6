"""What a report's page holds: everything but its looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ktae._version import __version__
from ktae.credit import AnEstimator
from ktae.estimators import Estimator, as_estimator
from ktae.report import (
    believing,
    marks,
    packing,
    regrading,
    sampling,
    summary,
    suspicious,
)
from ktae.report.columns import Columns, Frame, frame_of
from ktae.report.files import files_of
from ktae.report.inputs import Dump, Shown, require_rollouts
from ktae.report.notes import Note, notes_of
from ktae.report.summary import Scored
from ktae.report.totals import AllScored, TokenTotals, score_all, tokens_over_steps
from ktae.rollouts.groups import take_rows
from ktae.tables import in_tables

LONGEST_PROMPT = 20_000
"""Characters of a prompt that are in the page."""


class Contents(NamedTuple):
    """What a page holds."""

    blocks: dict[str, str]
    """Its data blocks, by name: see `ktae.report.packing`."""
    shown: Shown
    """How much of the dump is in it."""


def contents(
    dump: Dump,
    estimator: AnEstimator | None = None,
    *,
    max_tokens: int = sampling.MAX_TOKENS,
    max_groups: int | None = None,
    regrade: bool = True,
) -> Contents:
    """What the page of a dump holds.

    Args:
        dump: what to report on.
        estimator: the one that the run was trained with by default, or the paper's.
        max_tokens: bound on the response tokens in the page, see `ktae.report.sampling`.
        max_groups: bound on the groups whose rollouts are in the page.
        regrade: whether to compare the verdicts with those of ktae's own grader.

    Raises:
        InputError: there is not a single rollout.
    """
    require_rollouts(dump)
    frame = frame_of(dump)
    chosen = dump.estimator if estimator is None else as_estimator(estimator)
    presets = summary.presets_of(chosen, "chosen" if estimator else "run's own")
    found = _find(frame, dump, [one for _, one in presets], regrade)
    scored, totals = found.all.scored, found.all.totals
    mixed_g = (scored[0].n_true_g > 0) & (scored[0].n_false_g > 0)
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, mixed_g, found.groups(frame), max_tokens, max_groups)
    shown_b = shown_g[frame.group_b]
    shown = frame.columns(np.flatnonzero(shown_g))
    which_n = dump.which(shown.ids_n)
    rank, by_rank = _ranks(which_n, len(dump.texts))
    curves = summary.steps_of(frame, scored[0], dump.metrics)
    over_steps = tokens_over_steps(found.all.over_steps, totals[0], curves["steps"])
    notes = _sampling_note(shown_g, shown_b, max_tokens, max_groups)
    notes += notes_of(dump, frame, scored[0]) + _settings_note(chosen)
    notes += _grading_note(frame, regrade)
    place_b = np.where(shown_b, np.cumsum(shown_b) - 1, -1)
    own = None if chosen is None else ("chosen" if estimator else "run's own", chosen)
    empty_n = np.full(len(which_n), np.nan, dtype=np.float32)
    signals = {name: shown.signals.get(name, empty_n) for name in frame.signals_found[0]}
    meta = {
        "version": __version__,
        "names": dump.names,
        "unit": dump.unit,
        "notes": [note._asdict() for note in notes],
        "presets": [{"name": name, **summary.as_dict(one)} for name, one in presets],
        "groups": _groups(frame, scored, shown_g) | files_of(frame.labels, dump.names),
        "rollouts": _rollouts(shown) | {"finished": found.marks.finished_b[shown_b]},
        "finished_rule": found.marks.rule,
        "held_out": believing.held_out(frame, mixed_g, own),
        "regraded": found.regraded and regrading.as_dict(found.regraded, frame, dump, place_b),
        "permuted": believing.beside_permuted(frame, mixed_g, [one for _, one in presets]),
        "flags": _flags(found.flags, place_b, frame),
        "signals": sorted(signals),
        "totals": {"rollouts": len(shown_b), "tokens": int(frame.lengths_b.sum())},
        "training": curves
        | {
            "of_tokens": over_steps
            | {"tokens": rank[np.array(over_steps["tokens"], dtype=np.int64)]}
        },
    }
    blocks = {
        "meta": packing.json_block(meta),
        "vocabulary": packing.json_block(
            _vocabulary(dump, by_rank, totals) | {"mark": found.marks.mark_v[by_rank]}
        ),
        "texts": packing.json_block(_texts(frame, shown_g)),
        "tokens": packing.varint_block(rank[which_n]),
    }
    blocks |= {name: packing.fixed_point_block(values) for name, values in signals.items()}
    return Contents(blocks, Shown(int(shown_g.sum()), len(shown_g)))


class _Found(NamedTuple):
    """What may be wrong with the dump, and with which of its tokens."""

    marks: marks.Marks
    regraded: regrading.Regraded | None
    flags: list[suspicious.Flag]
    all: AllScored
    """The credit of all groups."""

    def groups(self, columns: Frame) -> Iterator[int]:
        """Groups to look at, the first first."""
        if self.regraded is not None and not self.regraded.asks_for_more:
            yield from (int(columns.group_b[one.rollout]) for one in self.regraded.differences)
        yield from (flag.group for flag in self.flags)


def _find(frame: Frame, dump: Dump, presets: list[Estimator], regrade: bool) -> _Found:
    regraded = regrading.regrade(frame, dump) if regrade else None
    asks_for_more = regraded is not None and regraded.asks_for_more  # then answers tell nothing
    places = {} if asks_for_more else suspicious.answer_places(frame, dump)
    scored = score_all(frame, dump, presets, {row: end for row, (_, end) in places.items()})
    flags = suspicious.find(frame, scored.scored[0], places, scored.halves)
    return _Found(marks.find(frame, dump), regraded, flags, scored)


def _grading_note(columns: Frame, regrade: bool) -> list[Note]:
    if not regrade or regrading.can_grade() or not any(regrading.references(columns)):
        return []
    text = (
        "The dump holds reference answers, but math-verify is not installed, so its verdicts are "
        "not compared with ours. pip install 'ktae[eval]'"
    )
    return [Note(False, "Not graded again", text)]


def _settings_note(estimator: Estimator | None) -> list[Note]:
    if estimator is None or estimator == in_tables(estimator):
        return []
    by = "" if in_tables(estimator) else ", with the paper's statistic"
    text = (
        f"The page explains single tokens by verdicts{by}. The credit that a trainer uses is that "
        f"of {estimator}."
    )
    return [Note(False, "Not the whole of the estimator", text)]


def _ranks(which: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Each token's rank by frequency, so that frequent tokens take one byte; and the inverse."""
    by_rank = np.argsort(-np.bincount(which, minlength=n), kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_rank] = np.arange(n)
    return rank, by_rank


def _groups(columns: Frame, scored: list[Scored], shown_g: np.ndarray) -> dict[str, Any]:
    size_g = np.diff(columns.starts_g)
    known_b = ~np.isnan(columns.correct_b)
    right_g = columns.sum_rollouts(columns.correct_b == 1)
    known_g = columns.sum_rollouts(known_b)
    rewarded_g = columns.sum_rollouts(~np.isnan(columns.reward_b))
    reward_g = columns.sum_rollouts(np.nan_to_num(columns.reward_b))
    return {
        "label": columns.labels,
        "step": columns.steps,
        "shown": shown_g.astype(int),
        "size": size_g,
        "right": right_g,
        "known": known_g,
        "length": columns.sum_rollouts(columns.lengths_b) / size_g,
        "reward": np.where(rewarded_g > 0, reward_g / np.maximum(rewarded_g, 1), np.nan),
        "credit_abs": [summary.credit_abs(columns, one) for one in scored],
    }


def _rollouts(shown: Columns) -> dict[str, Any]:
    """One entry a shown rollout, in the order of the groups."""
    models = shown.rollouts["model"].to_pylist()
    names = sorted({model for model in models if model is not None})
    holes = {}
    for row in np.flatnonzero(shown.counted_b < shown.lengths_b).tolist():
        mask_t = shown.mask_n[shown.offsets_b[row] : shown.offsets_b[row + 1]]
        edges = np.flatnonzero(np.diff(np.concatenate([[True], mask_t, [True]])))
        holes[row] = edges  # begin and end of every masked stretch, in turn
    return {
        "length": shown.lengths_b,
        "reward": shown.reward_b,
        "correct": shown.correct_b,
        "advantage": shown.advantage_b,
        "own_advantages": shown.own_advantages,
        "models": names,
        "model": [-1 if model is None else names.index(model) for model in models],
        "holes": holes,
    }


def _flags(
    flags: list[suspicious.Flag], place_b: np.ndarray, columns: Frame
) -> list[dict[str, Any]]:
    return [
        {
            "group": flag.group,
            "rollout": int(place_b[flag.rollout]),
            "number": int(flag.rollout - columns.starts_g[flag.group]),
            "kind": flag.kind,
            "token": flag.token,
            "why": flag.why,
        }
        for flag in flags
    ]


def _vocabulary(dump: Dump, by_rank: np.ndarray, totals: list[TokenTotals]) -> dict[str, Any]:
    return {
        "id": dump.token_ids[by_rank],
        "text": [text_of(dump.texts[i]) for i in by_rank.tolist()],
        "a": totals[0].a[by_rank],
        "b": totals[0].b[by_rank],
        "groups": totals[0].groups[by_rank],
        "p": totals[0].p[by_rank],
        "impact": [total.impact[by_rank] for total in totals],
        "credit": [total.credit[by_rank] for total in totals],
    }


def text_of(piece: bytes | None) -> str | list[int] | None:
    """Text where the bytes are some, else the bytes: part of a character."""
    if piece is None:
        return None
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def _texts(frame: Frame, shown_g: np.ndarray) -> dict[str, Any]:
    """Prompt and reference answer of each group, those of its first rollout."""
    rows = frame.order_b[frame.starts_g[:-1]]
    first = take_rows(frame.rollouts.select(["prompt", "answer"]), rows)
    prompts = [
        prompt[:LONGEST_PROMPT] if prompt and shown else prompt and prompt[:200]
        for prompt, shown in zip(first["prompt"].to_pylist(), shown_g.tolist(), strict=True)
    ]
    return {"prompt": prompts, "answer": first["answer"].to_pylist()}


def _sampling_note(
    shown_g: np.ndarray, shown_b: np.ndarray, max_tokens: int, max_groups: int | None
) -> list[Note]:
    if shown_g.all():
        return []
    bound = "" if max_groups is None else f"{max_groups:,} groups and "
    return [
        Note(
            True,
            f"{shown_b.sum():,} of {len(shown_b):,} rollouts are in this page",
            f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to "
            f"{bound}{max_tokens:,} tokens. {sampling.RULE} Tokens, Groups and Training are "
            "computed from all rollouts; contexts are looked for in those on the page.",
        )
    ]
