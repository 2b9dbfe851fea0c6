"""Tables of docs/results/paper.md and step-time.md: the paper's own numbers."""

import math
import statistics

from page import ROOT, markdown, read_csv

PAPER = ROOT / "study" / "paper"


def accuracy(*_: str) -> str:
    """The paper's averages, with the error of so few problems that the paper leaves out."""
    table = read_csv(PAPER / "accuracy.csv")
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
            half = 1.96 * standard_error([*plain, *ktae], len(plain))
            mean = statistics.mean(differences)
            each = " / ".join(f"{d:+.1f}" for d in differences)
            rows.append([
                model, f"{method}+KTAE - {method}", each, f"{mean:+.1f}",
                f"{mean - half:+.1f} to {mean + half:+.1f}",
            ])  # fmt: skip
    benchmarks = " / ".join(dict.fromkeys(f"{r['benchmark']} ({r['problems']})" for r in table))
    return markdown(["model", "difference", benchmarks, "average", "95 % of the average"], rows)


def step_time(*_: str) -> str:
    """The paper's seconds a step."""
    table = {
        (r["model"], r["method"]): float(r["seconds"]) for r in read_csv(PAPER / "step_time.csv")
    }
    rows = []
    for model in ("1.5B", "7B"):
        for method in ("GRPO", "DAPO"):
            plain, ktae = table[model, method], table[model, f"{method}+KTAE"]
            added = f"{ktae - plain:.0f} s ({(ktae - plain) / plain:.0%})"
            rows.append([model, method, f"{plain:.0f} s", f"{ktae:.0f} s", added])
    return markdown(["model", "method", "a step", "with KTAE", "added"], rows)


def standard_error(rows: list[dict[str, str]], n_benchmarks: int) -> float:
    """Of an average over benchmarks, in points: binomial, the two models taken as independent."""
    variances = []
    for row in rows:
        share = float(row["accuracy"]) / 100
        variances.append(share * (1 - share) / int(row["problems"]))
    return 100 * math.sqrt(sum(variances)) / n_benchmarks
