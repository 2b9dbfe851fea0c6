"""Alignment along runs of GRPO, and beside it how fast the estimators learn there: the tables and
the figure of docs/results/alignment.md.

An estimator's speed in a phase is the number of steps that GRPO takes from the accuracy at the
phase's beginning to the one at its end, over the number that the estimator takes. Accuracies are
compared and not steps, so that being ahead does not make it slow.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from page import ROOT, markdown
from run_curves import pairs_of
from scipy.stats import spearmanr

from ktae.align.measure import Alignment
from ktae.align.summary import read

ALONG = ROOT / "study" / "align" / "along"
PHASES = ((0, 20), (20, 40), (40, 54))
"""Steps of GRPO, at whose first ones study/align/along.sh measures."""
REACH = 5
"""Accuracy after a step is the mean of the rollouts of this many steps on both sides."""
RESAMPLES = 1000
TASKS = ("sums", "lists")
TRIGRAMS = "calibrated:units=[trigram]:term_scale=0.6"


class Trained(NamedTuple):
    """An estimator that was aligned and trained with, at the alignments' learning rate."""

    aligned: str
    """Its name in the alignments."""
    factor: float
    """Of its terms' weight in training to the one in the alignments."""
    runs: tuple[str, ...]
    """STUDY:METHOD, each beside the study's `grpo`."""


TRAINED = {
    "`paper`": Trained("paper", 1, ("main:grpo-ktae", "successor:grpo-ktae")),
    "`paper`, four times": Trained("paper", 4, ("explore:ktae-four-times",)),
    "`calibrated`": Trained(
        "calibrated",
        1,
        (
            "main:grpo-calibrated",
            "successor:grpo-calibrated",
            "explore:calibrated",
            "controls:calibrated",
        ),
    ),
    "`calibrated`, twice": Trained("calibrated", 2, ("explore:double",)),
    "its rollouts' part": Trained("calibrated:control=rollout-mean", 1, ("explore:rollout-mean",)),
    "its tokens' part": Trained(
        "calibrated:control=within-rollout", 1, ("explore:within-rollout",)
    ),
    "trigrams, half": Trained(TRIGRAMS, 0.5, ("explore:trigrams-only",)),
    "trigrams": Trained(TRIGRAMS, 1, ("explore:trigrams-only-double", "successor:grpo-trigrams")),
    "their rollouts' part": Trained(
        f"{TRIGRAMS}:control=rollout-mean", 1, ("explore:trigrams-rollout-mean",)
    ),
    "their tokens' part": Trained(
        f"{TRIGRAMS}:control=within-rollout", 1, ("explore:trigrams-within-rollout",)
    ),
}
"""By the tables' names."""

Metric = Literal["raw", "adam"]
METRICS: tuple[Metric, ...] = ("raw", "adam")


class Speed(NamedTuple):
    """With its 95 % interval; 0 where GRPO's accuracy is never reached."""

    value: float
    low: float
    high: float


class Point(NamedTuple):
    """An estimator on a task in a phase."""

    task: str
    estimator: str
    phase: tuple[int, int]
    ratios: dict[Metric, np.ndarray]
    """By metric: (base models,) its cosine as trained over GRPO's, at the phase's first step."""
    speed: Speed


def along(metric: Metric, place: Literal["alone", "added"]) -> str:
    """Cosines of GRPO along its run, and what each estimator has more, in the place of GRPO's
    advantages or added to them: means over base models, with the lowest and the highest."""
    rows = []
    for task in TASKS:
        found = [[read(file) for file in _files(task, start)] for start, _ in PHASES]
        grpo = [[_cosine(one, "paper", metric, 1, 0) for one in bases] for bases in found]
        rows.append([task, "GRPO's cosine", *map(_spread, grpo)])
        for name, (aligned, factor, _) in TRAINED.items():
            if place == "alone" and factor != 1:
                continue  # alone, a weight is none
            weights = (0, 1) if place == "alone" else (1, factor)
            own = [[_cosine(one, aligned, metric, *weights) for one in bases] for bases in found]
            more = [np.subtract(mine, base) for mine, base in zip(own, grpo, strict=True)]
            rows.append(["", name, *(_spread(one, "+") for one in more)])
    return markdown(["", "", *(f"step {start}" for start, _ in PHASES)], rows)


