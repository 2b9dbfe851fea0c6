"""`ktae eval`: a model on benchmarks or on a recipe's task, or saved outputs graded again."""

from __future__ import annotations

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
    from ktae.evaluation.engines import Sampling
    from ktae.evaluation.outputs import Output
    from ktae.evaluation.run import EvaluationFolder
    from ktae.grading import GradingPool, Verdict
    from ktae.rollouts.options import ReadOptions

MAX_NEW_TOKENS = 3000
"""As in the paper's evaluation."""
TIME_LIMIT = 5.0
"""Processor seconds to grade an output; after that it is undecided."""

IDLE = {
    "with --regrade the answers are there": (
        *("recipe", "settings", "problems", "data", "samples", "temperature", "max_new_tokens"),
        *("template", "engine", "batch_size", "seed"),
    ),
    "it says how saved outputs are read; give it with --regrade": (
        *("tokenizer", "partial", "correctness", "field", "pool_models", "join"),
    ),
    "--recipe brings problems and prompts": ("benchmarks", "data", "template"),
    "it is of a recipe's task; give it with --recipe": ("problems", "settings"),
}
"""Options that would play no part, and why: with --regrade, with a model, with --recipe, without
it."""


class Task(NamedTuple):
    """What a model is asked."""

    problems: list[BenchmarkProblem]
    longest: int
    """Tokens of a response."""
    template: str
    """Of problems without messages of their own."""
    grader: str | None = None
    """Who grades where ktae's grader does not."""
    grade: Callable[[Sequence[Output]], list[Verdict]] | None = None


