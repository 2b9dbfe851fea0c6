"""The bench's results as tables: `ktae bench`, `ktae bench --learn`, real tokens.

python benchmarks/bench_tables.py --measure    # results/bench.csv and docs/images/bench.svg
python benchmarks/bench_tables.py --learning RUNS.csv    # results/bench_learning.csv
python benchmarks/bench_tables.py --write      # the tables of docs/evidence.md, from the CSVs
python benchmarks/bench_tables.py --check      # are they what the CSVs say?
"""

import argparse
import csv
import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from estimator import machine, write_rows

from ktae.bench import learning, pointing
from ktae.bench.worlds import WORLDS
from ktae.cli.bench import DEFAULTS
from ktae.estimators import as_estimator
from ktae.files import plots
from ktae.inference import t_interval

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/evidence.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--learning", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        measure()
        measure_dials()
    if arguments.learning:
        shutil.copy(arguments.learning, RESULTS / "bench_learning.csv")
    text = PAGE.read_text("utf-8")
    filled = fill(text)
    if arguments.write:
        PAGE.write_text(filled, "utf-8")
    if arguments.check and filled != text:
        sys.exit(f"{PAGE} differs from the CSVs; run {Path(__file__).name} --write")


def measure() -> None:
    """Measure all worlds and estimators, which takes seconds."""
    worlds = {name: make() for name, make in WORLDS.items()}
    results, left = pointing.measure(
        worlds,
        {name: as_estimator(name) for name in DEFAULTS},
        lambda what: print(what, flush=True),
    )
    assert not any(x.is_error for x in left), left
    write_rows(RESULTS / "bench.csv", [row_of(result) | machine() for result in results])
    names = sorted(
        {r.estimator for r in results} - {pointing.GRPO},
        key=lambda name: -pointing.mean_share(results, name)[0],
    )
    plots.save(pointing.picture(results, names, list(worlds)), ROOT / "docs/images/bench.svg")