def references(*_: str) -> str:
    """How well each reference knows the gradient, and the accuracy of the rollouts."""
    rows = []
    for task in TASKS:
        found = [[read(file) for file in _files(task, start)] for start, _ in PHASES]
        accuracies = [[one.accuracy for one in bases] for bases in found]
        rows.append([task, "accuracy of the rollouts", *map(_spread, accuracies)])
        for metric, name in (("raw", "raw"), ("adam", "Adam's metric")):
            halves = [[one.reliability[metric] for one in bases] for bases in found]
            rows.append(["", f"cosine of the reference's halves, {name}", *map(_spread, halves)])
    return markdown(["", "", *(f"step {start}" for start, _ in PHASES)], rows)


def speeds(metric: Metric) -> str:
    """By phase: what the alignment says of the speed, and the speed."""
    rows: dict[tuple[str, str], list[str]] = {}
    for point in points():
        cells = rows.setdefault((point.task, point.estimator), [])
        cells += [
            _spread(point.ratios[metric], digits=2),
            "{:.2f} ({:.2f} to {:.2f})".format(*point.speed),
        ]
    named = [[*key, *cells] for key, cells in rows.items()]
    head = [f"{what}, {a} to {b}" for a, b in PHASES for what in ("cosines", "speed")]
    return markdown(["", "", *head], named)


def ranks(*_: str) -> str:
    """Rank correlations of ratio of cosines and speed over estimators, on each task and on both."""
    rows = []
    for phases in (*((phase,) for phase in PHASES), PHASES):
        of_phases = [point for point in points() if point.phase in phases]
        cells = []
        for metric in METRICS:
            for tasks in (*((task,) for task in TASKS), TASKS):
                mine = [point for point in of_phases if point.task in tasks]
                ratios = [float(np.mean(point.ratios[metric])) for point in mine]
                found = spearmanr(ratios, [point.speed.value for point in mine])
                cells.append(f"{found.statistic:+.2f} ({len(mine)})")
        name = "{} to {}".format(*phases[0]) if len(phases) == 1 else "all"
        rows.append([name, *cells])
    head = [f"{m}, {t}" for m in ("raw", "Adam's") for t in (*TASKS, "both")]
    return markdown(["steps", *head], rows)


