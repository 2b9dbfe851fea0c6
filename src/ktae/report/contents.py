"""What a report's page holds: everything but its looks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae._version import __version__
from ktae.credit import AnEstimator
from ktae.estimators import Estimator, as_estimator, preset, to_text
from ktae.estimators.transforms import ignored_by
from ktae.report import (
    believing,
    blocks,
    findings,
    marks,
    notes,
    regrading,
    sampling,
    summary,
)
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump, Tell
from ktae.report.segments import holes_of, segments_of, states_of
from ktae.report.strongest import p_values
from ktae.rollouts.files import SUFFIXES
from ktae.tables import formula_of, in_tables, ngrams_of, table_estimator

LONGEST_PROMPT = 20_000
"""Characters of a prompt that are in the page."""

BESIDE = ("paper", "released", "calibrated", "trigrams", "sharp-trigrams")
"""Presets that a page can shade by, beside its own estimator."""

FILE = re.compile(rf"([^:]+(?:{'|'.join(map(re.escape, SUFFIXES))})):")
"""What a reader puts in front of the label of a group in one of a folder's files."""


class Contents(NamedTuple):
    """What a page holds."""

    blocks: dict[str, str]
    """Its data blocks, by name: see `ktae.report.blocks`."""
    shown: tuple[int, int]
    """How many groups are in it, of how many."""
    verdict: str
    """The sentence that it begins with."""


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
    dump.rollouts = frame.rollouts  # the same in another order: they lie in memory once
    chosen = as_estimator(estimator or dump.estimator or "paper")
    lacks_policy = bool(chosen.needs_policy)
    if lacks_policy:  # log-probabilities and entropies, which a dump does not hold for all tokens
        chosen = table_estimator(chosen)
    vocabulary = dump.vocabulary if chosen.needs_vocabulary else None

    # Everything over all groups: verdicts, stated answers, credit, and where to look first.
    regraded = regrading.regrade(frame, tell=tell) if regrade else None
    tell("scoring", 0, None)
    scored = summary.score(frame, chosen, vocabulary)
    ended = marks.find(frame)
    found = findings.find(frame, scored, regraded, ended)

    # Which groups are in the page, and their rollouts and tokens.
    look_at = [int(frame.group_b[place.rollout]) for x in found[:4] for place in x.places]
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, scored.mixed_g, look_at, max_tokens, max_groups)
    shown_b = shown_g[frame.group_b]
    shown_n = np.repeat(shown_b, frame.lengths_b)
    place_b = np.where(shown_b, np.cumsum(shown_b) - 1, -1)

    # A token's number in the page is its rank by frequency, so that frequent ones take one byte.
    which_n = frame.which_n[shown_n]
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(dump.texts)), kind="stable")
    rank_v = np.argsort(by_rank)

    said = notes.notes_of(frame, scored.mixed_g)
    if not shown_g.all():
        said.insert(0, notes.of_sample(shown_b, shown_g, max_tokens, max_groups))
    said += notes.about_estimator(frame, chosen, regrade, lacks_policy)
    beside = {name: preset(name) for name in BESIDE}
    presets = {to_text(chosen): chosen} | {name: x for name, x in beside.items() if x != chosen}
    curves = summary.curves(frame, scored, dump.metrics)
    followed = summary.tokens_over_steps(frame, scored, curves["steps"])
    of_runs = runs_of(frame)
    run_g = np.array(of_runs["run"])
    curves["runs"] = [
        {"run": run} | summary.curves(frame, scored, {}, run_g == run)
        for run in np.unique(run_g[run_g >= 0]).tolist()
    ]
    states = {
        group: of_group
        for group in np.flatnonzero(shown_g).tolist()
        if (of_group := states_of(frame, group, rank_v, place_b)) is not None
    }
    signals = frame.signals[0]
    tell("holding out pairs", 0, None)
    meta: dict[str, Any] = {
        "version": __version__,
        "names": dump.names,
        "unit": dump.unit,
        "notes": [note._asdict() for note in said],
        "presets": [{"name": name, **_as_preset(x)} for name, x in presets.items()],
        "groups": _groups(frame, shown_g)
        | {"credit_abs": summary.mean_credit_of_groups(frame, scored), "beyond": scored.beyond_g}
        | of_runs
        | {"states": states},
        "rollouts": _rollouts(frame, shown_b) | {"finished": ended.finished_b[shown_b]},
        "finished_rule": ended.rule,
        "held_out": believing.held_out(frame, scored.mixed_g, chosen, vocabulary),
        "regraded": regraded and regraded.in_numbers(),
        "permuted": believing.beside_permuted(frame, scored.mixed_g, table_estimator(chosen)),
        "findings": [finding.as_dict(place_b, frame.group_b, dump.unit) for finding in found],
        "models": summary.by_model(frame),
        "histograms": summary.histograms(frame),
        "signals": sorted(signals),
        "totals": {"rollouts": len(shown_b), "tokens": len(frame.which_n)},
        "training": curves | {"of_tokens": followed | {"tokens": rank_v[followed["tokens"]]}},
    }
    page_blocks = {"tokens": blocks.varints(rank_v[which_n])}
    if ngrams_of(chosen) is None:
        credit_n = scored.credit_n[shown_n]
        meta["largest_credit"] = float(np.abs(credit_n).max(initial=0)) or 1.0
        page_blocks["credit"] = blocks.small(credit_n / meta["largest_credit"])
    for name in sorted(signals):
        page_blocks[name] = blocks.fixed_point(signals[name][shown_n])
    page_blocks["meta"] = blocks.as_json(meta)
    p_v = p_values(scored.distinct, scored.which, len(dump.token_ids))
    names = ("a", "b", "groups", "impact", "credit")
    numbers = {name: getattr(scored.totals, name) for name in names}
    numbers |= {"p": p_v, "mark": ended.mark_v, "id": dump.token_ids}
    texts = {"text": [_text(dump.texts[i]) for i in by_rank.tolist()]}
    page_blocks["vocabulary"] = blocks.as_json(
        {name: values[by_rank] for name, values in numbers.items()} | texts
    )
    # Of a group that is not in the page, the list of groups has the beginning of its prompt.
    prompts = [
        prompt and prompt[: LONGEST_PROMPT if is_shown else 200]
        for prompt, is_shown in zip(frame.of_groups("prompt"), shown_g.tolist(), strict=True)
    ]
    page_blocks["texts"] = blocks.as_json({"prompt": prompts, "answer": frame.of_groups("answer")})
    in_page = int(shown_g.sum()), len(shown_g)
    return Contents(page_blocks, in_page, believing.in_words(meta["held_out"]))


