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
from ktae.cli.printing import AsJson, Screen, TableFormat, note, plain
from ktae.cli.reading import note_reading
from ktae.errors import InputError, expected_one_of
from ktae.evaluation.templates import TEMPLATES
from ktae.rollouts.options import MAX_RESPONSE

if TYPE_CHECKING:
    from ktae.evaluation.benchmarks import BenchmarkProblem
    from ktae.evaluation.engines import Sampling
    from ktae.evaluation.outputs import Output
    from ktae.evaluation.run import EvaluationFolder
    from ktae.grading import GradingPool, Verdict
    from ktae.recipe import Recipe
    from ktae.rollouts.options import ReadOptions

MAX_NEW_TOKENS = 3000
"""As in the paper's evaluation."""

ONLY_MODEL = (
    *("recipe", "settings", "problems", "data", "samples", "temperature", "max_new_tokens"),
    *("template", "engine", "batch_size", "seed"),
)
"""Parameters that say what a model is asked, and how."""
ONLY_SAVED = (
    *("tokenizer", "partial", "correctness", "field", "pool_models", "max_response", "join"),
)
"""Those that say how saved outputs are read."""
ONLY_BENCHMARKS, ONLY_RECIPE = ("benchmarks", "data", "template"), ("problems", "settings")

Model = Annotated[
    str | None, typer.Argument(metavar="MODEL", help="A folder or the name of a hub's model.")
]
Regrade = Annotated[
    Path | None,
    typer.Option(metavar="INPUT", help="Saved outputs to grade instead, with reference answers."),
]
Benchmarks = Annotated[
    str | None,
    typer.Option(
        help="aime24, aime25, math500, amc, amc23, minerva, olympiadbench, gsm8k, with commas "
        "between [default: the paper's five; with --regrade all in the file]."
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A recipe whose held-out problems, prompts and grader are taken."
    ),
]
RecipeKeys = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Keys of --recipe.")
]
MaxNewTokens = Annotated[
    int | None,
    options.number(min=1, help="Longest response [default: 3000; with --recipe the recipe's]."),
]
OutputFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="An unfinished evaluation in it is continued [default: evals/MODEL; none with "
        "--regrade].",
    ),
]
Graders = Annotated[
    str | None,
    typer.Option(
        help="ktae, ktae-boxed, ktae-last, math-verify, strict-boxed, stored, with commas "
        "between. The first one's verdicts count [default: ktae; with --recipe the task's]."
    ),
]
Problems = Annotated[
    int | None,
    options.rare_number(min=1, help="Problems of --recipe [default: the recipe's]."),
]
Template = Annotated[
    str | None,
    options.rare(
        metavar="NAME",
        autocompletion=options.one_of(TEMPLATES),
        help="chat (the tokenizer's own), qwen-math (the paper's), plain, or a baseline's: "
        "r1-distill, r1, prime, prime-zero, open-reasoner-zero [default: chat; with --recipe the "
        "recipe's prompts].",
    ),
]
BatchSize = Annotated[
    int | None,
    options.rare_number(min=1, help="Responses generated at once [default: 32, with vllm 512]."),
]


class Graded(NamedTuple):
    """What is graded, and where it belongs."""

    outputs: list[Output]
    settings: dict[str, Any]
    """Where the outputs are from."""
    folder: EvaluationFolder | None
    task: Task | None = None


