"""What `ktae eval` prints, and the same as JSON."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ktae.cli.printing import Screen
from ktae.errors import InputError
from ktae.evaluation.comparison import title
from ktae.evaluation.outputs import STORED, Output, by_benchmark, by_model
from ktae.evaluation.scores import Estimate, Scores, accuracies, score
from ktae.files.text import counted, printable
from ktae.grading import Outcome, Verdict
from ktae.inference import Interval

MANY = 0.2
"""Share of unanswered responses above which `print_unanswered` speaks."""
WIDER = {
    "ktae": ("ktae-last", "takes the last number of a response"),
    "ktae-boxed": ("ktae", "takes answers outside of \\boxed{}, too"),
    "strict-boxed": ("ktae", "takes answers outside of \\boxed{}, too"),
}
"""By grader: the one that finds answers in more places, and in which."""


def stored_verdicts(outputs: Sequence[Output]) -> list[Verdict]:
    """The file's own verdicts, or else its rewards as such: above 0 is correct.

    Raises:
        InputError: an output has no reward.
    """
    verdicts = []
    for output in outputs:
        if output.verdict is None and output.reward is None:
            raise InputError(f"grader stored: {output.group} has no reward in the file")
        outcome = Outcome.CORRECT if (output.reward or 0) > 0 else Outcome.INCORRECT
        verdicts.append(output.verdict or Verdict(outcome, None, STORED))
    return verdicts


def stored_accuracies(outputs: Sequence[Output]) -> dict[str, float]:
    """Each benchmark's accuracy by stored rewards above 0; empty if the file holds none."""
    return accuracies(outputs, [None if o.reward is None else o.reward > 0 for o in outputs])


