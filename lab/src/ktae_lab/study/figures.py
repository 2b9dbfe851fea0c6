"""The study's figures, as SVG: curves with bands, bars, and paired differences.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; lines differ in their style
as well, and bars in their place.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.inference import FEWEST_PAIRS
from ktae_lab import svg
from ktae_lab.study.collect import Run, curve
from ktae_lab.study.contrasts import Compared
from ktae_lab.study.folder import State
from ktae_lab.study.matrix import Matrix
from ktae_lab.study.statistics import centred_means, pointwise_band

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")
CURVE_PANELS = {
    "accuracy": "accuracy (training rollouts)",
    "length": "response length (tokens)",
    "entropy": "entropy (nats a token)",
}
USUAL_OUTCOMES = ("sampled_accuracy", "greedy_accuracy", "length", "entropy")
SMOOTHED_FROM = 40
"""Steps: a twentieth is then two, one neighbour on each side."""
MOST_POINTS = 150
"""Of a curve: of longer ones evenly spaced steps are drawn."""
SHOWN, NOT_SHOWN = "#0072B2", "#6e6e6e"


class Sample(NamedTuple):
    """An outcome of a method's runs."""

    values: np.ndarray
    """(n,)."""
    base_models: list[str]
    """Of each."""


class Over(enum.Enum):
    """What a study's means are over, as planned."""

    BASE_MODELS = "base models"
    """Each run of a method has its own."""
    SEEDS = "seeds of these base models"

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Over:
        """What it is for all the runs of a study, whether they have finished or not."""
        cells = [(run.cell.task, run.cell.method, run.cell.base) for run in runs]
        several = len({base for *_, base in cells}) > 1
        return cls.BASE_MODELS if several and len(set(cells)) == len(cells) else cls.SEEDS

    @property
    def words(self) -> str:
        """For titles."""
        return str(self.value)

    def band(
        self, values: np.ndarray, base_models: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `pointwise_band`; over base models, every run is one draw of the same kind."""
        kinds = base_models if self is Over.SEEDS else [""] * len(values)
        return pointwise_band(values, kinds)


def require_libraries() -> None:
    """Raise an InputError unless what draws is installed."""
    try:
        import matplotlib  # noqa: F401
        import scipy  # noqa: F401  (the bands need it)
    except ModuleNotFoundError as error:
        raise InputError(
            f"the figures need {error.name}, which is not installed; pip install ktae-lab"
        ) from None


def draw(
    matrix: Matrix,
    runs: Sequence[Run],
    compared: Sequence[Compared],
    folder: Path,
    names: Iterable[str] | None = None,
) -> list[Path]:
    """Write the figures for which there are finished runs, and return their files.

    Args:
        matrix: the study's.
        runs: all of its runs.
        compared: all of its comparisons.
        folder: is made if it is not there.
        names: of those to draw, `curves-GROUP-TASK` and so on; None: all.

    Raises:
        InputError: matplotlib is not installed, there is no figure of a name, or a file cannot be
            written.
    """
    require_libraries()
    makers = dict(_makers(matrix, runs, compared))
    written = []
    for name in makers if names is None else names:
        if name not in makers:
            raise InputError(f"{matrix.name} has no figure {name!r}; it has {', '.join(makers)}")
        folder.mkdir(exist_ok=True)
        written.append(folder / f"{name}.svg")
        svg.save(makers[name](), written[-1])
    return written


def outcomes_of(matrix: Matrix) -> list[str]:
    """The outcomes that the contrasts name, or the usual ones."""
    named = dict.fromkeys(name for contrast in matrix.contrasts for name in contrast.outcomes)
    return list(named) or list(USUAL_OUTCOMES)


def label(matrix: Matrix, outcome: str) -> str:
    """An outcome as figures call it."""
    return matrix.all_outcomes[outcome].label or outcome.replace("_", " ")


def _makers(
    matrix: Matrix, runs: Sequence[Run], compared: Sequence[Compared]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each figure's name, and what makes it."""
    over = Over.of(runs)
    labels = {outcome: label(matrix, outcome) for outcome in outcomes_of(matrix)}
    for task in matrix.tasks or [""]:
        suffix, of_task = f"-{task}" if task else "", [r for r in runs if r.cell.task == task]
        for group, methods in matrix.figure_groups.items():
            title = " · ".join(x for x in (group, task) if x)
            by_method = {m: [r for r in of_task if r.cell.method == m] for m in methods}
            if not any(run.lines for of_method in by_method.values() for run in of_method):
                continue
            yield f"curves-{group}{suffix}", partial(curves, by_method, title, over)
            samples = {
                (method, outcome): _sample(of_method, outcome)
                for method, of_method in by_method.items()
                for outcome in labels
            }
            yield f"bars-{group}{suffix}", partial(bars, samples, labels, title, over)
        differences = [c for c in compared if c.task == task and c.planned]
        if any(c.differences for c in differences):
            of_outcomes = {c.outcome: label(matrix, c.outcome) for c in differences}
            title = " · ".join(x for x in (matrix.name, task) if x)
            yield f"differences{suffix}", partial(forest, differences, of_outcomes, title, over)


def curves(by_method: Mapping[str, Sequence[Run]], title: str, over: Over) -> Any:
    """Accuracy, length and entropy against training steps: mean and 95 % band of each method.

    Long ones are smoothed over a twentieth of the steps: else noise hides them.
    """
    figure, axes = _grid(len(CURVE_PANELS), columns=3, height=3.6)
    longest = max(len(run.lines) for runs in by_method.values() for run in runs)
    for (name, panel), axis in zip(CURVE_PANELS.items(), axes, strict=True):
        for i, (method, runs) in enumerate(by_method.items()):
            finished = [run for run in runs if run.state is State.FINISHED]
            if not finished:
                continue
            shortest = min(len(run.lines) for run in finished)
            steps = [line["step"] for line in finished[0].lines[:shortest]]
            values = np.stack([curve(run.lines[:shortest], name) for run in finished])
            values = centred_means(values, shortest // SMOOTHED_FROM)
            drawn = _some(shortest)
            values, steps = values[:, drawn], [steps[i] for i in drawn]
            mean, low, high = over.band(values, [run.cell.base for run in finished])
            look = {"color": COLORS[i % len(COLORS)]}
            if len(values) < FEWEST_PAIRS:
                axis.plot(steps, values.T, linewidth=0.6, alpha=0.6, **look)
                low = high = mean
            counted = f"{method} ({len(finished)} of {len(runs)} runs)"
            axis.fill_between(steps, low, high, alpha=0.15, linewidth=0, **look)
            axis.plot(
                steps, mean, label=counted, linewidth=1.6, linestyle=STYLES[i % len(STYLES)], **look
            )
        axis.set_title(panel, fontsize=10, loc="left", parse_math=False)
        axis.set_xlabel("training step")
        axis.xaxis.get_major_locator().set_params(integer=True)
    band = f"95 % interval at each step (from {FEWEST_PAIRS} runs on; of fewer, each run)"
    smooth = ", smoothed over a twentieth of the steps" if longest >= SMOOTHED_FROM else ""
    _finish(figure, f"{title}: mean over {over.words}, {band}{smooth}")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def bars(
    samples: Mapping[tuple[str, str], Sample], labels: Mapping[str, str], title: str, over: Over
) -> Any:
    """A bar for each method in each outcome, its 95 % interval, and a dot for each run."""
    methods = list(dict.fromkeys(method for method, _ in samples))
    figure, axes = _grid(len(labels), columns=3, height=0.9 + 0.38 * len(methods))
    for (outcome, name), axis in zip(labels.items(), axes, strict=True):
        for y, method in enumerate(methods):
            found, base_models = samples[method, outcome]
            if not found.size:
                axis.text(0, y, " no run", va="center", fontsize=8, color=NOT_SHOWN)
                continue
            color = COLORS[y % len(COLORS)]
            axis.barh(y, found.mean(), height=0.7, color=color, alpha=0.35)
            spread = y + np.linspace(-0.22, 0.22, len(found)) if len(found) > 1 else [y]
            axis.plot(found, spread, linestyle="", marker=".", markersize=4, color=color, alpha=0.7)
            if len(found) >= FEWEST_PAIRS:
                mean, low, high = over.band(found[:, None], base_models)
                axis.plot([low, high], [y, y], color="black", linewidth=1.6)
                axis.plot(mean, y, marker="|", color="black", markersize=9)
        axis.set_yticks(
            range(len(methods)),
            [f"{m} (n = {samples[m, outcome].values.size})" for m in methods],
            fontsize=9,
        )
        axis.invert_yaxis()
        axis.tick_params(axis="y", length=0)
        axis.set_title(name, fontsize=10, loc="left", parse_math=False)
    interval = f"95 % interval (from {FEWEST_PAIRS} runs on)"
    _finish(figure, f"{title}: mean over {over.words}, {interval}, dots: runs")
    return figure


def forest(compared: Sequence[Compared], labels: Mapping[str, str], title: str, over: Over) -> Any:
    """Paired differences with their 95 % intervals: a panel an outcome, a line a contrast."""
    pairs = list(dict.fromkeys((c.treatment, c.baseline) for c in compared))
    figure, axes = _grid(len(labels), columns=3, height=1.1 + 0.42 * len(pairs), share_y=True)
    for (outcome, name), axis in zip(labels.items(), axes, strict=True):
        axis.axvline(0, color="black", linewidth=0.8)
        for c in compared:
            if c.outcome == outcome:
                _forest_line(axis, pairs.index((c.treatment, c.baseline)), c, over)
        axis.set_yticks(range(len(pairs)), [f"{a}\nminus {b}" for a, b in pairs], fontsize=8)
        axis.set_ylim(len(pairs) - 0.4, -0.6)
        axis.tick_params(axis="y", length=0)
        axis.margins(x=0.12)
        axis.set_title(name, fontsize=10, loc="left", parse_math=False)
    _finish(
        figure,
        f"{title}: paired difference, mean over {over.words} and 95 % interval\n"
        "◆ confirmatory  ■ exploratory  ✕ not enough pairs · blue and filled: shown at the 5 % "
        f"level (Holm){' · small strokes: each base model' if over is Over.SEEDS else ''}",
    )
    return figure


def _forest_line(axis: Any, y: int, c: Compared, over: Over) -> None:
    if c.difference is None:
        axis.text(0, y, "  no pair", va="center", fontsize=8, color=NOT_SHOWN)
        return
    color = SHOWN if c.shown else NOT_SHOWN
    marker = "x" if c.interval is None else "D" if c.kind == "confirmatory" else "s"
    if c.interval is not None:
        axis.plot(c.interval[1:], [y, y], color=color, linewidth=2)
    face = color if c.shown else "white"
    axis.plot(
        c.difference, y, marker=marker, color=color, markersize=7, markerfacecolor=face,
        markeredgewidth=1.6,
    )  # fmt: skip
    if over is Over.SEEDS and len(c.by_base_model) > 1:
        for base in c.by_base_model:
            axis.plot(base.difference, y + 0.22, marker="|", color=color, markersize=5)
    axis.annotate(
        f"n = {len(c.seeds)} of {c.planned}", (c.difference, y), xytext=(0, 7),
        textcoords="offset points", ha="center", fontsize=7, color=NOT_SHOWN,
    )  # fmt: skip


def _sample(runs: Iterable[Run], outcome: str) -> Sample:
    found = [(run.outcomes[outcome], run.cell.base) for run in runs]
    there = [(value, base) for value, base in found if value is not None]
    return Sample(np.array([value for value, _ in there], np.float64), [base for _, base in there])


def _grid(panels: int, *, columns: int, height: float, share_y: bool = False) -> tuple[Any, Any]:
    """A figure and its `panels` axes, at most `columns` beside each other."""
    from matplotlib.figure import Figure

    wide = min(panels, columns)
    rows = -(-panels // wide)
    figure = Figure(figsize=(1.5 + 3.6 * wide, 0.8 + height * rows), layout="constrained")
    axes = list(figure.subplots(rows, wide, squeeze=False, sharey=share_y).flat)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.set_axisbelow(True)
    for axis in axes[panels:]:
        axis.set_visible(False)
    return figure, axes[:panels]


def _some(steps: int) -> np.ndarray:
    """Indices of evenly spaced steps, the first and the last among them."""
    return np.unique(np.linspace(0, steps - 1, min(steps, MOST_POINTS)).round().astype(int))


def _finish(figure: Any, title: str) -> None:
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
