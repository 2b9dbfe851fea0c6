"""What a report says over many rollouts: by group and by training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.estimators import Estimator, preset
from ktae.estimators.transforms import ignored_by
from ktae.report import scoring
from ktae.report.columns import Columns, Frame
from ktae.rollouts.groups import Lists
from ktae.tables import formula_of, table_estimator
from ktae.validity.mean_credit import mean_abs_credit


class Scored(NamedTuple):
    """The credit of one preset and what follows from them."""

    credit_n: np.ndarray
    """(N,) float32 token credit, 0 where masked."""
    tables: list[dict[str, np.ndarray]]
    """The columns of the credit table, in parts, see `ktae.report.scoring.mixed_rows`; its groups
    are numbers. None at all where there is nothing to compare."""
    credit_b: np.ndarray
    """(B,) Σ credit of each rollout."""
    credit_abs_b: np.ndarray
    """(B,) Σ|credit| of each rollout."""
    compared_b: np.ndarray
    """(B,) int64: the tokens of each rollout that a mean of |credit| is over, see
    `ktae.validity.mean_credit`."""
    n_true_g: np.ndarray
    """(G,) int64: correct rollouts with a counted token; 0 where nothing was compared."""
    n_false_g: np.ndarray
    """(G,) int64: incorrect ones."""


def score(columns: Columns, estimator: Estimator) -> Scored:
    """Score all groups; a dump of groups of one has credit 0 and no table."""
    n_groups = len(columns.labels)
    # Groups of one: nothing to compare.
    if np.diff(columns.starts_g).max(initial=0) < 2:
        zeros_g = np.zeros(n_groups, dtype=np.int64)
        credit_n = np.zeros(len(columns.ids_n), dtype=np.float32)
        zeros_b = np.zeros(len(columns.group_b), dtype=np.int64)
        none_b = zeros_b.astype(float)
        return Scored(credit_n, [], none_b, none_b, zeros_b, zeros_g, zeros_g)
    ids = list(Lists(columns.rollouts["token_ids"]))
    credit_n = np.zeros(len(columns.ids_n), dtype=np.float32)
    n_true_g, n_false_g = np.zeros((2, n_groups), dtype=np.int64)
    tables = []
    for chunk in scoring.chunks(columns.rollouts, ids, columns.group_b, estimator):
        distinct = dict(zip(scoring.DISTINCT, chunk.distinct, strict=True))
        tables.append(chunk.table._asdict() | distinct)
        codes = np.unique(columns.group_b[chunk.rows])
        n_true_g[codes], n_false_g[codes] = scoring.classes(chunk.table, codes)
        for row, credit_t in zip(chunk.rows.tolist(), chunk.credit_bt, strict=True):
            begin, end = columns.offsets_b[row : row + 2].tolist()
            credit_n[begin:end] = credit_t[: end - begin]
    # The tokens that a mean of |credit| is over: those that count, in mixed groups.
    counted_n = columns.mask_n & ~np.isin(columns.ids_n, ignored_by(estimator))
    mixed_g = (n_true_g > 0) & (n_false_g > 0)
    compared_b = mixed_g[columns.group_b] & ~np.isnan(columns.correct_b)
    return Scored(
        credit_n,
        tables,
        columns.sum_tokens(credit_n),
        columns.sum_tokens(np.abs(credit_n)),
        np.where(compared_b, columns.sum_tokens(counted_n), 0).astype(np.int64),
        n_true_g,
        n_false_g,
    )


def credit_abs(columns: Frame, scored: Scored) -> np.ndarray:
    """(G,) the mean |credit| of each group; NaN for one that is not mixed."""
    return mean_abs_credit(
        columns.sum_rollouts(scored.credit_abs_b), columns.sum_rollouts(scored.compared_b)
    )


def steps_of(columns: Frame, scored: Scored, logged: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Curves over training steps: what the rollouts tell, and what the trainer logged beside.

    Returns:
        `steps` and `series`, a list of {name, values} with null where a step has no value; none
        without a single value, and no steps at all where fewer than two are known.
    """
    # Steps of which there are rollouts, or only what the trainer has logged.
    step_g = np.array([-1 if step is None else step for step in columns.steps], dtype=np.int64)
    steps = sorted({*step_g[step_g >= 0].tolist(), *logged})
    if len(steps) < 2:
        return {"steps": [], "series": []}
    place_g = np.where(step_g >= 0, np.searchsorted(steps, step_g), len(steps))
    step_b = place_g[columns.group_b]  # groups without a step come after the last one

    def sums(values_b: np.ndarray) -> np.ndarray:
        return np.bincount(step_b, values_b, len(steps) + 1)[: len(steps)]

    def means(values_b: np.ndarray) -> list[float | None]:
        known_b = ~np.isnan(values_b)
        totals, numbers = sums(np.nan_to_num(values_b)), sums(known_b)
        return [t / n if n else None for t, n in zip(totals, numbers, strict=True)]

    credit = mean_abs_credit(sums(scored.credit_abs_b), sums(scored.compared_b))
    series = {
        "accuracy": means(columns.correct_b),
        "response length": means(columns.lengths_b.astype(float)),
        "reward": means(columns.reward_b),
        "mean |credit|": [None if np.isnan(x) else float(x) for x in credit],
    }
    # Of the names that TRL and verl log a number by, the first that a line has.
    for name, keys in LOGGED.items():
        values = series[name] = [None] * len(steps)
        for i, step in enumerate(steps):
            line = logged.get(step, {})
            numbers = [line[key] for key in keys if isinstance(line.get(key), int | float)]
            values[i] = float(numbers[0]) if numbers else None
    shown = [{"name": n, "values": v} for n, v in series.items() if any(x is not None for x in v)]
    return {"steps": steps, "series": shown}


LOGGED = {
    "entropy": ("entropy", "actor/entropy"),
    "KL": ("kl", "actor/kl_loss", "actor/ppo_kl"),
    "clip share": ("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac"),
    "truncated share": ("completions/clipped_ratio", "response_length/clip_ratio"),
    "gradient norm": ("grad_norm", "actor/grad_norm"),
    "loss": ("loss", "actor/pg_loss"),
}
"""What only the trainer knows, under the names that TRL and verl log it by."""


def presets_of(estimator: Estimator | None, name: str) -> list[tuple[str, Estimator]]:
    """What a page switches between, its own first: `estimator` and the presets."""
    # The page explains single tokens, so presets of larger units are shown by their tables.
    presets = [
        ("paper", preset("paper")),
        ("released", preset("released")),
        ("calibrated, tokens", table_estimator("calibrated")),
    ]
    if estimator is None:
        return presets
    of_tables = table_estimator(estimator)
    same = [x for x in presets if x[1] == of_tables]
    return [*(same or [(name, of_tables)]), *(x for x in presets if x not in same)]


def as_dict(estimator: Estimator) -> dict[str, Any]:
    """The numbers of the formula as the page's script reads them, and the tokens that do not count
    (`ignored`) or only get no credit (`silent`)."""
    ids = {"ignored": ignored_by(estimator), "silent": ignored_by(estimator, counted=True)}
    return formula_of(estimator)._asdict() | ids
