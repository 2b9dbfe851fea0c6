"""The credit of all groups, and what a report says over them: by model, step and token."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.batch import Vocabulary
from ktae.estimators import Estimator
from ktae.estimators.transforms import ignored_by
from ktae.report import scoring, strongest
from ktae.report.frame import Frame
from ktae.validity.permutation import mean_abs_credit

BINS = 20
"""Of a histogram."""

TOKENS_OVER_STEPS = 300
"""Tokens whose value is followed over training: those of greatest |impact| in the whole run."""

LOGGED = {
    "entropy": ("entropy", "actor/entropy"),
    "KL": ("kl", "actor/kl_loss", "actor/ppo_kl"),
    "clip share": ("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac"),
    "truncated share": ("completions/clipped_ratio", "response_length/clip_ratio"),
    "gradient norm": ("grad_norm", "actor/grad_norm"),
    "loss": ("loss", "actor/pg_loss"),
}
"""What only the trainer knows, under the names that TRL and verl log it by."""


class Scored(NamedTuple):
    """The credit of all groups, and the rows of their credit tables in mixed groups."""

    credit_n: np.ndarray
    """(N,) float32 token credit, 0 where masked."""
    compared_b: np.ndarray
    """(B,) int64: the tokens of each rollout that a mean of |credit| is over, see
    `ktae.validity.permutation`."""
    mixed_g: np.ndarray
    """(G,) bool: which groups have both correct and incorrect rollouts with a counted token."""
    which: np.ndarray
    """The token of each of the rows: its place in `Dump.token_ids`."""
    group: np.ndarray
    """Its group, ascending."""
    distinct: np.ndarray
    """(4, n) int32, and beside it `impact` and `weight`: see `strongest.MixedRows`."""
    impact: np.ndarray
    weight: np.ndarray
    totals: strongest.TokenTotals
    """Of the V tokens of the dump."""
    beyond_g: np.ndarray
    """(G,) int64: distinct tokens that are significant at a false discovery rate of 5 % in their
    group (Fisher's exact test, identical rollouts counted once)."""


def score(frame: Frame, estimator: Estimator, texts: Vocabulary | None = None) -> Scored:
    """Score all groups; the tables are of single tokens. Groups of one have no credit and no table.

    `texts` is the vocabulary, for units that are made of text.
    """
    dump, credit_n = frame.dump, np.zeros(len(frame.which_n), dtype=np.float32)
    mixed_g = np.zeros(len(frame.labels), dtype=bool)
    totals = strongest.TokenTotals.of(len(dump.token_ids))
    none = (*np.zeros((2, 0), np.int32), np.zeros((4, 0), np.int32), *np.zeros((2, 0)))
    parts = [[empty] for empty in none]
    if np.diff(frame.starts_g).max() > 1:
        for columns in scoring.chunks(
            frame.rollouts, frame.group_b, estimator, credit_n, texts=texts
        ):
            rows, mixed = strongest.mixed_rows(columns)
            which = dump.which(columns["token_id"][rows])
            group = columns["group"][rows].astype(np.int32)
            totals.add(which, mixed)
            mixed_g[group] = True
            part = (which, group, mixed.distinct, mixed.impact, mixed.weight)
            for column, values in zip(parts, part, strict=True):
                column.append(values)
    # Most of the memory, so the parts of each column go when it is whole.
    which, group, distinct, impact, weight = (np.concatenate(parts.pop(0), axis=-1) for _ in none)
    # The tokens that a mean of |credit| is over: those that count, in mixed groups.
    counted_n = frame.mask_n & ~np.isin(dump.token_ids, ignored_by(estimator))[frame.which_n]
    compared_b = mixed_g[frame.group_b] & ~np.isnan(frame.correct_b)
    compared_b = np.where(compared_b, frame.sum_tokens(counted_n), 0).astype(np.int64)
    of_groups = np.split(distinct, np.searchsorted(group, np.arange(1, len(mixed_g))), axis=1)
    beyond_g = np.array([strongest.n_beyond_chance(x) for x in of_groups])
    return Scored(
        credit_n, compared_b, mixed_g, which, group, distinct, impact, weight, totals, beyond_g
    )


def mean_credit_of_groups(frame: Frame, scored: Scored) -> np.ndarray:
    """(G,) the mean |credit| of each group; NaN for one that is not mixed."""
    credit_b = frame.sum_tokens(np.abs(scored.credit_n))
    return mean_abs_credit(frame.sum_rollouts(credit_b), frame.sum_rollouts(scored.compared_b))


def by_model(frame: Frame) -> list[dict[str, Any]]:
    """Each model's `name`, `rollouts`, `known` verdicts, `right` ones and mean `length`."""
    names = np.array([name or "" for name in frame.rollouts["model"].to_pylist()])
    rows = {name: names == name for name in np.unique(names).tolist() if name}
    return [
        {
            "name": name,
            "rollouts": is_its.sum(),
            "known": (is_its & ~np.isnan(frame.correct_b)).sum(),
            "right": (is_its & (frame.correct_b == 1)).sum(),
            "length": frame.lengths_b[is_its].mean(),
        }
        for name, is_its in rows.items()
    ]


def histograms(frame: Frame) -> dict[str, Any]:
    """What the overview draws: `reward` and, of right and wrong rollouts, `length`; of groups
    `accuracy` (as many bins as a group has rollouts and one more, at most `BINS`).

    Each with the `edges` of its bins and the counts; `length` is cut at its 99 % quantile, above
    which everything is in the last bin.
    """
    reward_b = frame.reward_b[~np.isnan(frame.reward_b)]
    values, times = np.unique(reward_b, return_counts=True)
    # A bin for each value where there are few.
    is_few = len(values) <= BINS
    counts, edges = (times, values) if is_few else np.histogram(reward_b, BINS)
    longest = max(1.0, float(np.quantile(frame.lengths_b, 0.99)))
    of_length = np.minimum(frame.lengths_b, longest)
    length_edges = np.linspace(0, longest, BINS + 1)
    right, wrong = (np.histogram(of_length[frame.correct_b == x], length_edges)[0] for x in (1, 0))
    known_g = frame.sum_rollouts(~np.isnan(frame.correct_b))
    right_g = frame.sum_rollouts(frame.correct_b == 1)[known_g > 0]
    n_bins = int(min(BINS, known_g.max() + 1))
    place_g = np.round(right_g / known_g[known_g > 0] * (n_bins - 1)).astype(np.int64)
    return {
        "reward": {"edges": edges, "counts": counts, "values": is_few},
        "length": {"edges": length_edges, "right": right, "wrong": wrong},
        "accuracy": {"counts": np.bincount(place_g, minlength=n_bins)},
    }


def curves(
    frame: Frame,
    scored: Scored,
    logged: dict[int, dict[str, Any]],
    chosen_g: np.ndarray | bool = True,
) -> dict[str, Any]:
    """Curves over training steps: what the rollouts of some groups tell, and what was logged.

    Returns:
        `steps` and `series`, a list of {name, values} with NaN where a step has no value; none
        without a single value, and no steps at all where fewer than two are known.
    """
    # Steps of which there are rollouts, or only what the trainer has logged.
    step_g = np.where(chosen_g, _steps(frame), -1)
    steps = sorted({*step_g[step_g >= 0].tolist(), *logged})
    if len(steps) < 2:
        return {"steps": [], "series": []}
    # Groups without a step come after the last one.
    step_b = np.where(step_g >= 0, np.searchsorted(steps, step_g), len(steps))[frame.group_b]

    def mean(values_b: np.ndarray, tokens_b: np.ndarray | None = None) -> np.ndarray:
        numbers_b = ~np.isnan(values_b) if tokens_b is None else tokens_b
        sums = (
            np.bincount(step_b, x, len(steps) + 1) for x in (np.nan_to_num(values_b), numbers_b)
        )
        total, number = (x[: len(steps)] for x in sums)
        values: np.ndarray = np.divide(
            total, number, out=np.full(len(steps), np.nan), where=number > 0
        )
        return values

    series = {
        "accuracy": mean(frame.correct_b),
        "response length": mean(frame.lengths_b),
        "reward": mean(frame.reward_b),
        "mean |credit|": mean(frame.sum_tokens(np.abs(scored.credit_n)), scored.compared_b),
    }
    # Of the names that TRL and verl log a number by, the first that a line has.
    for name, keys in LOGGED.items():
        values = series[name] = np.full(len(steps), np.nan)
        for i, step in enumerate(steps):
            line = logged.get(step, {})
            numbers = (line[key] for key in keys if isinstance(line.get(key), int | float))
            values[i] = next(numbers, np.nan)
    shown = [{"name": n, "values": v} for n, v in series.items() if not np.isnan(v).all()]
    return {"steps": steps, "series": shown}


def tokens_over_steps(frame: Frame, scored: Scored, steps: list[int]) -> dict[str, Any]:
    """How tokens' values changed: for the strongest tokens, one row a token, one column a step.

    Returns:
        `tokens`, places in `Dump.token_ids`; `credit` and `impact`, lists of rows with NaN where
        the step has no group that `KeyToken.credit` is a mean over.
    """
    # The strongest tokens of the whole run, each with a row of its own.
    impact_v = scored.totals.impact
    greatest = np.argsort(-np.abs(impact_v), kind="stable")[:TOKENS_OVER_STEPS]
    greatest = greatest[impact_v[greatest] != 0]
    if not steps or not len(greatest):
        return {"tokens": [], "credit": [], "impact": []}
    place_v = np.full(len(impact_v), -1)
    place_v[greatest] = np.arange(len(greatest))
    place, step = place_v[scored.which], _steps(frame)[scored.group]
    here = (place >= 0) & (step >= 0)
    # Sums of impact and weight by token and step. Their ratio is the mean credit there.
    at = place[here] * len(steps) + np.searchsorted(steps, step[here])
    impact, weight = (
        np.bincount(at, x[here], len(greatest) * len(steps)).reshape(len(greatest), -1)
        for x in (scored.impact, scored.weight)
    )
    credit = np.divide(impact, weight, out=np.full(impact.shape, np.nan), where=weight > 0)
    return {
        "tokens": greatest,
        "credit": credit,
        "impact": np.where(weight > 0, impact, np.nan),
    }


def _steps(frame: Frame) -> np.ndarray:
    return np.array([-1 if step is None else step for step in frame.steps], dtype=np.int64)
