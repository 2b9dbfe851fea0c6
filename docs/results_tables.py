"""The tables of docs/results.md, from the committed results.

    python docs/results_tables.py          # writes them into the page
    python docs/results_tables.py --check  # fails if the page has others

A table stands in the page between `<!-- table: NAME ... -->` and `<!-- end -->`, a difference in a
sentence between `<!-- difference: ... -->` and `<!-- end -->`; the text around them is written by
hand. The figures that the page shows are copied beside it.
"""

import csv
import functools
import json
import math
import re
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ktae.study.statistics import mean_interval, pointwise_band

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results.md"
STUDIES = ROOT / "study" / "results"
PAPER = ROOT / "study" / "paper"
STEP_TIME = ROOT / "benchmarks" / "results" / "step_time.csv"
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

    def inline(match: re.Match[str]) -> str:
        return (
            f"<!-- difference: {match['call']} -->{difference(*match['call'].split())}<!-- end -->"
        )

    page = re.sub(
        r"<!-- table: (?P<call>[^\n]*?) -->\n.*?<!-- end -->", table, page, flags=re.DOTALL
    )
    return re.sub(r"<!-- difference: (?P<call>[^\n]*?) -->[^\n]*?<!-- end -->", inline, page)


def runs(study: str, task: str) -> str:
    """Each method's outcomes: mean over seeds with Student's 95 % interval."""
    rows = []
    found = [r for r in _read(STUDIES / study / "runs.csv") if r["state"] == "finished"]
    of_task = [row for row in found if row["task"] == task]
    for method in dict.fromkeys(row["method"] for row in of_task):
        mine = [row for row in of_task if row["method"] == method]
        cells = [_mean_and_half([float(r[f"outcome.{o}"]) for r in mine], o) for o in OUTCOMES]
        rows.append([f"`{method}`", str(len(mine)), *cells])
    return markdown(["method", "runs", *OUTCOMES.values()], rows)


def comparisons(study: str, kind: str) -> str:
    """Paired differences of one kind, those with enough pairs."""
    labels = _labels(study)
    rows = []
    for one in _comparisons(study):
        if one["kind"] != kind or one["interval"] is None:
            continue
        rows.append([
            f"`{one['treatment']}` - `{one['baseline']}`", one["task"], labels[one["outcome"]],
            str(len(one["seeds"])), _with_interval(one),
            " / ".join(f"{base['difference']:+.{_digits(one)}f}" for base in one["by_base_model"]),
            f"{one['p_value']:.2g}", f"{one['corrected']:.2g}",
            "yes" if one["shown"] else "no",
        ])  # fmt: skip
    each = "on each base model"
    head = ["difference", "task", "outcome", "pairs", "mean (95 %)", each, "p", "Holm", "shown"]
    return markdown(head, rows)


def difference(study: str, treatment: str, baseline: str, outcome: str, task: str) -> str:
    """One of them, in a sentence."""
    one = _comparison(study, treatment, baseline, outcome, task)
    shown = "shown" if one["shown"] else "not shown"
    return f"{_with_interval(one).removesuffix(')')}; {shown})" if one["interval"] else "not known"


GOAL = {
    "`calibrated` above GRPO": ("grpo-calibrated", "grpo", "sampled_accuracy"),
    "GRPO with `calibrated` above DAPO": ("grpo-calibrated", "dapo", "sampled_accuracy"),
    "DAPO with `calibrated` above DAPO": ("dapo-calibrated", "dapo", "sampled_accuracy"),
    "`calibrated` at least `paper`": ("grpo-calibrated", "grpo-ktae", "sampled_accuracy"),
    "permuted labels: no effect on length": ("calibrated-permuted", "grpo", "length"),
    "permuted labels: no effect on entropy": ("calibrated-permuted", "grpo", "entropy"),
}
"""What is hoped for, and the comparison that tells; the first three and the last two want more and
no difference, the one between not less."""


