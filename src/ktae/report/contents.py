"""What a report's page holds: everything but its looks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae._version import __version__
from ktae.credit import AnEstimator
from ktae.estimators import Estimator, as_estimator
from ktae.report import (
    believing,
    marks,
    page,
    regrading,
    sampling,
    summary,
    suspicious,
)
from ktae.report.columns import Frame, frame_of
from ktae.report.inputs import Dump, Shown, require_rollouts
from ktae.report.notes import Note, notes_of
from ktae.report.summary import Scored
from ktae.report.totals import TokenTotals, score_all, tokens_over_steps
from ktae.rollouts.files import SUFFIXES
from ktae.tables import in_tables

LONGEST_PROMPT = 20_000
"""Characters of a prompt that are in the page."""


FILE = re.compile(rf"([^:]+(?:{'|'.join(map(re.escape, SUFFIXES))})):")
"""What a reader puts in front of the label of a group in one of a folder's files."""


class Contents(NamedTuple):
    """What a page holds."""

    blocks: dict[str, str]
    """Its data blocks, by name: see `ktae.report.page`."""
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
    name = "chosen" if estimator else "run's own"
    presets = summary.presets_of(chosen, name)
    estimators = [preset for _, preset in presets]

    # Everything over all groups: verdicts, stated answers, credit, and where to look first.
    regraded = regrading.regrade(frame, dump) if regrade else None
    asks_for_more = regraded is not None and regraded.asks_for_more  # then answers tell nothing
    places = {} if asks_for_more else suspicious.answer_places(frame, dump)
    ends = {row: end for row, (_, end) in places.items()}
    scored, totals, over_steps, halves = score_all(frame, dump, estimators, ends)
    flags = suspicious.find(frame, scored[0], places, halves)
    mixed_g = (scored[0].n_true_g > 0) & (scored[0].n_false_g > 0)
    ended = marks.find(frame, dump)
    curves = summary.steps_of(frame, scored[0], dump.metrics)
    followed = tokens_over_steps(over_steps, totals[0], curves["steps"])

    # Which groups are in the page, and their rollouts and tokens.
    differing = [] if regraded is None or asks_for_more else regraded.differences
    look_at = [frame.group_b[difference.rollout] for difference in differing]
    look_at += [flag.group for flag in flags]
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, mixed_g, map(int, look_at), max_tokens, max_groups)
    shown_b = shown_g[frame.group_b]
    shown = frame.columns(np.flatnonzero(shown_g))
    place_b = np.where(shown_b, np.cumsum(shown_b) - 1, -1)
    empty_n = np.full(len(shown.ids_n), np.nan, dtype=np.float32)
    signals = {x: shown.signals.get(x, empty_n) for x in frame.signals_found[0]}

    # A token's number in the page is its rank by frequency, so that frequent ones take one byte.
    which_n = dump.which(shown.ids_n)
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(dump.texts)), kind="stable")
    rank = np.empty(len(by_rank), dtype=np.int64)
    rank[by_rank] = np.arange(len(by_rank))

    # Of a group that is not in the page, the table of groups has the beginning of its prompt.
    prompts = [
        prompt and prompt[: LONGEST_PROMPT if is_shown else 200]
        for prompt, is_shown in zip(frame.of_groups("prompt"), shown_g.tolist(), strict=True)
    ]
    notes = notes_of(dump, frame, scored[0])
    if not shown_g.all():
        bound = "" if max_groups is None else f"{max_groups:,} groups and "
        note = Note(
            True,
            f"{shown_b.sum():,} of {len(shown_b):,} rollouts are in this page",
            f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to "
            f"{bound}{max_tokens:,} tokens. {sampling.RULE} Tokens, Groups and Training are "
            "computed from all rollouts; contexts are looked for in those on the page.",
        )
        notes.insert(0, note)
    notes += _other_notes(frame, chosen, regrade)
    meta = {
        "version": __version__,
        "names": dump.names,
        "unit": dump.unit,
        "notes": [note._asdict() for note in notes],
        "presets": [{"name": title, **summary.as_dict(x)} for title, x in presets],
        "groups": _groups(frame, scored, shown_g) | files_of(frame.labels, dump.names),
        "rollouts": shown.as_dict() | {"finished": ended.finished_b[shown_b]},
        "finished_rule": ended.rule,
        "held_out": believing.held_out(frame, mixed_g, (name, chosen) if chosen else None),
        "regraded": regraded and regrading.as_dict(regraded, frame, dump, place_b),
        "permuted": believing.beside_permuted(frame, mixed_g, estimators),
        "flags": [
            flag._asdict()
            | {
                "rollout": place_b[flag.rollout],
                "number": flag.rollout - frame.starts_g[flag.group],
            }
            for flag in flags
        ],
        "signals": sorted(signals),
        "totals": {"rollouts": len(shown_b), "tokens": frame.lengths_b.sum()},
        "training": curves
        | {"of_tokens": followed | {"tokens": [rank[i] for i in followed["tokens"]]}},
    }
    blocks = {
        "meta": page.json_block(meta),
        "vocabulary": page.json_block(
            _vocabulary(dump, by_rank, totals) | {"mark": ended.mark_v[by_rank]}
        ),
        "texts": page.json_block({"prompt": prompts, "answer": frame.of_groups("answer")}),
        "tokens": page.varint_block(rank[which_n]),
    }
    blocks |= {x: page.fixed_point_block(values) for x, values in signals.items()}
    return Contents(blocks, Shown(int(shown_g.sum()), len(shown_g)))


