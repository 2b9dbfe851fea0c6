"""Runs beside each other, or steps of one run: the same prompts, paired.

The test is that of `ktae compare`: sign flips of the prompts' differences, or random deals where
the numbers of samples differ; several comparisons are corrected by Holm. Intervals are Student's t
over prompts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.inference import ALPHA, Interval, holm, paired_p_value, t_interval
from ktae.report.data import Comparison, Finding, Link, Tone, p_text, percent, signed
from ktae.report.frame import Frame

POINTS = " points"
MOST_SIDES = 12
FEWEST_PROMPTS = 5  # that two steps must have in common; fewer tell nothing of the model
MOST_PROBLEMS = 200  # won, and lost, that are listed
LONGEST_PROMPT = 140  # characters of a prompt in these lists


class Side(NamedTuple):
    """A run, or a step: (P,) for each of all prompts of the dump."""

    name: str
    correct_p: np.ndarray
    known_p: np.ndarray
    length_p: np.ndarray  # mean tokens of a response; NaN where there is none
    group_p: np.ndarray  # a group of the prompt; -1: none

    def accuracy(self, common: np.ndarray) -> np.ndarray:
        """The share of correct responses of each of these prompts."""
        shares: np.ndarray = self.correct_p[common] / self.known_p[common]
        return shares


class Pair(NamedTuple):
    """Two sides, b minus a in accuracy, over the prompts with a verdict on both."""

    a: Side
    b: Side
    common: np.ndarray
    change: np.ndarray  # of the accuracy of each of these prompts
    interval: Interval
    p: float  # corrected for all pairs of the dump

    @property
    def sentence(self) -> str:
        """What may be said of them."""
        value, a, b = 100 * self.interval.value, self.a.name, self.b.name
        if self.p >= ALPHA:
            prompts = counted(len(self.common), "prompt")
            return f"No difference between {a} and {b} is shown on {prompts}"
        better, worse = (b, a) if value > 0 else (a, b)
        return f"{better} is better than {worse} by {abs(value):.1f} points"


def compare_sides(frame: Frame) -> list[Pair]:
    """Every other side against the first one: the inputs, or else steps that have prompts in
    common."""
    inputs, input_b = frame.origins.inputs, frame.origins.input_g[frame.group_b]
    if inputs:
        runs = np.unique(input_b).tolist()[:MOST_SIDES]
        sides = [_side(frame, inputs[run], input_b == run) for run in runs]
    else:
        # Steps with prompts that other steps have, too; of many some, evenly.
        prompt_g, step_g = frame.origins.prompt_g, frame.step_g
        prompt, step = np.unique(np.stack([prompt_g, step_g])[:, step_g >= 0], axis=1)
        is_shared = np.bincount(prompt, minlength=1)[prompt] > 1
        steps, n_prompts = np.unique(step[is_shared], return_counts=True)
        steps = steps[n_prompts >= FEWEST_PROMPTS]
        if len(steps) > MOST_SIDES:
            steps = steps[np.linspace(0, len(steps) - 1, MOST_SIDES).round().astype(int)]
        step_b = step_g[frame.group_b]
        sides = [_side(frame, f"step {step:,}", step_b == step) for step in steps.tolist()]
    pairs = list[Pair]()
    for a, b in itertools.product(sides[:1], sides[1:]):
        common = np.flatnonzero((a.known_p > 0) & (b.known_p > 0))
        if len(common) >= (1 if inputs else FEWEST_PROMPTS):
            change = (b.accuracy(common) - a.accuracy(common)).round(12)
            columns = (a.correct_p, a.known_p, b.correct_p, b.known_p)
            counts = np.stack([x[common] for x in columns], axis=1).astype(int)
            p = paired_p_value([tuple(x) for x in counts.tolist()])
            pairs.append(Pair(a, b, common, change, mean_interval(change), p))
    corrected = holm([pair.p for pair in pairs])
    return [pair._replace(p=p) for pair, p in zip(pairs, corrected, strict=True)]


def _side(frame: Frame, name: str, chosen_b: np.ndarray) -> Side:
    prompt_b = frame.origins.prompt_g[frame.group_b]
    n = int(prompt_b.max(initial=-1)) + 1
    size_p, correct_p, known_p, tokens_p = (
        np.bincount(prompt_b, x * chosen_b, n)
        for x in (np.ones(len(prompt_b)), frame.correct_b == 1, frame.known_b, frame.lengths_b)
    )
    group_p = np.full(n, -1)
    rows = np.flatnonzero(chosen_b)[::-1]
    group_p[prompt_b[rows]] = frame.group_b[rows]
    length_p = tokens_p / np.where(size_p > 0, size_p, np.nan)
    return Side(name, correct_p, known_p, length_p, group_p)


def mean_interval(values: np.ndarray) -> Interval:
    """Mean of paired values, and where they are not too few its interval."""
    if len(values) >= FEWEST_PROMPTS:
        return t_interval(values)
    return Interval(float(values.mean()), np.nan, np.nan)


def in_words(interval: Interval, unit: str) -> str:
    """As in "+5.5 points (95 % interval +3.2 to +7.9)"."""
    mean, low, high = (signed((100 if unit == POINTS else 1) * x, ",.1f") for x in interval)
    between = "" if np.isnan(interval.low) else f" (95 % interval {low} to {high})"
    return f"{mean}{unit}{between}"


def comparison(frame: Frame, pair: Pair, prompts: list[str | None]) -> Comparison:
    """A pair as the page has it; `prompts`: each group's."""
    a, b, common, change, interval, p = pair
    of_a, of_b = a.accuracy(common), b.accuracy(common)
    accuracy = ["accuracy", *(percent(float(x.mean())) for x in (of_a, of_b))]
    lengths = [x.length_p[common] for x in (a, b)]
    length = [f"mean {frame.dump.word}s", *(f"{x.mean():,.1f}" for x in lengths)]
    won, lost = (
        [i for i in np.argsort(-sign * change, kind="stable").tolist() if sign * change[i] > 0]
        for sign in (1, -1)
    )

    def problem(i: int) -> tuple[str, str, Link, Link]:
        groups = [int(x.group_p[common[i]]) for x in (a, b)]
        text = (prompts[groups[1]] or frame.origins.label[groups[1]])[:LONGEST_PROMPT]
        in_a, in_b = ({"view": "rollouts", "group": group} for group in groups)
        return text, f"{percent(of_a[i])} → {percent(of_b[i])}", in_a, in_b

    return Comparison(
        a.name,
        b.name,
        pair.sentence,
        [
            [*accuracy, f"{in_words(interval, POINTS)}, p = {p:.2g}"],
            [*length, in_words(mean_interval(lengths[1] - lengths[0]), "")],
        ],
        [problem(i) for i in won[:MOST_PROBLEMS]],
        [problem(i) for i in lost[:MOST_PROBLEMS]],
        *(len(won), len(lost), len(common) - len(won) - len(lost)),
    )


def runs(frame: Frame, pairs: list[Pair]) -> Iterator[Finding]:
    """Which of several runs is better, on the prompts that both answered."""
    for pair in pairs if frame.origins.inputs else ():
        a, b = pair.a.name, pair.b.name
        change = pair.change
        won, lost = int((change > 0).sum()), int((change < 0).sum())
        shown: Tone = "good" if pair.interval.value > 0 else "bad"
        yield Finding(
            *(f"run-{b}", shown if pair.p < ALPHA else "plain", f"{a} and {b}"),
            pair.sentence,
            f"{b} minus {a}: {in_words(pair.interval, POINTS)}, {p_text(pair.p)}, paired over "
            f"{counted(len(change), 'prompt')}",
            f"Of these prompts {won:,} are better with {b}, {lost:,} are worse and "
            f"{len(change) - won - lost:,} are the same.",
            link={"view": "compare"},
        )
