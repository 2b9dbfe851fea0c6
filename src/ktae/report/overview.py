"""The numbers of a dump: tiles with their distributions, models, and lines over training steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktae.files.text import counted
from ktae.report.data import Bar, Chart, Histogram, Line, Row, Table, Tile
from ktae.report.drafts import percent
from ktae.report.frame import Frame
from ktae.report.scoring import Scored
from ktae.rollouts.metrics import common_names

BINS = 20
"""Bins of a histogram."""

FOLLOWED = ("entropy", "KL", "clip share", "truncated share", "gradient norm", "loss")
"""What only the trainer knows, of the names of `ktae.rollouts.metrics`."""


def tiles(frame: Frame) -> list[Tile]:
    """Rollouts by reward, groups by accuracy, accuracy by length, and kinds of groups."""
    word = frame.dump.word
    known_g, correct_g = map(frame.sum_rollouts, (frame.known_b, frame.correct_b == 1))
    kinds = {
        "incorrect": int(((known_g > 0) & (correct_g == 0)).sum()),
        "mixed": int(((correct_g > 0) & (correct_g < known_g)).sum()),
        "correct": int(((known_g > 0) & (correct_g == known_g)).sum()),
    }
    by_kind = [
        _bar({"plain": n}, f"mixed: {counted(n, 'group')}", groups=kind)
        if kind == "mixed"
        else _bar({kind: n}, f"all {kind}: {counted(n, 'group')}", groups=kind)
        for kind, n in kinds.items()
    ]
    share, number, lengths = "–", "no rewards", None
    if known := int(frame.known_b.sum()):
        correct = int(correct_g.sum())
        share, number = percent(correct / known), f"{correct:,} of {known:,} correct"
        lengths = _lengths(frame, word)
    n, tokens, groups = len(frame.group_b), counted(len(frame.which_n), word), len(known_g)
    accuracies = _accuracies(known_g, correct_g)
    pictured = _histogram("Groups by kind", "all incorrect", "all correct", by_kind)
    mixed = f"{kinds['mixed']:,}"
    return [
        Tile(f"{n:,}", "responses", tokens, _rewards(frame), "by reward"),
        Tile(f"{groups:,}", "groups", "prompts with their responses", accuracies, "by accuracy"),
        Tile(share, "accuracy", number, lengths, f"{word}s of correct and incorrect responses"),
        Tile(mixed, "mixed groups", "only these get credit", pictured, "by kind"),
    ]


def _bar(parts: dict[str, int], label: str, **filter_: Any) -> Bar:
    """A bar of numbers by their kind, with a link to the rollouts that a filter leaves."""
    return Bar([(n, kind) for kind, n in parts.items()], label, {"view": "rollouts", **filter_})


def _histogram(name: str, low: str, high: str, bars: list[Bar]) -> Histogram | None:
    most = max((sum(n for n, _ in bar.parts) for bar in bars), default=0)
    return Histogram(name, low, high, most, bars) if most else None


def _rewards(frame: Frame) -> Histogram | None:
    reward_b = frame.reward_b[~np.isnan(frame.reward_b)]
    values, times = np.unique(reward_b, return_counts=True)
    if not len(values):
        return None
    # A bin for each value where there are few.
    is_few = len(values) <= BINS
    counts, edges = (times, values) if is_few else np.histogram(reward_b, BINS)
    bars = []
    for i, n in enumerate(counts.tolist()):
        low, high = float(edges[i]), float(edges[i if is_few else i + 1])
        name = f"reward {low:.3g}" + ("" if is_few else f" to {high:.3g}")
        bars.append(_bar({"plain": n}, f"{name}: {counted(n, 'response')}", reward=[low, high]))
    return _histogram("Responses by reward", f"{edges[0]:.3g}", f"{edges[-1]:.3g}", bars)


def _accuracies(known_g: np.ndarray, correct_g: np.ndarray) -> Histogram | None:
    """As many bins as a group has rollouts and one more, at most `BINS`."""
    known = known_g > 0
    last = max(1, int(min(BINS, known_g.max() + 1)) - 1)
    place_g = np.round(correct_g[known] / known_g[known] * last).astype(np.int64)
    bars = []
    for i, n in enumerate(np.bincount(place_g, minlength=last + 1).tolist()):
        kind = {0: "incorrect", last: "correct"}.get(i, "plain")
        ends = [round(max(0, (i - 0.5) / last), 4), round(min(1, (i + 0.5) / last), 4)]
        label = f"{percent(i / last)} correct: {counted(n, 'group')}"
        bars.append(_bar({kind: n}, label, accuracy=ends))
    return _histogram("Groups by accuracy", "0 %", "100 %", bars)


def _lengths(frame: Frame, word: str) -> Histogram | None:
    """Cut at the 99 % quantile, above which everything is in the last bin."""
    longest = max(1.0, float(np.quantile(frame.lengths_b, 0.99)))
    edges, cut_b = np.linspace(0, longest, BINS + 1), np.minimum(frame.lengths_b, longest)
    n = {
        kind: np.histogram(cut_b[frame.correct_b == x], edges)[0].tolist()
        for kind, x in (("incorrect", 0), ("correct", 1))
    }
    bars = []
    for i in range(BINS):
        low, high = round(edges[i]), round(edges[i + 1])
        name = f"{low:,} or more" if i == BINS - 1 else f"{low:,} to {high:,}"
        label = f"{name} {word}s: {n['correct'][i]:,} correct, {n['incorrect'][i]:,} incorrect"
        ends = [low, 1e9 if i == BINS - 1 else high]
        bars.append(_bar({kind: x[i] for kind, x in n.items()}, label, length=ends))
    return _histogram("Responses by length", "0", f"{round(longest):,}+", bars)


def models_table(frame: Frame) -> Table | None:
    """Each model's rollouts, accuracy and mean length, best first; None with fewer than two."""
    names = np.array([name or "" for name in frame.rollouts["model"].to_pylist()])
    ranked = []
    for name in np.unique(names[names != ""]).tolist():
        is_its = names == name
        known = frame.correct_b[is_its & frame.known_b]
        share = float(known.mean()) if len(known) else -1.0
        length = f"{frame.lengths_b[is_its].mean():,.0f}"
        cells = [name, f"{is_its.sum():,}", percent(share) if len(known) else "–", length]
        ranked.append((-share, Row(cells, {"view": "rollouts", "model": name})))
    if len(ranked) < 2:
        return None
    rows = [row for _, row in sorted(ranked, key=lambda pair: pair[0])]
    return Table("Models", "", ["", "responses", "accuracy", f"mean {frame.dump.word}s"], rows)


