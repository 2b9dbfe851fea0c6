"""The paper's own numbers: tables of pages/paper.md and step-time.md, and its time in sentences."""

import math
import statistics

from ktae_lab.csv_files import read_csv
from ktae_lab.study.contrasts import Compared
from ktae_lab.tables.comparisons import comparison
from ktae_lab.tables.page import RESULTS, Number, Table, markdown, with_bounds

PAPER = RESULTS / "paper"


def accuracy(*_: str) -> str:
    """The paper's averages, with the error of so few problems that the paper leaves out."""
    table = read_csv(PAPER / "accuracy.csv")
    rows = []
    for model in ("1.5B", "7B"):
        for method in ("GRPO", "DAPO"):
            plain, ktae = _pair(model, method)
            mean, low, high = _average(plain, ktae)
            each = " / ".join(f"{d:+.1f}" for d in _differences(plain, ktae))
            rows.append([
                model, f"{method}+KTAE - {method}", each, f"{mean:+.1f}",
                f"{low:+.1f} to {high:+.1f}",
            ])  # fmt: skip
    benchmarks = " / ".join(dict.fromkeys(f"{r['benchmark']} ({r['problems']})" for r in table))
    return markdown(["model", "difference", benchmarks, "average", "95 % of the average"], rows)


def beside_ours(study: str) -> str:
    """What KTAE changes there and in one of our studies: points of accuracy, and length in per cent
    of the baseline's. The paper's answers are greedy; its lengths, and ours, are means."""
    rows = []
    for method in ("GRPO", "DAPO"):
        for says, outcome in (
            ("greedy accuracy, points", "greedy_accuracy"),
            ("sampled accuracy, points", "sampled_accuracy"),
            ("length, %", "length"),
        ):
            ours = [
                _ours(comparison(study, f"{method.lower()}-ktae", method.lower(), outcome, task))
                for task in ("sums", "lists")
            ]
            theirs = [_theirs(model, method, outcome) for model in ("1.5B", "7B")]
            rows.append([f"{method}+KTAE - {method}", says, *theirs, *ours])
    return markdown(["", "", "paper, 1.5B", "paper, 7B", "ours, sums", "ours, lists"], rows)


def _ours(one: Compared) -> str:
    if one.interval is None or one.baseline_mean is None:
        return "not known"
    share = 100 / one.baseline_mean if one.outcome == "length" else 100
    mean, low, high = (share * x for x in one.interval)
    return with_bounds(mean, low, high, digits=1)


def _theirs(model: str, method: str, outcome: str) -> str:
    plain, ktae = _pair(model, method)
    if outcome == "length":
        lengths = [statistics.mean(float(r["length"]) for r in rows) for rows in (plain, ktae)]
        return f"{100 * (lengths[1] / lengths[0] - 1):+.1f}"
    if outcome != "greedy_accuracy":
        return ""
    mean, low, high = _average(plain, ktae)
    return with_bounds(mean, low, high, digits=1)


def _pair(model: str, method: str) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows of a method and of the same with KTAE, by benchmark."""
    table = read_csv(PAPER / "accuracy.csv")
    plain, ktae = (
        [r for r in table if (r["model"], r["method"]) == (model, name)]
        for name in (method, f"{method}+KTAE")
    )
    return plain, ktae


def _average(plain: list[dict[str, str]], ktae: list[dict[str, str]]) -> tuple[float, float, float]:
    """The mean of the benchmarks' differences, and its 95 % interval."""
    mean = statistics.mean(_differences(plain, ktae))
    half = 1.96 * standard_error([*plain, *ktae], len(plain))
    return mean, mean - half, mean + half


def _differences(plain: list[dict[str, str]], ktae: list[dict[str, str]]) -> list[float]:
    """In accuracy, one a benchmark."""
    return [
        float(with_ktae["accuracy"]) - float(without["accuracy"])
        for with_ktae, without in zip(ktae, plain, strict=True)
    ]


def step_time(*_: str) -> str:
    """The paper's seconds a step."""
    rows = []
    for (model, method), (plain, ktae) in _seconds().items():
        added = f"{ktae - plain:.0f} s ({(ktae - plain) / plain:.0%})"
        rows.append([model, method, f"{plain:.0f} s", f"{ktae:.0f} s", added])
    return markdown(["model", "method", "a step", "with KTAE", "added"], rows)


def added_seconds(*_: str) -> str:
    """By how much KTAE makes a step longer, from the smallest to the largest."""
    added = [ktae - plain for plain, ktae in _seconds().values()]
    return f"{min(added):.1f} to {max(added):.1f} s"


def _seconds() -> dict[tuple[str, str], tuple[float, float]]:
    """The seconds of a step without and with KTAE, by model and method."""
    table = {
        (r["model"], r["method"]): float(r["seconds"]) for r in read_csv(PAPER / "step_time.csv")
    }
    return {
        (model, method): (table[model, method], table[model, f"{method}+KTAE"])
        for model in ("1.5B", "7B")
        for method in ("GRPO", "DAPO")
    }


def standard_error(rows: list[dict[str, str]], n_benchmarks: int) -> float:
    """The standard error of an average over benchmarks, in points.

    It is binomial; the two models are taken as independent.
    """
    variances = []
    for row in rows:
        share = float(row["accuracy"]) / 100
        variances.append(share * (1 - share) / int(row["problems"]))
    return 100 * math.sqrt(sum(variances)) / n_benchmarks


TABLES: dict[str, Table] = {
    "paper-accuracy": accuracy,
    "paper-beside-ours": beside_ours,
    "paper-step-time": step_time,
}
NUMBERS: dict[str, Number] = {"paper-adds": added_seconds}
