"""The bench's results as tables: `ktae bench`, `ktae bench --learn`, real tokens.

python benchmarks/bench_tables.py    # the tables of docs/evidence.md, from the CSVs
python benchmarks/bench_tables.py --measure    # first results/bench.csv and docs/images/bench.svg
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from estimator import machine, read_rows, write_rows

from ktae.bench import learning, pointing
from ktae.bench.worlds import WORLDS
from ktae.cli.bench import DEFAULTS
from ktae.estimators import as_estimator
from ktae.files import plots

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
PAGE = ROOT / "docs/evidence.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        measure()
    PAGE.write_text(fill(PAGE.read_text("utf-8")), "utf-8")


def measure() -> None:
    """Measure all worlds and estimators, and some at other dials, which takes a minute."""
    worlds = {name: make() for name, make in WORLDS.items()}
    results = measured("bench.csv", worlds, DEFAULTS)
    names = sorted(
        {r.estimator for r in results} - {pointing.GRPO},
        key=lambda name: -pointing.mean_share(results, name)[0],
    )
    plots.save(pointing.picture(results, names, list(worlds)), ROOT / "docs/images/bench.svg")
    worlds = {f"{name}({dial:.3g})": WORLDS[name](dial) for name in DIALS for dial in DIALS[name]}
    measured("bench_dials.csv", worlds, COMPARED)


def measured(file: str, worlds: dict[str, Any], estimators: Sequence[str]) -> list[pointing.Result]:
    """The results, which are also written to that file."""
    credit = {name: as_estimator(name) for name in estimators}
    results, left = pointing.measure(worlds, credit, lambda what: print(what, flush=True))
    assert not any(x.is_error for x in left), left
    write_rows(RESULTS / file, [row_of(result) | machine() for result in results])
    return results


def row_of(result: pointing.Result) -> dict[str, Any]:
    """A CSV row; intervals are three columns."""
    row: dict[str, Any] = {}
    for key, value in dataclasses.asdict(result).items():
        several = key in ("cosine", "share_of_ceiling")
        values = value or ("", "", "") if several else (value,)
        for end, x in zip(("", "_low", "_high"), values, strict=False):
            row[key + end] = f"{x:.4f}" if isinstance(x, float) else x
    return row


SHOWN = ("exact everywhere", "exact", "paper", "paper x4", "backoff", "trigrams", "random places")
"""The arms of the page's map; the CSV has all."""
COMPARED = ("backoff", "paper", "calibrated", "trigrams")
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shares_of(name: str, estimators: Sequence[str]) -> dict[str, list[float | None]]:
    """By world each estimator's share of the ceiling; None where it has none."""
    share: dict[str, dict[str, str]] = {}
    for row in read_rows(RESULTS / name):
        share.setdefault(row["world"], {})[row["estimator"]] = row["share_of_ceiling"]
    return {
        world: [float(x) if (x := of.get(name)) else None for name in estimators]
        for world, of in share.items()
    }


def shares() -> str:
    """Worlds × estimators, the share of the ceiling; those that need turns are in the CSV."""
    names = [*DEFAULTS, "permuted"]
    share = shares_of("bench.csv", names)
    every = zip(names, zip(*share.values(), strict=True), strict=True)
    columns = {name: np.array(values, dtype=float) for name, values in every if None not in values}
    rows = [
        [f"`{world}`", *(f"{column[i]:+.2f}" for column in columns.values())]
        for i, world in enumerate(share)
    ]
    for label, function in (("**mean**", np.mean), ("**lowest**", np.min)):
        rows.append([label, *(f"**{function(column):+.2f}**" for column in columns.values())])
    return table(["world", *columns], rows)


def dials() -> str:
    """Shares at other dials: where `backoff` is below .25, and means over all of them."""
    share = shares_of("bench_dials.csv", COMPARED)
    values = np.array([x for x in share.values() if None not in x], dtype=float)
    low = {world: x for world, x in share.items() if x[0] is not None and x[0] < 0.25}
    rows = [[f"`{world}`", *(f"{x:+.2f}" for x in of)] for world, of in low.items()]
    rows.append([f"**mean of all {len(values)}**", *(f"**{x:+.2f}**" for x in values.mean(axis=0))])
    return table(["world (dial)", *COMPARED], rows)


def interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """As in `+.157 ±.031`, where the interval is symmetric but for a rounding."""
    if abs((high - value) - (value - low)) < 2 * 10**-digits:
        return f"{value:+.{digits}f} ±{(high - low) / 2:.{digits}f}"
    return f"{value:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def the_map() -> str:
    """Settings × arms: the gain over GRPO."""
    runs = RESULTS / "bench_learning.csv"
    before = runs.read_bytes()
    gains = {(g.setting, g.arm): g for g in learning.learn(runs)}
    assert runs.read_bytes() == before, "the CSV lacked runs, which were trained now"
    rows = []
    for setting in learning.SETTINGS:
        of = [gains[setting, arm] for arm in SHOWN]
        texts = [interval(gain.gain, gain.low, gain.high) for gain in of]
        pairs = zip(of, texts, strict=True)
        rows.append([setting, *(f"**{text}**" if gain.p < 0.05 else text for gain, text in pairs)])
    return table(["setting", *SHOWN], rows)


def real_tokens() -> str:
    """Estimators on real tokens."""
    names = ("share", "best_share", "precision", "rank")
    rows = []
    for row in read_rows(RESULTS / "real_tokens.csv"):
        spans = []
        for name in names:
            value, low, high = (float(row[name + end]) for end in ("", "_low", "_high"))
            spans.append(interval(value, low, high, 2))
        rows.append([row["estimator"], *spans])
    head = ["credit", "share of the ceiling", "best weight's share", "average precision", "rank"]
    return table(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "bench shares": shares,
    "bench dials": dials,
    "bench map": the_map,
    "real tokens": real_tokens,
}


def fill(text: str) -> str:
    """The page with each table between its two comments made anew."""
    for name, made in TABLES.items():
        before, marker, rest = text.partition(f"<!-- {name} -->\n")
        if marker:
            after = rest[rest.index("<!-- end -->") :]
            text = f"{before}{marker}\n{made()}\n\n{after}"
    return text


if __name__ == "__main__":
    main()