def eval_(
    context: typer.Context,
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
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A recipe whose held-out problems, prompts and grader are taken."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Keys of --recipe.")
    ] = None,
    samples: Annotated[int, options.number(min=1, help="Responses to each problem.")] = 1,
    temperature: Annotated[
        float, typer.Option(min=0, metavar="T", help="Of sampling; 0 is greedy.")
    ] = 0.0,
    max_new_tokens: Annotated[
        int | None,
        options.number(min=1, help="Longest response [default: 3000; with --recipe the recipe's]."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="An unfinished evaluation in it is continued [default: evals/MODEL; none with "
            "--regrade].",
        ),
    ] = None,
    graders: Annotated[
        str | None,
        typer.Option(
            help="ktae, ktae-boxed, ktae-last, math-verify, strict-boxed, stored, with commas "
            "between. The first one's verdicts count [default: ktae; with --recipe the task's]."
        ),
    ] = None,
    as_json: AsJson = False,
    problems: Annotated[
        int | None, options.rare_number(min=1, help="Problems of --recipe [default: the recipe's].")
    ] = None,
    data: Annotated[
        Path | None,
        options.rare(metavar="FOLDER", help="With the benchmarks' files [default: the hub]."),
    ] = None,
    template: Annotated[
        str | None,
        options.rare(
            metavar="NAME",
            help="chat (the tokenizer's own), qwen-math (the paper's), plain, or a baseline's: "
            "r1-distill, r1, prime, prime-zero, open-reasoner-zero [default: chat; with --recipe "
            "the recipe's prompts].",
        ),
    ] = None,
    engine: Annotated[
        Literal["transformers", "vllm"], options.rare(metavar="NAME", help="transformers or vllm.")
    ] = "transformers",
    batch_size: Annotated[
        int | None,
        options.rare_number(
            min=1, help="Responses generated at once [default: 32, with vllm 512]."
        ),
    ] = None,
    seed: Annotated[int, options.rare_number(min=0, help="Of sampling.")] = 0,
    tokenizer: Annotated[
        str | None,
        options.rare(help="With --regrade, counts the lengths that the file does not hold."),
    ] = None,
    partial: Annotated[
        bool, options.rare("--partial", help="With --regrade, problems may be missing.")
    ] = False,
    workers: options.Workers = None,
    field: options.Fields = None,
    correctness: options.Correctness = None,
    pool_models: options.PoolModels = None,
    join: options.Join = False,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or, with --regrade, saved outputs."""
    from ktae.evaluation.engines import ENGINES, Sampling
    from ktae.evaluation.outputs import STORED, stored
    from ktae.evaluation.run import EvaluationFolder
    from ktae.files.hub import local_or_hub
    from ktae.grading import GradingPool
    from ktae.grading.graders import GRADERS

    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    # An option that plays no part would be taken for one that does.
    for idle, (why, names) in zip((regrade, model, recipe, not recipe), IDLE.items(), strict=True):
        for parameter in context.command.params if idle else ():
            source = context.get_parameter_source(parameter.name or "")
            if parameter.name in names and source and source.name == "COMMANDLINE":
                raise InputError(f"{parameter.opts[0]} plays no part: {why}")
    screen = Screen(as_json)
    by = [] if graders is None else [grader.strip() for grader in graders.split(",")]
    known = [*GRADERS, STORED] if regrade is not None else [*GRADERS]
    if unknown := [grader for grader in by if grader not in known]:  # not after hours of answers
        raise InputError(f"no grader {unknown[0]!r}; expected one of {', '.join(known)}")
    wanted = None if benchmarks is None else [name.strip() for name in benchmarks.split(",")]
    task = folder = None
    if regrade is not None:
        how = options.read_options(field, tokenizer, None, correctness, pool_models, join)
        outputs = read_saved(regrade, how, partial=partial, names=wanted)
        asked: dict[str, Any] = {"regraded": str(regrade), "outputs": len(outputs)}
        # Without --output nothing is written: grading again takes seconds.
        if output is not None:
            folder = EvaluationFolder(output)
            folder.claim(asked)
    else:
        if temperature == 0 and samples > 1:
            raise InputError(
                "--samples above 1 needs --temperature above 0: greedy ones are all alike"
            )
        name = local_or_hub("model", str(model))
        task = (
            _of_benchmarks(wanted, data, template or "chat")
            if recipe is None
            else _of_recipe(recipe, problems, settings or ())
        )
        size = batch_size or ENGINES[engine].batch_size
        sampling = Sampling(samples, temperature, max_new_tokens or task.longest, size, seed)
        folder = EvaluationFolder(output or Path("evals") / _name_of(name))
        asked, outputs = _answered(screen, name, task, engine, sampling, folder)
    # By grader, in the order in which they were asked for: the first one's verdicts count.
    graded = {}
    if task is not None and task.grader is not None and task.grade is not None:
        verdicts = zip(outputs, task.grade(outputs), strict=True)
        graded[task.grader] = [o._replace(verdict=v, grader=task.grader) for o, v in verdicts]
    for grader in by or ([] if graded else ["ktae"]):
        if grader == STORED:
            graded[grader] = stored(outputs)
            continue
        with GradingPool(workers, time_limit=TIME_LIMIT, grader=grader) as pool:
            graded[grader] = grade_anew(screen, pool, outputs)
    _finish(screen, graded, asked, folder)


def _of_benchmarks(names: Sequence[str] | None, data: Path | None, template: str) -> Task:
    from ktae.evaluation.benchmarks import PAPER, load
    from ktae.evaluation.templates import TEMPLATES

    if template not in TEMPLATES:
        raise InputError(f"no template {template!r}; {expected_one_of(TEMPLATES, template)}")
    problems = [problem for name in names or PAPER for problem in load(name, data)]
    return Task(problems, MAX_NEW_TOKENS, template)


def _of_recipe(file: Path, n: int | None, settings: Sequence[str]) -> Task:
    """The first n held-out problems of a recipe's task, and who grades them."""
    from ktae import recipe as recipes
    from ktae.data import tasks
    from ktae.evaluation.benchmarks import BenchmarkProblem

    recipe = recipes.load(file, settings)
    longest = recipe.rollout.max_response_length
    if recipe.task == "demo":
        return _of_demo(recipe.demo.language, n or recipe.logging.eval_problems, longest)
    rows = tasks.held_out_rows(recipe, n)
    problems = [
        BenchmarkProblem(
            tasks.name_of(recipe), i, row.prompt[-1]["content"], (row.answer,), row.prompt
        )
        for i, row in enumerate(rows)
    ]

    def grade(outputs: Sequence[Output]) -> list[Verdict]:
        references = [rows[int(output.problem)].reference for output in outputs]
        return tasks.grade(recipe, [output.response for output in outputs], references)

    of_gym = (tasks.GYM, grade) if tasks.is_gym(recipe) else ()
    return Task(problems, longest, "recipe", *of_gym)


