"""Alignment along runs of GRPO, and beside it how fast the estimators learn there: the tables and
the figure of pages/alignment.md."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import trapezoid
from scipy.stats import spearmanr

from ktae.inference import percentile_bounds
from ktae_lab import svg
from ktae_lab.align.products import Alignment, Products
from ktae_lab.align.stored import Measured
from ktae_lab.align.stored import read as read_tables
from ktae_lab.tables.page import RESULTS, Table, markdown
from ktae_lab.tables.speeds import (
    PHASES,
    Estimate,
    gains,
    pairs_of_runs,
    speeds,
    speeds_beside_itself,
)

ALIGN = RESULTS / "align"
TASKS = ("sums", "lists")
BASES = ("demo:0", "demo:1", "demo:2")
"""The base models, as the studies call them and in the order of the alignments' numbers."""
STEPS = (0, 5, 10, 20, 40)
"""Those at which `ktae_lab.align.campaign` measures."""
AT_STEPS = ["", "", *(f"step {step}" for step in STEPS)]
"""The head of the tables that have a column for each."""
DRAWS = 2000
TRIGRAMS = "calibrated:units=[trigram]:term_scale=0.6"


class Trained(NamedTuple):
    """An estimator that was aligned and trained with, at the alignments' learning rate."""

    aligned: str
    """Its name in the alignments."""
    factor: float
    """The weight of its credit in training, over the one in the alignments."""
    runs: tuple[str, ...]
    """STUDY:METHOD, each beside the study's `grpo`."""


CALIBRATED = (
    "main:grpo-calibrated",
    "successor:grpo-calibrated",
    "explore:calibrated",
    "controls:calibrated",
)
TRAINED = {
    "`paper`": Trained("paper", 1, ("main:grpo-ktae", "successor:grpo-ktae")),
    "`calibrated`": Trained("calibrated", 1, CALIBRATED),
    "its rollouts' part": Trained("calibrated:control=rollout-mean", 1, ("explore:rollout-mean",)),
    "its tokens' part": Trained(
        "calibrated:control=within-rollout", 1, ("explore:within-rollout",)
    ),
    "trigrams": Trained(TRIGRAMS, 1, ("explore:trigrams-only-double", "successor:grpo-trigrams")),
    "their rollouts' part": Trained(
        f"{TRIGRAMS}:control=rollout-mean", 1, ("explore:trigrams-rollout-mean",)
    ),
    "their tokens' part": Trained(
        f"{TRIGRAMS}:control=within-rollout", 1, ("explore:trigrams-within-rollout",)
    ),
    "`paper`, four times": Trained("paper", 4, ("explore:ktae-four-times",)),
    "`calibrated`, twice": Trained("calibrated", 2, ("explore:double",)),
    "trigrams, half": Trained(TRIGRAMS, 0.5, ("explore:trigrams-only",)),
}
"""By the tables' names; the last three were added when the speeds of the others had been seen."""
ADDED = tuple(TRAINED)[7:]

Metric = Literal["raw", "adam"]
METRICS: tuple[Metric, ...] = ("raw", "adam")


class Point(NamedTuple):
    """An estimator on a task in a phase."""

    task: str
    estimator: str
    phase: tuple[int, int]
    ratio: dict[Metric, Estimate]
    """Of its cosine as trained to GRPO's at the phase's first step, by metric: the base models' by
    what GRPO gains on each, so that to first order it is the speed of the mean curve."""
    over: float | None
    """The mean ratio along the phase in Adam's metric, by trapezoids; None where there is no
    measurement at its end."""
    speed: Estimate
    pairs: int


def along(metric: Metric, place: Literal["alone", "added"]) -> str:
    """Cosines of GRPO along its run, and what each estimator has more, instead of GRPO's
    advantages or added to them: means over base models, with the lowest and the highest."""
    rows = []
    for task in TASKS:
        grpo = _cosines(task, "paper", metric, 1, 0)
        rows.append([task, "GRPO's cosine", *map(_spread, grpo)])
        for name, (aligned, factor, _) in TRAINED.items():
            if place == "alone" and name in ADDED:
                continue  # alone, a weight is none
            weights = (0, 1) if place == "alone" else (1, factor)
            more = _cosines(task, aligned, metric, *weights) - grpo
            rows.append(["", name, *(_spread(one, "+") for one in more)])
    return markdown(AT_STEPS, rows)


def ratios(*_: str) -> str:
    """As trained and in Adam's metric, in multiples of GRPO's cosine, of means over base models."""
    rows = []
    for task in TASKS:
        grpo = _cosines(task, "paper", "adam", 1, 0).mean(axis=1)
        for name, (aligned, factor, _) in TRAINED.items():
            multiples = _cosines(task, aligned, "adam", 1, factor).mean(axis=1) / grpo
            rows.append([task, name, *(f"{multiple:.2f}" for multiple in multiples)])
    return markdown(AT_STEPS, rows)


