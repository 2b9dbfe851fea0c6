"""The tables of docs/results.md, from the committed results.

    python docs/results_tables.py          # writes them into the page
    python docs/results_tables.py --check  # fails if the page has others

A table stands in the page between `<!-- table: NAME ... -->` and `<!-- end -->`; the text around it
is written by hand. The figures that the page shows are copied beside it.
"""

import csv
import json
import re
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ktae.study.statistics import mean_interval, pointwise_band

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results.md"
STUDIES = ROOT / "study" / "results"
PAPER = ROOT / "study" / "paper"
IMAGES = ROOT / "docs" / "images"
FIGURES = {
    f"results-{name}.svg": STUDIES / "main" / "figures" / f"{name}.svg"
    for name in ("curves-grpo-sums", "curves-grpo-lists", "differences-sums", "differences-lists")
}
"""Names beside the page, and whose copies they are."""

OUTCOMES = {
    "sampled_accuracy": "sampled accuracy",
    "greedy_accuracy": "greedy accuracy",
    "mean_accuracy": "mean accuracy over the run",
    "length": "length",
    "entropy": "entropy",
}


def main() -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = filled(old)
    if "--check" in sys.argv[1:]:
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    for name, source in FIGURES.items():
        shutil.copyfile(source, IMAGES / name)
    return 0


def filled(page: str, tables: dict[str, Callable[..., str]] | None = None) -> str:
    """The page with every table made anew, by the functions of `tables` (`TABLES` by default)."""
    made_by = TABLES if tables is None else tables

    def table(match: re.Match[str]) -> str:
        name, *arguments = match["call"].split()
        return f"<!-- table: {match['call']} -->\n\n{made_by[name](*arguments)}\n\n<!-- end -->"

    return re.sub(
        r"<!-- table: (?P<call>[^\n]*?) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL
    )


def runs(study: str, task: str) -> str:
    """Each method's outcomes: mean over seeds with Student's 95 % interval."""
    rows = []
    found = [r for r in _read(STUDIES / study / "runs.csv") if r["state"] == "finished"]
    of_task = [row for row in found if row["task"] == task]
    for method in dict.fromkeys(row["method"] for row in of_task):
        mine = [row for row in of_task if row["method"] == method]
        cells = [_mean_and_half([float(r[f"outcome.{o}"]) for r in mine], o) for o in OUTCOMES]
        rows.append([f"`{method}`", str(len(mine)), *cells])
    return _markdown(["method", "runs", *OUTCOMES.values()], rows)


def comparisons(study: str, kind: str) -> str:
    """Paired differences of one kind, those with enough pairs."""
    results = json.loads((STUDIES / study / "results.json").read_text(encoding="utf-8"))
    rows = []
    for one in results["comparisons"]:
        if one["kind"] != kind or one["interval"] is None:
            continue
        digits = 1 if one["outcome"] == "length" else 3
        low, high = (f"{x:+.{digits}f}" for x in one["interval"])
        rows.append([
            f"`{one['treatment']}` - `{one['baseline']}`", one["task"], OUTCOMES[one["outcome"]],
            str(len(one["seeds"])), f"{one['difference']:+.{digits}f} ({low} to {high})",
            f"{one['p_value']:.2g}", f"{one['corrected']:.2g}",
            "yes" if one["shown"] else "no",
        ])  # fmt: skip
    head = ["difference", "task", "outcome", "pairs", "mean (95 %)", "p", "Holm", "shown"]
    return _markdown(head, rows)


def counts(study: str) -> str:
    """How many runs there are, and on what they ran."""
    results = json.loads((STUDIES / study / "results.json").read_text(encoding="utf-8"))
    rows = [[state, str(n)] for state, n in results["runs"].items()]
    for machine in results["trained_by"]:
        what = f"{machine['cpu']}, {machine['cores']} cores, {machine['versions']}"
        rows.append([f"{machine['runs']} of them at commit `{machine['commit']}`", what])
    return _markdown(["runs", ""], rows)


def step_time(study: str) -> str:
    """Seconds a training step, medians over runs of their medians, and the estimator's share."""
    rows = []
    finished = [r for r in _read(STUDIES / study / "runs.csv") if r["state"] == "finished"]
    for method in dict.fromkeys(row["method"] for row in finished):
        mine = [row for row in finished if row["method"] == method]
        step = statistics.median(float(row["seconds_per_step"]) for row in mine)
        ktae = [float(r["ktae_seconds_per_step"]) for r in mine if r["ktae_seconds_per_step"]]
        own = statistics.median(ktae) if ktae else None
        shown = ["", ""] if own is None else [f"{1000 * own:.1f} ms", f"{own / step:.2%}"]
        rows.append([f"`{method}`", str(len(mine)), f"{step:.2f} s", *shown])
    return _markdown(["method", "runs", "a step", "the estimator in it", "its share"], rows)