def differences(outputs: Sequence[Output], verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Where the file's reward, taken as correct above 0, is not ours; undecided ones included."""
    return [
        {
            "problem": output.group,
            "sample": output.sample,
            "stored": output.reward,
            "outcome": verdict.outcome.value,
            "extracted": verdict.extracted,
            "reason": verdict.reason,
            "answers": list(output.answers),
        }
        for output, verdict in zip(outputs, verdicts, strict=True)
        if output.reward is not None and float(output.reward > 0) != verdict.correct
    ]


def print_models(
    screen: Screen, outputs: list[Output], verdicts: Sequence[Verdict], grader: str, show: int
) -> dict[str, Any]:
    """Print the tables of each model, and return them as JSON; `models` where there are several."""
    content = {}
    models = by_model(outputs)
    for model, places in models.items():
        of_model = [outputs[place] for place in places]
        verdicts_of_model = [verdicts[place] for place in places]
        scores, stored = score(of_model, verdicts_of_model), stored_accuracies(of_model)
        if len(models) > 1:
            screen.print(f"\nmodel {printable(model or 'not named')}")
        print_scores(screen, scores, stored)
        print_unanswered(screen, of_model, verdicts_of_model, grader)
        differing = differences(of_model, verdicts_of_model)
        if stored:
            _print_differences(screen, differing, show)
        content[model or "not named"] = {
            "intervals": "95 %, percentile bootstrap over problems",
            "benchmarks": {
                x.benchmark: {k: v for k, v in x._asdict().items() if k != "benchmark"}
                for x in scores.scores
            },
            "mean": scores.mean,
            "mean_length": scores.mean_length,
            "stored": stored or None,
            "differences": differing,
        }
    return content.popitem()[1] if len(content) == 1 else {"models": content}


def print_scores(screen: Screen, scores: Scores, stored: Mapping[str, float]) -> None:
    """The paper's two tables, accuracy and length, and what the accuracy leaves out."""
    of = scores.scores
    columns = [*(title(x.benchmark) for x in of), "mean"]
    k = max(x.samples for x in of)
    # Each figure has its interval in a line below it.
    rows = _with_intervals(f"avg@{k}" if k > 1 else "pass@1", _accuracies(scores), _points)
    if stored:
        rows.insert(0, ("in the file", *_cells([stored.get(x.benchmark) for x in of], _points)))
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
        rows.append((name, *_cells([x.value if x else None for x in estimates], _points)))
        rows.append(("", *(_span(x, _points) for x in estimates), ""))
        needed = "a decided sample" if name == "maj@k" else f"{name[5:]} decided samples"
        fewer += [
            f"{title(x.benchmark)}: {name} is over {estimate.problems:,} of {x.problems:,} "
            f"problems, those with {needed}"
            for x, estimate in zip(of, estimates, strict=True)
            if estimate is not None and estimate.problems < x.problems
        ]
    screen.table("accuracy in percent, 95 % interval below", columns, rows)
    for line in fewer:
        screen.print(line)
    rows = [("problems", *(f"{x.problems:,}" for x in of), "")]
    rows += _with_intervals("mean tokens", _lengths(scores), _tokens)
    for name in ("unanswered", "undecided", "truncated"):
        rows.append((name, *_cells([getattr(x, name) for x in of], "{:.1%}".format)))
    screen.table("responses", columns, rows)


def print_side_by_side(screen: Screen, models: Mapping[str, Scores]) -> None:
    """The paper's tables 1 and 2: a row for each model, which all have the same benchmarks."""
    first = next(iter(models.values()))
    columns = [*(title(x.benchmark) for x in first.scores), "mean"]
    for heading, of, text in (
        ("accuracy in percent, 95 % interval below", _accuracies, _points),
        ("mean tokens of a response, 95 % interval below", _lengths, _tokens),
    ):
        rows = [row for name, x in models.items() for row in _with_intervals(name, of(x), text)]
        screen.table(heading, columns, rows)


def _accuracies(scores: Scores) -> list[Interval | None]:
    return [*(x.accuracy for x in scores.scores), scores.mean]


def _lengths(scores: Scores) -> list[Interval | None]:
    return [*(x.length for x in scores.scores), scores.mean_length]


def _with_intervals(
    name: str, values: Sequence[Interval | None], text: Callable[[float], str]
) -> list[tuple[str, ...]]:
    """A row of values, and one of their intervals."""
    cells = [_cell(x.value if x else None, text) for x in values]
    return [(name, *cells), ("", *(_span(x, text) for x in values))]


def _cells(values: Sequence[float | None], text: Callable[[float], str]) -> list[str]:
    """One for each benchmark, and their mean, blank where a benchmark has no value."""
    cells = [_cell(x, text) for x in values]
    # A mean over fewer benchmarks than the others' would look comparable, and is not.
    known = [x for x in values if x is not None and not math.isnan(x)]
    return [*cells, text(float(np.mean(known))) if len(known) == len(values) else ""]


def _cell(value: float | None, text: Callable[[float], str]) -> str:
    return "-" if value is None or math.isnan(value) else text(value)


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _tokens(count: float) -> str:
    return f"{count:,.0f}" if count >= 100 else f"{count:.1f}"


def _span(estimate: Interval | Estimate | None, text: Callable[[float], str]) -> str:
    if estimate is None or math.isnan(estimate.value):
        return ""
    return f"{text(estimate.low)}-{text(estimate.high)}"


def print_unanswered(
    screen: Screen,
    outputs: Sequence[Output],
    verdicts: Sequence[Verdict],
    grader: str,
    file: str | None = None,
) -> None:
    """Say loudly where more than `MANY` of the responses are unanswered, and what may help.

    Args:
        screen: where to.
        outputs: the responses.
        verdicts: one for each.
        grader: whose verdicts they are.
        file: where the command has no `--graders`: the file or folder that can be graded again.
    """
    unanswered = [
        output
        for output, verdict in zip(outputs, verdicts, strict=True)
        if verdict.outcome is Outcome.UNANSWERED
    ]
    # A few are a model's own fault; many mean that the grader looks in the wrong place.
    share = len(unanswered) / len(outputs)
    if share <= MANY:
        return
    where = f" of {file}" if file else ""
    parts = [
        f"WARNING: {len(unanswered):,} of {len(outputs):,} responses{where} ({share:.0%}) are "
        f"unanswered and count as incorrect: grader {grader} finds no answer in them"
    ]
    cut = sum(output.finished is False for output in unanswered)
    if 2 * cut > len(unanswered):
        parts.append(f"{cut:,} of them were cut off at the longest length: --max-new-tokens")
    if grader in WIDER:
        wider, what = WIDER[grader]
        again = f"ktae eval --regrade {file} --output FOLDER " if file else ""
        parts.append(f"{again}--graders {wider} {what}")
    else:
        parts.append("look at some of them before you trust the accuracy")
    screen.print("; ".join(parts), style="bold red")


def _print_differences(screen: Screen, differing: Sequence[dict[str, Any]], show: int) -> None:
    """The most frequent reasons of a difference, each with how often it occurs and an example."""
    screen.print(
        f"{counted(len(differing), 'output')} on which the file's reward and our verdict differ"
    )
    by_reason = defaultdict(list)
    for x in differing:
        by_reason[x["stored"] > 0, x["outcome"], x["reason"]].append(x)
    most = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for (_, outcome, reason), some in most[:show]:
        x = some[0]
        accepted = printable(" or ".join(dict.fromkeys(answer.strip() for answer in x["answers"])))
        extracted = printable(x["extracted"] or "nothing")
        screen.print(
            f"  {len(some)}: {x['stored']:g} in the file, ours {outcome} ({printable(reason)}), "
            f"as in {x['problem']}: given {extracted:.80}, accepted {accepted:.80}"
        )
    if len(most) > show:
        screen.print(f"  ... and {len(most) - show} more reasons: --show {len(most)}")


def print_disagreement(
    screen: Screen, outputs: Sequence[Output], verdicts: Mapping[str, Sequence[Verdict]]
) -> None:
    """Each grader's outcomes, and how often each two of them differ in what is correct."""
    benchmarks = by_benchmark(outputs)
    outcomes, shares = [], []
    for name, of_grader in verdicts.items():
        counts = Counter(verdict.outcome for verdict in of_grader)
        outcomes.append((name, *(f"{counts[outcome]:,}" for outcome in Outcome)))
        means = accuracies(outputs, [verdict.correct for verdict in of_grader])
        shares.append((name, *(_cell(means.get(x), _points) for x in benchmarks)))
    screen.table("outputs by grader", [outcome.value for outcome in Outcome], outcomes)
    screen.table("accuracy in percent by grader", [title(x) for x in benchmarks], shares)
    pairs = [
        (name, *(f"{n:,}" if n else "-" for n in row.values()))
        for name, row in disagreements(verdicts).items()
    ]
    screen.table("outputs on which two graders differ", list(verdicts), pairs)


def disagreements(verdicts: Mapping[str, Sequence[Verdict]]) -> dict[str, dict[str, int]]:
    """For each two graders the outputs on which their `correct` differs."""
    return {
        a: {
            b: sum(x.correct != y.correct for x, y in zip(of_a, of_b, strict=True))
            for b, of_b in verdicts.items()
        }
        for a, of_a in verdicts.items()
    }
