"""What a report's page holds: everything but its looks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae._version import __version__
from ktae.credit import AnEstimator
from ktae.estimators import Estimator, as_estimator, preset, to_text
from ktae.report import (
    believing,
    findings,
    marks,
    page,
    regrading,
    sampling,
    summary,
    suspicious,
)
from ktae.report.columns import Columns, Frame, frame_of
from ktae.report.inputs import Dump, Shown, Tell, require_rollouts
from ktae.report.notes import Note, notes_of
from ktae.report.segments import segments_of
from ktae.report.totals import AllScored, TokenTotals, score_all, tokens_over_steps
from ktae.rollouts import record
from ktae.rollouts.files import SUFFIXES
from ktae.tables import in_tables, table_estimator
from ktae.turns import find_turns, shared_states

LONGEST_PROMPT = 20_000
"""Characters of a prompt that are in the page."""

LONGEST_TURN = 60
"""Tokens of a shared state, and of a turn taken there, that are in the page."""

MOST_CHOICES = 8
"""Turns of a shared state that are in the page, those of most rollouts; the others are counted."""


FILE = re.compile(rf"([^:]+(?:{'|'.join(map(re.escape, SUFFIXES))})):")
"""What a reader puts in front of the label of a group in one of a folder's files."""


class Contents(NamedTuple):
    """What a page holds."""

    blocks: dict[str, str]
    """Its data blocks, by name: see `ktae.report.page`."""
    shown: Shown
    """How much of the dump is in it."""
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
    """What the page of a dump holds.

    Args:
        dump: what to report on.
        estimator: the one that the run was trained with by default, or the paper's.
        max_tokens: bound on the response tokens in the page, see `ktae.report.sampling`.
        max_groups: bound on the groups whose rollouts are in the page.
        regrade: whether to compare the verdicts with those of ktae's own grader.
        tell: is told what is being done, how much of it is, and of how much (None: not known).

    Raises:
        InputError: there is not a single rollout.
    """
    require_rollouts(dump)
    frame = frame_of(dump)
    chosen = as_estimator(estimator or dump.estimator or "paper")
    lacks_policy = bool(chosen.needs_policy)
    if lacks_policy:  # log-probabilities and entropies, which a dump does not hold for all tokens
        chosen = table_estimator(chosen)

    # Everything over all groups: verdicts, stated answers, credit, and where to look first.
    regraded = regrading.regrade(frame, dump, tell=tell) if regrade else None
    asks_for_more = regraded is not None and regraded.asks_for_more  # then answers tell nothing
    places = {} if asks_for_more else suspicious.answer_places(frame, dump)
    tell("scoring", 0, None)
    scored = score_all(frame, dump, chosen, {row: end for row, (_, end) in places.items()})
    flags = [
        flag._replace(why=findings.in_units(flag.why, dump.unit))
        for flag in suspicious.find(frame, scored.scored, places, scored.halves)
    ]
    mixed_g = (scored.scored.n_true_g > 0) & (scored.scored.n_false_g > 0)
    ended = marks.find(frame, dump)
    found = findings.find(frame, dump, scored, flags, regraded, ended)

    # Which groups are in the page, and their rollouts and tokens.
    look_at = [frame.group_b[place.rollout] for x in found[:4] for place in x.places]
    tokens_g = frame.sum_rollouts(frame.lengths_b)
    shown_g = sampling.choose(tokens_g, mixed_g, map(int, look_at), max_tokens, max_groups)
    shown_b = shown_g[frame.group_b]
    shown = frame.columns(np.flatnonzero(shown_g))
    place_b = np.where(shown_b, np.cumsum(shown_b) - 1, -1)

    # A token's number in the page is its rank by frequency, so that frequent ones take one byte.
    which_n = dump.which(shown.ids_n)
    by_rank = np.argsort(-np.bincount(which_n, minlength=len(dump.texts)), kind="stable")
    rank = np.empty(len(by_rank), dtype=np.int64)
    rank[by_rank] = np.arange(len(by_rank))

    notes = notes_of(dump, frame, scored.scored)
    if not shown_g.all():
        notes.insert(0, _note_of_sample(shown_b, shown_g, max_tokens, max_groups))
    notes += _other_notes(frame, dump, chosen, regrade, lacks_policy)
    own = to_text(chosen)
    beside = {name: preset(name) for name in summary.BESIDE}
    estimators = {own: chosen} | {name: x for name, x in beside.items() if x != chosen}
    curves = summary.steps_of(frame, scored.scored, dump.metrics)
    followed = tokens_over_steps(scored.over_steps, scored.totals, curves["steps"])
    of_runs = runs_of(frame, dump.names)
    run_g = np.array(of_runs["run"])
    curves["runs"] = [
        {"run": run} | summary.steps_of(frame, scored.scored, {}, run_g == run)
        for run in np.unique(run_g[run_g >= 0]).tolist()
    ]
    vocabulary = dump.vocabulary if chosen.needs_vocabulary else None
    tell("holding out pairs", 0, None)
    meta: dict[str, Any] = {
        "version": __version__,
        "names": dump.names,
        "unit": dump.unit,
        "notes": [note._asdict() for note in notes],
        "presets": [{"name": name, **summary.shown_as(x)} for name, x in estimators.items()],
        "groups": _groups(frame, scored, shown_g)
        | of_runs
        | {"states": _states(shown, np.flatnonzero(shown_g), rank[which_n])},
        "rollouts": shown.as_dict()
        | {"finished": ended.finished_b[shown_b], "segments": _segments(shown, dump)},
        "finished_rule": ended.rule,
        "held_out": believing.held_out(frame, mixed_g, (own, chosen), vocabulary),
        "regraded": regraded and regraded.in_numbers(),
        "permuted": believing.beside_permuted(frame, mixed_g, table_estimator(chosen)),
        "findings": findings.as_dicts(found, place_b, frame.group_b, dump.unit),
        "models": summary.by_model(frame),
        "histograms": summary.histograms(frame),
        "signals": sorted(frame.signals_found[0]),
        "totals": {"rollouts": len(shown_b), "tokens": frame.lengths_b.sum()},
        "training": curves
        | {"of_tokens": followed | {"tokens": [rank[i] for i in followed["tokens"]]}},
    }
    blocks = {"tokens": page.varint_block(rank[which_n])}
    if summary.shown_as(chosen)["units"] is None:
        credit_n = summary.score(shown, chosen, vocabulary).credit_n
        meta["largest_credit"] = float(np.abs(credit_n).max(initial=0)) or 1.0
        blocks["credit"] = page.bytes_block(credit_n / meta["largest_credit"])
    empty_n = np.full(len(shown.ids_n), np.nan, dtype=np.float32)
    for name in meta["signals"]:
        blocks[name] = page.fixed_point_block(shown.signals.get(name, empty_n))
    blocks["meta"] = page.json_block(meta)
    blocks["vocabulary"] = page.json_block(
        _vocabulary(dump, by_rank, scored.totals) | {"mark": ended.mark_v[by_rank]}
    )
    # Of a group that is not in the page, the list of groups has the beginning of its prompt.
    prompts = [
        prompt and prompt[: LONGEST_PROMPT if is_shown else 200]
        for prompt, is_shown in zip(frame.of_groups("prompt"), shown_g.tolist(), strict=True)
    ]
    blocks["texts"] = page.json_block({"prompt": prompts, "answer": frame.of_groups("answer")})
    in_page = Shown(int(shown_g.sum()), len(shown_g))
    return Contents(blocks, in_page, believing.in_words(meta["held_out"]))


