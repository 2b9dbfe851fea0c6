"""What `ktae eval` and `ktae compare` print of graded outputs, and the same as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ktae.cli.printing import Screen
from ktae.evaluation.benchmarks import UNNAMED, title
from ktae.evaluation.outputs import Output, by_benchmark, by_model, by_reward
from ktae.evaluation.scores import Estimate, Scores, accuracies, score
from ktae.files.text import counted, printable
from ktae.grading import Outcome
from ktae.inference import Interval

MANY = 0.2
"""Share of unanswered responses above which `print_unanswered` speaks."""
REASONS = 10
"""Of differing verdicts, at most so many are printed."""
WIDER = {
    "ktae": "--graders ktae-last takes the last number of a response",
    "ktae-boxed": "--graders ktae takes answers outside of \\boxed{}, too",
    "strict-boxed": "--graders ktae takes answers outside of \\boxed{}, too",
}
"""By grader: the one that finds answers in more places, and in which."""
ACCURACY = "accuracy in percent, 95 % interval below"

Text = Callable[[float], str]


def print_models(screen: Screen, outputs: Sequence[Output], grader: str) -> dict[str, Any]:
    """Print the tables of each model, and return them as JSON; `models` where there are several."""
    content = {}
    models = by_model(outputs)
    for model, of_model in models.items():
        scores, in_file = score(of_model), accuracies(by_reward(of_model))
        if len(models) > 1:
            screen.print(f"\nmodel {printable(model or 'not named')}")
        print_scores(screen, scores, in_file)
        print_unanswered(screen, of_model, grader)
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
    rows = accuracy_rows(f"avg@{k}" if k > 1 else "pass@1", scores)
    if in_file:
        values = [in_file.get(x.benchmark) for x in of]
        rows.insert(0, ("in the file", *_cells([*values, _mean(values)], _points)))
    # pass@1 is avg@k, which is the first line already.
    sampled: dict[str, list[Estimate | None]] = {
        f"pass@{n}": [x.pass_at.get(n) for x in of]
        for n in sorted({n for x in of for n in x.pass_at if n > 1})
    }
    if any(x.majority for x in of):
        sampled["maj@k"] = [x.majority for x in of]
    # pass@k and maj@k need several decided samples: problems with too few are left out, and named.
    fewer = []
    for name, estimates in sampled.items():
        mean = _mean([x.value if x else None for x in estimates])
        over_all = None if mean is None else Interval(mean, math.nan, math.nan)
        rows += _with_intervals(name, [*estimates, over_all], _points)
        needed = "a decided sample" if name == "maj@k" else f"{name[5:]} decided samples"
        fewer += [
            f"{title(x.benchmark)}: {name} is over {estimate.problems:,} of {x.problems:,} "
            f"problems, those with {needed}"
            for x, estimate in zip(of, estimates, strict=True)
            if estimate is not None and estimate.problems < x.problems
        ]
    screen.table(ACCURACY, columns, rows)
    for line in fewer:
        screen.print(line)
    rows = [("problems", *(f"{x.problems:,}" for x in of), ""), *length_rows("mean tokens", scores)]
    for name in ("unanswered", "undecided", "truncated"):
        shares = [getattr(x, name) for x in of]
        rows.append((name, *_cells([*shares, _mean(shares)], "{:.1%}".format)))
    screen.table("responses", columns, rows)


def accuracy_rows(name: str, scores: Scores) -> list[tuple[str, ...]]:
    """A row of accuracies, and one of their intervals."""
    return _with_intervals(name, [*(x.accuracy for x in scores.scores), scores.mean], _points)


def length_rows(name: str, scores: Scores) -> list[tuple[str, ...]]:
    """The same of the tokens of a response."""

    def tokens(count: float) -> str:
        return f"{count:,.0f}" if count >= 100 else f"{count:.1f}"

    return _with_intervals(name, [*(x.length for x in scores.scores), scores.mean_length], tokens)


def _with_intervals(
    name: str, values: Sequence[Interval | Estimate | None], text: Text
) -> list[tuple[str, ...]]:
    spans = [f"{text(x.low)}-{text(x.high)}" if x and not math.isnan(x.low) else "" for x in values]
    return [(name, *_cells([x.value if x else None for x in values], text)), ("", *spans)]


def _cells(values: Sequence[float | None], text: Text) -> list[str]:
    return ["-" if x is None or math.isnan(x) else text(x) for x in values]


def _mean(values: Sequence[float | None]) -> float | None:
    """Over benchmarks; None where one has no value: that of the others would look comparable."""
    known = [x for x in values if x is not None and not math.isnan(x)]
    return float(np.mean(known)) if len(known) == len(values) else None


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def print_unanswered(
    screen: Screen, outputs: Sequence[Output], grader: str, file: str | None = None
) -> None:
    """Say loudly where more than `MANY` of the responses are unanswered, and what may help.

    `file` is what can be graded again, where the command has no `--graders`.
    """
    unanswered = [o for o in outputs if o.verdict and o.verdict.outcome is Outcome.UNANSWERED]
    # A few are a model's own fault; many mean that the grader looks in the wrong place.
    share = len(unanswered) / len(outputs)
    if share <= MANY:
        return
    parts = [
        f"WARNING: {len(unanswered):,} of {len(outputs):,} responses{f' of {file}' if file else ''}"
        f" ({share:.0%}) are unanswered and count as incorrect: grader {grader} finds no answer in "
        "them"
    ]
    cut = sum(output.finished is False for output in unanswered)
    if 2 * cut > len(unanswered):
        parts.append(f"{cut:,} of them were cut off at the longest length: --max-new-tokens")
    again = f"ktae eval --regrade {file} --output FOLDER " if file else ""
    wider = WIDER.get(grader)
    parts.append(
        f"{again}{wider}" if wider else "look at some of them before you trust the accuracy"
    )
    screen.print("; ".join(parts), style="bold red")


def differences(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """Where the file's reward, taken as correct above 0, is not ours; undecided ones included."""
    return [
        {
            "problem": output.group,
            "sample": output.sample,
            "stored": output.reward,
            "outcome": output.verdict.outcome.value,
            "extracted": output.verdict.extracted,
            "reason": output.verdict.reason,
            "answers": list(output.answers),
        }
        for output in outputs
        if output.reward is not None
        and output.verdict is not None
        and float(output.reward > 0) != output.correct
    ]


