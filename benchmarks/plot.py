"""Draw time against tokens from results/estimator.csv, both axes logarithmic.

python benchmarks/plot.py docs/images/time-against-tokens.png
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results/estimator.csv"
LABELS = {
    "cpu": "ktae, CPU backend",
    "torch": "ktae, torch backend on the CPU",
    "copy": "copying inputs and output",
    "verl grpo": "verl's GRPO advantages",
    "verl grpo_vectorized": "verl's vectorised GRPO advantages",
}


def main(picture: Path) -> None:
    points = defaultdict(list)
    usual = {"dtype": "int32", "vocabulary": "151643"}
    with RESULTS.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["median_s"] != "not measured" and usual.items() <= row.items():
                measured = tuple(float(row[key]) for key in ("p20_s", "median_s", "p80_s"))
                points[row["name"]].append((int(row["tokens"]), *measured))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, label in LABELS.items():
        if points[name]:
            tokens, low, median, high = zip(*sorted(points[name]), strict=True)
            errors = [
                [m - x for m, x in zip(median, low, strict=True)],
                [x - m for m, x in zip(median, high, strict=True)],
            ]
            axes.errorbar(tokens, median, yerr=errors, marker="o", capsize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="unmasked tokens", ylabel="seconds (median)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