def row_of(result: pointing.Result) -> dict[str, Any]:
    """A CSV row; intervals are three columns."""
    row: dict[str, Any] = {}
    for key, value in dataclasses.asdict(result).items():
        if key in ("cosine", "share_of_ceiling"):
            ends = value or ("", "", "")
            row |= {
                f"{key}{end}": f"{x:.4f}" if x != "" else ""
                for end, x in zip(("", "_low", "_high"), ends, strict=True)
            }
        else:
            row[key] = f"{value:.4f}" if isinstance(value, float) else value
    return row


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def shares() -> str:
    """Worlds × estimators, the share of the ceiling."""
    rows = read("bench.csv")
    share = {(r["world"], r["estimator"]): r["share_of_ceiling"] for r in rows}
    names = [*DEFAULTS, "random", "permuted"]
    lines = [f"| world | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    worlds = list(dict.fromkeys(r["world"] for r in rows))
    columns: dict[str, list[float]] = {name: [] for name in names}
    for world in worlds:
        cells = []
        for name in names:
            value = share.get((world, name), "")
            cells.append(f"{float(value):+.2f}" if value else "–")
            if value:
                columns[name].append(float(value))
        lines.append(f"| `{world}` | {' | '.join(cells)} |")
    for label, function in (("**mean**", lambda x: sum(x) / len(x)), ("**lowest**", min)):
        cells = [f"**{function(columns[name]):+.2f}**" for name in names]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


SHOWN = (
    *("exact everywhere", "exact", "exact added", "paper", "paper x4", "backoff", "trigrams"),
    *("conflict-tokens", "random places", "entropy penalty"),
)
"""The arms of the page's map; the CSV has all."""
DIALS: dict[str, tuple[float, ...]] = {
    "few-decisions": (1 / 2, 1 / 10, 1 / 200),
    "shared-names": (12, 40, 60),
    "only-together": (2, 4),
    "order-decides": (2, 3),
    "arithmetic": (4, 8),
    "early-method": (0.2, 0.8),
    "repaired": (0.2, 0.8),
    "symptoms": (2, 15),
    "shared-beginnings": (12, 48),
    "many-choices": (4, 12),
    "rare-success": (1 / 8, 1 / 4),
    "rare-failure": (1 / 8, 1 / 4),
    "longer-when-wrong": (2, 4),
    "rooms": (2, 6, 8),
    "look-ups": (0.1, 0.6),
}
"""Other settings of each world's dial, on which nothing was chosen."""
COMPARED = ("backoff", "paper", "calibrated", "trigrams")


def measure_dials() -> None:
    """The worlds at other dials."""
    worlds = {f"{name}({dial:.3g})": WORLDS[name](dial) for name in DIALS for dial in DIALS[name]}
    results, _ = pointing.measure(
        worlds,
        {name: as_estimator(name) for name in COMPARED},
        lambda what: print(what, flush=True),
    )
    write_rows(RESULTS / "bench_dials.csv", [row_of(result) | machine() for result in results])


def dials() -> str:
    """Shares at other dials: where `backoff` is below .25, and means over all of them."""
    rows = [row for row in read("bench_dials.csv") if row["share_of_ceiling"]]
    share = {(r["world"], r["estimator"]): float(r["share_of_ceiling"]) for r in rows}
    worlds = list(dict.fromkeys(r["world"] for r in rows))
    lines = [f"| world (dial) | {' | '.join(COMPARED)} |", "| --- |" + " --- |" * len(COMPARED)]
    for world in worlds:
        if share[world, "backoff"] < 0.25:
            cells = [f"{share[world, name]:+.2f}" for name in COMPARED]
            lines.append(f"| `{world}` | {' | '.join(cells)} |")
    means = [sum(share[w, name] for w in worlds) / len(worlds) for name in COMPARED]
    cells = [f"**{mean:+.2f}**" for mean in means]
    lines.append(f"| **mean of all {len(worlds)}** | {' | '.join(cells)} |")
    return "\n".join(lines)


def the_map() -> str:
    """Settings × arms: the gain over GRPO."""
    runs = RESULTS / "bench_learning.csv"
    before = runs.read_bytes()
    gains = {(g.setting, g.arm): g for g in learning.learn(runs)}
    assert runs.read_bytes() == before, "the CSV lacked runs, which were trained now"
    lines = [f"| setting | {' | '.join(SHOWN)} |", "| --- |" + " --- |" * len(SHOWN)]
    for setting in learning.SETTINGS:
        cells = []
        for arm in SHOWN:
            gain = gains[setting, arm]
            text = f"{gain.gain:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
            cells.append(f"**{text}**" if gain.p < 0.05 else text)
        lines.append(f"| {setting} | {' | '.join(cells)} |")
    return "\n".join(lines)


def real_tokens() -> str:
    """Estimators on real tokens."""
    lines = [
        "| credit | share of the ceiling | best weight's share | average precision | rank |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in read("real_tokens.csv"):
        cells = [
            f"{float(row[name]):+.2f} ({float(row[f'{name}_low']):+.2f} to "
            f"{float(row[f'{name}_high']):+.2f})"
            for name in ("share", "best_share", "precision", "rank")
        ]
        lines.append(f"| {row['estimator']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def demo_ceiling() -> str:
    """What advantages by continuation gain over GRPO on the demo's tasks, paired by seed."""
    rows = [row for row in read("demo_ceiling.csv") if row["role"] == "fresh"]
    lines = ["| task | beside GRPO's | instead of GRPO's | seeds |", "| --- | --- | --- | --- |"]
    for language in dict.fromkeys(row["language"] for row in rows):
        area = {
            (row["arm"], row["seed"]): float(row["area"])
            for row in rows
            if row["language"] == language
        }
        seeds = sorted({seed for _, seed in area})
        cells = []
        for arm in ("beside", "alone"):
            gain = t_interval(np.array([area[arm, s] - area["grpo", s] for s in seeds]))
            cells.append(f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})")
        lines.append(f"| {language} | {' | '.join(cells)} | {len(seeds)} |")
    return "\n".join(lines)


TABLES = {
    "bench shares": shares,
    "bench dials": dials,
    "bench map": the_map,
    "real tokens": real_tokens,
    "demo ceiling": demo_ceiling,
}


def fill(text: str) -> str:
    """The page with each table between its two comments made anew."""
    for name, table in TABLES.items():
        before, marker, rest = text.partition(f"<!-- {name} -->\n")
        if marker:
            after = rest[rest.index("<!-- end -->") :]
            text = f"{before}{marker}\n{table()}\n\n{after}"
    return text


if __name__ == "__main__":
    main()