def goal(study: str) -> str:
    """The goal, clause by clause: what the interval says of it."""
    tasks = list(dict.fromkeys(one["task"] for one in _comparisons(study)))
    rows = []
    for clause, (treatment, baseline, outcome) in GOAL.items():
        found = [_comparison(study, treatment, baseline, outcome, task) for task in tasks]
        rows.append([clause, *(f"{_with_interval(one)}: {_verdict(clause, one)}" for one in found)])
    return markdown(["final sampled accuracy, mean and 95 % interval", *tasks], rows)


def _verdict(clause: str, one: dict[str, Any]) -> str:
    if one["interval"] is None:
        return "not known"
    low, high = one["interval"]
    if "no effect" in clause:
        return "none seen" if low <= 0 <= high else "an effect"
    if low > 0:
        return "yes" if one["shown"] else "yes, not after correction"
    return "no" if high < 0 else "open"


def _comparisons(study: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _results(study)["comparisons"]
    return found


def _comparison(study: str, *wanted: str) -> dict[str, Any]:
    keys = ("treatment", "baseline", "outcome", "task")
    return next(one for one in _comparisons(study) if tuple(one[key] for key in keys) == wanted)


def _labels(study: str) -> dict[str, str]:
    own = _results(study)["matrix"]["outcomes"]
    return {name: one["label"] for name, one in own.items()} | OUTCOMES


def _with_interval(one: dict[str, Any]) -> str:
    if one["interval"] is None:
        return f"{len(one['seeds'])} of {one['planned']} pairs"
    return with_bounds(one["difference"], *one["interval"], _digits(one))


def _digits(one: dict[str, Any]) -> int:
    return 1 if one["outcome"] == "length" else 3


def counts(study: str) -> str:
    """How many runs there are, and on what they ran."""
    results = _results(study)
    rows = [[state, str(n)] for state, n in results["runs"].items()]
    for machine in results["trained_by"]:
        what = f"{machine['cpu']}, {machine['cores']} cores, {machine['versions']}"
        rows.append([f"{machine['runs']} of them at commit `{machine['commit']}`", what])
    return markdown(["runs", ""], rows)


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
    return markdown(["method", "runs", "a step", "the estimator in it", "its share"], rows)


def step_time_alone(*_: str) -> str:
    """benchmarks/results/step_time.csv: methods in turns on a machine that does nothing else."""
    rows, seconds = [], {(r["shape"], r["method"]): float(r["seconds"]) for r in _read(STEP_TIME)}
    for r in _read(STEP_TIME):
        own, step = float(r["ktae_seconds"]), float(r["seconds"])
        estimator = [f"{1000 * own:.1f} ms ({own / step:.2%})", ""] if own else ["", ""]
        if r["baseline"]:
            added = [float(r[key]) for key in ("added", "added_low", "added_high")]
            share = added[0] / seconds[r["shape"], r["baseline"]]
            estimator[1] = f"{with_bounds(*added)} s, {share:+.1%}"
        what = f"{r['shape']}, {r['rollouts']} × {r['mean_length']} tokens, {r['device']}"
        spread = f"{step:.2f} s ({float(r['seconds_20']):.2f} to {float(r['seconds_80']):.2f})"
        rows.append([what, f"`{r['method']}`", r["rounds"], spread, *estimator])
    head = ["model, rollouts", "method", "rounds", "a step (20 % to 80 %)", "the estimator in it"]
    return markdown([*head, "more than without it, by round (95 %)"], rows)


def temperatures(study: str, task: str, column: str, baseline: str) -> str:
    """A column of temperatures.csv: the baseline's mean, and paired differences from it."""
    found = _by_temperature(study, task, column)
    of_baseline = found[baseline].values()
    n = str(len(next(iter(of_baseline))))
    rows = [[f"`{baseline}`", n, *(f"{statistics.mean(x.values()):.3f}" for x in of_baseline)]]
    for method, gains in _gains(found, baseline).items():
        pairs = str(len(next(iter(gains.values()))))
        rows.append([f"`{method}`", pairs, *map(_interval, gains.values())])
    return markdown(["method", "pairs", *(f"T = {t}" for t in found[baseline])], rows)


def temperature_gaps(study: str, task: str, baseline: str) -> str:
    """Of accuracy: the gain at the highest temperature less that at each, and gains in log-odds."""
    found = _by_temperature(study, task, "accuracy")
    in_log_odds = _gains(found, baseline, lambda p: math.log(p / (1 - p)))
    rows = []
    for method, gains in _gains(found, baseline).items():
        highest = max(gains, key=float)
        lost = [_interval(gains[highest] - gains[t]) if t != highest else "" for t in gains]
        rows.append([f"`{method}`, accuracy: gain at T = {highest} less gain here", *lost])
        there = map(_interval, in_log_odds[method].values())
        rows.append([f"`{method}`, log-odds of accuracy: gain here", *there])
    return markdown(["", *(f"T = {t}" for t in found[baseline])], rows)


Values = dict[tuple[str, str], float]
"""By seed and base model."""


def _by_temperature(study: str, task: str, column: str) -> dict[str, dict[str, Values]]:
    """By method and temperature."""
    found: dict[str, dict[str, Values]] = {}
    for row in _read(STUDIES / study / "temperatures.csv"):
        if row["task"] == task:
            values = found.setdefault(row["method"], {}).setdefault(row["temperature"], {})
            values[row["seed"], row["base_model"]] = float(row[column])
    return found


def _gains(
    found: dict[str, dict[str, Values]], baseline: str, of: Callable[[float], float] = float
) -> dict[str, dict[str, np.ndarray]]:
    """Each method's differences from the baseline, paired; the same order at each temperature."""
    gains = {}
    for method, mine in found.items():
        if method != baseline:
            gains[method] = {
                t: np.array(
                    [of(mine[t][k]) - of(base[k]) for k in sorted(mine[t].keys() & base.keys())]
                )
                for t, base in found[baseline].items()
            }
    return gains


def _interval(differences: np.ndarray) -> str:
    return with_bounds(*mean_interval(differences))


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
    return markdown(["model", "difference", benchmarks, "average", "95 % of the average"], rows)


def paper_step_time(*_: str) -> str:
    """The paper's seconds a step."""
    table = {(r["model"], r["method"]): float(r["seconds"]) for r in _read(PAPER / "step_time.csv")}
    rows = []
    for model in ("1.5B", "7B"):
        for method in ("GRPO", "DAPO"):
            plain, ktae = table[model, method], table[model, f"{method}+KTAE"]
            added = f"{ktae - plain:.0f} s ({(ktae - plain) / plain:.0%})"
            rows.append([model, method, f"{plain:.0f} s", f"{ktae:.0f} s", added])
    return markdown(["model", "method", "a step", "with KTAE", "added"], rows)


def alignment(*names: str) -> str:
    """Cosines of `grpo` and differences from it along a run, raw metric, one column a file."""
    found = [read_json(ROOT / "study" / "align" / f"{name}.json") for name in names]
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
    return markdown(["estimator", *names], rows)


def _aligned(row: dict[str, float] | None) -> str:
    if row is None:
        return ""
    if row["estimator"] == "grpo":
        return f"cosine {row['cosine']:.3f}"
    return aligned_difference(row)


def aligned_difference(row: dict[str, float]) -> str:
    """From GRPO, with its interval."""
    return with_bounds(row["difference"], row["difference_low"], row["difference_high"])


def with_bounds(mean: float, low: float, high: float, digits: int = 3) -> str:
    """`+.012 (-.003 to +.027)`, with zeros."""
    return f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


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


def _results(study: str) -> dict[str, Any]:
    return read_json(STUDIES / study / "results.json")


@functools.cache
def read_json(path: Path) -> dict[str, Any]:
    """A committed file, read once."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


TABLES: dict[str, Callable[..., str]] = {
    "runs": runs,
    "comparisons": comparisons,
    "goal": goal,
    "counts": counts,
    "step-time": step_time,
    "step-time-alone": step_time_alone,
    "temperatures": temperatures,
    "temperature-gaps": temperature_gaps,
    "paper-accuracy": paper_accuracy,
    "paper-step-time": paper_step_time,
    "alignment": alignment,
}

if __name__ == "__main__":
    sys.exit(main())
