"""What `ktae eval` and `ktae compare` print of graded outputs, and the same as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ktae.cli.printing import Screen
from ktae.experiments.benchmarks import title
from ktae.experiments.outputs import by_model, with_columns
from ktae.experiments.scores import Estimate, Scores, accuracies, score
from ktae.grading import Outcome
from ktae.inference import Interval

MANY = 0.2
"""Share of unanswered responses above which `print_warnings` speaks."""
FEW = 20
"""Up to this many outputs may well be graded alike."""
WIDER = {
    "ktae": "--graders ktae-last takes the last number of a response",
    "ktae-boxed": "--graders ktae takes answers outside of \\boxed{}, too",
}
"""For a grader, the one that finds answers in more places."""
ACCURACY = "accuracy in percent, 95 % interval below"
LENGTH = "mean tokens of a response, 95 % interval below"

Values = Sequence[Interval | Estimate | float | None]


def print_models(screen: Screen, table: Any, grader: str) -> dict[str, Any]:
    """Print the tables of each model, and return them as JSON; `models` where there are several."""
    content = {}
    models = by_model(table)
    for model, outputs in models.items():
        scores = score(outputs)
        in_file = accuracies(with_columns(outputs, correct=outputs["stored"].to_pylist()))
        if len(models) > 1:
            screen.print("", f"model {model or 'not named'}")
        print_scores(screen, scores, in_file)
        print_warnings(screen, outputs, grader)
        content[model or "not named"] = {
            "intervals": "95 %, percentile bootstrap over problems",
            "benchmarks": {
                x.benchmark: {k: v for k, v in x._asdict().items() if k != "benchmark"}
                for x in scores.scores
            },
            "mean": scores.mean,
            "mean_length": scores.mean_length,
            "stored": in_file or None,
        }
    return content.popitem()[1] if len(content) == 1 else {"models": content}


def print_scores(screen: Screen, scores: Scores, in_file: Mapping[str, float]) -> None:
    """The paper's two tables, accuracy and length, and what the accuracy leaves out."""
    of = scores.scores
    columns = [*(title(x.benchmark) for x in of), "mean"]
    k = max(x.samples for x in of)
    rows = rows_of("in the file", [in_file.get(x.benchmark) for x in of], points) if in_file else []
    rows += accuracy_rows(f"avg@{k}" if k > 1 else "pass@1", scores)
    # pass@1 is avg@k, which is the first line already.
    sampled: dict[str, list[Estimate | None]] = {
        f"pass@{n}": [x.pass_at.get(n) for x in of]
        for n in sorted({n for x in of for n in x.pass_at if n > 1})
    }
    fewer = []
    for name, estimates in sampled.items():
        rows += rows_of(name, estimates, points)
        fewer += [
            f"{title(x.benchmark)}: {name} is over {estimate.problems:,} of {x.problems:,} "
            f"problems, those with {name[5:]} decided samples"
            for x, estimate in zip(of, estimates, strict=True)
            if estimate is not None and estimate.problems < x.problems
        ]
    screen.table(ACCURACY, columns, rows)
    screen.print(*fewer)
    rows = [("problems", *(f"{x.problems:,}" for x in of), ""), *length_rows("mean tokens", scores)]
    for name in ("unanswered", "undecided", "truncated"):
        rows += rows_of(name, [getattr(x, name) for x in of], "{:.1%}".format)
    screen.table("responses", columns, rows)


def print_side_by_side(screen: Screen, scores: Mapping[str, Scores]) -> None:
    """The two tables of several models on the same benchmarks, a row for each."""
    columns = [*(title(x.benchmark) for x in next(iter(scores.values())).scores), "mean"]
    screen.table(ACCURACY, columns, [row for x in scores for row in accuracy_rows(x, scores[x])])
    if any(x.mean_length for x in scores.values()):
        screen.table(LENGTH, columns, [row for x in scores for row in length_rows(x, scores[x])])


