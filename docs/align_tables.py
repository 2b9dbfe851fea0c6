"""The tables and the figure of docs/align.md, from the committed measurements.

    python docs/align_tables.py          # writes them
    python docs/align_tables.py --check  # fails if the page has other tables

page.py says how tables stand in the page.
"""

import sys
from collections.abc import Callable
from typing import Any

from page import IMAGES, ROOT, aligned_difference, filled, markdown, read_csv, read_json

from ktae.align.summary import draw, read, rows

PAGE = ROOT / "docs" / "align.md"
ALIGN = ROOT / "study" / "align"
FIGURE = "align-sums-base0"
MIXTURES = ("alone", "as trained")
METRICS = ("raw", "adam")


def main() -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = filled(old, TABLES)
    if "--check" in sys.argv[1:]:
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    found = read(ALIGN / "sums-base0.json")
    table = rows(found, [0.3, 1, 2])
    draw(table, found, IMAGES / f"{FIGURE}.svg", title="the demo's base model 0 of sums")
    return 0


def cosines(name: str) -> str:
    """Cosines and differences from `grpo` in both metrics, of one measurement."""
    report = _report(name)
    by_key = _rows(report)
    halves = [f"{report['reliability'][metric]:.3f}" for metric in METRICS]
    table = [["the reference's own halves", halves[0], "", halves[1], ""]]
    for estimator, mixture in dict.fromkeys(key[1:] for key in by_key):
        if mixture not in MIXTURES:
            continue
        cells = [f"`{estimator}`, {mixture}"]
        for metric in METRICS:
            row = by_key[metric, estimator, mixture]
            difference = "" if estimator == "grpo" else aligned_difference(row)
            cells += [f"{row['cosine']:.3f}", difference]
        table.append(cells)
    head = ["", "raw: cosine", "minus GRPO", "Adam's metric: cosine", "minus GRPO"]
    return markdown(head, table)


def feasibility(name: str) -> str:
    """The feasibility study's cosines beside a measurement's, and both as multiples of GRPO's."""
    by_key = _rows(_report(name))
    grpo = by_key["raw", "grpo", "alone"]["cosine"]
    table = []
    for row in read_csv(ALIGN / "feasibility.csv"):
        theirs, base = float(row["cosine"]), float(row["grpo"])
        ours = by_key["raw", row["nearest_here"], row["mixture"]]["cosine"]
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
        report = _report(name)
        by_key = _rows(report)
        grpo = by_key["raw", "grpo", "alone"]["cosine"]
        plan, cells = report["plan"], []
        for mixture in ("alone", "× 1"):
            row = by_key["raw", "paper", mixture]
            cells += [f"{row['cosine'] / grpo:.2f}", aligned_difference(row)]
        table.append([
            name, f"{plan['reference_prompts']}, {plan['batches']}",
            f"{report['reliability']['raw']:.3f}", f"{grpo:.3f}", *cells,
        ])  # fmt: skip
    head = ["", "prompts of reference, batches", "halves", "GRPO", "`paper` alone, times GRPO"]
    return markdown([*head, "minus GRPO", "× 1, times GRPO", "minus GRPO"], table)


def _report(name: str) -> dict[str, Any]:
    return read_json(ALIGN / f"{name}.json")


def _rows(report: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["metric"], row["estimator"], row["mixture"]): row for row in report["rows"]}


TABLES: dict[str, Callable[..., str]] = {
    "cosines": cosines,
    "feasibility": feasibility,
    "levels": levels,
}

if __name__ == "__main__":
    sys.exit(main())
