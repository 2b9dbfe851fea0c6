"""How far credit can be believed on this dump: held-out pairs, on some of its groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktae.errors import InputError
from ktae.estimators import Estimator, preset
from ktae.report import sampling
from ktae.report.columns import Frame
from ktae.validity import prefixes
from ktae.validity.advice import advice
from ktae.validity.held_out import held_out_pairs

BESIDE = ("paper", "calibrated", "trigrams", "sharp-trigrams")
"""Presets that stand beside the report's own estimator."""

MAX_GROUPS = 200
MAX_TOKENS = 2_000_000
"""Bounds on what is held out of; groups are drawn at random."""


def held_out(
    columns: Frame,
    mixed_g: np.ndarray,
    own: tuple[str, Estimator] | None,
) -> dict[str, Any]:
    """Held-out pairs of the report's estimator and of `BESIDE`, and what they advise.

    Args:
        columns: the rollouts.
        mixed_g: (G,) bool: which groups have both correct and incorrect rollouts.
        own: the name and the whole of the estimator that the report is about; None: no special one.
            One of words, lines or steps is left out, and one that needs the policy.

    Returns:
        `ktae.validity.held_out.HeldOut.as_dict`, with `take` (None: no estimator is shown to be
        better than chance) and `lines` of the advice; or only `none`, why there is nothing.
    """
    if not mixed_g.any():
        return {"none": "No group has both correct and incorrect rollouts."}
    estimators = {name: preset(name) for name in BESIDE}
    if own is not None and not (own[1].needs_vocabulary or own[1].needs_policy):
        known = own[1] in estimators.values()
        estimators = estimators if known else {own[0]: own[1]} | estimators
    some = sampling.evenly(np.flatnonzero(mixed_g))[: 2 * MAX_GROUPS]
    rollouts = columns.record_of(np.flatnonzero(np.isin(columns.group_b, some)))
    tokens = columns.sum_rollouts(columns.lengths_b)[some].mean()
    most = int(min(MAX_GROUPS, max(1, MAX_TOKENS // max(1.0, tokens))))
    try:
        found = held_out_pairs(
            rollouts,
            estimators,
            answers=prefixes.AskedAnswers(rollouts),
            max_groups=most,
        )
    except InputError as error:
        return {"none": f"{error}."[0].upper() + f"{error}."[1:]}
    advised = advice(found)
    return found.as_dict() | {"take": advised.take, "lines": advised.lines}