def _groups(frame: Frame, shown_g: np.ndarray) -> dict[str, Any]:
    size_g = np.diff(frame.starts_g)
    rewarded_g = frame.sum_rollouts(~np.isnan(frame.reward_b))
    reward_g = frame.sum_rollouts(np.nan_to_num(frame.reward_b))
    return {
        "step": frame.steps,
        "shown": shown_g.astype(int),
        "size": size_g,
        "right": frame.sum_rollouts(frame.correct_b == 1),
        "known": frame.sum_rollouts(~np.isnan(frame.correct_b)),
        "length": frame.sum_rollouts(frame.lengths_b) / size_g,
        "reward": np.where(rewarded_g > 0, reward_g / np.maximum(rewarded_g, 1), np.nan),
    }


def _rollouts(frame: Frame, shown_b: np.ndarray) -> dict[str, Any]:
    """Columns of the rollouts in the page; `holes` and `segments` of those alone that have any."""
    rows = np.flatnonzero(shown_b)
    models = np.array(frame.rollouts["model"].to_pylist(), dtype=object)[rows].tolist()
    names = sorted({model for model in models if model is not None})
    pairs, groups = set(zip(frame.group_b[rows], models, strict=True)), set(frame.group_b[rows])
    segments = {i: x for i, row in enumerate(rows.tolist()) if (x := segments_of(frame, row))}
    masked = np.flatnonzero(frame.counted_b[rows] < frame.lengths_b[rows])
    return {
        "length": frame.lengths_b[rows],
        "reward": frame.reward_b[rows],
        "correct": frame.correct_b[rows],
        "advantage": frame.advantage_b[rows],
        "own_advantages": frame.own_advantages,
        "models": names,
        "pooled": len(pairs) > len(groups),
        "model": [-1 if model is None else names.index(model) for model in models],
        "holes": {i: holes_of(frame, rows[i]) for i in masked.tolist()},
        "segments": segments,
    }


def _text(piece: bytes | None) -> str | list[int] | None:
    """A token's text, or its bytes where it is part of a character."""
    try:
        return piece if piece is None else piece.decode()
    except UnicodeDecodeError:
        return list(piece or b"")


def _as_preset(estimator: Estimator) -> dict[str, Any]:
    """How the page's script gets the credit of an estimator.

    `units`: the n-grams whose mean credit it is, by the formula that stands beside; null: the
    credit itself is in the page. `tables`: whether it rests on contingency tables at all, the
    formula's, or else the paper's are shown. `ignored` tokens do not count, `silent` ones only get
    no credit.
    """
    return formula_of(table_estimator(estimator))._asdict() | {
        "units": ngrams_of(estimator),
        "tables": in_tables(estimator) is not None,
        "ignored": ignored_by(estimator),
        "silent": ignored_by(estimator, counted=True),
    }


def runs_of(frame: Frame) -> dict[str, Any]:
    """What `files_of` gives, and of each group its `run` (the input that it comes from, -1 where
    there is one alone) and `same` (a number that groups of the same prompt share)."""
    names = frame.dump.names
    of_files = files_of(frame.labels, names)
    run_g = [-1] * len(frame.labels)
    if len(names) > 1:
        # The longest name that a label begins with: one may begin another.
        longest = sorted(names, key=len, reverse=True)
        of_label = (next((x for x in longest if y.startswith(x)), None) for y in frame.labels)
        run_g = [-1 if name is None else names.index(name) for name in of_label]
    numbers: dict[str, int] = {}
    same_g = [
        numbers.setdefault(prompt or f"\0{label}", len(numbers))
        for prompt, label in zip(frame.of_groups("prompt"), of_files["label"], strict=True)
    ]
    return of_files | {"run": run_g, "same": same_g}


def files_of(labels: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Labels without their file, which of several inputs they begin with, and the files beside.

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