def _note_of_sample(
    shown_b: np.ndarray, shown_g: np.ndarray, max_tokens: int, max_groups: int | None
) -> Note:
    bound = "" if max_groups is None else f"{max_groups:,} groups and "
    return Note(
        False,
        f"{shown_b.sum():,} of {len(shown_b):,} rollouts are in this page",
        f"They are whole groups, {shown_g.sum():,} of {len(shown_g):,}, up to "
        f"{bound}{max_tokens:,} tokens. {sampling.RULE} Overview, Tokens and Training are "
        "of all rollouts; what is searched and filtered is in the page.",
    )


def _other_notes(
    frame: Frame, dump: Dump, estimator: Estimator, regrade: bool, lacks_policy: bool
) -> Iterator[Note]:
    if dump.trained:
        yield Note(False, "What the run was trained with", dump.trained)
    if lacks_policy:
        yield Note(
            True,
            "Not the credit of training",
            "The estimator weighs by the policy's log-probabilities or entropies, which the dump "
            f"does not hold. The page shows {to_text(estimator)}.",
        )
    elif estimator != in_tables(estimator):
        by = "" if in_tables(estimator) else ", by the paper's statistic"
        yield Note(
            False,
            "Tables are of single tokens",
            f"Shades and the cards of tokens are of {to_text(estimator)}. Tokens, p-values over "
            f"groups and permuted labels are of single tokens{by}.",
        )
    if (scorer := regrading.own_scorer(dump)) == "reasoning-gym":
        yield Note(False, "Not graded again", f"The verdicts are by {scorer}'s own scorer.")
    elif regrade and not regrading.can_grade() and any(regrading.references(frame)):
        yield Note(
            False,
            "Not graded again",
            "The dump holds reference answers, but math-verify is not installed, so its verdicts "
            "are not compared with ours. pip install 'ktae[eval]'",
        )


