"""Which estimator to read a dump with, and how far to believe it: held-out pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, preset, to_text
from ktae.files.text import counted
from ktae.report.data import Advice, Row, Table
from ktae.report.frame import Frame
from ktae.rollouts.groups import take_rows
from ktae.tables import table_estimator
from ktae.validity import prefixes
from ktae.validity.advice import RECOMMENDED, advice
from ktae.validity.held_out import PAIRS, group_key, held_out_pairs
from ktae.validity.scores import HeldOut

BESIDE = tuple(dict.fromkeys(("paper", "calibrated", "trigrams", RECOMMENDED)))
"""Presets that are tried on the rollouts at hand."""

MAX_TOKENS = 2_000_000
MAX_HELD_OUT = 200
"""Bounds on what is held out of; groups are drawn at random."""

MAX_COPIES = 4_000_000
"""Each held-out pair is scored in a copy of its group. Of long responses fewer pairs are held out,
at least two a group, so that there are about so many tokens in all copies."""

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


def choose(
    frame: Frame, asked: AnEstimator | None = None, *, permutations: int | None = None
) -> Choice:
    """The estimator to read a dump with, and why; `permutations`: see `held_out_pairs`.

    The one that was asked for; else the one that held-out pairs advise; else
    `ktae.validity.advice.RECOMMENDED`.
    """
    tried = {name: preset(name) for name in BESIDE}
    named = None if asked is None else as_estimator(asked)
    lacks_policy = named is not None and bool(named.needs_policy)
    if named is not None:
        named = table_estimator(named) if lacks_policy else named
        if named not in tried.values():
            tried = {to_text(named): named} | tried
    taken, result = None, _held_out(frame, tried, permutations)
    if isinstance(result, HeldOut):
        advised = advice(result)
        taken = advised.take
        said = Advice(advised.verdict, advised.lines, _table(result, taken))
    else:
        said = Advice("none", [result], None)
    if taken is not None and asked is None:
        named = tried[taken]
    estimator = named or preset(RECOMMENDED)
    name = next((x for x, y in tried.items() if y == estimator), to_text(estimator))
    return Choice(name, estimator, said, lacks_policy)


def _held_out(
    frame: Frame, tried: dict[str, Estimator], permutations: int | None = None
) -> HeldOut | str:
    """Held-out pairs in mixed groups, or why there are none."""
    correct_g, incorrect_g = (
        frame.sum_rollouts((frame.counted_b > 0) & (frame.correct_b == x)) for x in (1, 0)
    )
    mixed_g = (correct_g > 0) & (incorrect_g > 0)
    if not mixed_g.any():
        return "No prompt has both correct and incorrect responses, so there is no credit."
    # The groups that `held_out_pairs` draws first, twice as many as are needed: some are too small.
    keys = {g: group_key(frame.names[g], frame.steps[g]) for g in np.flatnonzero(mixed_g)}
    drawn = sorted(keys, key=keys.__getitem__)[: 2 * MAX_HELD_OUT]
    rollouts = take_rows(frame.rollouts, np.flatnonzero(np.isin(frame.group_b, drawn)))
    tokens = max(1.0, frame.sum_rollouts(frame.lengths_b)[drawn].mean())
    max_groups = int(min(MAX_HELD_OUT, max(1, MAX_TOKENS // tokens)))
    copies = MAX_COPIES // (tokens * min(max_groups, len(keys)))
    needs_texts = any(x.needs_vocabulary for x in tried.values())
    try:
        return held_out_pairs(
            rollouts,
            tried,
            answers=prefixes.AskedAnswers(rollouts),
            vocabulary=frame.dump.vocabulary if needs_texts else None,
            pairs=int(min(PAIRS, max(2, copies))),
            max_groups=max_groups,
            permutations=permutations,
        )
    except InputError:  # no group is large enough
        return (
            "No prompt has two distinct correct and two distinct incorrect responses, so it cannot "
            "be tested how far credit is to be believed here."
        )


def _table(pairs: HeldOut, taken: str | None) -> Table:
    rows = []
    for score in (*pairs.ranked(), *pairs.baselines):
        name = BASELINES.get(score.name, score.name)
        share, low, high, permuted = (
            f"{x:.2f}".removeprefix("0") for x in (*score.auc, score.permuted.value)
        )
        cells = [name, share, f"{low} to {high}", permuted]
        rows.append(Row(cells, strong=score.name == taken))
    return Table(
        "Held-out pairs",
        "How often the correct one of two responses gets more credit, when credit is computed from "
        f"the others of its group. Chance is .50. {counted(pairs.pairs, 'pair')} of "
        f"{counted(pairs.groups, 'group')}.",
        ["", "share", "95 %", "permuted labels"],
        rows,
    )
