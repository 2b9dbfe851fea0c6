"""What `ktae eval` prints, and the same as JSON."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ktae.cli.tables import make_table
from ktae.errors import InputError
from ktae.evaluation.comparison import title
from ktae.evaluation.outputs import Output, by_benchmark
from ktae.evaluation.scores import Interval, Score, Scores
from ktae.grading import Outcome, Verdict
from ktae.rollouts.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Difference(NamedTuple):
    """An output on which our verdict is not the file's."""

    group: str
    sample: int
    stored: float
    verdict: Verdict
    answers: tuple[str, ...]


def stored_verdicts(outputs: Sequence[Output]) -> list[Verdict]:
    """The file's own verdicts, or else its rewards as such: above 0 is correct.

    Raises:
        InputError: an output has no reward.
    """
    verdicts = []
    for output in outputs:
        if output.verdict is not None:
            verdicts.append(output.verdict)
            continue
        if output.reward is None:
            raise InputError(f"grader stored: {output.group} has no reward in the file")
        right = output.reward > 0
        verdicts.append(Verdict(Outcome.CORRECT if right else Outcome.INCORRECT, None, "stored"))
    return verdicts


def stored_means(outputs: Sequence[Output]) -> dict[str, float]:
    """The mean stored reward of each benchmark; empty if the file holds none."""
    rewards = defaultdict(list)
    for output in outputs:
        if output.reward is not None:
            rewards[output.benchmark].append(output.reward)
    return {name: float(np.mean(values)) for name, values in rewards.items()}


def differences(outputs: Sequence[Output], verdicts: Sequence[Verdict]) -> list[Difference]:
    """Where the file's reward, taken as correct above 0, is not ours; undecided ones included."""
    return [
        Difference(output.group, output.sample, output.reward, verdict, output.answers)
        for output, verdict in zip(outputs, verdicts, strict=True)
        if output.reward is not None and float(output.reward > 0) != verdict.correct
    ]


def print_scores(console: Console, scores: Scores, stored: Mapping[str, float]) -> None:
    """The paper's two tables, accuracy and length, and what the accuracy leaves out."""
    columns = [*(title(score.benchmark) for score in scores.scores), "mean"]
    table = make_table("accuracy in percent, 95 % interval below", columns)
    if stored:
        means = [stored.get(score.benchmark, float("nan")) for score in scores.scores]
        mean = float(np.mean(means))
        table.add_row("in the file", *(f"{100 * x:.1f}" for x in [*means, mean]))
    accuracies = [*(score.accuracy for score in scores.scores), scores.mean]
    k = max(score.samples for score in scores.scores)
    table.add_row(f"avg@{k}" if k > 1 else "pass@1", *(f"{100 * x.value:.1f}" for x in accuracies))
    table.add_row("", *(f"{100 * x.low:.1f}-{100 * x.high:.1f}" for x in accuracies), style="dim")
    for name, intervals in _sampled(scores.scores):
        values = [x.value if x else None for x in intervals]
        cells = ["" if x is None else f"{100 * x:.1f}" for x in values]
        known = [x for x in values if x is not None]
        table.add_row(name, *cells, f"{100 * np.mean(known):.1f}")
        spans = ["" if x is None else f"{100 * x.low:.1f}-{100 * x.high:.1f}" for x in intervals]
        table.add_row("", *spans, "", style="dim")
    console.print(table)
    console.print(_lengths(scores.scores, columns))


def _sampled(scores: Sequence[Score]) -> list[tuple[str, list[Interval | None]]]:
    ks = sorted({k for score in scores for k in score.pass_at if k > 1})
    rows = [(f"pass@{k}", [score.pass_at.get(k) for score in scores]) for k in ks]
    if any(score.majority for score in scores):
        rows.append(("maj@k", [score.majority for score in scores]))
    return rows


