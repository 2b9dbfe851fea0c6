"""The credit of all groups, and what a report says over them: by token and by training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.estimators import Estimator
from ktae.estimators.transforms import ignored_by
from ktae.files.text import visible
from ktae.report.data import Chart, Chip, Line
from ktae.report.frame import Frame
from ktae.report.scoring import credited
from ktae.report.strongest import over_groups
from ktae.report.units import Units, find_units, tokens_beyond_chance
from ktae.rollouts.metrics import common_names
from ktae.tables import ngrams_of
from ktae.validity.permutation import mean_abs_credit

ROUNDING = 1e-9
"""Credit below this is the rounding of a sum that is 0, and gets no colour."""

FOLLOWED = ("entropy", "KL", "clip share", "truncated share", "gradient norm", "loss")
"""What only the trainer knows, of the names of `ktae.rollouts.metrics`."""


class Scored(NamedTuple):
    """The credit of all groups by the page's estimator, and the units of their responses."""

    credit_n: np.ndarray
    """(N,) float32 token credit, 0 where masked."""
    compared_b: np.ndarray
    """(B,) int64: the tokens of each response that a mean of |credit| is over, see
    `ktae.validity.permutation`."""
    units: Units
    credit_r: np.ndarray
    """(R,) for each row of `units`: the mean credit of the token in that group."""


class TokenNumbers(NamedTuple):
    """Columns of the page's list of tokens, all (V,)."""

    a: np.ndarray
    b: np.ndarray
    groups: np.ndarray
    impact: np.ndarray
    credit: np.ndarray
    p: np.ndarray
    beyond: np.ndarray


def credit_of(frame: Frame, estimator: Estimator) -> np.ndarray:
    """(N,) float32: the estimator's credit of every token, some groups at a time."""
    credit_n = np.zeros(len(frame.which_n), dtype=np.float32)
    if np.diff(frame.starts_g).max() < 2:
        return credit_n
    texts = frame.dump.vocabulary if estimator.needs_vocabulary else None
    for _ in credited(frame.rollouts, frame.group_b, estimator, credit_n, texts=texts):
        pass
    credit_n[np.abs(credit_n) < ROUNDING] = 0
    return credit_n


def score(frame: Frame, estimator: Estimator) -> Scored:
    """Score all groups with the estimator, and count the units that it compares."""
    credit_n, ignored = credit_of(frame, estimator), ignored_by(estimator)
    units = find_units(frame, ngrams_of(estimator) or ("token",), ignored)
    counted_n = units.row_n >= 0
    row_n = units.row_n[counted_n]
    n_rows = len(units.group)
    times_r = np.bincount(row_n, minlength=n_rows)
    credit_r = np.bincount(row_n, credit_n[counted_n], n_rows) / np.maximum(times_r, 1)
    compared_b = frame.sum_tokens(counted_n).astype(np.int64)
    return Scored(credit_n, compared_b, units, credit_r)


def token_numbers(frame: Frame, scored: Scored) -> TokenNumbers:
    """Each distinct token over all mixed groups.

    `impact` is the sum over groups of credit * |a - E[a]|; `credit` the mean over `groups`, those
    in which a is not E[a], weighted by that distance.
    """
    units, n = scored.units, len(frame.dump.token_ids)
    sums = over_groups(units.which, units.counts, scored.credit_r, n)
    p_v, beyond_v = tokens_beyond_chance(units, n)
    return TokenNumbers(
        sums.a, sums.b, sums.groups, sums.impact, sums.credit, p=p_v, beyond=beyond_v
    )


def mean_credit_of_groups(frame: Frame, scored: Scored) -> np.ndarray:
    """(G,) the mean |credit| of each group; NaN for one that is not mixed."""
    credit_b = frame.sum_tokens(np.abs(scored.credit_n))
    return mean_abs_credit(frame.sum_rollouts(credit_b), frame.sum_rollouts(scored.compared_b))


def step_of_groups(frame: Frame) -> np.ndarray:
    """(G,) int64; -1 where a group has no step."""
    return np.array([-1 if step is None else step for step in frame.steps], dtype=np.int64)


def charts(frame: Frame, scored: Scored) -> list[Chart]:
    """Numbers over training steps: what the rollouts tell, and what the trainer logged.

    One line, or one for each of several inputs; none where fewer than two steps are known.
    """
    run_g, names = np.array(frame.origins.run), frame.dump.names
    runs = sorted({*run_g.tolist()} - {-1})
    if not runs:
        lines = {"": _lines(frame, scored, np.ones(len(run_g), dtype=bool), frame.dump.metrics)}
    else:
        lines = {names[run]: _lines(frame, scored, run_g == run, {}) for run in runs}
    measures = dict.fromkeys(name for x in lines.values() for name in x)
    return [
        Chart(
            measure,
            [
                Line(run, list(x[measure]), list(x[measure].values()))
                for run, x in lines.items()
                if measure in x
            ],
        )
        for measure in measures
    ]


def _lines(
    frame: Frame, scored: Scored, chosen_g: np.ndarray, logged: dict[int, dict[str, Any]]
) -> dict[str, dict[int, float]]:
    """By measure its value at each step that has one."""
    step_g = np.where(chosen_g, step_of_groups(frame), -1)
    if len({*step_g[step_g >= 0].tolist(), *logged}) < 2:
        return {}
    step_b = step_g[frame.group_b]
    credit_b = frame.sum_tokens(np.abs(scored.credit_n))
    sums = {
        "accuracy": (frame.correct_b, ~np.isnan(frame.correct_b)),
        "response length": (frame.lengths_b, frame.lengths_b >= 0),
        "reward": (frame.reward_b, ~np.isnan(frame.reward_b)),
        "mean |credit|": (credit_b, scored.compared_b),
    }
    lines: dict[str, dict[int, float]] = {name: {} for name in (*sums, *FOLLOWED)}
    for step in np.unique(step_b[step_b >= 0]).tolist():
        here_b = step_b == step
        for name, (values_b, number_b) in sums.items():
            if (n := number_b[here_b].sum()) > 0:
                lines[name][step] = float(np.nansum(values_b[here_b]) / n)
    for step in sorted(logged):
        named = common_names(logged[step])
        for name in FOLLOWED:
            if name in named:
                lines[name][step] = named[name]
    return {name: values for name, values in lines.items() if values}


def chip(frame: Frame, which: int, about: str) -> Chip:
    """A token with what is said of it."""
    text = visible((frame.dump.texts[which] or b"").decode(errors="replace"))
    return Chip(int(frame.dump.token_ids[which]), text, about.replace("-", "−"))
