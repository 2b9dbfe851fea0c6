"""`ktae eval`: a model on benchmarks, or saved outputs graded again."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from ktae._version import __version__
from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, note, plain
from ktae.cli.reading import note_reading
from ktae.errors import InputError
from ktae.rollouts.options import MAX_RESPONSE

if TYPE_CHECKING:
    from ktae.evaluation.benchmarks import BenchmarkProblem
    from ktae.evaluation.engines import Sampling
    from ktae.evaluation.outputs import Output
    from ktae.evaluation.run import EvaluationFolder
    from ktae.grading import GradingPool, Verdict
    from ktae.rollouts.options import ReadOptions

MAX_NEW_TOKENS = 3000
"""As in the paper's evaluation."""

OwnVerdicts = Callable[["Sequence[Output]"], "list[Verdict]"]

ONLY_MODEL = (
    "recipe", "settings", "problems", "data", "samples", "temperature", "max_new_tokens",
    "template", "engine", "batch_size", "seed",
)  # fmt: skip
"""Parameters that say what a model is asked, and how."""
ONLY_SAVED = ("tokenizer", "partial", "correctness", "field", "pool_models", "max_response")
"""Those that say how saved outputs are read."""
ONLY_BENCHMARKS, ONLY_RECIPE = ("benchmarks", "data", "template"), ("problems", "settings")


class Graded(NamedTuple):
    """What is graded, and where it belongs."""

    outputs: list[Output]
    settings: dict[str, Any]
    """Where the outputs are from."""
    folder: EvaluationFolder | None
    own_verdicts: OwnVerdicts | None = None
    """Of a task that grades itself."""