def _lengths(scores: Sequence[Score], columns: Sequence[str]) -> Table:
    table = make_table("responses", columns)
    table.add_row("problems", *(f"{score.problems:,}" for score in scores), "")
    lengths = [score.length for score in scores]
    known = [x for x in lengths if x is not None]
    cells = ["-" if x is None else f"{x:,.0f}" for x in lengths]
    table.add_row("mean tokens", *cells, f"{np.mean(known):,.1f}" if known else "-")
    for name in ("unanswered", "undecided", "truncated"):
        shares = [getattr(score, name) for score in scores]
        known = [x for x in shares if x is not None]
        cells = ["-" if x is None else f"{x:.1%}" for x in shares]
        table.add_row(name, *cells, f"{np.mean(known):.1%}" if known else "-")
    return table


def print_differences(console: Console, found: Sequence[Difference], show: int) -> None:
    """The outputs on which the file and we differ."""
    console.print(f"{len(found)} outputs on which the file's reward and our verdict differ")
    for difference in found[:show]:
        verdict = difference.verdict
        answer = printable(" or ".join(dict.fromkeys(x.strip() for x in difference.answers)))
        given = printable(verdict.extracted or "nothing")
        console.print(
            f"  {difference.group}: {difference.stored:g} in the file, ours {verdict.outcome} "
            f"({printable(verdict.reason)}); given {given:.80}, accepted {answer:.80}",
            soft_wrap=True,
        )
    if len(found) > show:
        console.print(f"  ... and {len(found) - show} more: --show {len(found)}, or results.json")


def print_disagreement(
    console: Console, outputs: Sequence[Output], verdicts: Mapping[str, Sequence[Verdict]]
) -> None:
    """Each grader's outcomes, and how often each two of them differ in what is correct."""
    outcomes = make_table("outputs by grader", [outcome.value for outcome in Outcome])
    names = by_benchmark(outputs)
    accuracies = make_table("accuracy in percent by grader", [title(name) for name in names])
    for name, of_one in verdicts.items():
        counts = Counter(verdict.outcome for verdict in of_one)
        outcomes.add_row(name, *(f"{counts[outcome]:,}" for outcome in Outcome))
        accuracies.add_row(name, *_accuracies(outputs, of_one))
    console.print(outcomes)
    console.print(accuracies)
    pairs = make_table("outputs on which two graders differ", list(verdicts))
    for name, row in disagreements(verdicts).items():
        pairs.add_row(name, *(f"{n:,}" if n else "-" for n in row.values()))
    console.print(pairs)


def disagreements(verdicts: Mapping[str, Sequence[Verdict]]) -> dict[str, dict[str, int]]:
    """For each two graders the outputs on which their `correct` differs."""
    return {
        a: {
            b: sum(x.correct != y.correct for x, y in zip(of_a, of_b, strict=True))
            for b, of_b in verdicts.items()
        }
        for a, of_a in verdicts.items()
    }


def _accuracies(outputs: Sequence[Output], verdicts: Sequence[Verdict]) -> list[str]:
    cells = []
    for name in by_benchmark(outputs):
        known = [
            verdict.correct
            for output, verdict in zip(outputs, verdicts, strict=True)
            if output.benchmark == name and verdict.correct is not None
        ]
        cells.append(f"{100 * np.mean(known):.1f}" if known else "-")
    return cells


def as_json(
    scores: Scores, stored: Mapping[str, float], found: Sequence[Difference]
) -> dict[str, Any]:
    """The same for programs. Shares are between 0 and 1."""

    def plain(value: Any) -> Any:
        if isinstance(value, Interval):
            return {key: plain(x) for key, x in value._asdict().items()}
        if isinstance(value, dict):
            return {str(key): plain(entry) for key, entry in value.items()}
        return None if isinstance(value, float) and math.isnan(value) else value

    return {
        "intervals": "95 %, percentile bootstrap over problems",
        "benchmarks": {
            score.benchmark: {
                key: plain(value) for key, value in score._asdict().items() if key != "benchmark"
            }
            for score in scores.scores
        },
        "mean": plain(scores.mean),
        "stored": dict(stored) or None,
        "differences": [
            {
                "problem": difference.group,
                "sample": difference.sample,
                "stored": difference.stored,
                "outcome": difference.verdict.outcome.value,
                "extracted": difference.verdict.extracted,
                "reason": difference.verdict.reason,
                "answers": list(difference.answers),
            }
            for difference in found
        ],
    }
