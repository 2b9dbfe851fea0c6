"""`ktae eval`: a model on benchmarks or on a recipe's task, or saved outputs graded again."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ktae._version import __version__
from ktae.cli.printing import Screen, plain
from ktae.cli.reading import OutputOptions, note_reading
from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.experiments.evaluation import EvaluationFolder, Questions
    from ktae.experiments.scores import Scores

TIME_LIMIT = 5.0  # processor seconds to grade an output; after that it is undecided
MANY = 0.2  # share of unanswered responses above which `print_warning` speaks
FEW = 20  # up to so many outputs may well be graded alike
WIDER = {  # for a grader, the one that finds answers in more places
    "ktae": "ktae eval --grader ktae-last takes the last number of a response",
    "ktae-boxed": "ktae eval --grader ktae takes answers outside of \\boxed{}, too",
}


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """What a model is asked, and how it answers."""

    recipe: Path | None = None
    set: list[str] | None = None
    samples: int = 1
    temperature: float = 0.0
    max_new_tokens: int | None = None
    data: Path | None = None
    template: str | None = None
    engine: Literal["transformers", "vllm"] = "transformers"
    batch_size: int | None = None
    seed: int = 0


def run(
    asked: GenerationOptions,
    saved: OutputOptions,
    model: str | None = None,
    regrade: Path | None = None,
    benchmarks: str | None = None,
    output: Path | None = None,
    grader: str | None = None,
    as_json: bool = False,
    workers: int | None = None,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or grade saved outputs (--regrade)."""
    from ktae.experiments.evaluation import EvaluationFolder, Questions, of_recipe
    from ktae.grading.graders import DEFAULT, GRADERS
    from ktae.rollouts.notes import Notes

    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    unused: Any = saved if regrade is None else asked
    idle = [(unused, field.name) for field in dataclasses.fields(unused)]
    idle += [(asked, x) for x in (("data", "template") if asked.recipe else ("set",))]
    names = [name for group, name in idle if getattr(group, name) != getattr(type(group), name)]
    names += ["benchmarks"] if asked.recipe and benchmarks is not None else []
    if names:
        raise InputError(f"--{names[0].replace('_', '-')} has no effect here: see ktae eval --help")
    if asked.samples > 1 and asked.temperature == 0:
        raise InputError("--samples above 1 needs --temperature above 0, or all would be alike")
    screen, notes = Screen(as_json), Notes(strict=True)
    wanted = benchmarks.split(",") if benchmarks else None
    questions = of_recipe(asked.recipe, asked.set or ()) if asked.recipe else Questions()
    grader = grader or next(iter(questions.graders), DEFAULT)
    if grader not in (known := [*GRADERS, *questions.graders]):
        raise InputError(f"no grader {grader!r}; expected one of {', '.join(known)}")
    if regrade is not None:
        (outputs,) = saved.read([regrade], notes, wanted)
        note_reading(notes)
        settings: dict[str, Any] = {"regraded": str(regrade), "outputs": len(outputs)}
        folder = None if output is None else EvaluationFolder(output)
        if folder is not None:
            folder.claim(settings)
    else:
        folder, settings, outputs = _answered(screen, str(model), output, asked, questions, wanted)
    outputs = graded_by(screen, outputs, grader, workers, questions.graders.get(grader))
    _finish(screen, folder, settings, grader, outputs, notes)


def _answered(
    screen: Screen,
    model: str,
    output: Path | None,
    asked: GenerationOptions,
    questions: Questions,
    benchmarks: list[str] | None,
) -> tuple[EvaluationFolder, dict[str, Any], Any]:
    """Let the model answer the problems, or continue an evaluation that was interrupted."""
    from ktae.cli.progress import Bars
    from ktae.experiments.benchmarks import PAPER, load
    from ktae.experiments.engines import ENGINES, Engine, Sampling
    from ktae.experiments.evaluation import EvaluationFolder, generate_all, settings_of
    from ktae.files.hub import local_or_hub

    model = local_or_hub("model", model)
    problems = questions.problems
    if asked.recipe is None:
        names, how = dict.fromkeys(benchmarks or PAPER), (asked.data, asked.template or "chat")
        problems = [problem for name in names for problem in load(name, *how)]
    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    if path.name == "model" and (path.parent / "recipe.yaml").is_file():
        path = path.parent  # of a run, `runs/a/model`, the name is `a`
    folder = EvaluationFolder(output or Path("evals") / path.name)
    longest = asked.max_new_tokens or questions.longest
    batch_size = asked.batch_size or ENGINES[asked.engine].batch_size
    sampling = Sampling(asked.samples, asked.temperature, longest, batch_size, asked.seed)
    with contextlib.redirect_stdout(screen.progress.file), Bars(screen.progress) as bars:
        settings = settings_of(model, asked.engine, problems, sampling)
        folder.claim(settings)

        def load_engine() -> Engine:
            bars.show(f"loading {model}", 0, None)
            return ENGINES[asked.engine](model)

        tell = functools.partial(bars.show, "generating")
        return folder, settings, generate_all(folder, problems, sampling, load_engine, tell)


