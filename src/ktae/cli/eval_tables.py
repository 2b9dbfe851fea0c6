"""What `ktae eval` prints, and the same as JSON."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ktae.cli.tables import make_table
from ktae.errors import InputError
from ktae.evaluation.comparison import title
from ktae.evaluation.outputs import STORED, Output, by_benchmark
from ktae.evaluation.scores import Estimate, Score, Scores
from ktae.files.text import counted, printable
from ktae.grading import Outcome, Verdict
from ktae.inference import Interval

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


MANY = 0.2
"""Share of unanswered responses above which `print_unanswered` speaks."""
WIDER = {
    "ktae": ("ktae-last", "takes the last number of a response"),
    "ktae-boxed": ("ktae", "takes answers outside of \\boxed{}, too"),
    "strict-boxed": ("ktae", "takes answers outside of \\boxed{}, too"),
}
"""By grader: the one that finds answers in more places, and in which."""


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
        verdicts.append(Verdict(Outcome.CORRECT if right else Outcome.INCORRECT, None, STORED))
    return verdicts


def stored_accuracies(outputs: Sequence[Output]) -> dict[str, float]:
    """Each benchmark's accuracy by stored rewards above 0; empty if the file holds none."""
    return _means(outputs, [None if o.reward is None else float(o.reward > 0) for o in outputs])


def _means(outputs: Sequence[Output], values: Sequence[float | None]) -> dict[str, float]:
    """By benchmark, the mean over problems of what is known, as of `Score.accuracy`."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for output, value in zip(outputs, values, strict=True):
        if value is not None:
            found[output.benchmark][output.group].append(value)
    return {
        name: float(np.mean([np.mean(own) for own in problems.values()]))
        for name, problems in found.items()
    }


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
        means = [stored.get(score.benchmark) for score in scores.scores]
        table.add_row("in the file", *_cells(means, _points))
    accuracies = [*(score.accuracy for score in scores.scores), scores.mean]
    k = max(score.samples for score in scores.scores)
    shown = [_cell(x.value, _points) for x in accuracies]
    table.add_row(f"avg@{k}" if k > 1 else "pass@1", *shown)
    table.add_row("", *map(_span, accuracies), style="dim")
    for name, estimates in _sampled(scores.scores):
        table.add_row(name, *_cells([x.value if x else None for x in estimates], _points))
        table.add_row("", *map(_span, estimates), "", style="dim")
    console.print(table)
    for note in _over_fewer(scores.scores):
        console.print(note, soft_wrap=True)
    console.print(_lengths(scores.scores, columns))


def _cells(
    values: Sequence[float | None],
    text: Callable[[float], str],
    text_of_mean: Callable[[float], str] | None = None,
) -> list[str]:
    """One for each benchmark, and their mean, blank where a benchmark has no value."""
    cells = [_cell(x, text) for x in values]
    known = [x for x in values if x is not None and not math.isnan(x)]
    if len(known) < len(values):
        return [*cells, ""]
    return [*cells, (text_of_mean or text)(float(np.mean(known)))]


def _cell(value: float | None, text: Callable[[float], str]) -> str:
    return "-" if value is None or math.isnan(value) else text(value)


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _span(found: Interval | Estimate | None) -> str:
    if found is None or math.isnan(found.value):
        return ""
    return f"{_points(found.low)}-{_points(found.high)}"


def _over_fewer(scores: Sequence[Score]) -> Iterator[str]:
    """Which figures leave out problems, and how many are left."""
    for score in scores:
        found = [
            (f"pass@{k}", f"{k} decided samples", x) for k, x in score.pass_at.items() if k > 1
        ]
        if score.majority is not None:
            found.append(("maj@k", "a decided sample", score.majority))
        for name, needed, estimate in found:
            if estimate.problems < score.problems:
                yield (
                    f"{title(score.benchmark)}: {name} is over {estimate.problems:,} of "
                    f"{score.problems:,} problems, those with {needed}"
                )


def _sampled(scores: Sequence[Score]) -> list[tuple[str, list[Estimate | None]]]:
    ks = sorted({k for score in scores for k in score.pass_at if k > 1})
    rows = [(f"pass@{k}", [score.pass_at.get(k) for score in scores]) for k in ks]
    if any(score.majority for score in scores):
        rows.append(("maj@k", [score.majority for score in scores]))
    return rows


def _lengths(scores: Sequence[Score], columns: Sequence[str]) -> Table:
    table = make_table("responses", columns)
    table.add_row("problems", *(f"{score.problems:,}" for score in scores), "")
    lengths = [score.length for score in scores]
    table.add_row("mean tokens", *_cells(lengths, "{:,.0f}".format, "{:,.1f}".format))
    for name in ("unanswered", "undecided", "truncated"):
        shares = [getattr(score, name) for score in scores]
        table.add_row(name, *_cells(shares, "{:.1%}".format))
    return table


def print_unanswered(
    console: Console,
    outputs: Sequence[Output],
    verdicts: Sequence[Verdict],
    grader: str,
    file: str | None = None,
) -> None:
    """Say loudly where more than `MANY` of the responses are unanswered, and what may help.

    Args:
        console: where to.
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
    if len(unanswered) <= MANY * len(outputs):
        return
    cut = sum(output.finished is False for output in unanswered)
    where = f" of {file}" if file else ""
    parts = [
        f"WARNING: {len(unanswered):,} of {len(outputs):,} responses{where} "
        f"({len(unanswered) / len(outputs):.0%}) are unanswered and count as incorrect: grader "
        f"{grader} finds no answer in them"
    ]
    if 2 * cut > len(unanswered):
        parts.append(f"{cut:,} of them were cut off at the longest length: --max-new-tokens")
    if grader in WIDER:
        wider, what = WIDER[grader]
        again = f"ktae eval --regrade {file} --output FOLDER " if file else ""
        parts.append(f"{again}--graders {wider} {what}")
    else:
        parts.append("look at some of them before you trust the accuracy")
    console.print("; ".join(parts), style="bold red", soft_wrap=True)


def print_differences(console: Console, found: Sequence[Difference], show: int) -> None:
    """The outputs on which the file and we differ."""
    console.print(
        f"{counted(len(found), 'output')} on which the file's reward and our verdict differ"
    )
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
        console.print(
            f"  ... and {len(found) - show} more: --show {len(found)}, or --output FOLDER",
            soft_wrap=True,
        )


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
    means = _means(outputs, [verdict.correct for verdict in verdicts])
    return [_cell(means.get(name), _points) for name in by_benchmark(outputs)]


def as_json(
    scores: Scores, stored: Mapping[str, float], found: Sequence[Difference]
) -> dict[str, Any]:
    """The same for programs. Shares are between 0 and 1."""

    def plain(value: Any) -> Any:
        if isinstance(value, Interval | Estimate):
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
