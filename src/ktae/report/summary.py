"""What a report says over many rollouts: by group and by training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.batch import Vocabulary
from ktae.estimators import Estimator
from ktae.estimators.transforms import ignored_by
from ktae.report import scoring
from ktae.report.columns import Columns, Frame
from ktae.report.strongest import DISTINCT
from ktae.rollouts.groups import arrays_of
from ktae.tables import formula_of, in_tables, ngrams_of, table_estimator
from ktae.validity.permutation import mean_abs_credit


class Scored(NamedTuple):
    """The credit of one preset and what follows from them."""

    credit_n: np.ndarray
    """(N,) float32 token credit, 0 where masked."""
    tables: list[dict[str, np.ndarray]]
    """The columns of the credit table, in parts, see `ktae.report.strongest.mixed_rows`; its groups
    are numbers. None at all where there is nothing to compare."""
    credit_b: np.ndarray
    """(B,) Σ credit of each rollout."""
    credit_abs_b: np.ndarray
    """(B,) Σ|credit| of each rollout."""
    compared_b: np.ndarray
    """(B,) int64: the tokens of each rollout that a mean of |credit| is over, see
    `ktae.validity.permutation`."""
    n_true_g: np.ndarray
    """(G,) int64: correct rollouts with a counted token; 0 where nothing was compared."""
    n_false_g: np.ndarray
    """(G,) int64: incorrect ones."""


def score(columns: Columns, estimator: Estimator, texts: Vocabulary | None = None) -> Scored:
    """Score all groups; a dump of groups of one has credit 0 and no table.

    Args:
        columns: the rollouts.
        estimator: what gives the credit.
        texts: the vocabulary, for units that are made of text.
    """
    n_groups = len(columns.labels)
    # Groups of one: nothing to compare.
    if np.diff(columns.starts_g).max(initial=0) < 2:
        zeros_g = np.zeros(n_groups, dtype=np.int64)
        credit_n = np.zeros(len(columns.ids_n), dtype=np.float32)
        zeros_b = np.zeros(len(columns.group_b), dtype=np.int64)
        none_b = zeros_b.astype(float)
        return Scored(credit_n, [], none_b, none_b, zeros_b, zeros_g, zeros_g)
    ids = arrays_of(columns.rollouts["token_ids"])
    credit_n = np.zeros(len(columns.ids_n), dtype=np.float32)
    n_true_g, n_false_g = np.zeros((2, n_groups), dtype=np.int64)
    tables = []
    for chunk in scoring.chunks(columns.rollouts, ids, columns.group_b, estimator, texts=texts):
        distinct = dict(zip(DISTINCT, chunk.distinct, strict=True))
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


def by_model(columns: Frame) -> list[dict[str, Any]]:
    """Each model's `name`, `rollouts`, `known` verdicts, `right` ones and mean `length`."""
    names = np.array([name or "" for name in columns.texts_of("model")])
    rows = {name: names == name for name in np.unique(names).tolist() if name}
    return [
        {
            "name": name,
            "rollouts": is_its.sum(),
            "known": (is_its & ~np.isnan(columns.correct_b)).sum(),
            "right": (is_its & (columns.correct_b == 1)).sum(),
            "length": columns.lengths_b[is_its].mean(),
        }
        for name, is_its in rows.items()
    ]


BINS = 20
"""Of a histogram."""


def histograms(columns: Frame) -> dict[str, Any]:
    """What the overview draws: `reward` and, of right and wrong rollouts, `length`; of groups
    `accuracy` (as many bins as a group has rollouts and one more, at most `BINS`).

    Each with the `edges` of its bins and the counts; `length` is cut at its 99 % quantile, above
    which everything is in the last bin.
    """
    reward_b = columns.reward_b[~np.isnan(columns.reward_b)]
    values = np.unique(reward_b)
    # A bin for each value where there are few.
    is_few = len(values) <= BINS
    if is_few:
        counts, edges = np.bincount(np.searchsorted(values, reward_b)), values
    else:
        counts, edges = np.histogram(reward_b, BINS)
    longest = max(1.0, float(np.quantile(columns.lengths_b, 0.99)))
    of_length = np.minimum(columns.lengths_b, longest)
    length_edges = np.linspace(0, longest, BINS + 1)
    right, wrong = (
        np.histogram(of_length[columns.correct_b == x], length_edges)[0] for x in (1, 0)
    )
    known_g = columns.sum_rollouts(~np.isnan(columns.correct_b))
    right_g = columns.sum_rollouts(columns.correct_b == 1)[known_g > 0]
    n_bins = int(min(BINS, known_g.max(initial=1) + 1))
    place_g = np.round(right_g / known_g[known_g > 0] * (n_bins - 1)).astype(np.int64)
    return {
        "reward": {"edges": edges, "counts": counts, "values": is_few},
        "length": {"edges": length_edges, "right": right, "wrong": wrong},
        "accuracy": {"counts": np.bincount(place_g, minlength=n_bins)},
    }


def steps_of(
    columns: Frame,
    scored: Scored,
    logged: dict[int, dict[str, Any]],
    chosen_g: np.ndarray | None = None,
) -> dict[str, Any]:
    """Curves over training steps: what the rollouts tell, and what the trainer logged beside.

    Args:
        columns: the rollouts.
        scored: their credit.
        logged: the trainer's metrics by step.
        chosen_g: (G,) bool, the groups that count; None: all.

    Returns:
        `steps` and `series`, a list of {name, values} with null where a step has no value; none
        without a single value, and no steps at all where fewer than two are known.
    """
    # Steps of which there are rollouts, or only what the trainer has logged.
    step_g = np.array([-1 if step is None else step for step in columns.steps], dtype=np.int64)
    step_g = step_g if chosen_g is None else np.where(chosen_g, step_g, -1)
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


BESIDE = ("paper", "released", "calibrated", "trigrams", "sharp-trigrams")
"""Presets that a page can shade by, beside its own estimator."""


def shown_as(estimator: Estimator) -> dict[str, Any]:
    """How the page's script gets the credit of an estimator.

    `units`: the n-grams whose mean credit it is, by the formula that stands beside; null: the
    credit itself is in the page. `tables`: whether it rests on contingency tables at all, the
    formula's, or else the paper's are shown. `ignored` tokens do not count, `silent` ones only get
    no credit.
    """
    units = ngrams_of(estimator)
    formula = formula_of(table_estimator(estimator))._asdict()
    of_tables = {"units": units, "tables": in_tables(estimator) is not None}
    ids = {"ignored": ignored_by(estimator), "silent": ignored_by(estimator, counted=True)}
    return of_tables | formula | ids