def accuracy_rows(name: str, scores: Scores) -> list[tuple[str, ...]]:
    """A row of accuracies, and one of their intervals."""
    return rows_of(name, [x.accuracy for x in scores.scores], points, scores.mean)


def length_rows(name: str, scores: Scores) -> list[tuple[str, ...]]:
    """A row of mean tokens of a response, and one of their intervals."""

    def tokens(count: float) -> str:
        return f"{count:.0f}" if count >= 100 else f"{count:.1f}"  # five benchmarks in 80 columns

    return rows_of(name, [x.length for x in scores.scores], tokens, scores.mean_length)


def rows_of(
    name: str, values: Values, text: Callable[[float], str], mean: Interval | None = None
) -> list[tuple[str, ...]]:
    """A row of the benchmarks' values and their mean, and one of their intervals, if any.

    There is no mean if a benchmark has no value: the mean of the others is not comparable.
    """
    numbers = [x if x is None or isinstance(x, float) else x.value for x in values]
    numbers = [None if x is None or math.isnan(x) else x for x in numbers]
    known = [x for x in numbers if x is not None]
    numbers.append(float(np.mean(known)) if len(known) == len(numbers) else None)
    row = (name, *("-" if x is None else text(x) for x in numbers))
    intervals = [None if isinstance(x, float) else x for x in (*values, mean)]
    spans = [f"{text(x.low)}-{text(x.high)}" if x and x.low == x.low else "" for x in intervals]
    return [row, ("", *spans)] if any(intervals) else [row]


def points(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f}"


def print_warnings(screen: Screen, table: Any, grader: str, file: str | None = None) -> None:
    """Warn if more than `MANY` of the responses are unanswered, or all are graded alike.

    `file` is the one to grade again, for commands without `--graders`.
    """
    outcomes, n = table["outcome"].to_pylist(), len(table)
    where, unanswered = f" of {file}" if file else "", outcomes.count(Outcome.UNANSWERED)
    if unanswered > MANY * n:  # the grader looks in the wrong place
        text = (
            f"{unanswered:,} of {n:,} responses{where} ({unanswered / n:.0%}) are unanswered and "
            f"count as incorrect: grader {grader} finds no answer in them; "
        )
        ends = zip(outcomes, table["finished"].to_pylist(), strict=True)
        if 2 * (cut := sum(x == (Outcome.UNANSWERED, False) for x in ends)) > unanswered:
            text += f"{cut:,} of them were cut off at the longest length: --max-new-tokens; "
        again = f"ktae eval --regrade {file} --output FOLDER " if file else ""
        wider = WIDER.get(grader)
        text += f"{again}{wider}" if wider else "look at some of them before you trust the accuracy"
    elif len(set(outcomes)) == 1 and n > FEW:
        answer = table["answers"][0].as_py()[0]
        text = (
            f"all {n:,} responses{where} are graded {outcomes[0]}, so they show no difference; "
            f"does grader {grader} understand a reference such as {answer!r:.60}?"
        )
    else:
        return
    screen.print(f"WARNING: {text}", style="bold red")


def print_disagreement(screen: Screen, graded: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Print how often each grader gives each outcome, and on how many outputs each two differ.

    Returns the latter.
    """
    rows, disagreements = [], {}
    correct = {name: table["correct"].to_pylist() for name, table in graded.items()}
    for name, table in graded.items():
        outcomes = table["outcome"].to_pylist()
        disagreements[name] = {
            other: sum(x != y for x, y in zip(correct[name], correct[other], strict=True))
            for other in graded
        }
        counts = [*map(outcomes.count, Outcome), *disagreements[name].values()]
        rows.append((name, *(f"{n:,}" for n in counts)))
    columns = [*(outcome.value for outcome in Outcome), *(f"≠ {name}" for name in graded)]
    screen.table("outputs by grader, and on how many two differ (≠)", columns, rows)
    return disagreements
