"""Which estimator to read with, and how far to believe it: held-out pairs and permuted labels."""

from __future__ import annotations

import dataclasses
import math
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
from ktae.validity.permutation import Statistics, permutation_test
from ktae.validity.scores import HeldOut

BESIDE = tuple(dict.fromkeys(("paper", "calibrated", "trigrams", RECOMMENDED)))
"""Presets that are tried on the rollouts at hand."""

MAX_TOKENS = 2_000_000
MAX_HELD_OUT = 200
"""Bounds on what is held out of; groups are drawn at random."""

MAX_PERMUTED = 250
"""Groups that are permuted; above, every second, third, ... mixed group is taken."""
PERMUTATIONS = 5
"""Enough for means to two digits, few enough that a report waits for seconds."""

BASELINES = {
    "shorter": "the shorter one is correct",
    "majority": "the more frequent answer is correct",
}


class Choice(NamedTuple):
    """The estimator that rollouts are read with."""

    estimator: Estimator
    advice: Advice
    lacks_policy: bool
    """Whether it stands for one that weighs by what a dump does not hold."""

    @property
    def name(self) -> str:
        """What stands beside its numbers."""
        return self.advice.estimator


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
    sentences, verdict, tables = [none], "none", list[Table]()
    taken = None
    if pairs is not None:
        advised = advice(pairs)
        verdict, taken = advised.verdict, advised.take
        first = advised.lines[0].removeprefix("VERDICT: ")
        sentences = [f"{first[0].upper()}{first[1:]}", *advised.lines[1:]]
        tables = [_held_out_table(pairs, taken)]
    estimator = (asked and named) or (tried[taken] if taken else named or preset(RECOMMENDED))
    name = next((x for x, y in tried.items() if y == estimator), to_text(estimator))
    if (permuted := _permuted_table(frame, table_estimator(estimator))) is not None:
        tables.append(permuted)
    return Choice(estimator, Advice(name, verdict, sentences, tables), lacks_policy)


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


STATISTICS = {
    "credit_abs": ("mean |credit|", "{:.3f}"),
    "saturated": ("saturated tokens (|credit| above 90 % of the largest)", "{:.1%}"),
    "no_evidence": ("pairs of group and token with p = 1", "{:.1%}"),
    "significant": ("pairs with p below .05", "{:.2%}"),
    "discoveries": ("pairs at a false discovery rate of 5 %", "{:,.0f}"),
}
"""Name and format of the fields of `Statistics`."""


def _permuted_table(frame: Frame, estimator: Estimator) -> Table | None:
    """Statistics of single tokens under the real and under permuted labels; None: nothing to
    compare."""
    groups = np.flatnonzero(_mixed(frame))
    if not len(groups):
        return None
    tokens = int(frame.sum_rollouts(frame.lengths_b)[groups].sum())
    # Every k-th mixed group, for the smallest k that keeps within both bounds.
    stride = max(math.ceil(len(groups) / MAX_PERMUTED), math.ceil(tokens / MAX_TOKENS))
    rollouts = take_rows(frame.rollouts, np.flatnonzero(np.isin(frame.group_b, groups[::stride])))
    try:
        test = permutation_test(rollouts, estimator, permutations=PERMUTATIONS)
    except InputError:  # the estimator ignores all tokens of all rollouts of one kind
        return None
    rows = []
    for field in dataclasses.fields(Statistics):
        name, form = STATISTICS[field.name]
        permuted = [getattr(x, field.name) for x in test.permuted]
        real, mean, low, high = (
            form.format(x).replace("%", " %")
            for x in (
                getattr(test.real, field.name),
                float(np.mean(permuted)),
                min(permuted),
                max(permuted),
            )
        )
        rows.append(Row([name, real, mean, f"{low} to {high}"]))
    which = "all" if stride == 1 else f"{test.groups:,} of {len(groups):,}"
    return Table(
        "Beside permuted labels",
        f"Single tokens by {to_text(estimator)}, and the same with labels permuted within each "
        f"group, {PERMUTATIONS} times, over {which} mixed groups. What permuted labels give as "
        f"well says nothing about correctness. Of {test.pairs:,} pairs of group and token "
        f"{test.testable:.1%} could have p below .05 at all.".replace("%", " %"),
        ["", "real", "permuted", "from to"],
        rows,
    )
