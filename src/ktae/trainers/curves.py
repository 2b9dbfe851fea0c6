"""A run's curves as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktae.files import plots

PANELS = {
    "reward": "reward (training batches)",
    "completions/mean_length": "response length (tokens)",
    "entropy": "entropy (nats per token)",
    "credit/mean_abs": "mean |token credit|",
}


def draw(lines: list[dict[str, Any]], path: Path, *, title: str) -> None:
    """Plot the metrics over training steps, each with its running mean, and write a PNG."""
    from matplotlib.figure import Figure

    panels = {
        key: label
        for key, label in PANELS.items()
        if any(line.get(key) is not None for line in lines)
    }
    figure = Figure(figsize=(9, 3 * ((len(panels) + 1) // 2)), layout="constrained")
    axes = figure.subplots((len(panels) + 1) // 2, 2, squeeze=False).flat
    for (key, label), axis in zip(panels.items(), axes, strict=False):
        points = [(line["step"], line[key]) for line in lines if line.get(key) is not None]
        steps, values = zip(*points, strict=True)
        axis.plot(steps, values, color="#9ecae1", linewidth=1)
        axis.plot(steps, _running_mean(values), color="#08519c", linewidth=2)
        axis.set_title(label, fontsize=10, loc="left")
        axis.set_xlabel("training step")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylim(bottom=min(0, *values))
    for axis in list(axes):
        axis.set_visible(False)
    figure.suptitle(title)
    plots.save(figure, path)


def _running_mean(values: tuple[float, ...], half_width: int = 5) -> list[float]:
    means = []
    for i in range(len(values)):
        window = values[max(0, i - half_width) : i + half_width + 1]
        means.append(sum(window) / len(window))
    return means
