"""From products to what people read: cosines with intervals, a table, a figure, JSON."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ktae.errors import InputError
from ktae.inference import percentile_bounds
from ktae_lab import svg
from ktae_lab.align.products import BASE, Alignment, Blocks, Products

RESAMPLES = 10_000


@dataclasses.dataclass(frozen=True)
class Row:
    """The alignment of one mixture of rollout advantages and credit, in one metric."""

    metric: str
    estimator: str
    mixture: str
    """`alone`: the credit instead of the rollout advantages. `as trained`: added as they are.
    `× w`: added with w times the norm of the rollout advantages' gradient."""
    cosine: float
    low: float
    high: float
    """The mean over batches and its 95 % interval."""
    difference: float
    difference_low: float
    difference_high: float
    """From the rollout advantages alone, on the same batches."""
    difference_reference_error: float | None
    """What the reference's own noise adds to the difference's standard error; None, and not in the
    intervals, where the reference's blocks were not kept."""
    scale: float | None
    """What the credit was multiplied by: the median of the batches that have some. The estimator
    under `scaled` by it trains on this mixture. None: `alone`, or no credit at all."""


@dataclasses.dataclass(frozen=True)
class _Cosines:
    """Of one mixture: with the whole reference, and with it less one block."""

    whole: np.ndarray
    """(N,) one a batch."""
    without: np.ndarray
    """(K, N); K is 0 where no blocks were kept."""

    def __sub__(self, other: _Cosines) -> _Cosines:
        return _Cosines(self.whole - other.whole, self.without - other.without)

    def reference_error(self) -> float | None:
        """The jackknife's standard error of the mean over batches, over the reference's blocks."""
        if not len(self.without):
            return None
        means = self.without.mean(axis=1)
        return float(((len(means) - 1) * means.var()) ** 0.5)


def rows(alignment: Alignment, weights: Sequence[float], *, seed: int = 0) -> list[Row]:
    """All mixtures of all estimators, with intervals for other batches and another reference.

    They are the percentiles of a bootstrap over batches. One reference is behind all of them, so
    its error is added to each resample: the jackknife's standard error over the reference's blocks
    times a draw of Student's t. Without blocks an interval is of batches alone, and too narrow.
    """
    found = []
    for metric, by_estimator in alignment.products.items():
        blocks = alignment.blocks.get(metric)
        resample = _Resample(by_estimator, blocks, seed)
        base: _Cosines | None = None
        for estimator, products in by_estimator.items():
            without = blocks.without_each(estimator, products) if blocks else []
            if base is None:
                base = _cosines(lambda p: p.cosine(1, 0), products, without)
                found.append(_row(metric, BASE, "alone", None, base, base, resample))
            for mixture, weigh in _mixtures(weights):
                own = _cosines(functools.partial(_cosine_of, weigh), products, without)
                # Of batches with credit: others have no length that could be scaled.
                scales = [weigh(p) for p in products if p.tt > 0] if weigh is not None else []
                scale = float(np.median(scales)) if scales else None
                found.append(_row(metric, estimator, mixture, scale, own, base, resample))
    return found


def _cosines(
    cosine: Callable[[Products], float],
    products: Sequence[Products],
    without: Sequence[Sequence[Products]],
) -> _Cosines:
    left_out = [[cosine(p) for p in part] for part in without]
    return _Cosines(
        np.array([cosine(p) for p in products]),
        np.array(left_out).reshape(len(without), len(products)),
    )


class _Resample:
    """Draws what other batches and another reference might have given, the same for all rows."""

    def __init__(
        self, by_estimator: Mapping[str, Sequence[Products]], blocks: Blocks | None, seed: int
    ) -> None:
        rng = np.random.default_rng(seed)
        n_batches = len(next(iter(by_estimator.values())))
        self._batches = rng.integers(n_batches, size=(RESAMPLES, n_batches))
        self._noise = rng.standard_t(len(blocks.rr) - 1, RESAMPLES) if blocks else np.zeros(1)

    def interval(self, cosines: _Cosines) -> tuple[float, float]:
        """95 % of the mean over batches."""
        means = cosines.whole[self._batches].mean(axis=1)
        means += self._noise * (cosines.reference_error() or 0.0)
        return percentile_bounds(means)


def covered(alignment: Alignment) -> str:
    """What the intervals of `rows` cover, in words."""
    if not alignment.blocks:
        return "95 % over batches alone: the reference's own noise comes on top"
    n_blocks = len(next(iter(alignment.blocks.values())).rr)
    return (
        f"95 % over batches (bootstrap) and over the reference's prompts (jackknife, {n_blocks} "
        "blocks)"
    )


def read(path: Path) -> Alignment:
    """The measurement in an `align.json`, from which `rows` gives any other weights.

    Raises:
        InputError: the file cannot be read or holds no alignment.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return Alignment(
            reliability=report["reliability"],
            products={
                metric: {name: [Products(**one) for one in own] for name, own in estimators.items()}
                for metric, estimators in report["products"].items()
            },
            accuracy=report["accuracy"],
            blocks={metric: Blocks(**own) for metric, own in report.get("blocks", {}).items()},
        )
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} is no align.json: {type(error).__name__} ({error}); expected what "
            "`ktae-lab align` writes"
        ) from None


Weigh = Callable[[Products], float] | None
"""What a batch's credit is multiplied by; None: it replaces the advantages."""


def _mixtures(weights: Sequence[float]) -> Iterator[tuple[str, Weigh]]:
    yield "alone", None
    yield "as trained", lambda products: 1.0
    for weight in weights:
        yield f"× {weight:g}", functools.partial(_to_length, weight)


def _to_length(weight: float, products: Products) -> float:
    return weight * products.equal_norm()


def _cosine_of(weigh: Weigh, products: Products) -> float:
    return products.cosine(0, 1) if weigh is None else products.cosine(1, weigh(products))


def _row(
    metric: str,
    estimator: str,
    mixture: str,
    scale: float | None,
    own: _Cosines,
    base: _Cosines,
    resample: _Resample,
) -> Row:
    difference = own - base
    return Row(
        metric, estimator, mixture,
        float(own.whole.mean()), *resample.interval(own),
        float(difference.whole.mean()), *resample.interval(difference),
        difference.reference_error(),
        scale,
    )  # fmt: skip


def draw(found: Sequence[Row], alignment: Alignment, path: Path, *, title: str) -> None:
    """Differences from the rollout advantages alone, one panel a metric, as SVG."""
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
        axis.set_title(
            f"{name}; {BASE} alone: {base.cosine:.3f}\n"
            f"the reference's own halves: {alignment.reliability[metric]:.2f}",
            fontsize=10,
        )
        axis.set_xlabel(f"cosine with the reference, minus {BASE}'s (95 %)")
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(labels)), [f"{name}, {mixture}" for name, mixture in labels])
    axes[0].invert_yaxis()
    figure.suptitle(f"{title}\n{covered(alignment)}", fontsize=11, parse_math=False)
    svg.save(figure, path)