def graded_by(
    screen: Screen,
    outputs: Any,
    grader: str,
    workers: int | None,
    of_task: Callable[[Any], list[Any]] | None = None,
) -> Any:
    """The outputs graded anew, by ktae's grader of that name or by a task's own."""
    from ktae.cli.progress import Bars
    from ktae.experiments.outputs import grade, with_verdicts
    from ktae.grading import GradingPool

    if of_task is not None:
        return with_verdicts(outputs, of_task(outputs), grader)
    with (
        GradingPool(workers, time_limit=TIME_LIMIT, grader=grader) as pool,
        Bars(screen.progress) as bars,
    ):
        return grade(pool, outputs, functools.partial(bars.show, f"grading ({grader})"))


def _finish(
    screen: Screen,
    folder: EvaluationFolder | None,
    settings: dict[str, Any],
    grader: str,
    outputs: Any,
    notes: Any,
) -> None:
    """Print the figures of the model, and write them with the outputs."""
    from ktae.experiments.outputs import to_record
    from ktae.experiments.run_folder import write_json
    from ktae.experiments.scores import score
    from ktae.grading.graders import GRADERS
    from ktae.rollouts import record

    scores, model = score(outputs), next(filter(None, outputs["model"].to_pylist()), None)
    print_scores(screen, model or "accuracy in percent", scores)
    print_warning(screen, outputs, grader)
    time_limit = TIME_LIMIT if grader in GRADERS else None
    content: dict[str, Any] = {
        "settings": settings,
        "grading": {"grader": grader, "time_limit": time_limit, "ktae": __version__},
        "intervals": "95 %, percentile bootstrap over problems",
        "benchmarks": {x.benchmark: x for x in scores.scores},
        "mean": scores.mean,
        "mean_length": scores.mean_length,
        "notes": notes.listed(),
    }
    if folder is not None:
        record.write(to_record(outputs, settings.get("model")), folder.outputs)
        write_json(folder.summary, plain(content))
        screen.print(f"wrote {folder.summary} and {folder.outputs}")
    screen.end(content | {"output": folder.path if folder is not None else None})


def print_scores(screen: Screen, heading: str, scores: Scores) -> None:
    """A table of one row a benchmark; a figure over fewer problems says over how many."""
    from ktae.experiments.benchmarks import title

    k = max(x.samples for x in scores.scores)
    sampled = sorted({n for x in scores.scores for n in x.pass_at if n > 1})
    shares = {"unanswered": "no answer", "undecided": "undecided", "truncated": "cut off"}
    rows: list[Any] = []
    for x in scores.scores:
        cells = [title(x.benchmark), f"{x.problems:,}", *_interval(x.accuracy, 100)]
        for n in sampled:
            passed = x.pass_at.get(n)
            fewer = f" ({passed.problems:,})" if passed and passed.problems < x.problems else ""
            cells.append(_interval(passed, 100)[0] + fewer)
        values = (getattr(x, name) for name in shares)
        cells += [_interval(x.length)[0], *("-" if y is None else f"{100 * y:.1f}" for y in values)]
        rows.append(cells)
    if len(rows) > 1:
        empty = [""] * len(sampled)
        mean = ["mean", "", *_interval(scores.mean, 100), *empty, _interval(scores.mean_length)[0]]
        rows += [None, [*mean, "", "", ""]]
    accuracy = f"avg@{k}" if k > 1 else "pass@1"
    columns = ("n", accuracy, "95 %", *(f"pass@{n}" for n in sampled), "tokens", *shares.values())
    screen.table(heading, columns, rows)


def _interval(value: Any, scale: int = 1) -> tuple[str, str]:
    if value is None or math.isnan(value.value):
        return "-", ""
    figure, low, high = (f"{scale * x:,.1f}" for x in value[:3])
    return figure, f"{low} to {high}"


def print_warning(screen: Screen, table: Any, grader: str, file: str | None = None) -> None:
    """Warn if many of the responses (of a file) are unanswered, or all are graded alike."""
    from ktae.grading import Outcome

    outcomes, n = table["outcome"].to_pylist(), len(table)
    where, unanswered = f" of {file}" if file else "", outcomes.count(Outcome.UNANSWERED)
    if unanswered > MANY * n:  # the grader looks in the wrong place
        wider = WIDER.get(grader, "look at some of them before you trust the accuracy")
        text = (
            f"{unanswered:,} of {n:,} responses{where} ({unanswered / n:.0%}) are unanswered and "
            f"count as incorrect: grader {grader} finds no answer in them. Were they cut off "
            f"(--max-new-tokens)? Else: {wider}"
        )
    elif len(set(outcomes)) == 1 and n > FEW:
        answer = table["answers"][0].as_py()[0]
        text = (
            f"all {n:,} responses{where} are graded {outcomes[0]}, so they show no difference; "
            f"does grader {grader} understand a reference such as {answer!r:.60}?"
        )
    else:
        return
    screen.print(f"WARNING: {text}", style="bold red")