def _segments(shown: Columns, dump: Dump) -> dict[int, list[tuple[str, int, int]]]:
    """The parts of those rollouts that have several, by their place in the page."""
    segments = {}
    for row in range(len(shown.lengths_b)):
        span = slice(*shown.offsets_b[row : row + 2].tolist())
        masked = shown.counted_b[row] < shown.lengths_b[row]
        mask_t = shown.mask_n[span] if masked else None
        if parts := segments_of(dump.spell(shown.ids_n[span]), mask_t):
            segments[row] = parts
    return segments


def _states(
    shown: Columns, number_g: np.ndarray, ranks_n: np.ndarray
) -> dict[int, list[dict[str, Any]]]:
    """What the rollouts of a group did in the states that they share, where one has several turns.

    Args:
        shown: the groups in the page.
        number_g: their numbers among all groups.
        ranks_n: (N,) the numbers of their tokens in the page.
    """
    states = {}
    for group, begin, end in zip(number_g, shown.starts_g, shown.starts_g[1:], strict=False):
        if (shown.counted_b[begin:end] == shown.lengths_b[begin:end]).all():
            continue
        spans = [slice(*shown.offsets_b[row : row + 2]) for row in range(begin, end)]
        arrays = record.pad([ranks_n[x] for x in spans], [shown.mask_n[x] for x in spans])
        if not find_turns(arrays[1]).number.any():
            continue
        same_group = np.zeros(end - begin, dtype=int)
        states[int(group)] = [
            {
                "seen": state.token_ids[:LONGEST_TURN],
                "rollouts": sorted({begin + row for x in state.choices for row in x.rollouts}),
                "choices": [
                    {"done": x.token_ids[:LONGEST_TURN], "rollouts": np.add(x.rollouts, begin)}
                    for x in state.choices[:MOST_CHOICES]
                ],
                "others": max(0, len(state.choices) - MOST_CHOICES),
            }
            for state in shared_states(*arrays, shown.correct_b[begin:end], same_group)
        ]
    return states


def _groups(columns: Frame, scored: AllScored, shown_g: np.ndarray) -> dict[str, Any]:
    size_g = np.diff(columns.starts_g)
    rewarded_g = columns.sum_rollouts(~np.isnan(columns.reward_b))
    reward_g = columns.sum_rollouts(np.nan_to_num(columns.reward_b))
    return {
        "step": columns.steps,
        "shown": shown_g.astype(int),
        "size": size_g,
        "right": columns.sum_rollouts(columns.correct_b == 1),
        "known": columns.sum_rollouts(~np.isnan(columns.correct_b)),
        "length": columns.sum_rollouts(columns.lengths_b) / size_g,
        "reward": np.where(rewarded_g > 0, reward_g / np.maximum(rewarded_g, 1), np.nan),
        "credit_abs": summary.credit_abs(columns, scored.scored),
        "beyond": scored.discoveries_g,
    }


def _vocabulary(dump: Dump, by_rank: np.ndarray, totals: TokenTotals) -> dict[str, Any]:
    texts: list[str | list[int] | None] = []
    for piece in (dump.texts[i] for i in by_rank.tolist()):
        try:
            texts.append(piece if piece is None else piece.decode())
        except UnicodeDecodeError:
            texts.append(list(piece))  # its bytes: it is part of a character
    of_tokens = {name: values[by_rank] for name, values in totals._asdict().items()}
    return {"id": dump.token_ids[by_rank], "text": texts} | of_tokens


def runs_of(frame: Frame, names: Sequence[str]) -> dict[str, Any]:
    """Labels without their files, the files and runs beside them, and which prompts are the same.

    Returns:
        As in `files_of`, and of each group `run` (the input that it comes from, -1 where there is
        one alone) and `same` (a number that groups of the same prompt share).
    """
    of_files = files_of(frame.labels, names)
    run_g = [-1] * len(frame.labels)
    if len(names) > 1:
        # The longest name that a label begins with: one may begin another.
        longest = sorted(names, key=len, reverse=True)
        of_label = (next((x for x in longest if y.startswith(x)), None) for y in frame.labels)
        run_g = [-1 if name is None else names.index(name) for name in of_label]
    prompts = frame.of_groups("prompt")
    numbers: dict[str, int] = {}
    same_g = [
        numbers.setdefault(prompt or f"\0{label}", len(numbers))
        for prompt, label in zip(prompts, of_files["label"], strict=True)
    ]
    return of_files | {"run": run_g, "same": same_g}


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