def grpo_beside_itself(*seeds: str) -> str:
    """Speeds of GRPO beside other runs of GRPO, by the number of seeds a base model."""
    rows = []
    for task, n in itertools.product(TASKS, map(int, seeds)):
        found = speeds_beside_itself(pairs_of_runs(task, CALIBRATED), n)
        cells = [
            "{1:.2f} ({0:.2f} to {2:.2f})".format(*np.nanquantile(draws, (0.025, 0.5, 0.975)))
            for draws in found.T
        ]
        rows.append([task, str(n * len(BASES)), *cells])
    head = [f"speed, {a} to {b}: median (95 % of the draws)" for a, b in PHASES]
    return markdown(["", "runs beside as many", *head], rows)


def references(*_: str) -> str:
    """How well each reference knows the gradient, and the accuracy of the rollouts."""
    rows = []
    for task in TASKS:
        found = [_measured(task, step) for step in STEPS]
        accuracies = [[one.accuracy for one in bases] for bases in found]
        rows.append([task, "accuracy of the rollouts", *map(_spread, accuracies)])
        for metric, name in (("raw", "raw"), ("adam", "Adam's metric")):
            halves = [[one.reliability[metric] for one in bases] for bases in found]
            rows.append(["", f"cosine of the reference's halves, {name}", *map(_spread, halves)])
    return markdown(AT_STEPS, rows)


def speed_table(*_: str) -> str:
    """By phase: what the alignment in Adam's metric says of the speed, and the speed."""
    rows: dict[tuple[str, str], list[str]] = {}
    for point in points():
        cells = rows.setdefault((point.task, point.estimator), [str(point.pairs)])
        cells.append(_with_interval(point.ratio["adam"]))
        cells += [] if point.over is None else [f"{point.over:.2f}"]
        cells.append(_with_interval(point.speed))
    head = []
    for phase in PHASES:
        over = ["over the phase"] if phase[1] in STEPS else []
        head += [f"{phase[0]} to {phase[1]}: at its start", *over, "speed"]
    return markdown(["", "", "pairs", *head], [[*key, *cells] for key, cells in rows.items()])


COLUMNS: dict[str, Callable[[Point], float | None]] = {
    "Adam's metric, at its start": lambda point: point.ratio["adam"].value,
    "raw, at its start": lambda point: point.ratio["raw"].value,
    "Adam's metric, over the phase": lambda point: point.over,
}
"""What ranks are of."""


def ranks(*_: str) -> str:
    """Rank correlations of ratio and speed over the estimators, within each phase on each task,
    and their means; as announced, and with the added weights."""
    columns = [(of, added) for added in (False, True) for of in COLUMNS.values()]
    names, within = [], []
    for phase, task in itertools.product(PHASES, TASKS):
        mine = [point for point in points() if (point.phase, point.task) == (phase, task)]
        within.append([_rank(mine, *column) for column in columns])
        names.append(f"{task}, {phase[0]} to {phase[1]}")
    numbers = [*within, np.mean(within[:4], axis=0), np.mean(within, axis=0)]
    names += ["mean of the first four", "mean of all six"]
    rows = [
        [name, *("" if np.isnan(x) else f"{x:+.2f}" for x in row)]
        for name, row in zip(names, numbers, strict=True)
    ]
    return markdown(["", *COLUMNS, *(f"{name}, with the added weights" for name in COLUMNS)], rows)


def _rank(of: Sequence[Point], ratio: Callable[[Point], float | None], added: bool) -> float:
    """NaN of fewer than three points."""
    pairs = [
        (value, point.speed.value)
        for point in of
        if (added or point.estimator not in ADDED)
        and not np.isnan(point.speed.value)
        and (value := ratio(point)) is not None
    ]
    return float(spearmanr(*zip(*pairs, strict=True)).statistic) if len(pairs) > 2 else np.nan


def draw(path: Path) -> None:
    """Speed against the ratio of cosines in Adam's metric, at a phase's start and over it; an
    SVG."""
    figure = Figure(figsize=(9, 7.6), layout="constrained")
    panels = figure.subplots(2, len(TASKS), sharex=True, sharey=True)
    for (row, over), (column, task) in itertools.product(
        enumerate((False, True)), enumerate(TASKS)
    ):
        panel = panels[row, column]
        panel.axline((1, 1), slope=1, color="0.6", linewidth=1, zorder=0)
        for phase, marker, color in zip(PHASES, "os^", ("C0", "C1", "C2"), strict=True):
            mine = [point for point in points() if (point.task, point.phase) == (task, phase)]
            if over and mine[0].over is None:
                continue
            x = np.array([point.ratio["adam"] for point in mine])
            y = np.array([point.speed for point in mine])
            panel.errorbar(
                [point.over for point in mine] if over else x[:, 0], y[:, 0], _reach(y),
                None if over else _reach(x), fmt=marker, color=color, markersize=5, linewidth=0.6,
                label="steps {} to {}".format(*phase),
            )  # fmt: skip
        where = "over the phase" if over else "at the phase's start"
        panel.set_title(f"{task}, {where}", loc="left", fontsize=10)
        panel.set_xlabel("cosine as trained / GRPO's, Adam's metric")
        panel.set_ylabel("speed: GRPO's steps / its steps (95 %)")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylim(0.2, 2.7)  # of the last phase some bars go on
    panels[0, 0].legend(frameon=False)
    svg.save(figure, path)


