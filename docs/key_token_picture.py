"""Draw the README's picture: rollouts of one group of a demo run, each token shaded by its credit.

python docs/key_token_picture.py runs/demo-grpo-ktae-seed0 docs/images/key-tokens.png
"""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

# Blue for, orange against: distinguishable without seeing red and green.
COLOURS = LinearSegmentedColormap.from_list("credit", ["#e08214", "#ffffff", "#4393c3"])
COLUMNS, LINE_HEIGHT = 112, 0.28


def main(run: Path, picture: Path) -> None:
    step = pq.read_table(sorted((run / "rollouts").glob("step-*.parquet"))[0])
    rollouts = choose(step.to_pylist())
    draw(rollouts, picture)


def choose(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two correct and two incorrect rollouts of the most evenly divided group."""
    groups = pa.array([row["group"] for row in rows]).unique().to_pylist()

    def of(group: str, correct: float) -> list[dict[str, Any]]:
        found = [row for row in rows if row["group"] == group and row["correct"] == correct]
        return sorted(found, key=lambda row: len(row["token_ids"]))

    best = max(groups, key=lambda group: min(len(of(group, 1.0)), len(of(group, 0.0))))
    return of(best, 1.0)[:2] + of(best, 0.0)[:2]


def draw(rollouts: list[dict[str, Any]], picture: Path) -> None:
    lines = [layout(row) for row in rollouts]
    height = sum(len(rows) + 1.1 for rows in lines) * LINE_HEIGHT + 0.9
    ends = [x + len(word) for rows in lines for line in rows for x, word, _ in line]
    columns = max(len(rollouts[0]["prompt"]), *ends)
    figure = Figure(figsize=(0.081 * (columns + 2), height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1, columns + 1), ylim=(height / LINE_HEIGHT, 0))
    axes.axis("off")
    y = 1.0
    axes.text(0, y, rollouts[0]["prompt"], family="DejaVu Sans Mono", size=9.5, weight="bold")
    for row, placed in zip(rollouts, lines, strict=True):
        y += 1.3
        verdict = "correct" if row["correct"] else "incorrect"
        axes.text(
            0, y, f"{verdict}, rollout advantage {row['advantage']:+.2f}", size=9, color="#555555"
        )
        for line in placed:
            y += 1
            for x, word, credit in line:
                axes.text(
                    x, y, word, family="DejaVu Sans Mono", size=9.5,
                    bbox={"facecolor": COLOURS(credit + 0.5), "edgecolor": "none", "pad": 1.6},
                )  # fmt: skip
        y -= 0.2
    y += 1.4
    for x, word, credit in ((0, "against", -0.45), (9, "for a correct answer", 0.45)):
        colour = {"facecolor": COLOURS(credit + 0.5), "edgecolor": "none", "pad": 1.6}
        axes.text(x, y, word, size=9, bbox=colour)
    figure.savefig(picture, dpi=130, bbox_inches="tight", pad_inches=0.15)


def layout(row: dict[str, Any]) -> list[list[tuple[float, str, float]]]:
    """Words broken into lines: (column, word, credit)."""
    lines: list[list[tuple[float, str, float]]] = [[]]
    x = 0
    for word, credit in zip(row["response"].split(), row["credit"], strict=True):
        if x + len(word) > COLUMNS:
            lines.append([])
            x = 0
        lines[-1].append((x, word, credit))
        x += len(word) + 1
    return lines


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