class Task(NamedTuple):
    """A recipe's held-out problems."""

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
    model: Model = None,
    regrade: Regrade = None,
    benchmarks: Benchmarks = None,
    recipe: RecipeFile = None,
    settings: RecipeKeys = None,
    samples: Annotated[int, options.number(min=1, help="Responses to each problem.")] = 1,
    temperature: Annotated[
        float, typer.Option(min=0, metavar="T", help="Of sampling; 0 is greedy.")
    ] = 0.0,
    max_new_tokens: MaxNewTokens = None,
    output: OutputFolder = None,
    graders: Graders = None,
    as_json: AsJson = False,
    tables: TableFormat = "text",
    problems: Problems = None,
    data: Annotated[
        Path | None,
        options.rare(metavar="FOLDER", help="With the benchmarks' files [default: the hub]."),
    ] = None,
    template: Template = None,
    engine: Annotated[
        Literal["transformers", "vllm"],
        options.rare(metavar="NAME", help="What generates: transformers or vllm."),
    ] = "transformers",
    batch_size: BatchSize = None,
    seed: Annotated[int, options.rare_number(min=0, help="Of sampling.")] = 0,
    tokenizer: Annotated[
        str | None,
        options.rare(help="With --regrade, counts the lengths that the file does not hold."),
    ] = None,
    partial: Annotated[
        bool, options.rare("--partial", help="With --regrade, problems may be missing.")
    ] = False,
    show: Annotated[
        int, options.rare_number(min=0, help="Reasons of differing verdicts shown, at most.")
    ] = 10,
    time_limit: options.TimeLimit = 5.0,
    workers: options.Workers = None,
    field: options.Fields = None,
    correctness: options.Correctness = None,
    pool_models: options.PoolModels = None,
    max_response: options.MaxResponse = MAX_RESPONSE,
    join: options.Join = False,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or, with --regrade, saved outputs."""
    from ktae.evaluation.engines import ENGINES, Sampling
    from ktae.files.hub import local_or_hub

    screen = Screen(as_json, tables)
    _refuse_idle_options(context, model, regrade, recipe)
    names = None if benchmarks is None else [name.strip() for name in benchmarks.split(",")]
    by = _graders(graders, saved=regrade is not None)
    if regrade is not None:
        how = options.read_options(
            field, tokenizer, None, correctness, pool_models, max_response, join
        )
        graded = _regraded(regrade, how, output, names, partial=partial)
    elif temperature == 0 and samples > 1:
        raise InputError("--samples above 1 needs --temperature above 0: greedy ones are all alike")
    else:
        model = local_or_hub("model", str(model))
        task = (
            _of_benchmarks(names, data, template)
            if recipe is None
            else _of_recipe(recipe, problems, settings or ())
        )
        size = batch_size or ENGINES[engine].batch_size
        sampling = Sampling(samples, temperature, max_new_tokens or task.longest, size, seed)
        graded = _answered(screen, model, task, engine, sampling, output)
    _finish(screen, graded, by, time_limit, workers, show)


def _refuse_idle_options(
    context: typer.Context, model: str | None, regrade: Path | None, recipe: Path | None
) -> None:
    """Raise an InputError for an option that plays no part: it would be taken for one that does."""
    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    for idle, text, parameters in (
        (regrade, "a model that answers; with --regrade the answers are there", ONLY_MODEL),
        (model, "saved outputs; give it with --regrade", ONLY_SAVED),
        (recipe, "benchmarks; --recipe brings problems and prompts", ONLY_BENCHMARKS),
        (not recipe, "a recipe's task; give it with --recipe", ONLY_RECIPE),
    ):
        for parameter in context.command.params if idle else ():
            source = context.get_parameter_source(parameter.name or "")
            if parameter.name in parameters and source and source.name == "COMMANDLINE":
                raise InputError(f"{parameter.opts[0]} is for {text}")


def _graders(names: str | None, *, saved: bool) -> list[str]:
    """Those asked for, refused here and not after hours of answers."""
    from ktae.evaluation.outputs import STORED
    from ktae.grading.graders import GRADERS

    by = [] if names is None else [name.strip() for name in names.split(",")]
    known = [*GRADERS, STORED] if saved else list(GRADERS)
    for name in by:
        if name not in known:
            raise InputError(f"no grader {name!r}; expected one of {', '.join(known)}")
    if len(set(by)) < len(by):
        raise InputError("--graders names one twice")
    return by


def _regraded(
    file: Path,
    how: ReadOptions,
    output: Path | None,
    names: Sequence[str] | None,
    *,
    partial: bool,
) -> Graded:
    """Saved outputs, and the folder that is asked for."""
    from ktae.evaluation.outputs import with_tokens
    from ktae.evaluation.run import EvaluationFolder
    from ktae.rollouts.tokens import load_tokenizer

    outputs = read_saved(file, how, partial=partial, names=names)
    if how.tokenizer is not None:
        outputs = with_tokens(outputs, load_tokenizer(how.tokenizer))
    from_file = {"regraded": str(file), "outputs": len(outputs)}
    # Without --output nothing is written: grading again takes seconds.
    folder = None if output is None else EvaluationFolder(output)
    if folder is not None:
        folder.claim(from_file)
        folder.remove_leftovers()
    return Graded(outputs, from_file, folder)


def _of_benchmarks(names: Sequence[str] | None, data: Path | None, template: str | None) -> Task:
    from ktae.evaluation.benchmarks import PAPER, load

    template = template or "chat"
    if template not in TEMPLATES:
        raise InputError(f"no template {template!r}; {expected_one_of(TEMPLATES, template)}")
    problems = [problem for name in names or PAPER for problem in load(name, data)]
    return Task(problems, MAX_NEW_TOKENS, template)


def _of_recipe(file: Path, n: int | None, settings: Sequence[str]) -> Task:
    """The first n held-out problems of a recipe's task, and who grades them.

    Raises:
        InputError: the recipe cannot be read, or its problems cannot be made.
    """
    from ktae import recipe as recipes
    from ktae.data import tasks
    from ktae.evaluation.benchmarks import BenchmarkProblem

    recipe = recipes.load(file, settings)
    longest = recipe.rollout.max_response_length
    if recipe.task == "demo":
        return _of_demo(recipe, n or recipe.logging.eval_problems, longest)
    rows = tasks.held_out_rows(recipe, n)
    name = tasks.name_of(recipe)
    problems = [
        BenchmarkProblem(name, i, row.prompt[-1]["content"], (row.answer,), row.prompt)
        for i, row in enumerate(rows)
    ]

    def grade(outputs: Sequence[Output]) -> list[Verdict]:
        references = [rows[int(output.problem)].reference for output in outputs]
        return tasks.grade(recipe, [output.response for output in outputs], references)

    of_gym = (tasks.GYM, grade) if tasks.is_gym(recipe) else ()
    return Task(problems, longest, "recipe", *of_gym)


def _of_demo(recipe: Recipe, n: int, longest: int) -> Task:
    from ktae.demo import language_named
    from ktae.evaluation.benchmarks import BenchmarkProblem

    language = language_named(recipe.demo.language)
    if language.environment is not None:
        raise InputError(
            f"an episode of the language {language.name} takes several turns, and a response is "
            "one; ktae train scores episodes before and after (before.json, summary.json)"
        )
    problems = [
        BenchmarkProblem(language.name, i, problem.prompt, (str(problem.answer),))
        for i, problem in enumerate(language.test_problems(n))
    ]

    def grade(outputs: Sequence[Output]) -> list[Verdict]:
        return [
            language.verdict(output.response, output.answers[0], finished=bool(output.finished))
            for output in outputs
        ]

    return Task(problems, longest, "plain", "demo", grade)


def _answered(
    screen: Screen, model: str, task: Task, engine: str, sampling: Sampling, output: Path | None
) -> Graded:
    """Let the model answer the problems, or go on where an earlier evaluation was cut short."""
    from ktae.cli.progress import Bars
    from ktae.evaluation import run
    from ktae.evaluation.engines import ENGINES
    from ktae.runs import RunFolder

    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    of_run = RunFolder(path.parent)  # `runs/a/model` is the model of a run
    name = path.parent.name if path == of_run.model and of_run.recipe.is_file() else path.name
    folder = run.EvaluationFolder(output or Path("evals") / name)
    with screen.progress.status(f"looking at {model}"):  # all of its weights are read
        settings = run.settings_of(model, engine, task.template, task.problems, sampling)
    folder.claim(settings)
    if removed := folder.remove_leftovers():
        note(f"removed {removed / 1e6:,.1f} MB of unfinished files that a killed run left")

    def load_engine() -> Any:
        with screen.progress.status(f"loading {model}"):
            return ENGINES[engine](model)

    with screen.others_aside(), Bars(screen.progress, lines=20, transient=True) as bars:
        outputs = run.generate_all(
            folder,
            load_engine,
            task.problems,
            task.template,
            sampling,
            functools.partial(bars.show, "generating"),
        )
    return Graded(outputs, settings, folder, task)


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
    models = 0 if how.pool_models else len(saved.by_model(outputs))
    notes.counts["models"] = models if models > 1 else 0
    note_reading(notes)
    if names is not None:
        there = saved.by_benchmark(outputs)
        if unknown := sorted(set(names) - set(there)):
            raise InputError(f"no {unknown[0]} in {path}; it holds {', '.join(there)}")
        outputs = [output for output in outputs if output.benchmark in names]
    if not partial:
        saved.check_complete(outputs, str(path))
    return outputs


def _finish(
    screen: Screen,
    graded: Graded,
    graders: list[str],
    time_limit: float,
    workers: int | None,
    show: int,
) -> None:
    """Grade, print the tables, and write the record and the results.

    Where the task has a grader of its own, that is the first.
    """
    from ktae.cli import eval_tables as tables
    from ktae.evaluation.outputs import STORED, to_record
    from ktae.grading import GradingPool
    from ktae.grading.graders import DEFAULT, GRADERS
    from ktae.rollouts import record
    from ktae.runs import write_json

    outputs, folder, task = graded.outputs, graded.folder, graded.task
    # By grader, in the order in which they were asked for: the first one's verdicts count.
    verdicts = {}
    if task is not None and task.grader is not None and task.grade is not None:
        verdicts[task.grader] = task.grade(outputs)
    for name in graders or ([] if verdicts else [DEFAULT]):
        if name == STORED:
            verdicts[name] = tables.stored_verdicts(outputs)
            continue
        with GradingPool(workers, time_limit=time_limit, grader=name) as pool:
            verdicts[name] = grade_anew(screen, pool, outputs)
    first = next(iter(verdicts))
    content: dict[str, Any] = {
        "settings": graded.settings,
        "grading": {
            "grader": first,
            "time_limit": time_limit if first in GRADERS else None,
            "ktae": __version__,
        },
        **tables.print_models(screen, outputs, verdicts[first], first, show),
    }
    if len(verdicts) > 1:
        tables.print_disagreement(screen, outputs, verdicts)
        content["disagreements"] = tables.disagreements(verdicts)
    if folder is not None:
        model = graded.settings.get("model")
        record.write(to_record(outputs, verdicts[first], model, first), folder.outputs)
        write_json(folder.results, plain(content))
        screen.print(f"wrote {folder.results} and {folder.outputs}")
    screen.end(content | {"output": folder.path if folder is not None else None})


def grade_anew(screen: Screen, pool: GradingPool, outputs: Sequence[Output]) -> list[Verdict]:
    """New verdicts of all outputs; how far it is stands on the screen."""
    from ktae.cli.progress import Bars
    from ktae.evaluation.saved import new_verdicts

    verdicts = []
    with Bars(screen.progress, lines=0, transient=True) as bars:
        for verdict in new_verdicts(pool, outputs):
            verdicts.append(verdict)
            bars.show(f"grading ({pool.grader})", len(verdicts), len(outputs))
    return verdicts
