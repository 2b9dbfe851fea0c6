"""Training curves: the metrics of each step from several trainers, under common names."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.experiments.run_folder import RunFolder, json_lines, json_object, metrics_files
from ktae.files.inputs import read_input
from ktae.files.text import short_names

Series = dict[int, float]
"""A value for each training step."""

HELD_OUT = "held-out accuracy"
NAMES = {
    "reward": ("reward", "critic/score/mean"),
    "response length": ("completions/mean_length", "response_length/mean"),
    "entropy": ("entropy", "actor/entropy", "actor/entropy_loss"),
    "KL": ("kl", "actor/kl_loss", "actor/ppo_kl"),
    "clip share": ("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac"),
    "truncated share": ("completions/clipped_ratio", "response_length/clip_ratio"),
    "gradient norm": ("grad_norm", "actor/grad_norm"),
    "loss": ("loss", "actor/pg_loss"),
    "seconds": ("seconds", "timing_s/step", "step_time"),
    "credit seconds": ("credit/seconds",),
}
"""What TRL and verl call each metric; the first name that a step has counts."""

BENCHMARK = re.compile(
    r"val-core/(?P<verl>.+)/(?:acc|reward|score)/mean@\d+"
    r"|eval_rewards/(?P<trl>.+)/mean"
)
"""Metrics of held-out problems. Of verl's, `mean@k` alone is an accuracy."""
LARGEST = 1e15
"""Larger metrics are left out, and infinite ones: they are no measurements."""

DRAWN = (HELD_OUT, "reward", "response length", "entropy")
"""The measures with a panel in the picture; held-out accuracy has one for each benchmark."""
CHECKPOINT = re.compile(r"checkpoint-\d+")
"""A folder of TRL's within the one that has the run's name."""
SEED = re.compile(r"[-_.]?seed[-_=]?\d+", re.IGNORECASE)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#f0e442")
"""Okabe and Ito's colours, which the colour-blind tell apart."""