def charts(frame: Frame, scored: Scored) -> list[Chart]:
    """Numbers over training steps: what the rollouts tell, and what the trainer logged.

    One line, or one for each of several inputs; none where fewer than two steps are known.
    """
    input_g, names = frame.origins.input_g, frame.dump.names
    runs = sorted({*input_g.tolist()} - {-1})
    lines = {names[run]: _lines(frame, scored, input_g == run, {}) for run in runs} or {
        "": _lines(frame, scored, input_g == -1, frame.dump.metrics)
    }
    return [
        Chart(
            measure,
            [
                Line(run, list(x[measure]), list(x[measure].values()))
                for run, x in lines.items()
                if measure in x
            ],
        )
        for measure in dict.fromkeys(name for x in lines.values() for name in x)
    ]


def _lines(
    frame: Frame, scored: Scored, chosen_g: np.ndarray, logged: dict[int, dict[str, Any]]
) -> dict[str, dict[int, float]]:
    """By measure its value at each step that has one."""
    step_g = np.where(chosen_g, frame.step_g, -1)
    if len({*step_g[step_g >= 0].tolist(), *logged}) < 2:
        return {}
    step_b = step_g[frame.group_b]
    sums = {
        "accuracy": (frame.correct_b, frame.known_b),
        "response length": (frame.lengths_b, np.ones(len(step_b))),
        "reward": (frame.reward_b, ~np.isnan(frame.reward_b)),
        "mean |credit|": (frame.sum_tokens(np.abs(scored.credit_n)), scored.compared_b),
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
