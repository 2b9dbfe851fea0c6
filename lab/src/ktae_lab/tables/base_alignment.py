"""Alignment at base models of the sums, before training: the tables and the figure of
pages/align.md."""

import functools
from pathlib import Path

from ktae_lab.align.stored import Measured, read
from ktae_lab.align.summary import Row, draw, rows
from ktae_lab.csv_files import read_csv
from ktae_lab.tables.page import RESULTS, Table, markdown, with_bounds

ALIGN = RESULTS / "align"
WEIGHTS = (0.3, 1, 2)
"""Norms of the credit's gradient, in multiples of GRPO's."""
MIXTURES = ("alone", "as trained")
METRICS = ("raw", "adam")


def figure(path: Path) -> None:
    """Draw the measurement of base model 0 as an SVG."""
    found = _measured("sums-base0").alignment
    draw(_rows("sums-base0"), found, path, title="the demo's base model 0 of sums")


def cosines(name: str) -> str:
    """Cosines and differences from `grpo` in both metrics, of one measurement."""
    by_key = _by_key(name)
    reliability = _measured(name).alignment.reliability
    halves = [f"{reliability[metric]:.3f}" for metric in METRICS]
    table = [["the reference's own halves", halves[0], "", halves[1], ""]]
    for estimator, mixture in dict.fromkeys(key[1:] for key in by_key):
        if mixture not in MIXTURES:
            continue
        cells = [f"`{estimator}`, {mixture}"]
        for metric in METRICS:
            row = by_key[metric, estimator, mixture]
            difference = "" if estimator == "grpo" else _difference(row)
            cells += [f"{row.cosine:.3f}", difference]
        table.append(cells)
    head = ["", "raw: cosine", "minus GRPO", "Adam's metric: cosine", "minus GRPO"]
    return markdown(head, table)


def feasibility(name: str) -> str:
    """The feasibility study's cosines beside a measurement's, and both as multiples of GRPO's."""
    by_key = _by_key(name)
    grpo = by_key["raw", "grpo", "alone"].cosine
    table = []
    for row in read_csv(ALIGN / "feasibility.csv"):
        theirs, base = float(row["cosine"]), float(row["grpo"])
        ours = by_key["raw", row["nearest_here"], row["mixture"]].cosine
        table.append([
            row["estimator"], row["mixture"], f"{theirs:.3f}", f"{base:.3f}",
            f"{theirs / base:.2f}", f"`{row['nearest_here']}`", f"{ours:.3f}", f"{grpo:.3f}",
            f"{ours / grpo:.2f}",
        ])  # fmt: skip
    then = ["then", "", "cosine", "GRPO", "times GRPO"]
    return markdown([*then, "now", "cosine", "GRPO", "times GRPO"], table)


def levels(*names: str) -> str:
    """What `paper` gives in several measurements, in multiples of GRPO's cosine too."""
    table = []
    for name in names:
        measured, by_key = _measured(name), _by_key(name)
        grpo = by_key["raw", "grpo", "alone"].cosine
        cells = []
        for mixture in ("alone", "× 1"):
            row = by_key["raw", "paper", mixture]
            cells += [f"{row.cosine / grpo:.2f}", _difference(row)]
        table.append([
            name, f"{measured.reference_prompts}, {measured.batches}",
            f"{measured.alignment.reliability['raw']:.3f}", f"{grpo:.3f}", *cells,
        ])  # fmt: skip
    head = ["", "prompts of reference, batches", "halves", "GRPO", "`paper` alone, times GRPO"]
    return markdown([*head, "minus GRPO", "× 1, times GRPO", "minus GRPO"], table)


def _difference(row: Row) -> str:
    """From GRPO, with its interval."""
    return with_bounds(row.difference, row.difference_low, row.difference_high)


def _by_key(name: str) -> dict[tuple[str, str, str], Row]:
    return {(row.metric, row.estimator, row.mixture): row for row in _rows(name)}


@functools.cache
def _rows(name: str) -> list[Row]:
    return rows(_measured(name).alignment, WEIGHTS)


def _measured(name: str) -> Measured:
    return _all(ALIGN)[name]


@functools.cache
def _all(folder: Path) -> dict[str, Measured]:
    return read(folder)


TABLES: dict[str, Table] = {
    "cosines": cosines,
    "feasibility": feasibility,
    "levels": levels,
}