def eval_(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A folder or the name of a hub's model.")
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
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Keys of --recipe."),
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
        int | None,
        options.rare_number(min=1, help="Problems of --recipe [default: the recipe's]."),
    ] = None,
    data: Annotated[
        Path | None,
        options.rare(metavar="FOLDER", help="With the benchmarks' files [default: the hub]."),
    ] = None,
    template: Annotated[
        Literal["chat", "qwen-math", "plain"] | None,
        options.rare(
            metavar="NAME",
            help="chat (the tokenizer's own), qwen-math (the paper's) or plain [default: chat; "
            "with --recipe the recipe's prompts].",
        ),
    ] = None,
    engine: Annotated[
        Literal["transformers", "vllm"],
        options.rare(metavar="NAME", help="What generates: transformers or vllm."),
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
    show: Annotated[
        int, options.rare_number(min=0, help="Differing verdicts shown, at most.")
    ] = 20,
    time_limit: options.TimeLimit = 5.0,
    workers: options.Workers = None,
    field: options.Fields = None,
    correctness: options.Correctness = None,
    pool_models: options.PoolModels = None,
    max_response: options.MaxResponse = MAX_RESPONSE,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or, with --regrade, saved outputs."""
    from ktae.evaluation.outputs import STORED, with_tokens
    from ktae.evaluation.run import EvaluationFolder
    from ktae.grading.graders import GRADERS
    from ktae.rollouts.tokens import load_tokenizer

    screen = Screen(as_json)
    regrading = regrade is not None
    # Whatever cannot be meant is refused here, and not after hours of answers.
    names = None if benchmarks is None else [name.strip() for name in benchmarks.split(",")]
    by = [] if graders is None else [name.strip() for name in graders.split(",")]
    known = [*GRADERS, STORED] if regrading else list(GRADERS)
    for name in by:
        if name not in known:
            raise InputError(f"no grader {name!r}; expected one of {', '.join(known)}")
    if len(set(by)) < len(by):
        raise InputError("--graders names one twice")
    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    # An option that plays no part is an error, since it would be taken for one that does.
    for idle, text, parameters in (
        (regrading, "a model that answers; with --regrade the answers are there", ONLY_MODEL),
        (not regrading, "saved outputs; give it with --regrade", ONLY_SAVED),
        (recipe, "benchmarks; --recipe brings problems and prompts", ONLY_BENCHMARKS),
        (not recipe, "a recipe's task; give it with --recipe", ONLY_RECIPE),
    ):
        for parameter in context.command.params if idle else ():
            source = context.get_parameter_source(parameter.name or "")
            if parameter.name in parameters and source and source.name == "COMMANDLINE":
                raise InputError(f"{parameter.opts[0]} is for {text}")
    if regrade is not None:
        how = options.read_options(field, tokenizer, None, correctness, pool_models, max_response)
        outputs = read_saved(regrade, how, partial=partial, names=names)
        if tokenizer is not None:
            outputs = with_tokens(outputs, load_tokenizer(tokenizer))
        from_file = {"regraded": str(regrade), "outputs": len(outputs)}
        # Without --output nothing is written: grading again takes seconds.
        folder = None if output is None else EvaluationFolder(output)
        if folder is not None:
            folder.claim(from_file)
            folder.remove_leftovers()
        _finish(screen, Graded(outputs, from_file, folder), by, time_limit, workers, show)
        return
    assert model is not None
    from ktae.evaluation.benchmarks import PAPER, load
    from ktae.evaluation.engines import ENGINES, Sampling
    from ktae.files.hub import local_or_hub

    model = local_or_hub("model", model)
    # Greedy decoding gives the same response each time: k of them are one.
    if samples > 1 and temperature == 0:
        raise InputError("--samples above 1 needs --temperature above 0: greedy ones are all alike")
    # The problems, the longest response and a grader come from a recipe's task or from benchmarks.
    if recipe is not None:
        asked, longest, own_verdicts = _of_recipe(recipe, problems, settings or ())
    else:
        asked = [problem for name in names or PAPER for problem in load(name, data)]
        longest, own_verdicts = MAX_NEW_TOKENS, None
    form = "recipe" if recipe is not None else template or "chat"
    size = batch_size or ENGINES[engine].batch_size
    sampling = Sampling(samples, temperature, max_new_tokens or longest, size, seed)
    graded = _answer(screen, model, asked, form, engine, sampling, output)
    graded = graded._replace(own_verdicts=own_verdicts)
    _finish(screen, graded, by, time_limit, workers, show)


def _of_recipe(
    file: Path, n: int | None, settings: Sequence[str]
) -> tuple[list[BenchmarkProblem], int, OwnVerdicts | None]:
    """The first n held-out problems of a recipe's task, its longest response, and its grader.

    Raises:
        InputError: the recipe cannot be read, or its task is the demo's.
    """
    from ktae import recipe as recipes
    from ktae.data import tasks
    from ktae.evaluation.benchmarks import BenchmarkProblem

    recipe = recipes.load(file, settings)
    if recipe.task == "demo":
        raise InputError(
            f"recipe {file}: task is demo, which `ktae train` evaluates itself; expected math or a "
            "mapping with a source"
        )
    rows = tasks.held_out_rows(recipe, n)
    name = tasks.name_of(recipe)
    problems = [
        BenchmarkProblem(name, i, row.prompt[-1]["content"], (row.answer,), row.prompt)
        for i, row in enumerate(rows)
    ]

    def own_verdicts(outputs: Sequence[Output]) -> list[Verdict]:
        references = [rows[int(output.problem)].reference for output in outputs]
        return tasks.grade(recipe, [output.response for output in outputs], references)

    longest = recipe.rollout.max_response_length
    return problems, longest, own_verdicts if tasks.is_gym(recipe) else None


def _answer(
    screen: Screen,
    model: str,
    problems: list[BenchmarkProblem],
    template: str,
    engine: str,
    sampling: Sampling,
    output: Path | None,
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
        settings = run.settings_of(model, engine, template, problems, sampling)
    folder.claim(settings)
    if removed := folder.remove_leftovers():
        note(f"removed {removed / 1e6:,.1f} MB of unfinished files that a killed run left")

    def load_engine() -> Any:
        with screen.progress.status(f"loading {model}"):
            return ENGINES[engine](model)

    with screen.others_aside(), Bars(screen.progress, lines=20, transient=True) as bars:
        progress = functools.partial(bars.show, "generating")
        outputs = run.generate_all(folder, load_engine, problems, template, sampling, progress)
    return Graded(outputs, settings, folder)


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
    from ktae.rollouts.tolerance import Tolerance

    tolerance = Tolerance(strict=True)
    outputs = saved.read(path, how, tolerance=tolerance)
    if tolerance.empty and not partial:
        raise InputError(
            f"{tolerance.empty[0]}: an empty list of rollouts; expected one or more of each "
            "problem; --partial accepts that"
        )
    models = 0 if how.pool_models else len(saved.by_model(outputs))
    tolerance.models = models if models > 1 else 0
    note_reading(tolerance, len(outputs))
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
    from ktae.data.tasks import GYM
    from ktae.evaluation.outputs import STORED, to_record
    from ktae.grading import GradingPool
    from ktae.grading.graders import DEFAULT
    from ktae.rollouts import record
    from ktae.runs import write_json

    outputs, folder = graded.outputs, graded.folder
    # By grader, in the order in which they were asked for: the first one's verdicts count.
    verdicts = {}
    if graded.own_verdicts is not None:
        verdicts[GYM] = graded.own_verdicts(outputs)
    for name in graders or ([] if verdicts else [DEFAULT]):
        if name == STORED:
            verdicts[name] = tables.stored_verdicts(outputs)
            continue
        with GradingPool(workers, time_limit=time_limit, grader=name) as pool:
            verdicts[name] = _grade(screen, pool, outputs)
    first = next(iter(verdicts))
    content: dict[str, Any] = {
        "settings": graded.settings,
        "grading": {
            "grader": first,
            "time_limit": None if first in (STORED, GYM) else time_limit,
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


def grade_outputs(screen: Screen, pool: GradingPool, outputs: Sequence[Output]) -> list[Verdict]:
    """The verdict of each output: the file's own if it is a graded record, else a new one."""
    stored = [output.verdict for output in outputs if output.verdict is not None]
    return stored if len(stored) == len(outputs) else _grade(screen, pool, outputs)


def _grade(screen: Screen, pool: GradingPool, outputs: Sequence[Output]) -> list[Verdict]:
    from ktae.cli.progress import Bars
    from ktae.grading import Task

    verdicts = []
    with Bars(screen.progress, lines=0, transient=True) as bars:
        for verdict in pool.grade_all(Task(o.response, o.answers) for o in outputs):
            verdicts.append(verdict)
            bars.show(f"grading ({pool.grader})", len(verdicts), len(outputs))
    return verdicts
