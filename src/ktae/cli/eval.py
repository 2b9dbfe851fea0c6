"""`ktae eval`: a model on benchmarks or on a recipe's task, or saved outputs graded again."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from ktae._version import __version__
from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, plain
from ktae.errors import InputError, expected_one_of

if TYPE_CHECKING:
    from ktae.evaluation.benchmarks import BenchmarkProblem
    from ktae.evaluation.outputs import Output
    from ktae.evaluation.run import EvaluationFolder, Job
    from ktae.grading import Verdict

MAX_NEW_TOKENS = 3000
"""As in the paper's evaluation."""
TIME_LIMIT = 5.0
"""Processor seconds to grade an output; after that it is undecided."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """The options that say what a model is asked, and how it answers."""

    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A recipe whose held-out problems, prompts and grader are taken."
        ),
    ] = None
    set: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Keys of --recipe.")
    ] = None
    samples: Annotated[int, options.number(min=1, help="Responses to each problem.")] = 1
    temperature: Annotated[
        float, typer.Option(min=0, metavar="T", help="Of sampling; 0 is greedy.")
    ] = 0.0
    max_new_tokens: Annotated[
        int | None,
        options.number(min=1, help="Longest response [default: 3000; with --recipe the recipe's]."),
    ] = None
    problems: Annotated[
        int | None, options.rare_number(min=1, help="Problems of --recipe [default: the recipe's].")
    ] = None
    data: Annotated[
        Path | None,
        options.rare(metavar="FOLDER", help="With the benchmarks' files [default: the hub]."),
    ] = None
    template: Annotated[
        str | None,
        options.rare(
            metavar="NAME",
            help="chat (the tokenizer's own), qwen-math (the paper's), plain, or a baseline's: "
            "r1-distill, r1, prime, prime-zero, open-reasoner-zero [default: chat; with --recipe "
            "the recipe's prompts].",
        ),
    ] = None
    engine: Annotated[
        Literal["transformers", "vllm"], options.rare(metavar="NAME", help="transformers or vllm.")
    ] = "transformers"
    batch_size: Annotated[
        int | None,
        options.rare_number(
            min=1, help="Responses generated at once [default: 32, with vllm 512]."
        ),
    ] = None
    seed: Annotated[int, options.rare_number(min=0, help="Of sampling.")] = 0


class Task(NamedTuple):
    """What a model is asked, and who grades what it answers."""

    problems: list[BenchmarkProblem]
    longest: int
    """Tokens of a response."""
    template: str
    """Of problems without messages of their own."""
    grader: str = "ktae"
    grade: Callable[[Output], Verdict] | None = None
    """Where the grader is the task's own."""