class Arm(NamedTuple):
    """Runs that differ in their seeds alone."""

    name: str
    seeds: list[dict[str, Series]]  # the measures of each run

    def last(self, measure: str) -> float | None:
        """The mean over seeds of a run's last tenth of steps, of held-out accuracy of its last."""
        ends = []
        for series in (seed[measure] for seed in self.seeds if measure in seed):
            values = [series[step] for step in sorted(series)]
            n = 1 if measure.startswith(HELD_OUT) else -(-len(values) // 10)
            ends.append(np.mean(values[-n:]))
        return float(np.mean(ends)) if ends else None

    def median(self, measure: str) -> float | None:
        """Over all steps of all seeds."""
        values = [x for seed in self.seeds for x in seed.get(measure, {}).values()]
        return float(np.median(values)) if values else None


def arms(paths: Sequence[Path]) -> list[Arm]:
    """The runs, those together whose paths differ in a seed's number alone: `grpo-seed0`."""
    runs = set[Path]()
    by_path: dict[str, list[dict[str, Series]]] = defaultdict(list)
    for path in paths:
        run = path.resolve()
        if run.is_file():
            is_named = run.name in ("metrics.jsonl", "trainer_state.json")
            run = run.parent if is_named else run.with_suffix("")
        run = run.parent if CHECKPOINT.fullmatch(run.name) else run
        if run in runs:
            raise InputError(f"{path} is of a run that is given twice; it would count as two seeds")
        runs.add(run)
        by_path[SEED.sub("", str(run)).rstrip("/")].append(read(path))
    names = short_names([Path(key) for key in by_path])
    return [Arm(name, seeds) for name, seeds in zip(names, by_path.values(), strict=True)]


def read(path: Path) -> dict[str, Series]:
    """The measures of one run: a run folder of `ktae train`; verl's `metrics.jsonl`; a folder or
    file with TRL's `trainer_state.json` (of several the last step's)."""
    files = metrics_files(path) if path.is_dir() else [path]
    if path.suffix == ".json":
        steps = trainer_state(path)
    elif files:
        steps = metrics_by_step(files)
    else:
        states = map(trainer_state, path.rglob("trainer_state.json"))
        steps = max(states, key=lambda steps: max(steps, default=0), default={})
    measures: dict[str, Series] = defaultdict(dict)
    for step, metrics in sorted(steps.items()):
        for name, value in common_names(metrics).items() if abs(step) < LARGEST else ():
            measures[name][step] = value
    # `ktae train` evaluates twice: the policy before its first step and after its last.
    folder, last = RunFolder(path), max((max(x) for x in measures.values()), default=0)
    for step, file in ((0, folder.before), (last, folder.summary)):
        if file.exists():
            measures[HELD_OUT][step] = folder.read_scores(file)["greedy_accuracy"]
    if not any(name.partition(",")[0] in DRAWN for name in measures):
        raise InputError(
            f"{path}: no {' or '.join(DRAWN)} of training steps; expected a run folder, "
            "trainer_state.json of TRL, or metrics.jsonl of verl"
        )
    return dict(measures)


def common_names(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The known metrics of a training step, under their names in `NAMES`; those of held-out
    problems as `held-out accuracy, BENCHMARK`."""
    values = [(k, v) for k, v in metrics.items() if isinstance(v, int | float)]
    numbers = {k: float(v) for k, v in values if abs(v) < LARGEST}  # false for NaN, too
    named = {
        name: numbers[key] for name, keys in NAMES.items() for key in keys[::-1] if key in numbers
    }
    for key, value in numbers.items():
        if match := BENCHMARK.fullmatch(key):
            named[f"{HELD_OUT}, {match[match.lastgroup or 0]}"] = value
    return named


def metrics_by_step(files: Iterable[Path]) -> dict[int, dict[str, Any]]:
    """The metrics of each training step, of files in ktae's or verl's form. Of a step that was run
    again the last line counts.

    Raises:
        InputError: a line is damaged.
    """
    return {
        line["step"]: line["data"] if isinstance(line.get("data"), dict) else line
        for path in files
        for line in json_lines(path)
        if type(line.get("step")) is int
    }


def trainer_state(file: Path) -> dict[int, dict[str, Any]]:
    """The metrics of each training step in transformers' `trainer_state.json`, where a step may
    have an entry of its training and one of an evaluation."""
    steps: dict[int, dict[str, Any]] = defaultdict(dict)
    for entry in json_object(read_input(file), str(file)).get("log_history") or []:
        if isinstance(entry, dict) and type(entry.get("step")) is int:
            steps[entry["step"]].update(entry)
    return steps


def panels(all_arms: Iterable[Arm]) -> list[str]:
    """The measures that are drawn, in order."""
    names = {name for arm in all_arms for seed in arm.seeds for name in seed}
    return [name for drawn in DRAWN for name in sorted(names) if name.partition(",")[0] == drawn]


def draw(all_arms: Sequence[Arm], smooth: int = 1) -> Any:
    """A matplotlib figure: a panel for each measure, a line for each arm.

    With several seeds the line is their mean, and the band reaches from the lowest to the highest.
    Values are means over the last `smooth` steps, but of held-out accuracy.
    """
    from matplotlib.figure import Figure

    names = panels(all_arms)
    columns = min(len(names), 4)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.5 * rows + 0.5), layout="constrained")
    lines: dict[str, Any] = {}
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(rows, columns, place)
        window = 1 if name.startswith(HELD_OUT) else smooth
        for arm, colour in zip(all_arms, itertools.cycle(COLOURS), strict=False):
            seeds = [seed[name] for seed in arm.seeds if name in seed]
            # Where a seed is not as far as the others, the mean would be another one's.
            steps = sorted(set.intersection(*map(set, seeds))) if seeds else []
            if not steps:
                continue
            raw_st = np.array([[seed[step] for step in steps] for seed in seeds])
            ends = range(1, len(steps) + 1)
            values_ts = np.array([raw_st[:, max(n - window, 0) : n].mean(axis=1) for n in ends])
            style: dict[str, Any] = {"color": colour, "label": arm.name, "lw": 1.3, "ms": 3}
            form = "o-" if len(steps) < 3 else "-"
            (lines[arm.name],) = axes.plot(steps, values_ts.mean(axis=1), form, **style)
            low, high = values_ts.min(axis=1), values_ts.max(axis=1)
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0)
        axes.set_title(name, fontsize=9, loc="left", parse_math=False)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        if place > len(names) - columns:
            axes.set_xlabel("training step", fontsize=8)
    legend = {"loc": "outside lower center", "ncols": min(len(lines), 5), "frameon": False}
    for text in figure.legend(handles=[*lines.values()], fontsize=8, **legend).get_texts():
        text.set_parse_math(False)  # $ is a sign like others
    return figure