def _of_demo(name: str, n: int, longest: int) -> Task:
    from ktae.demo import language_named
    from ktae.evaluation.benchmarks import BenchmarkProblem

    language = language_named(name)
    if language.environment is not None:
        raise InputError(
            f"an episode of the language {name} takes several turns, and a response is one; "
            "ktae train scores episodes before and after (before.json, summary.json)"
        )
    problems = [
        BenchmarkProblem(name, i, problem.prompt, (str(problem.answer),))
        for i, problem in enumerate(language.test_problems(n))
    ]

    def grade(outputs: Sequence[Output]) -> list[Verdict]:
        return [
            language.verdict(output.response, output.answers[0], finished=bool(output.finished))
            for output in outputs
        ]

    return Task(problems, longest, "plain", "demo", grade)


def _name_of(model: str) -> str:
    """What its evaluation is called: `a` for `runs/a/model`, the model of a run."""
    from ktae.runs import RunFolder

    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    run = RunFolder(path.parent)
    return path.parent.name if path == run.model and run.recipe.is_file() else path.name


def _answered(
    screen: Screen,
    model: str,
    task: Task,
    engine: str,
    sampling: Sampling,
    folder: EvaluationFolder,
) -> tuple[dict[str, Any], list[Output]]:
    """Let the model answer the problems, or go on where an earlier evaluation was cut short."""
    from ktae.cli.progress import Bars
    from ktae.evaluation import run
    from ktae.evaluation.engines import ENGINES

    with screen.progress.status(f"looking at {model}"):  # all of its weights are read
        settings = run.settings_of(model, engine, task.template, task.problems, sampling)
    folder.claim(settings)

    def load_engine() -> Any:
        with screen.progress.status(f"loading {model}"):
            return ENGINES[engine](model)

    with screen.others_aside(), Bars(screen.progress, lines=20) as bars:
        tell = functools.partial(bars.show, "generating")
        outputs = run.generate_all(
            folder, load_engine, task.problems, task.template, sampling, tell
        )
    return settings, outputs


def read_saved(
    path: Path, how: ReadOptions, *, partial: bool, names: Sequence[str] | None = None
) -> list[Output]:
    """The outputs that are there already, of all benchmarks or those of the names.

    What they were read as is said on stderr.

    Raises:
        InputError: also where there are none of a name, and, unless `partial`, for a problem
            without outputs.
    """
    from ktae.evaluation import outputs as saved
    from ktae.rollouts.notes import Notes

    notes = Notes(strict=True)
    outputs = saved.read(path, how, notes=notes)
    if notes.counts["empty"] and not partial:
        raise InputError(
            f"{notes.names['empty'][0]}: an empty list of rollouts; expected one or more of each "
            "problem; --partial accepts that"
        )
    models = len(saved.by_model(outputs))
    notes.counts["models"] = models if models > 1 else 0
    options.note_reading(notes)
    if names is not None:
        there = saved.by_benchmark(outputs)
        if unknown := sorted(set(names) - set(there)):
            raise InputError(f"no {unknown[0]} in {path}; it holds {', '.join(there)}")
        outputs = [output for output in outputs if output.benchmark in names]
    if not partial:
        saved.check_complete(outputs, str(path))
    return outputs


def grade_anew(screen: Screen, pool: GradingPool, outputs: Sequence[Output]) -> list[Output]:
    """All outputs with new verdicts; how far it is stands on the screen."""
    from ktae.cli.progress import Bars
    from ktae.evaluation.outputs import grade

    with Bars(screen.progress, lines=0) as bars:
        return grade(pool, outputs, functools.partial(bars.show, f"grading ({pool.grader})"))


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