def draw(path: Path) -> None:
    """Speed against the ratio of cosines in Adam's metric, a panel a task; an SVG."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, len(TASKS), sharex=True, sharey=True)
    for panel, task in zip(panels, TASKS, strict=True):
        panel.axline((1, 1), slope=1, color="0.6", linewidth=1, zorder=0)
        for phase, marker in zip(PHASES, "os^", strict=True):
            mine = [point for point in points() if (point.task, point.phase) == (task, phase)]
            x = [float(np.mean(point.ratios["adam"])) for point in mine]
            speed = np.array([point.speed for point in mine])
            reach = np.abs(speed[:, 1:] - speed[:, :1]).T
            panel.errorbar(
                x, speed[:, 0], reach, fmt=marker, markersize=5, linewidth=0.8,
                label="steps {} to {}".format(*phase),
            )  # fmt: skip
        panel.set_title(task, loc="left", fontsize=10)
        panel.set_xlabel("cosine as trained / GRPO's, Adam's metric")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("speed: GRPO's steps / its steps (95 %)")
    panels[0].legend(frameon=False)
    with rc_context({"svg.hashsalt": "ktae", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})  # the same results are the same file


@functools.cache
def points() -> tuple[Point, ...]:
    """Every estimator on every task in every phase."""
    return tuple(_points())


def _points() -> Iterator[Point]:
    for task, (name, trained) in itertools.product(TASKS, TRAINED.items()):
        mine, base = _curves(task, trained.runs)
        for phase, speed in zip(PHASES, speeds_of(mine, base), strict=True):
            ratios = {metric: _ratios(task, trained, phase[0], metric) for metric in METRICS}
            yield Point(task, name, phase, ratios, speed)


def speeds_of(mine_ns: np.ndarray, base_ns: np.ndarray) -> list[Speed]:
    """In each phase, of (pairs, steps) accuracies; the interval is the bootstrap over pairs."""
    rng = np.random.default_rng(0)
    n = len(mine_ns)
    drawn = [rng.integers(n, size=n) for _ in range(RESAMPLES)]
    resampled = np.array(
        [phase_speeds(mine_ns[of].mean(axis=0), base_ns[of].mean(axis=0)) for of in drawn]
    )
    low, high = np.nanquantile(resampled, (0.025, 0.975), axis=0)
    whole = phase_speeds(mine_ns.mean(axis=0), base_ns.mean(axis=0))
    return [Speed(*map(float, one)) for one in zip(whole, low, high, strict=True)]


def phase_speeds(mine: np.ndarray, base: np.ndarray) -> np.ndarray:
    """(phases,) of two curves of (steps,) accuracies: GRPO's steps over the method's own."""
    mine, base = smoothed(mine), smoothed(base)
    # If GRPO is below where it was, it is not asked when it gets there.
    targets = np.maximum.accumulate([base[end - REACH] for _, end in PHASES])
    own, theirs = (
        np.array([0.0, *(first_at(curve, target) for target in targets)]) for curve in (mine, base)
    )
    reached = np.isfinite(own[1:])
    found = np.zeros(len(PHASES))
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 of 0 steps, where nobody learns
        np.divide(np.diff(theirs), own[1:] - own[:-1], out=found, where=reached)
    return found


def smoothed(accuracies: np.ndarray) -> np.ndarray:
    """(steps - 2 · REACH,) of (steps,): entry t is the policy's after REACH + t steps.

    The rollouts of a step are those of the policy before it.
    """
    return np.convolve(accuracies, np.full(2 * REACH + 1, 1 / (2 * REACH + 1)), mode="valid")


def first_at(curve: np.ndarray, target: float) -> float:
    """The step at which a smoothed curve first is at an accuracy, interpolated; inf: never."""
    reached = curve >= target
    if not reached.any():
        return float("inf")
    t = int(np.argmax(reached))
    fraction = 1.0 if t == 0 else float((target - curve[t - 1]) / (curve[t] - curve[t - 1]))
    return REACH + t - 1 + fraction


def _curves(task: str, runs: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, steps) accuracies of a method's runs and of those of `grpo` beside them."""
    pairs = [
        pair
        for study, method in (run.split(":") for run in runs)
        for pair in pairs_of(study, "grpo", method, task)
    ]
    mine, base = (
        np.array([curves["accuracy"] for curves in runs]) for runs in zip(*pairs, strict=True)
    )
    return mine, base


def _ratios(task: str, trained: Trained, step: int, metric: Metric) -> np.ndarray:
    """(base models,)"""
    return np.array([
        _cosine(found, trained.aligned, metric, 1, trained.factor)
        / _cosine(found, trained.aligned, metric, 1, 0)
        for found in map(read, _files(task, step))
    ])  # fmt: skip


def _cosine(
    found: Alignment, estimator: str, metric: Metric, advantages: float, terms: float
) -> float:
    """The mean over batches, of so much of the rollout advantages and of the terms."""
    return float(np.mean([p.cosine(advantages, terms) for p in found.products[metric][estimator]]))


def _files(task: str, step: int) -> list[Path]:
    return sorted(ALONG.glob(f"{task}-base*-step{step}.json"))


def _spread(values: Sequence[float] | np.ndarray, sign: str = "", digits: int = 3) -> str:
    mean, low, high = (
        f"{float(x):{sign}.{digits}f}" for x in (np.mean(values), min(values), max(values))
    )
    return f"{mean} ({low} to {high})"
