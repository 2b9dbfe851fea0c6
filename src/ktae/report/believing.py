"""Which estimator to read with, and how far to believe it: held-out pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.estimators import Estimator, preset, to_text
from ktae.files.text import counted
from ktae.report.data import Advice, Row, Table
from ktae.report.frame import Frame
from ktae.rollouts.groups import take_rows
from ktae.tables import table_estimator
from ktae.validity import prefixes
from ktae.validity.advice import RECOMMENDED, advice
from ktae.validity.held_out import group_key, held_out_pairs
from ktae.validity.scores import HeldOut

BESIDE = tuple(dict.fromkeys(("paper", "calibrated", "trigrams", RECOMMENDED)))
"""Presets that are tried on the rollouts at hand."""

MAX_TOKENS = 2_000_000
MAX_HELD_OUT = 200
"""Bounds on what is held out of; groups are drawn at random."""

BASELINES = {
    "shorter": "the shorter one is correct",
    "majority": "the more frequent answer is correct",
}


class Choice(NamedTuple):
    """The estimator that rollouts are read with."""

    name: str
    """What stands beside the estimator's numbers."""
    estimator: Estimator
    advice: Advice
    lacks_policy: bool
    """Whether it stands for one that weighs by what a dump does not hold."""


def choose(frame: Frame, asked: Estimator | None = None) -> Choice:
    """The estimator to read a dump with, and why.

    The one that was asked for; else the one that held-out pairs advise; else the one that the run
    was trained with; else `ktae.validity.advice.RECOMMENDED`.
    """
    tried = {name: preset(name) for name in BESIDE}
    lacks_policy, named = False, asked or frame.dump.estimator
    if named is not None:
        lacks_policy = bool(named.needs_policy)
        named = table_estimator(named) if lacks_policy else named
        if named not in tried.values():
            tried = {to_text(named): named} | tried
    pairs, none = _held_out(frame, tried)
    sentences, verdict, tests = [none], "none", None
    taken = None
    if pairs is not None:
        advised = advice(pairs)
        verdict, taken = advised.verdict, advised.take
        first = advised.lines[0].removeprefix("VERDICT: ")
        sentences = [f"{first[0].upper()}{first[1:]}", *advised.lines[1:]]
        tests = _held_out_table(pairs, taken)
    estimator = (asked and named) or (tried[taken] if taken else named or preset(RECOMMENDED))
    name = next((x for x, y in tried.items() if y == estimator), to_text(estimator))
    return Choice(name, estimator, Advice(verdict, sentences, tests), lacks_policy)


def _mixed(frame: Frame) -> np.ndarray:
    counted_b = frame.counted_b > 0
    correct_g, incorrect_g = (
        frame.sum_rollouts(counted_b & (frame.correct_b == x)) for x in (1, 0)
    )
    return (correct_g > 0) & (incorrect_g > 0)


def _held_out(frame: Frame, tried: dict[str, Estimator]) -> tuple[HeldOut | None, str]:
    """Held-out pairs in mixed groups, or None and why there are none."""
    mixed_g = _mixed(frame)
    if not mixed_g.any():
        return None, "No prompt has both correct and incorrect responses, so there is no credit."
    # The groups that `held_out_pairs` draws first, twice as many as are needed: some are too small.
    keys = {g: group_key(frame.labels[g], frame.steps[g]) for g in np.flatnonzero(mixed_g)}
    drawn = sorted(keys, key=keys.__getitem__)[: 2 * MAX_HELD_OUT]
    rollouts = take_rows(frame.rollouts, np.flatnonzero(np.isin(frame.group_b, drawn)))
    tokens = frame.sum_rollouts(frame.lengths_b)[drawn].mean()
    most = int(min(MAX_HELD_OUT, max(1, MAX_TOKENS // max(1.0, tokens))))
    vocabulary = frame.dump.vocabulary if any(x.needs_vocabulary for x in tried.values()) else None
    try:
        pairs = held_out_pairs(
            rollouts,
            tried,
            answers=prefixes.AskedAnswers(rollouts),
            max_groups=most,
            vocabulary=vocabulary,
        )
    except InputError:  # no group is large enough
        return None, (
            "No prompt has two distinct correct and two distinct incorrect responses, so it cannot "
            "be tested how far credit is to be believed here."
        )
    return pairs, ""


def _held_out_table(pairs: HeldOut, taken: str | None) -> Table:
    def share(x: float) -> str:
        return f"{x:.2f}".removeprefix("0")

    rows = []
    for score in (*pairs.ranked(), *pairs.baselines):
        name = BASELINES.get(score.name, score.name)
        interval = f"{share(score.auc.low)} to {share(score.auc.high)}"
        cells = [name, share(score.auc.value), interval, share(score.permuted.value)]
        rows.append(Row(cells, strong=score.name == taken))
    return Table(
        "Held-out pairs",
        "How often the correct one of two responses gets more credit, when credit is computed from "
        f"the others of its group. Chance is .50. {counted(pairs.pairs, 'pair')} of "
        f"{counted(pairs.groups, 'group')}.",
        ["", "share", "95 %", "permuted labels"],
        rows,
    )
