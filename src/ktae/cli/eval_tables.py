"""What `ktae eval` and `ktae compare` print of graded outputs, and the same as JSON."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ktae.cli.printing import Screen
from ktae.experiments.benchmarks import title
from ktae.experiments.outputs import Output, by_benchmark, by_model, by_reward
from ktae.experiments.scores import Estimate, Scores, accuracies, score
from ktae.files.text import counted
from ktae.grading import Outcome
from ktae.inference import Interval

MANY = 0.2
"""Share of unanswered responses above which `print_warnings` speaks."""
FEW = 20
"""Up to so many outputs may well be graded alike."""
REASONS = 10
"""Reasons of differing verdicts that are printed, at most."""
WIDER = {
    "ktae": "--graders ktae-last takes the last number of a response",
    "ktae-boxed": "--graders ktae takes answers outside of \\boxed{}, too",
}
"""By grader: the one that finds answers in more places, and in which."""
ACCURACY = "accuracy in percent, 95 % interval below"

Values = Sequence[Interval | Estimate | float | None]


def print_models(screen: Screen, outputs: Sequence[Output], grader: str) -> dict[str, Any]:
    """Print the tables of each model, and return them as JSON; `models` where there are several."""
    content = {}
    models = by_model(outputs)
    for model, of_model in models.items():
        scores, in_file = score(of_model), accuracies(by_reward(of_model))
        if len(models) > 1:
            screen.print("", f"model {model or 'not named'}")
        print_scores(screen, scores, in_file)
        print_warnings(screen, of_model, grader)
        differing = differences(of_model)
        if in_file:
            _print_differences(screen, differing)
        content[model or "not named"] = {
            "intervals": "95 %, percentile bootstrap over problems",
            "benchmarks": {
                x.benchmark: {k: v for k, v in x._asdict().items() if k != "benchmark"}
                for x in scores.scores
            },
            "mean": scores.mean,
            "mean_length": scores.mean_length,
            "stored": in_file or None,
            "differences": differing,
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
    if any(x.majority for x in of):
        sampled["maj@k"] = [x.majority for x in of]
    # Problems with too few decided samples are left out, and that is said.
    fewer = []
    for name, estimates in sampled.items():
        rows += rows_of(name, estimates, points)
        needed = "a decided sample" if name == "maj@k" else f"{name[5:]} decided samples"
        fewer += [
            f"{title(x.benchmark)}: {name} is over {estimate.problems:,} of {x.problems:,} "
            f"problems, those with {needed}"
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
    """The same of several models, a row for each; all have the same benchmarks."""
    columns = [*(title(x.benchmark) for x in next(iter(scores.values())).scores), "mean"]
    screen.table(ACCURACY, columns, [row for x in scores for row in accuracy_rows(x, scores[x])])
    if any(x.mean_length for x in scores.values()):
        rows = [row for x in scores for row in length_rows(x, scores[x])]
        screen.table("mean tokens of a response, 95 % interval below", columns, rows)


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
    """A row of the benchmarks' values and their mean, and one of intervals where there are any.

    A benchmark without a value leaves no mean: that of the others would look comparable.
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


def print_warnings(
    screen: Screen, outputs: Sequence[Output], grader: str, file: str | None = None
) -> None:
    """Warn where more than `MANY` of the responses are unanswered, or all are graded alike.

    `file` is what can be graded again, where the command has no `--graders`.
    """
    where, n = f" of {file}" if file else "", len(outputs)
    outcomes = {o.verdict.outcome for o in outputs if o.verdict}
    unanswered = [o for o in outputs if o.verdict and o.verdict.outcome is Outcome.UNANSWERED]
    # A few are a model's own fault; many mean that the grader looks in the wrong place.
    if len(unanswered) > MANY * n:
        text = (
            f"{len(unanswered):,} of {n:,} responses{where} ({len(unanswered) / n:.0%}) are "
            f"unanswered and count as incorrect: grader {grader} finds no answer in them; "
        )
        cut = sum(output.finished is False for output in unanswered)
        if 2 * cut > len(unanswered):
            text += f"{cut:,} of them were cut off at the longest length: --max-new-tokens; "
        again = f"ktae eval --regrade {file} --output FOLDER " if file else ""
        wider = WIDER.get(grader)
        text += f"{again}{wider}" if wider else "look at some of them before you trust the accuracy"
    elif len(outcomes) == 1 and n > FEW:
        text = (
            f"all {n:,} responses{where} are graded {outcomes.pop()}, so they show no difference; "
            f"does grader {grader} understand a reference such as {outputs[0].answers[0]!r:.60}?"
        )
    else:
        return
    screen.print(f"WARNING: {text}", style="bold red")


def differences(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """Where the file's verdict or reward differs from ours; undecided ones included."""
    return [
        {"problem": output.group, "sample": output.sample, "stored": output.reward}
        | output.verdict._asdict()
        | {"answers": output.answers}
        for output in outputs
        if output.stored is not None
        and output.verdict is not None
        and output.stored != output.correct
    ]


def _print_differences(screen: Screen, differing: Sequence[dict[str, Any]]) -> None:
    """The most frequent reasons of a difference, each with how often it occurs and an example."""
    lines = [
        f"{counted(len(differing), 'output')} on which the file's reward and our verdict differ"
    ]
    by_reason = defaultdict[tuple[object, ...], list[dict[str, Any]]](list)
    for difference in differing:
        key = (difference["stored"] > 0, difference["outcome"], difference["reason"])
        by_reason[key].append(difference)
    frequent = sorted(by_reason.values(), key=len, reverse=True)
    for alike in frequent[:REASONS]:
        x = alike[0]
        accepted = " or ".join(dict.fromkeys(answer.strip() for answer in x["answers"]))
        lines.append(
            f"  {len(alike)}: {x['stored']:g} in the file, ours {x['outcome']} ({x['reason']}), as "
            f"in {x['problem']}: given {x['extracted'] or 'nothing':.80}, accepted {accepted:.80}"
        )
    if len(frequent) > REASONS:
        lines.append(f"  ... and {len(frequent) - REASONS} more reasons: --json has all")
    screen.print(*lines)


def print_disagreement(
    screen: Screen, graded: Mapping[str, Sequence[Output]]
) -> dict[str, dict[str, int]]:
    """Print each grader's outcomes and accuracies, and on how many outputs each two differ.

    Returns the latter.
    """
    benchmarks = list(by_benchmark(next(iter(graded.values()))))
    outcomes, shares, pairs = [], [], []
    disagreements: dict[str, dict[str, int]] = {}
    for name, outputs in graded.items():
        counts = Counter(o.verdict.outcome for o in outputs if o.verdict is not None)
        outcomes.append((name, *(f"{counts[outcome]:,}" for outcome in Outcome)))
        means = accuracies(outputs)
        shares.append((name, *(points(means[x]) if x in means else "-" for x in benchmarks)))
        disagreements[name] = {
            other: sum(x.correct != y.correct for x, y in zip(outputs, of_other, strict=True))
            for other, of_other in graded.items()
        }
        pairs.append((name, *(f"{n:,}" if n else "-" for n in disagreements[name].values())))
    screen.table("outputs by grader", [outcome.value for outcome in Outcome], outcomes)
    screen.table("accuracy in percent by grader", [title(x) for x in benchmarks], shares)
    screen.table("outputs on which two graders differ", list(graded), pairs)
    return disagreements
