"""How far to believe credit on this dump: held-out pairs and permuted labels, on some groups."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ktae.batch import Vocabulary
from ktae.errors import InputError
from ktae.estimators import Estimator, preset, to_text
from ktae.report.frame import Frame, frame_of
from ktae.report.inputs import Dump
from ktae.rollouts.groups import take_rows
from ktae.validity import prefixes
from ktae.validity.advice import advice
from ktae.validity.held_out import group_key, held_out_pairs
from ktae.validity.permutation import Statistics, permutation_test

BESIDE = ("paper", "calibrated", "trigrams", "sharp-trigrams")
"""Presets that stand beside the report's own estimator."""

MAX_TOKENS = 2_000_000
MAX_HELD_OUT = 200
"""Bounds on what is held out of; groups are drawn at random."""

MAX_PERMUTED = 250
"""Groups that are permuted; above, every second, third, ... mixed group is taken."""
PERMUTATIONS = 5
"""Enough for means to two digits, few enough that a report waits for seconds."""


def verdict_of(dump: Dump, estimator: Estimator) -> str:
    """The sentence that says how far to believe the estimator's credit on a dump."""
    frame = frame_of(dump)
    counted_b = frame.counted_b > 0
    right_g, wrong_g = (frame.sum_rollouts(counted_b & (frame.correct_b == x)) for x in (1, 0))
    texts = dump.vocabulary if estimator.needs_vocabulary else None
    return in_words(held_out(frame, (right_g > 0) & (wrong_g > 0), estimator, texts))


def in_words(pairs: dict[str, Any]) -> str:
    """The first line of what `held_out` gives."""
    none = str(pairs.get("none", ""))
    return f"VERDICT: nothing can be said. {none}" if none else str(pairs["lines"][0])


def held_out(
    frame: Frame, mixed_g: np.ndarray, estimator: Estimator, vocabulary: Vocabulary | None = None
) -> dict[str, Any]:
    """Held-out pairs in mixed groups, of the estimator and of `BESIDE`, and what they advise.

    Returns:
        `ktae.validity.held_out.HeldOut.as_dict`, with `take` (None: no estimator is shown to be
        better than chance), `verdict` and `lines` of the advice; or only `none`, why there is
        nothing.
    """
    if not mixed_g.any():
        return {"none": "No group has both right and wrong rollouts."}
    # The report's own estimator stands first, unless it is one of those beside it.
    estimators = {name: preset(name) for name in BESIDE}
    if estimator not in estimators.values():
        estimators = {to_text(estimator): estimator} | estimators
    # The groups that `held_out_pairs` draws first, twice as many as are needed: some are too small.
    keys = {g: group_key(frame.labels[g], frame.steps[g]) for g in np.flatnonzero(mixed_g)}
    some = sorted(keys, key=keys.__getitem__)[: 2 * MAX_HELD_OUT]
    rollouts = take_rows(frame.rollouts, np.flatnonzero(np.isin(frame.group_b, some)))
    tokens = frame.sum_rollouts(frame.lengths_b)[some].mean()
    most = int(min(MAX_HELD_OUT, max(1, MAX_TOKENS // max(1.0, tokens))))
    answers = prefixes.AskedAnswers(rollouts)
    try:
        pairs = held_out_pairs(
            rollouts, estimators, answers=answers, max_groups=most, vocabulary=vocabulary
        )
    except InputError as error:
        return {"none": f"{error}."[0].upper() + f"{error}."[1:]}
    # What is advised has to beat chance on these very pairs.
    advised = advice(pairs)
    of_advice = {"take": advised.take, "verdict": advised.verdict, "lines": advised.lines}
    return pairs.as_dict() | of_advice


def beside_permuted(
    frame: Frame, mixed_g: np.ndarray, estimator: Estimator
) -> dict[str, Any] | None:
    """Statistics of single tokens in mixed groups under the real and under permuted labels.

    Returns:
        `groups` that were looked at of `mixed` ones, `permutations`, `pairs`, `testable` (the share
        of them that could be significant), and by statistic `real`, and under permuted labels
        `mean`, `low` and `high`. None where nothing can be compared.
    """
    groups = np.flatnonzero(mixed_g)
    if not len(groups):
        return None
    tokens = int(frame.sum_rollouts(frame.lengths_b)[groups].sum())
    # Every k-th mixed group, for the smallest k that keeps within both bounds.
    stride = max(math.ceil(len(groups) / MAX_PERMUTED), math.ceil(tokens / MAX_TOKENS))
    some = groups[::stride]
    rollouts = take_rows(frame.rollouts, np.flatnonzero(np.isin(frame.group_b, some)))
    try:
        test = permutation_test(rollouts, estimator, permutations=PERMUTATIONS)
    except InputError:  # the estimator ignores all tokens of all rollouts of one kind
        return None
    numbers: dict[str, Any] = {
        "pairs": test.pairs,
        "testable": test.testable,
        "groups": len(some),
        "mixed": len(groups),
        "permutations": PERMUTATIONS,
    }
    for field in dataclasses.fields(Statistics):
        values = [getattr(x, field.name) for x in test.permuted]
        numbers[field.name] = {
            "real": getattr(test.real, field.name),
            "mean": float(np.mean(values)),
            "low": float(np.min(values)),
            "high": float(np.max(values)),
        }
    return numbers