def _print_differences(screen: Screen, differing: Sequence[dict[str, Any]]) -> None:
    """The most frequent reasons of a difference, each with how often it occurs and an example."""
    screen.print(
        f"{counted(len(differing), 'output')} on which the file's reward and our verdict differ"
    )
    examples = {(x["stored"] > 0, x["outcome"], x["reason"]): x for x in differing[::-1]}
    counts = Counter((x["stored"] > 0, x["outcome"], x["reason"]) for x in differing)
    for reason, n in counts.most_common(REASONS):
        x = examples[reason]
        accepted = printable(" or ".join(dict.fromkeys(answer.strip() for answer in x["answers"])))
        screen.print(
            f"  {n}: {x['stored']:g} in the file, ours {x['outcome']} ({printable(x['reason'])}), "
            f"as in {x['problem']}: given {printable(x['extracted'] or 'nothing'):.80}, accepted "
            f"{accepted:.80}"
        )
    if len(counts) > REASONS:
        screen.print(f"  ... and {len(counts) - REASONS} more reasons: --json has all")


def print_disagreement(
    screen: Screen, graded: Mapping[str, Sequence[Output]]
) -> dict[str, dict[str, int]]:
    """Print each grader's outcomes, and on how many outputs each two differ in what is correct.

    Returns the latter.
    """
    benchmarks = by_benchmark(next(iter(graded.values())))
    outcomes, shares = [], []
    for name, outputs in graded.items():
        counts = Counter(o.verdict.outcome for o in outputs if o.verdict is not None)
        outcomes.append((name, *(f"{counts[outcome]:,}" for outcome in Outcome)))
        means = accuracies(outputs)
        shares.append((name, *_cells([means.get(x or UNNAMED) for x in benchmarks], _points)))
    disagreements = {
        a: {
            b: sum(x.correct != y.correct for x, y in zip(of_a, of_b, strict=True))
            for b, of_b in graded.items()
        }
        for a, of_a in graded.items()
    }
    pairs = [
        (name, *(f"{n:,}" if n else "-" for n in row.values()))
        for name, row in disagreements.items()
    ]
    screen.table("outputs by grader", [outcome.value for outcome in Outcome], outcomes)
    screen.table("accuracy in percent by grader", [title(x) for x in benchmarks], shares)
    screen.table("outputs on which two graders differ", list(graded), pairs)
    return disagreements
