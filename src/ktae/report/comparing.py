"""Two to four runs beside each other, or steps of one run: the same prompts, paired.

The test is that of `ktae compare`: sign flips of the prompts' differences, or random deals where
the numbers of samples differ; several comparisons are corrected by Holm. Intervals are Student's t
over prompts.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.inference import ALPHA, Interval, holm, pooled_p_value, sign_flip_p_value, t_interval
from ktae.report.data import Comparison, Link, Problem, Row
from ktae.report.frame import Frame
from ktae.report.overview import percent
from ktae.report.summary import step_of_groups

MOST_SIDES = 12
FEWEST_PROMPTS = 5
"""Prompts that two steps must have in common; fewer tell nothing of the model."""

MOST_PROBLEMS = 200
"""Won, and lost, that are listed."""

LONGEST_PROMPT = 140
"""Characters of a prompt in these lists."""


@dataclasses.dataclass(frozen=True)
class Side:
    """A run, or a step, by prompt."""

    name: str
    prompts: dict[int, tuple[int, int, float, int]]
    """Correct and known responses, mean length, and a group, by the number of the prompt."""


class Difference(NamedTuple):
    """Side b minus side a in accuracy."""

    interval: Interval
    p: float
    """Corrected for all comparisons of the dump."""
    prompts: int

    @property
    def shown(self) -> bool:
        """Whether a difference is shown at the 5 % level."""
        return self.p < ALPHA


class Compared(NamedTuple):
    """What `compare_sides` returns."""

    comparisons: list[Comparison]
    differences: list[Difference]
    opened: int
    """The one of the largest difference."""
    by_run: bool


def sides_of(frame: Frame) -> tuple[list[Side], bool]:
    """What can be compared: the inputs, or else steps that have prompts in common with the first
    such step; and whether they are inputs."""
    run_g, names = np.array(frame.origins.run), frame.dump.names
    runs = sorted({*run_g.tolist()} - {-1})
    if runs:
        short = _short_names([names[run] for run in runs])
        named = zip(short, runs, strict=True)
        return [_side(frame, name, run_g == run) for name, run in named][:MOST_SIDES], True
    step_g, prompt_g = step_of_groups(frame), np.array(frame.origins.prompt)
    pairs = np.unique(np.stack([prompt_g, step_g])[:, step_g >= 0], axis=1)
    times = np.bincount(pairs[0]) if pairs.size else np.zeros(0)
    again = pairs[1][times[pairs[0]] > 1] if pairs.size else np.zeros(0, dtype=np.int64)
    values, n_prompts = np.unique(again, return_counts=True)
    steps = values[n_prompts >= FEWEST_PROMPTS].tolist()
    if len(steps) > MOST_SIDES:  # evenly, with the first and the last
        places = np.linspace(0, len(steps) - 1, MOST_SIDES).round().astype(int)
        steps = [steps[i] for i in places]
    return [_side(frame, f"step {step:,}", step_g == step) for step in steps], False


def _short_names(names: list[str]) -> list[str]:
    """The last parts of the paths, as many as tell them apart."""
    parts = [Path(name).parts for name in names]
    n = next(n for n in range(1, 99) if len({x[-n:] for x in parts}) == len(set(parts)) or n == 98)
    return [str(Path(*x[-n:])) for x in parts]


def _side(frame: Frame, name: str, chosen_g: np.ndarray) -> Side:
    known_g = frame.sum_rollouts(~np.isnan(frame.correct_b)).astype(int)
    correct_g = frame.sum_rollouts(frame.correct_b == 1).astype(int)
    tokens_g, sizes_g = frame.sum_rollouts(frame.lengths_b), np.diff(frame.starts_g)
    groups: dict[int, list[int]] = {}
    for group in np.flatnonzero(chosen_g).tolist():
        groups.setdefault(frame.origins.prompt[group], []).append(group)
    return Side(
        name,
        {
            prompt: (
                int(correct_g[its].sum()),
                int(known_g[its].sum()),
                float(tokens_g[its].sum() / sizes_g[its].sum()),
                its[0],
            )
            for prompt, its in groups.items()
        },
    )


def compare_sides(frame: Frame) -> Compared:
    """Every other side against the first one with which it has prompts in common."""
    sides, by_run = sides_of(frame)
    if len(sides) < 2:
        return Compared([], [], 0, by_run)
    pairs = [(sides[0], side) for side in sides[1:]]
    least = 1 if by_run else FEWEST_PROMPTS
    tested = [
        (a, b, x) for a, b in pairs if (x := _difference(a, b)) is not None and x.prompts >= least
    ]
    corrected = holm([x.p for _, _, x in tested])
    tested = [(a, b, x._replace(p=p)) for (a, b, x), p in zip(tested, corrected, strict=True)]
    differences = [x for _, _, x in tested]
    sizes = [abs(x.interval.value) for x in differences]
    prompts = frame.of_groups("prompt")
    unit = "words" if frame.dump.unit == "words" else "tokens"
    return Compared(
        [_comparison(a, b, x, frame, prompts, unit) for a, b, x in tested],
        differences,
        int(np.argmax(sizes)) if sizes else 0,
        by_run,
    )


def _common(a: Side, b: Side) -> list[int]:
    """Prompts with a verdict on both sides."""
    return [x for x, (_, n, _, _) in a.prompts.items() if n and b.prompts.get(x, (0, 0))[1]]


def _difference(a: Side, b: Side) -> Difference | None:
    prompts = _common(a, b)
    if not prompts:
        return None
    counts = [(*a.prompts[x][:2], *b.prompts[x][:2]) for x in prompts]
    values = np.array([c_b / n_b - c_a / n_a for c_a, n_a, c_b, n_b in counts]).round(12)
    if any(n_a != n_b for _, n_a, _, n_b in counts):
        p = pooled_p_value(counts)
    else:
        p = sign_flip_p_value(values)
    nothing = Interval(float(values.mean()), float("nan"), float("nan"))
    return Difference(t_interval(values) if len(values) >= 5 else nothing, p, len(values))


def in_points(interval: Interval) -> str:
    """As in "+5.5 points (95 % interval +3.2 to +7.9)"."""
    mean, low, high = (f"{100 * x:+z.1f}".replace("-", "−") for x in interval)
    between = "" if np.isnan(interval.low) else f" (95 % interval {low} to {high})"
    return f"{mean} points{between}"


def _comparison(
    a: Side,
    b: Side,
    difference: Difference,
    frame: Frame,
    prompts: list[str | None],
    unit: str,
) -> Comparison:
    common = _common(a, b)
    moved = []
    for x in common:
        (c_a, n_a, _, g_a), (c_b, n_b, _, g_b) = a.prompts[x], b.prompts[x]
        change = c_b / n_b - c_a / n_a
        links: list[Link] = [{"view": "rollouts", "group": g} for g in (g_a, g_b)]
        text = (prompts[g_b] or frame.origins.label[g_b])[:LONGEST_PROMPT]
        about = f"{percent(c_a / n_a)} → {percent(c_b / n_b)}"
        moved.append((change, Problem(text, about, *links)))
    won = sorted((x for x in moved if x[0] > 0), key=lambda x: -x[0])
    lost = sorted((x for x in moved if x[0] < 0), key=lambda x: x[0])
    accuracy = [
        percent(float(np.mean([side.prompts[x][0] / side.prompts[x][1] for x in common])))
        for side in (a, b)
    ]
    lengths = np.array([[side.prompts[x][2] for x in common] for side in (a, b)])
    change = lengths[1] - lengths[0]
    means = [f"{x:,.1f}" for x in lengths.mean(axis=1)]
    length = f"{change.mean():+,.1f}"
    if len(common) >= 5:
        length += " (95 % interval {1:+,.1f} to {2:+,.1f})".format(*t_interval(change))
    p = f"p = {difference.p:.2g}"
    return Comparison(
        a.name,
        b.name,
        sentence(a.name, b.name, difference),
        [
            Row(["accuracy", *accuracy, f"{in_points(difference.interval)}, {p}"]),
            Row([f"mean {unit}", *means, length.replace("-", "−")]),
        ],
        [problem for _, problem in won[:MOST_PROBLEMS]],
        [problem for _, problem in lost[:MOST_PROBLEMS]],
        len(won),
        len(lost),
        len(common) - len(won) - len(lost),
    )


def sentence(a: str, b: str, difference: Difference) -> str:
    """What may be said of two sides, in one sentence."""
    value = 100 * difference.interval.value
    if not difference.shown:
        return (
            f"No difference between {a} and {b} is shown on {counted(difference.prompts, 'prompt')}"
        )
    better, worse = (b, a) if value > 0 else (a, b)
    return f"{better} is better than {worse} by {abs(value):.1f} points"