def _reach(values: np.ndarray) -> np.ndarray:
    """(2, n) lengths of error bars of (n, 3) values with their bounds."""
    value, low, high = values.T
    return np.stack([value - low, high - value]).clip(0)


@functools.cache
def points() -> tuple[Point, ...]:
    """Every estimator on every task in every phase."""
    return tuple(_points())


def _points() -> Iterator[Point]:
    gained = {task: gains(pairs_of_runs(task, CALIBRATED)) for task in TASKS}  # most GRPO runs
    for task, (name, trained) in itertools.product(TASKS, TRAINED.items()):
        pairs = pairs_of_runs(task, trained.runs)
        for i, (phase, speed) in enumerate(zip(PHASES, speeds(pairs), strict=True)):
            weights = np.array([gained[task][base][i] for base in BASES])
            found = _measured(task, phase[0])
            ratio = {metric: ratio_of(found, trained, metric, weights) for metric in METRICS}
            over = _over(task, trained, phase, weights)
            yield Point(task, name, phase, ratio, over, speed, len(pairs.mine))


def _over(task: str, trained: Trained, phase: tuple[int, int], weights: np.ndarray) -> float | None:
    """See `Point.over`."""
    start, end = phase
    if end not in STEPS:
        return None
    steps = [step for step in STEPS if start <= step <= end]
    at_steps = [mean_ratio(_measured(task, step), trained, "adam", weights) for step in steps]
    return float(trapezoid(at_steps, steps)) / (end - start)


def mean_ratio(
    found: Sequence[Alignment], trained: Trained, metric: Metric, weights: np.ndarray
) -> float:
    """The mean ratio of the cosine as trained to GRPO's, with (base models,) weights."""
    own, base = (
        np.array([_cosine(one, trained.aligned, metric, 1, factor) for one in found])
        for factor in (trained.factor, 0)
    )
    return float(np.average(own / base, weights=weights))


def ratio_of(
    found: Sequence[Alignment], trained: Trained, metric: Metric, weights: np.ndarray
) -> Estimate:
    """`mean_ratio` with its interval.

    It is made as those of `align.summary.rows`: a bootstrap over batches, and the jackknife over
    the reference's blocks for the reference's own noise.
    """
    rng = np.random.default_rng(0)
    draws = np.zeros((len(found), DRAWS))
    for i, one in enumerate(found):
        products = one.products[metric][trained.aligned]
        own, base = _both(products, trained.factor)
        batches = rng.integers(len(own), size=(DRAWS, len(own)))
        draws[i] = own[batches].mean(axis=1) / base[batches].mean(axis=1)
        without = one.blocks[metric].without_each(trained.aligned, products)
        left_out = np.array(
            [np.divide(*_both(part, trained.factor).mean(axis=1)) for part in without]
        )
        n_blocks = len(left_out)
        error = ((n_blocks - 1) * left_out.var()) ** 0.5
        draws[i] += error * rng.standard_t(n_blocks - 1, DRAWS)
    bounds = percentile_bounds(np.average(draws, axis=0, weights=weights))
    return Estimate(mean_ratio(found, trained, metric, weights), *bounds)


def _both(products: Sequence[Products], factor: float) -> np.ndarray:
    """(2, batches) cosines: as trained, and GRPO's."""
    return np.array([[p.cosine(1, x) for p in products] for x in (factor, 0)])


def _cosines(
    task: str, estimator: str, metric: Metric, advantages: float, credit: float
) -> np.ndarray:
    """(steps, base models)"""
    return np.array([
        [_cosine(one, estimator, metric, advantages, credit) for one in _measured(task, step)]
        for step in STEPS
    ])  # fmt: skip


def _cosine(
    found: Alignment, estimator: str, metric: Metric, advantages: float, credit: float
) -> float:
    """The mean over batches, of so much of the rollout advantages and of the credit."""
    return float(np.mean([p.cosine(advantages, credit) for p in found.products[metric][estimator]]))


@functools.cache
def _measured(task: str, step: int) -> tuple[Alignment, ...]:
    """Of each base model."""
    found = _all(ALIGN)
    return tuple(found[f"{task}-base{i}-step{step}"].alignment for i in range(len(BASES)))


@functools.cache
def _all(folder: Path) -> dict[str, Measured]:
    return read_tables(folder)


def _with_interval(one: Estimate) -> str:
    return "" if np.isnan(one.value) else "{:.2f} ({:.2f} to {:.2f})".format(*one)


def _spread(values: Sequence[float] | np.ndarray, sign: str = "") -> str:
    mean, low, high = (f"{float(x):{sign}.3f}" for x in (np.mean(values), min(values), max(values)))
    return f"{mean} ({low} to {high})"


TABLES: dict[str, Table] = {
    "alignment": along,
    "references": references,
    "ratios": ratios,
    "speed-of-grpo": grpo_beside_itself,
    "speeds": speed_table,
    "speed-ranks": ranks,
}