@options.spread
def eval_(
    asked: Asked,
    saved: options.Saved,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A folder or the name of a hub's model."),
    ] = None,
    regrade: Annotated[
        Path | None,
        typer.Option(
            metavar="INPUT", help="Saved outputs to grade instead, with reference answers."
        ),
    ] = None,
    benchmarks: Annotated[
        str | None,
        typer.Option(
            help="aime24, aime25, math500, amc, amc23, minerva, olympiadbench, gsm8k, with commas "
            "between [default: the paper's five; with --regrade all in the file]."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        options.output_option(
            metavar="FOLDER",
            help="An unfinished evaluation in it is continued [default: evals/MODEL; none with "
            "--regrade].",
        ),
    ] = None,
    graders: Annotated[
        str | None,
        typer.Option(
            help="ktae, ktae-boxed, ktae-last, math-verify, stored, with commas "
            "between. The first one's verdicts count [default: ktae; with --recipe the task's]."
        ),
    ] = None,
    as_json: AsJson = False,
    workers: options.Workers = None,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or, with --regrade, saved outputs."""
    from ktae.evaluation.engines import ENGINES, Sampling
    from ktae.evaluation.outputs import STORED
    from ktae.evaluation.run import EvaluationFolder, Job
    from ktae.files.hub import local_or_hub
    from ktae.grading.graders import GRADERS

    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    _refuse(saved, "with a MODEL") if regrade is None else _refuse(asked, "with --regrade")
    if asked.recipe is None:
        _refuse(asked, "without --recipe", "set", "problems")
    else:
        _refuse(asked, "with --recipe", "data", "template")
    screen = Screen(as_json)
    by, wanted = _names(graders), _names(benchmarks)
    known = [*GRADERS, STORED] if regrade is not None else [*GRADERS]
    if unknown := [grader for grader in by or () if grader not in known]:  # not after hours
        raise InputError(f"no grader {unknown[0]!r}; expected one of {', '.join(known)}")
    folder, task = None, Task([], MAX_NEW_TOKENS, "")
    if regrade is not None:
        outputs = saved.read(regrade, wanted)
        settings: dict[str, Any] = {"regraded": str(regrade), "outputs": len(outputs)}
        # Without --output nothing is written: grading again takes seconds.
        if output is not None:
            folder = EvaluationFolder(output)
            folder.claim(settings)
    else:
        if asked.temperature == 0 and asked.samples > 1:
            raise InputError(
                "--samples above 1 needs --temperature above 0: greedy ones are all alike"
            )
        name = local_or_hub("model", str(model))
        task = _task(asked, wanted)
        sampling = Sampling(
            asked.samples,
            asked.temperature,
            asked.max_new_tokens or task.longest,
            asked.batch_size or ENGINES[asked.engine].batch_size,
            asked.seed,
        )
        folder = EvaluationFolder(output or Path("evals") / _name_of(name))
        job = Job(name, asked.engine, task.template, task.problems, sampling)
        settings, outputs = _answered(screen, job, folder)
    # By grader, in the order in which they were asked for: the first one's verdicts count.
    graded = {}
    if task.grade is not None:
        verdicts = zip(outputs, map(task.grade, outputs), strict=True)
        graded[task.grader] = [o._replace(verdict=v, grader=task.grader) for o, v in verdicts]
    for grader in by or [task.grader]:
        graded[grader] = graded.get(grader) or grade_anew(screen, outputs, grader, workers)
    _finish(screen, graded, settings, folder)


def _refuse(given: Asked | options.Saved, where: str, *names: str) -> None:
    """Raise where an option would play no part: it would be taken for one that does."""
    for field in dataclasses.fields(given):
        if field.name in (names or vars(given)) and getattr(given, field.name) != field.default:
            raise InputError(f"--{field.name.replace('_', '-')} plays no part {where}")


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _task(asked: Asked, benchmarks: Sequence[str] | None) -> Task:
    from ktae.evaluation.benchmarks import PAPER, load
    from ktae.evaluation.templates import TEMPLATES

    if asked.recipe is not None:
        if benchmarks is not None:
            raise InputError("--benchmarks plays no part with --recipe")
        return _of_recipe(asked.recipe, asked.problems, asked.set or ())
    template = asked.template or "chat"
    if template not in TEMPLATES:
        raise InputError(f"no template {template!r}; {expected_one_of(TEMPLATES, template)}")
    names = dict.fromkeys(benchmarks or PAPER)
    problems = [problem for name in names for problem in load(name, asked.data)]
    return Task(problems, MAX_NEW_TOKENS, template)


def _of_recipe(file: Path, n: int | None, settings: Sequence[str]) -> Task:
    """The first n held-out problems of a recipe's task, and who grades them."""
    from ktae import recipe as recipes
    from ktae.data import tasks
    from ktae.demo import language_named
    from ktae.evaluation.benchmarks import BenchmarkProblem

    recipe = recipes.load(file, settings)
    longest = recipe.rollout.max_response_length
    if recipe.task == "demo":
        language = language_named(recipe.demo.language)
        if language.environment is not None:
            raise InputError(
                f"an episode of the language {language.name} takes several turns, and a response "
                "is one; ktae train scores episodes before and after (before.json, summary.json)"
            )
        asked = enumerate(language.test_problems(n or recipe.logging.eval_problems))
        problems = [
            BenchmarkProblem(language.name, i, x.prompt, (str(x.answer),)) for i, x in asked
        ]

        def grade(output: Output) -> Verdict:
            finished = bool(output.finished)
            return language.verdict(output.response, output.answers[0], finished=finished)

        return Task(problems, longest, "plain", "demo", grade)
    rows, name = tasks.held_out_rows(recipe, n), tasks.name_of(recipe)
    problems = [
        BenchmarkProblem(name, i, row.prompt[-1]["content"], (row.answer,), row.prompt)
        for i, row in enumerate(rows)
    ]
    if not tasks.is_gym(recipe):
        return Task(problems, longest, "recipe")
    # Puzzles have a program each that scores them.
    return Task(
        problems,
        longest,
        "recipe",
        tasks.GYM,
        lambda output: tasks.gym_verdict(output.response, rows[int(output.problem)].reference),
    )


def _name_of(model: str) -> str:
    """What its evaluation is called: `a` for `runs/a/model`, the model of a run."""
    from ktae.runs import RunFolder

    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    run = RunFolder(path.parent)
    return path.parent.name if path == run.model and run.recipe.is_file() else path.name


def _answered(
    screen: Screen, job: Job, folder: EvaluationFolder
) -> tuple[dict[str, Any], list[Output]]:
    """Let the model answer the problems, or go on where an earlier evaluation was cut short."""
    from ktae.cli.progress import Bars
    from ktae.evaluation.engines import ENGINES
    from ktae.evaluation.run import generate_all

    with screen.progress.status(f"looking at {job.model}"):  # all of its weights are read
        settings = job.settings()
    folder.claim(settings)

    def load_engine() -> Any:
        with screen.progress.status(f"loading {job.model}"):
            return ENGINES[job.engine](job.model)

    with screen.others_aside(), Bars(screen.progress, lines=20) as bars:
        tell = functools.partial(bars.show, "generating")
        return settings, generate_all(folder, job, load_engine, tell)


def grade_anew(
    screen: Screen, outputs: Sequence[Output], grader: str, workers: int | None
) -> list[Output]:
    """All outputs with new verdicts; how far it is stands on the screen."""
    from ktae.cli.progress import Bars
    from ktae.evaluation.outputs import STORED, grade, stored
    from ktae.grading import GradingPool

    if grader == STORED:
        return stored(outputs)
    with (
        GradingPool(workers, time_limit=TIME_LIMIT, grader=grader) as pool,
        Bars(screen.progress, lines=0) as bars,
    ):
        return grade(pool, outputs, functools.partial(bars.show, f"grading ({grader})"))


def _finish(
    screen: Screen,
    graded: dict[str, list[Output]],
    settings: dict[str, Any],
    folder: EvaluationFolder | None,
) -> None:
    """Print the tables, and write the record and the results."""
    from ktae.cli import eval_tables as tables
    from ktae.evaluation.outputs import to_record
    from ktae.grading.graders import GRADERS
    from ktae.rollouts import record
    from ktae.runs import write_json

    first, outputs = next(iter(graded.items()))
    content: dict[str, Any] = {
        "settings": settings,
        "grading": {
            "grader": first,
            "time_limit": TIME_LIMIT if first in GRADERS else None,
            "ktae": __version__,
        },
        **tables.print_models(screen, outputs, first),
    }
    if len(graded) > 1:
        content["disagreements"] = tables.print_disagreement(screen, graded)
    if folder is not None:
        record.write(to_record(outputs, settings.get("model")), folder.outputs)
        write_json(folder.results, plain(content))
        screen.print(f"wrote {folder.results} and {folder.outputs}")
    screen.end(content | {"output": folder.path if folder is not None else None})
