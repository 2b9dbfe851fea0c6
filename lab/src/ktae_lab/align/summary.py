"""What a measurement keeps, the inner products of which every cosine can be made, and what people
read of them: cosines with intervals, and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ktae.errors import InputError
from ktae.inference import Interval, percentile_bounds
from ktae_lab.csv_files import read_table, write_table
from ktae_lab.figures import Mark, forest

BASE = "grpo"
"""The name of the rollout advantage alone, which every estimator is compared with."""
COVERED = "95 % over batches (bootstrap) and over the reference's prompts (jackknife)"
"""What the intervals are."""
RESAMPLES = 10_000
METRICS = {"raw": "in the parameters", "adam": "in Adam's metric"}


class Measured(NamedTuple):
    """One or many measurements as three tables."""

    about: pd.DataFrame
    """A row for each measurement and metric: the cosine of the reference's two halves
    (`reliability`), the rollouts' accuracy, how much was sampled, and the machine."""
    references: pd.DataFrame
    """A row for each of the K blocks of a reference: its products `rr_k` with all of them. The
    reference r is their sum."""
    products: pd.DataFrame
    """A row for each estimator and batch. b is the gradient of the rollout advantages, t that of
    the estimator's credit: `bb`, `bt`, `tt`, with the reference `br`, `tr`, `rr`, and with its
    blocks `br_k`, `tr_k`."""

    def write(self, folder: Path) -> None:
        """Write them into a folder; seven digits of each number."""
        for name, table in zip(FILES, self, strict=True):
            write_table(folder / name, table)


FILES = ("measurements.csv", "references.csv", "products.csv.gz")
"""Of `Measured`."""


def read(folder: Path) -> Measured:
    """The measurements of a folder.

    Raises:
        InputError: a table cannot be read.
    """
    return Measured(*(read_table(folder / name) for name in FILES))


class Row(NamedTuple):
    """The alignment of one mixture of rollout advantages and credit, in one metric."""

    metric: str
    estimator: str
    mixture: str
    """`alone`: the credit instead of the rollout advantages. `as trained`: added as they are.
    `× w`: added with w times the norm of the rollout advantages' gradient."""
    cosine: Interval
    """The mean over batches."""
    difference: Interval
    """From the rollout advantages alone, on the same batches."""
    scale: float | None
    """What the credit was multiplied by: the median of the batches that have some. The estimator
    under `scaled` by it trains on this mixture. None: `alone`, or no credit at all."""


def rows(measured: Measured, name: str, weights: Sequence[float] = ()) -> list[Row]:
    """All mixtures of all estimators of one measurement, with their intervals.

    They are the percentiles of a bootstrap over batches. One reference is behind all of them, so
    its error is added to each resample: the jackknife's standard error over the reference's blocks
    times a draw of Student's t.

    Raises:
        InputError: there is no such measurement.
    """
    table = []
    products = measured.products[measured.products["measurement"] == name]
    references = measured.references[measured.references["measurement"] == name]
    if products.empty:
        raise InputError(f"no measurement {name!r}")
    for metric, of_metric in products.groupby("metric", sort=False):
        blocks = references[references["metric"] == metric].filter(like="rr_")
        rr_kk = blocks.dropna(axis="columns").to_numpy()
        rng = np.random.default_rng(0)
        n_batches = of_metric["batch"].nunique()
        # The same draws for all rows of a metric, so that they can be compared.
        drawn = rng.integers(n_batches, size=(RESAMPLES, n_batches))
        noise = rng.standard_t(len(rr_kk) - 1, RESAMPLES)

        def interval(
            of_batches: np.ndarray, drawn: np.ndarray = drawn, noise: np.ndarray = noise
        ) -> Interval:
            """Of (1 + K, N) cosines: with the whole reference, and without each of its blocks."""
            with_all, without = of_batches[0], of_batches[1:].mean(axis=1)
            # The jackknife over blocks: how far the mean moves when one is left out.
            error = float(((len(without) - 1) * without.var()) ** 0.5)
            means = with_all[drawn].mean(axis=1) + noise * error
            return Interval(float(with_all.mean()), *percentile_bounds(means))

        base = None
        for estimator, of_estimator in of_metric.groupby("estimator", sort=False):
            if base is None:
                base = _cosines(of_estimator, rr_kk, 1.0, 0.0)
                at_zero = (interval(base), interval(base - base), None)
                table.append(Row(metric, BASE, "alone", *at_zero))
            for mixture, advantages, credit in _mixtures(of_estimator, weights):
                mixed = _cosines(of_estimator, rr_kk, advantages, credit)
                # Batches without credit have no length that could be scaled.
                has_credit = (of_estimator["tt"] > 0).to_numpy()
                scales = np.broadcast_to(credit, has_credit.shape)[has_credit]
                scale = float(np.median(scales)) if scales.size and advantages else None
                both = (interval(mixed), interval(mixed - base))
                table.append(Row(metric, estimator, mixture, *both, scale))
    return table


def _mixtures(
    products: pd.DataFrame, weights: Sequence[float]
) -> Iterator[tuple[str, float, np.ndarray | float]]:
    """Name, and what advantages and credit are multiplied by: one number, or one a batch."""
    yield "alone", 0.0, 1.0
    yield "as trained", 1.0, 1.0
    tt = products["tt"].to_numpy()
    ratio = products["bb"].to_numpy() / np.where(tt > 0, tt, np.inf)
    for weight in weights:
        yield f"× {weight:g}", 1.0, weight * ratio**0.5


def _cosines(
    products: pd.DataFrame, rr_kk: np.ndarray, advantages: float, credit: np.ndarray | float
) -> np.ndarray:
    """(1 + K, N) cosines of advantages · b + credit · t with r, and with r less each block.

    0 where either is 0.
    """
    x, y = advantages, credit
    bb, bt, tt, br, tr, rr = (products[c].to_numpy() for c in ("bb", "bt", "tt", "br", "tr", "rr"))
    n_blocks = len(rr_kk)
    blocks = [f"_{k}" for k in range(n_blocks)]
    br_kn = products[[f"br{k}" for k in blocks]].to_numpy().T
    tr_kn = products[[f"tr{k}" for k in blocks]].to_numpy().T
    br_kn, tr_kn = np.vstack([br, br - br_kn]), np.vstack([tr, tr - tr_kn])
    # |r - r_k|² = |r|² - 2 r·r_k + |r_k|², and r is the sum of its blocks.
    rr_k = rr[0] - 2 * rr_kk.sum(axis=1) + rr_kk.diagonal()
    squared = (x * x * bb + 2 * x * y * bt + y * y * tt) * np.append(rr[0], rr_k)[:, None]
    # Where either is 0 the product is 0 too, and 0 / ∞ is 0.
    lengths = np.where(squared > 0, squared, np.inf) ** 0.5
    return np.asarray((x * br_kn + y * tr_kn) / lengths)


def draw(table: Sequence[Row], title: str, path: Path) -> None:
    """Differences from the rollout advantages alone, one panel a metric, as SVG."""
    panels: dict[str, dict[str, list[Mark]]] = {}
    for row in table:
        if row.estimator != BASE:
            lines = panels.setdefault(METRICS[row.metric], {})
            lines[f"{row.estimator}, {row.mixture}"] = [Mark("", row.difference)]
    forest(panels, f"{title}: cosine less {BASE}'s; {COVERED}", path)