def temperatures(study: str, task: str, column: str, baseline: str) -> str:
    """A column of temperatures.csv: the baseline's mean, and paired differences from it."""
    found = [r for r in _read(STUDIES / study / "temperatures.csv") if r["task"] == task]
    columns = list(dict.fromkeys(row["temperature"] for row in found))
    values = {
        (r["method"], r["temperature"], r["seed"], r["base_model"]): float(r[column]) for r in found
    }
    rows = []
    for method in dict.fromkeys([baseline, *(row["method"] for row in found)]):
        cells, pairs = [], 0
        for temperature in columns:
            mine = {k[2:]: v for k, v in values.items() if k[:2] == (method, temperature)}
            base = {k[2:]: v for k, v in values.items() if k[:2] == (baseline, temperature)}
            both = sorted(mine.keys() & base.keys())
            pairs = len(both)
            if method == baseline:
                cells.append(f"{statistics.mean(base.values()):.3f}")
                continue
            mean, low, high = mean_interval(np.array([mine[k] - base[k] for k in both]))
            cells.append(f"{mean:+.3f} ({low:+.3f} to {high:+.3f})")
        rows.append([f"`{method}`", str(pairs), *cells])
    return _markdown(["method", "pairs", *(f"T = {t}" for t in columns)], rows)


def paper_accuracy(*_: str) -> str:
    """The paper's averages, with the error of so few problems that the paper leaves out."""
    table = _read(PAPER / "accuracy.csv")
    rows = []
    for model in ("1.5B", "7B"):
        for method in ("GRPO", "DAPO"):
            plain, ktae = (
                [r for r in table if (r["model"], r["method"]) == (model, name)]
                for name in (method, f"{method}+KTAE")
            )
            differences = [
                float(k["accuracy"]) - float(p["accuracy"])
                for k, p in zip(ktae, plain, strict=True)
            ]
            half = 1.96 * _standard_error([*plain, *ktae], len(plain))
            mean = statistics.mean(differences)
            each = " / ".join(f"{d:+.1f}" for d in differences)
            rows.append([
                model, f"{method}+KTAE - {method}", each, f"{mean:+.1f}",
                f"{mean - half:+.1f} to {mean + half:+.1f}",
            ])  # fmt: skip
    benchmarks = " / ".join(dict.fromkeys(f"{r['benchmark']} ({r['problems']})" for r in table))
    return _markdown(["model", "difference", benchmarks, "average", "95 % of the average"], rows)


def paper_step_time(*_: str) -> str:
    """The paper's seconds a step."""
    table = {(r["model"], r["method"]): float(r["seconds"]) for r in _read(PAPER / "step_time.csv")}
    rows = []
    for model in ("1.5B", "7B"):
        for method in ("GRPO", "DAPO"):
            plain, ktae = table[model, method], table[model, f"{method}+KTAE"]
            added = f"{ktae - plain:.0f} s ({(ktae - plain) / plain:.0%})"
            rows.append([model, method, f"{plain:.0f} s", f"{ktae:.0f} s", added])
    return _markdown(["model", "method", "a step", "with KTAE", "added"], rows)


def alignment(*names: str) -> str:
    """Cosines of `grpo` and differences from it along a run, raw metric, one column a file."""
    found = [
        json.loads((ROOT / "study" / "align" / f"{name}.json").read_text(encoding="utf-8"))
        for name in names
    ]
    raw = [
        {(r["estimator"], r["mixture"]): r for r in one["rows"] if r["metric"] == "raw"}
        for one in found
    ]
    halves = [f"cosine {one['reliability']['raw']:.3f}" for one in found]
    rows = [["the reference's own halves", *halves]]
    for estimator, mixture in dict.fromkeys(key for of_file in raw for key in of_file):
        if mixture in ("alone", "as trained"):
            cells = [_aligned(of_file.get((estimator, mixture))) for of_file in raw]
            rows.append([f"`{estimator}`, {mixture}", *cells])
    return _markdown(["estimator", *names], rows)


def _aligned(row: dict[str, float] | None) -> str:
    if row is None:
        return ""
    if row["estimator"] == "grpo":
        return f"cosine {row['cosine']:.3f}"
    low, high = row["difference_low"], row["difference_high"]
    return f"{row['difference']:+.3f} ({low:+.3f} to {high:+.3f})"


def _standard_error(rows: list[dict[str, str]], n_benchmarks: int) -> float:
    """Of an average over benchmarks, in points: binomial, the two models taken as independent."""
    variances = []
    for row in rows:
        share = float(row["accuracy"]) / 100
        variances.append(share * (1 - share) / int(row["problems"]))
    return 100 * sum(variances) ** 0.5 / n_benchmarks


def _mean_and_half(values: list[float], outcome: str) -> str:
    digits = 1 if outcome == "length" else 3
    mean, _, high = pointwise_band(np.array(values)[:, None])
    return f"{mean[0]:.{digits}f} ± {high[0] - mean[0]:.{digits}f}"


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


TABLES: dict[str, Callable[..., str]] = {
    "runs": runs,
    "comparisons": comparisons,
    "counts": counts,
    "step-time": step_time,
    "temperatures": temperatures,
    "paper-accuracy": paper_accuracy,
    "paper-step-time": paper_step_time,
    "alignment": alignment,
}

if __name__ == "__main__":
    sys.exit(main())
