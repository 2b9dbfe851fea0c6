"""From products to what people read: cosines with intervals, a table, a figure, JSON."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ktae.align.measure import BASE, Alignment, Products
from ktae.atomic import atomic_write

RESAMPLES = 10_000


@dataclasses.dataclass(frozen=True)
class Row:
    """The alignment of one mixture of rollout advantages and terms, in one metric."""

    metric: str
    estimator: str
    mixture: str
    """`alone`: the terms instead of the rollout advantages. `as trained`: added as they are.
    `× w`: added with w times the norm of the rollout advantages' gradient."""
    cosine: float
    low: float
    high: float
    """The mean over batches and its 95 % interval."""
    difference: float
    difference_low: float
    difference_high: float
    """From the rollout advantages alone, on the same batches."""


def rows(alignment: Alignment, weights: Sequence[float], *, seed: int = 0) -> list[Row]:
    """All mixtures of all estimators. Intervals are the percentiles of a bootstrap over batches."""
    found = []
    for metric, by_estimator in alignment.products.items():
        anything = next(iter(by_estimator.values()))
        draws = np.random.default_rng(seed).integers(len(anything), size=(RESAMPLES, len(anything)))
        base = np.array([p.cosine(1, 0) for p in anything])
        found.append(_row(metric, BASE, "alone", base, base, draws))
        for estimator, products in by_estimator.items():
            for mixture, cosine in _mixtures(weights):
                own = np.array([cosine(p) for p in products])
                found.append(_row(metric, estimator, mixture, own, base, draws))
    return found


def _mixtures(weights: Sequence[float]) -> Iterator[tuple[str, Callable[[Products], float]]]:
    yield "alone", lambda p: p.cosine(0, 1)
    yield "as trained", lambda p: p.cosine(1, 1)
    for weight in weights:
        yield f"× {weight:g}", functools.partial(_weighted, weight)


def _weighted(weight: float, products: Products) -> float:
    return products.cosine(1, weight * products.equal_norm())


def _row(
    metric: str,
    estimator: str,
    mixture: str,
    own: np.ndarray,
    base: np.ndarray,
    draws: np.ndarray,
) -> Row:
    def interval(values: np.ndarray) -> tuple[float, float]:
        low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
        return float(low), float(high)

    difference = own - base
    return Row(
        metric, estimator, mixture,
        float(own.mean()), *interval(own), float(difference.mean()), *interval(difference),
    )  # fmt: skip


def draw(found: Sequence[Row], path: Path, *, title: str) -> None:
    """Differences from the rollout advantages alone, one panel a metric; PNG or SVG by suffix."""
    from matplotlib.figure import Figure

    metrics = list(dict.fromkeys(row.metric for row in found))
    own = [row for row in found if row.estimator != BASE]
    labels = list(dict.fromkeys((row.estimator, row.mixture) for row in own))
    figure = Figure(figsize=(5.5 * len(metrics), 1.6 + 0.26 * len(labels)), layout="constrained")
    axes = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    for axis, metric in zip(axes, metrics, strict=True):
        for row in (row for row in own if row.metric == metric):
            y = labels.index((row.estimator, row.mixture))
            shown = row.difference_low > 0 or row.difference_high < 0
            color = "#08519c" if shown else "#737373"
            axis.plot([row.difference_low, row.difference_high], [y, y], color=color, linewidth=2)
            axis.plot(row.difference, y, marker="s", color=color, markersize=5)
        base = next(row for row in found if row.metric == metric and row.estimator == BASE)
        axis.axvline(0, color="black", linewidth=0.8)
        name = {"raw": "in the parameters", "adam": "in Adam's metric"}[metric]
        axis.set_title(f"{name}; {BASE} alone: {base.cosine:.3f}", fontsize=10)
        axis.set_xlabel(f"cosine with the reference, minus {BASE}'s (95 %)")
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(labels)), [f"{name}, {mixture}" for name, mixture in labels])
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize=11, parse_math=False)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=120)
