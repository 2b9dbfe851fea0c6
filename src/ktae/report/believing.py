"""Which estimator to read a dump with, and how far to believe it: held-out pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, preset, to_text
from ktae.files.text import counted
from ktae.report.data import Advice
from ktae.report.frame import Frame
from ktae.rollouts.groups import take_rows
from ktae.validity import prefixes
from ktae.validity.advice import RECOMMENDED, advice
from ktae.validity.held_out import PAIRS, group_key, held_out_pairs
from ktae.validity.scores import HeldOut

BESIDE = tuple(dict.fromkeys(("paper", "calibrated", "trigrams", RECOMMENDED)))
MAX_TOKENS, MAX_HELD_OUT = 2_000_000, 200  # what is held out of; groups are drawn at random
MAX_COPIES = 4_000_000  # tokens in all copies of groups that pairs are scored in, about
BASELINES = {
    "shorter": "the shorter one is correct",
    "majority": "the more frequent answer is correct",
}


class Choice(NamedTuple):
    """The estimator that rollouts are read with."""

    name: str  # what stands beside its numbers
    estimator: Estimator
    advice: Advice


def choose(
    frame: Frame, asked: AnEstimator | None = None, *, permutations: int | None = None
) -> Choice:
    """The estimator to read a dump with, and why; `permutations`: see `held_out_pairs`.

    The one that was asked for; else the one that held-out pairs advise; else
    `ktae.validity.advice.RECOMMENDED`.
    """
    tried = {name: preset(name) for name in BESIDE}
    estimator = preset(RECOMMENDED)
    if asked is not None:
        estimator = as_estimator(asked)
        if estimator not in tried.values():
            tried = {to_text(estimator): estimator} | tried
    result = _held_out(frame, tried, permutations)
    if isinstance(result, str):
        shown = Advice("none", [result])
    else:
        advised = advice(result)
        if advised.take is not None and asked is None:
            estimator = tried[advised.take]
        tested = (
            "How often the correct one of two responses gets more credit, when credit is computed "
            f"from the others of its group. Chance is .500. {counted(result.pairs, 'pair')} of "
            f"{counted(result.groups, 'group')}."
        )
        rows = [
            [BASELINES.get(x.name, x.name), *x.cells()[:3]]
            for x in (*result.ranked(), *result.baselines)
        ]
        shown = Advice(advised.verdict, advised.lines, tested, rows)
    return Choice(next(x for x, y in tried.items() if y == estimator), estimator, shown)


def _held_out(frame: Frame, tried: dict[str, Estimator], permutations: int | None) -> HeldOut | str:
    """Held-out pairs in mixed groups, or why there are none."""
    mixed_g = frame.have(1) & frame.have(0)
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
