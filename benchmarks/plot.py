"""Draw time against tokens from results/estimator.csv, both axes logarithmic.

python benchmarks/plot.py docs/images/time-against-tokens.png
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results/estimator.csv"
LABELS = {
    "cpu": "ktae, CPU backend",
    "torch": "ktae, torch backend",
    "triton": "ktae, triton backend",
    "torch sort": "torch, the sort alone",
    "copy": "copying inputs and output",
    "verl grpo": "verl's GRPO advantages",
    "verl grpo_vectorized": "verl's vectorised GRPO advantages",
}
USUAL = {"dtype": "int32", "vocabulary": "151643"}


def series(rows: Iterable[dict[str, str]]) -> dict[str, list[tuple[float, ...]]]:
    """A line for each contender, device and machine: its tokens, 20 %, median and 80 % in seconds.

    Of several measurements of one point the newest counts. Where all lines are of one processor
    and no GPU, the labels do not name it.
    """
    newest: dict[tuple[str, str], dict[int, tuple[str, ...]]] = defaultdict(dict)
    for row in rows:
        if row["median_s"] == "not measured" or not usual(row):
            continue
        processor = row["gpu"] if row["device"] == "cuda" else row["cpu"]
        points = newest[row["name"], processor]
        tokens = int(row["tokens"])
        if row["date"] >= points.get(tokens, ("",))[0]:
            points[tokens] = tuple(row[key] for key in ("date", "p20_s", "median_s", "p80_s"))
    one_processor = len({processor for _, processor in newest}) == 1
    lines = sorted(newest.items(), key=lambda line: list(LABELS).index(line[0][0]))
    return {
        LABELS[name] + ("" if one_processor else f", {processor}"): [
            (tokens, *map(float, points[tokens][1:])) for tokens in sorted(points)
        ]
        for (name, processor), points in lines
    }


def usual(row: dict[str, str]) -> bool:
    return row["name"] in LABELS and row.items() >= USUAL.items()


def main(picture: Path) -> None:
    with RESULTS.open(newline="") as file:
        lines = series(csv.DictReader(file))
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, points in lines.items():
        tokens, low, median, high = zip(*points, strict=True)
        errors = [
            [m - x for m, x in zip(median, low, strict=True)],
            [x - m for m, x in zip(median, high, strict=True)],
        ]
        axes.errorbar(tokens, median, yerr=errors, marker="o", capsize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="unmasked tokens", ylabel="seconds (median)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
