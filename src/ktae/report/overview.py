"""The overview's numbers: tiles with their distributions, and a table of models."""

from __future__ import annotations

import numpy as np

from ktae.files.text import counted
from ktae.report.data import Bar, Histogram, Link, Row, Table, Tile
from ktae.report.frame import Frame

BINS = 20
"""Of a histogram."""


def percent(share: float) -> str:
    """As in "53.1 %"."""
    return f"{100 * share:.{0 if share in (0, 1) else 1}f} %"


def link(**changes: object) -> Link:
    """A link to the rollouts that a filter leaves."""
    return {"view": "rollouts", **changes}


def tiles(frame: Frame, mixed_g: np.ndarray) -> list[Tile]:
    """Rollouts by reward, groups by accuracy, accuracy by length, and kinds of groups."""
    known_b, correct_b = ~np.isnan(frame.correct_b), frame.correct_b == 1
    known_g, correct_g = frame.sum_rollouts(known_b), frame.sum_rollouts(correct_b)
    unit = "word" if frame.dump.unit == "words" else "token"
    kinds = {
        "incorrect": int(((known_g > 0) & (correct_g == 0)).sum()),
        "mixed": int(((correct_g > 0) & (correct_g < known_g)).sum()),
        "correct": int(((known_g > 0) & (correct_g == known_g)).sum()),
    }
    number = f"{correct_b.sum():,} of {known_b.sum():,} correct" if known_b.any() else "no rewards"
    return [
        Tile(
            f"{len(frame.group_b):,}",
            "responses",
            counted(len(frame.which_n), unit),
            _rewards(frame),
            "by reward",
        ),
        Tile(
            f"{len(frame.labels):,}",
            "groups",
            "prompts with their responses",
            _accuracies(known_g, correct_g),
            "by accuracy",
        ),
        Tile(
            percent(correct_b.sum() / known_b.sum()) if known_b.any() else "–",
            "accuracy",
            number,
            _lengths(frame, unit),
            f"{unit}s of correct and incorrect responses",
        ),
        Tile(
            f"{kinds['mixed']:,}", "mixed groups", "only these get credit", _kinds(kinds), "by kind"
        ),
    ]


def _rewards(frame: Frame) -> Histogram | None:
    reward_b = frame.reward_b[~np.isnan(frame.reward_b)]
    if not len(reward_b):
        return None
    values, times = np.unique(reward_b, return_counts=True)
    # A bin for each value where there are few.
    is_few = len(values) <= BINS
    counts, edges = (times, values) if is_few else np.histogram(reward_b, BINS)
    bars = []
    for i, n in enumerate(counts.tolist()):
        low, high = float(edges[i]), float(edges[i if is_few else i + 1])
        name = f"reward {low:.3g}" + ("" if is_few else f" to {high:.3g}")
        bars.append(
            Bar([(n, "plain")], f"{name}: {counted(n, 'response')}", link(reward=[low, high]))
        )
    return _histogram("Responses by reward", f"{edges[0]:.3g}", f"{edges[-1]:.3g}", bars)


def _accuracies(known_g: np.ndarray, correct_g: np.ndarray) -> Histogram | None:
    """As many bins as a group has rollouts and one more, at most `BINS`."""
    known = known_g > 0
    if not known.any():
        return None
    last = int(min(BINS, known_g.max() + 1)) - 1
    place_g = np.round(correct_g[known] / known_g[known] * last).astype(np.int64)
    bars = []
    for i, n in enumerate(np.bincount(place_g, minlength=last + 1).tolist()):
        share = i / last
        kind = {0: "incorrect", last: "correct"}.get(i, "plain")
        ends = [round(max(0, (i - 0.5) / last), 4), round(min(1, (i + 0.5) / last), 4)]
        label = f"{percent(share)} correct: {counted(n, 'group')}"
        bars.append(Bar([(n, kind)], label, link(accuracy=ends)))
    return _histogram("Groups by accuracy", "0 %", "100 %", bars)


def _lengths(frame: Frame, unit: str) -> Histogram | None:
    """Cut at the 99 % quantile, above which everything is in the last bin."""
    if not (~np.isnan(frame.correct_b)).any():
        return None
    longest = max(1.0, float(np.quantile(frame.lengths_b, 0.99)))
    cut_b = np.minimum(frame.lengths_b, longest)
    edges = np.linspace(0, longest, BINS + 1)
    correct, incorrect = (
        np.histogram(cut_b[frame.correct_b == x], edges)[0].tolist() for x in (1, 0)
    )
    bars = []
    for i in range(BINS):
        low, high = round(edges[i]), round(edges[i + 1])
        name = f"{low:,} or more" if i == BINS - 1 else f"{low:,} to {high:,}"
        label = f"{name} {unit}s: {correct[i]:,} correct, {incorrect[i]:,} incorrect"
        ends = [low, 1e9 if i == BINS - 1 else high]
        parts = [(incorrect[i], "incorrect"), (correct[i], "correct")]
        bars.append(Bar(parts, label, link(length=ends)))
    return _histogram("Responses by length", "0", f"{round(longest):,}+", bars)


def _kinds(kinds: dict[str, int]) -> Histogram:
    bars = []
    for kind, n in kinds.items():
        name = kind if kind == "mixed" else f"all {kind}"
        style = "plain" if kind == "mixed" else kind
        bars.append(Bar([(n, style)], f"{name}: {counted(n, 'group')}", link(groups=kind)))
    return _histogram("Groups by kind", "all incorrect", "all correct", bars)


def _histogram(name: str, low: str, high: str, bars: list[Bar]) -> Histogram:
    most = max(sum(n for n, _ in bar.parts) for bar in bars)
    return Histogram(name, low, high, most, bars)


def models_table(frame: Frame) -> Table | None:
    """Each model's rollouts, accuracy and mean length, best first; None with fewer than two."""
    names = np.array([name or "" for name in frame.rollouts["model"].to_pylist()])
    unit = "words" if frame.dump.unit == "words" else "tokens"
    ranked = []
    for name in np.unique(names[names != ""]).tolist():
        is_its = names == name
        known = int((is_its & ~np.isnan(frame.correct_b)).sum())
        correct = int((is_its & (frame.correct_b == 1)).sum())
        share = correct / known if known else -1.0
        length = f"{frame.lengths_b[is_its].mean():,.0f}"
        cells = [name, f"{is_its.sum():,}", percent(share) if known else "–", length]
        ranked.append((-share, Row(cells, link(model=name))))
    if len(ranked) < 2:
        return None
    rows = [row for _, row in sorted(ranked, key=lambda pair: pair[0])]
    return Table("Models", "", ["", "responses", "accuracy", f"mean {unit}"], rows)
