"""The permutation test for the page: `ktae.validity.permutation` on some of a dump's groups."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ktae.errors import InputError
from ktae.estimators import Estimator
from ktae.report.columns import Frame
from ktae.validity.permutation import Statistics, permutation_test

PERMUTATIONS = 5
"""Enough for means to two digits, few enough that a report waits for seconds."""
MAX_GROUPS = 250
MAX_TOKENS = 2_000_000
"""Bounds on what is permuted; above, every second, third, ... mixed group is taken."""


def beside_permuted(
    columns: Frame, mixed_g: np.ndarray, presets: list[Estimator]
) -> dict[str, Any] | None:
    """Statistics under the real and under permuted labels, for each preset.

    Args:
        columns: the dump.
        mixed_g: (G,) bool: which groups have both correct and incorrect rollouts.
        presets: the estimators that the page switches between.

    Returns:
        `groups` that were looked at of `mixed` ones, `permutations`, and in `presets` one dict a
        preset (null where it leaves nothing to compare): `pairs`, `testable` (the share of them
        that could be significant), and by statistic `real`, and under permuted labels `mean`,
        `low` and `high`.
        None where no group is mixed.
    """
    groups = np.flatnonzero(mixed_g)
    if not len(groups):
        return None
    tokens = int(columns.sum_rollouts(columns.lengths_b)[groups].sum())
    stride = max(math.ceil(len(groups) / MAX_GROUPS), math.ceil(tokens / MAX_TOKENS))
    chosen_g = np.zeros(len(mixed_g), dtype=bool)
    chosen_g[groups[::stride]] = True
    rollouts = columns.record_of(np.flatnonzero(chosen_g[columns.group_b]))
    found = [_of_preset(rollouts, estimator) for estimator in presets]
    return {
        "groups": int(chosen_g.sum()),
        "mixed": len(groups),
        "permutations": PERMUTATIONS,
        "presets": found,
    }


def _of_preset(rollouts: Any, estimator: Estimator) -> dict[str, Any] | None:
    try:
        found = permutation_test(rollouts, estimator, permutations=PERMUTATIONS)
    except InputError:  # the preset ignores all tokens of all rollouts of one kind
        return None
    numbers: dict[str, Any] = {"pairs": found.pairs, "testable": found.testable}
    for field in dataclasses.fields(Statistics):
        values = [getattr(one, field.name) for one in found.permuted]
        numbers[field.name] = {
            "real": getattr(found.real, field.name),
            "mean": float(np.mean(values)),
            "low": float(np.min(values)),
            "high": float(np.max(values)),
        }
    return numbers