def _other_notes(frame: Frame, estimator: Estimator | None, regrade: bool) -> Iterator[Note]:
    if estimator is not None and estimator != in_tables(estimator):
        by = "" if in_tables(estimator) else ", with the paper's statistic"
        yield Note(
            False,
            "Not the whole of the estimator",
            f"The page explains single tokens by verdicts{by}. The credit that a trainer uses is "
            f"that of {estimator}.",
        )
    if regrade and not regrading.can_grade() and any(regrading.references(frame)):
        yield Note(
            False,
            "Not graded again",
            "The dump holds reference answers, but math-verify is not installed, so its verdicts "
            "are not compared with ours. pip install 'ktae[eval]'",
        )


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
        "credit_abs": [summary.credit_abs(columns, x) for x in scored],
    }


def _vocabulary(dump: Dump, by_rank: np.ndarray, totals: list[TokenTotals]) -> dict[str, Any]:
    texts: list[str | list[int] | None] = []
    for piece in (dump.texts[i] for i in by_rank.tolist()):
        try:
            texts.append(piece if piece is None else piece.decode())
        except UnicodeDecodeError:
            texts.append(list(piece))  # its bytes: it is part of a character
    return {
        "id": dump.token_ids[by_rank],
        "text": texts,
        "a": totals[0].a[by_rank],
        "b": totals[0].b[by_rank],
        "groups": totals[0].groups[by_rank],
        "p": totals[0].p[by_rank],
        "impact": [total.impact[by_rank] for total in totals],
        "credit": [total.credit[by_rank] for total in totals],
    }


def files_of(labels: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """The labels without their files, and the files beside them.

    Args:
        labels: the groups' labels; of several inputs they begin with the input and a colon.
        names: the inputs.

    Returns:
        `label`, `files` (short names, none where the dump is one file) and `file` (for each group
        its place in `files`, -1 for none).
    """
    if not names:  # rollouts in memory: a label is a label
        return {"label": list(labels), "files": [], "file": [-1] * len(labels)}
    parts = [_split(label, names) for label in labels]
    full = list(dict.fromkeys(file for file, _ in parts if file))
    # Short names: without the folders that all files have in common.
    folders = {os.path.dirname(os.path.abspath(file)) for file in full}
    common = os.path.commonpath(folders) if folders else ""
    return {
        "label": [label for _, label in parts],
        "files": [os.path.relpath(file, common) for file in full],
        "file": [full.index(file) if file else -1 for file, _ in parts],
    }


def _split(label: str, names: Sequence[str]) -> tuple[str, str]:
    """A label's file, empty for none, and what is left of the label."""
    known = names if len(names) > 1 else []
    name = next((name for name in known if label.startswith(f"{name}:")), "")
    label = label.removeprefix(f"{name}:")
    inner = FILE.match(label)
    if inner is None or all(x.endswith(SUFFIXES) for x in ([name] if name else names)):
        return name, label  # an input that is a file has no files in it
    return os.path.join(name, inner.group(1)), label[inner.end() :]
