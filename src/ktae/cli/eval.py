"""`ktae eval`: a model on benchmarks, or saved outputs graded again."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ktae._version import __version__
from ktae.cli import eval_options as options
from ktae.cli.options import Correctness, Fields, MaxResponse, PoolModelsOfSaved, fields_of
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import note_reading
from ktae.errors import InputError
from ktae.files.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from ktae.cli.eval_problems import Asked, OwnVerdicts
    from ktae.evaluation.outputs import Output
    from ktae.evaluation.run import EvaluationFolder
    from ktae.grading import GradingPool, Verdict


OF_A_MODEL = (
    "recipe", "settings", "problems", "data", "samples", "temperature", "max_new_tokens",
    "template", "engine", "batch_size", "seed",
)  # fmt: skip
"""Parameters that say what a model is asked, and how."""
OF_SAVED = ("tokenizer", "partial", "correctness", "field", "pool_models", "max_response")
"""Those that say how saved outputs are read."""


@dataclasses.dataclass(frozen=True)
class _Grading:
    """How outputs are graded and shown."""

    time_limit: float
    workers: int | None
    graders: list[str]
    show: int


def eval_(
    context: typer.Context,
    model: options.Model = None,
    regrade: options.Regrade = None,
    benchmarks: options.Benchmarks = None,
    data: options.Data = None,
    recipe: options.RecipeFile = None,
    settings: options.RecipeSettings = None,
    problems: options.Problems = None,
    samples: options.Samples = 1,
    temperature: options.Temperature = 0.0,
    max_new_tokens: options.MaxNewTokens = None,
    template: options.Template = None,
    engine: options.EngineName = "transformers",
    batch_size: options.BatchSize = None,
    seed: options.Seed = 0,
    output: options.Output = None,
    tokenizer: options.TokenizerName = None,
    graders: options.Graders = None,
    partial: options.Partial = False,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModelsOfSaved = False,
    max_response: MaxResponse = None,
    time_limit: options.TimeLimit = 5.0,
    workers: options.Workers = None,
    show: options.Show = 20,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or, with --regrade, saved outputs."""
    screen = Screen(as_json)
    names = None if benchmarks is None else [name.strip() for name in benchmarks.split(",")]
    asked_graders = [] if graders is None else [name.strip() for name in graders.split(",")]
    how = _Grading(time_limit, workers, asked_graders, show)
    _check_graders(how, regrading=regrade is not None)
    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    _refuse(context, OF_A_MODEL if regrade is not None else OF_SAVED, regrading=regrade is not None)
    if recipe is not None and (names or data):
        raise InputError("--recipe names the problems; expected no --benchmarks, --data")
    if recipe is not None and template is not None:
        raise InputError("--recipe brings its own prompts; leave out --template")
    if settings and recipe is None:
        raise InputError("--set replaces keys of --recipe, which is not given")
    if problems is not None and recipe is None:
        raise InputError("--problems is for --recipe; benchmarks are taken whole")
    if regrade is not None:
        outputs = read_saved(regrade, correctness, field, pool_models, max_response, partial)
        _regrade(screen, regrade, outputs, names, output, tokenizer, partial, how)
        return
    assert model is not None
    from ktae.cli import eval_problems
    from ktae.evaluation.engines import Sampling
    from ktae.evaluation.templates import TEMPLATES

    if recipe is None:
        asked = eval_problems.of_benchmarks(names, data)
    else:
        asked = eval_problems.of_recipe(recipe, problems, settings or ())
    sampling = Sampling(samples, temperature, max_new_tokens or asked.max_new_tokens)
    if template is not None and template not in TEMPLATES:
        raise InputError(f"no template {template!r}; expected one of {', '.join(TEMPLATES)}")
    template = template or asked.template
    _evaluate(screen, model, asked, template, engine, sampling, batch_size, seed, output, how)


def _refuse(context: typer.Context, names: Sequence[str], *, regrading: bool) -> None:
    """Raise an InputError for an option that would play no part."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            option = parameter.opts[0]
            raise InputError(
                f"{option} is for a model that answers; with --regrade the answers are there"
                if regrading
                else f"{option} is for saved outputs; give it with --regrade"
            )


def grade_outputs(console: Console, pool: GradingPool, outputs: Sequence[Output]) -> list[Verdict]:
    """The verdict of each output: the file's own if it is a graded record, else a new one."""
    stored = [output.verdict for output in outputs]
    if all(verdict is not None for verdict in stored):
        return [verdict for verdict in stored if verdict is not None]
    return _grade(console, pool, outputs)


def graders_of(outputs: Sequence[Output]) -> set[str]:
    """By whom the verdicts are that `grade_outputs` gives with the default grader."""
    from ktae.grading.graders import DEFAULT

    if any(output.verdict is None for output in outputs):
        return {DEFAULT}
    return {output.grader or "a grader that is not named" for output in outputs}


def _check_graders(how: _Grading, *, regrading: bool) -> None:
    from ktae.evaluation.outputs import STORED
    from ktae.grading.graders import GRADERS

    known = [*GRADERS, STORED] if regrading else list(GRADERS)
    for name in how.graders:
        if name not in known:
            raise InputError(f"no grader {name!r}; expected one of {', '.join(known)}")
    if len(set(how.graders)) < len(how.graders):
        raise InputError("--graders names one twice")
    if not 0 < how.time_limit < 1e6:
        raise InputError(f"--time-limit is {how.time_limit}; expected seconds, above 0")


def _evaluate(
    screen: Screen,
    model: str,
    asked: Asked,
    template: str,
    engine: str,
    sampling: Any,
    batch_size: int | None,
    seed: int,
    output: Path | None,
    how: _Grading,
) -> None:
    from ktae.cli.progress import Bars
    from ktae.evaluation import run
    from ktae.evaluation.engines import ENGINES
    from ktae.files.hub import local_or_hub

    model = local_or_hub("model", model)
    if engine not in ENGINES:
        raise InputError(f"no engine {engine!r}; expected one of {', '.join(ENGINES)}")
    if sampling.samples > 1 and sampling.temperature == 0:
        raise InputError("--samples above 1 needs --temperature above 0: greedy ones are all alike")
    problems = asked.load()
    size = batch_size or ENGINES[engine].batch_size
    folder = run.EvaluationFolder(output or Path("evals") / _name_of(model))
    with screen.progress.status(f"looking at {model}"):  # all of its weights are read
        settings = run.settings_of(
            model, engine, template, problems, sampling, batch_size=size, seed=seed
        )
    _claim(folder, settings)

    def load_engine() -> Any:
        with screen.progress.status(f"loading {model}"):
            loaded = ENGINES[engine](model)
        loaded.batch_size = size
        return loaded

    with screen.others_aside(), Bars(screen.progress, lines=20, transient=True) as bars:
        outputs = run.generate_all(
            folder, load_engine, problems, template, sampling,
            batch_size=size, seed=seed, progress=functools.partial(bars.show, "generating"),
        )  # fmt: skip
    _finish(screen, outputs, folder, settings, how, asked.own_verdicts)


def _claim(folder: EvaluationFolder, settings: dict[str, Any]) -> None:
    """Take the folder, and remove what a killed evaluation left half written there."""
    folder.claim(settings)
    if removed := folder.remove_leftovers():
        size = f"{removed / 1e6:,.1f} MB"
        typer.echo(f"ktae: removed {size} of unfinished files that a killed run left", err=True)


def _name_of(model: str) -> str:
    """What the folder of its evaluation is called; `runs/a/model` is the model of a run."""
    from ktae.runs import RunFolder

    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    run = RunFolder(path.parent)
    return path.parent.name if path == run.model and run.recipe.is_file() else path.name


def read_saved(
    path: Path,
    correctness: str | None,
    field: list[str] | None,
    pool_models: bool,
    max_response: int | None,
    partial: bool,
) -> list[Output]:
    """The outputs that are there already; what they were read as is said on stderr.

    Raises:
        InputError: also for a problem without outputs, unless `partial`.
    """
    from ktae.evaluation import outputs as saved
    from ktae.rollouts.options import MAX_RESPONSE, ReadOptions
    from ktae.rollouts.tolerance import Tolerance

    found = Tolerance(strict=True)
    options = ReadOptions(
        correctness=correctness,
        fields=fields_of(field),
        pool_models=pool_models,
        max_response=max_response or MAX_RESPONSE,
    )
    outputs = saved.read(path, options, tolerance=found)
    if found.empty and not partial:
        raise InputError(
            f"{found.empty[0]}: an empty list of rollouts; expected one or more of each problem; "
            "--partial accepts that"
        )
    if not pool_models:
        models = len(saved.by_model(outputs))
        found.models = models if models > 1 else 0
    note_reading(found, len(outputs))
    return outputs


def _regrade(
    screen: Screen,
    file: Path,
    found: list[Output],
    names: list[str] | None,
    output: Path | None,
    tokenizer: str | None,
    partial: bool,
    how: _Grading,
) -> None:
    from ktae.evaluation import outputs as saved
    from ktae.evaluation.run import EvaluationFolder
    from ktae.files.hub import check_local_or_hub
    from ktae.rollouts.tokens import load_tokenizer

    if tokenizer is not None:
        check_local_or_hub("tokenizer", tokenizer)
    if names is not None:
        unknown = sorted(set(names) - {x.benchmark for x in found})
        if unknown:
            there = ", ".join(saved.by_benchmark(found))
            raise InputError(f"no {unknown[0]} in {file}; it holds {there}")
        found = [x for x in found if x.benchmark in names]
    if not partial:
        saved.check_complete(found, str(file))
    if tokenizer is not None:
        found = saved.with_tokens(found, load_tokenizer(tokenizer))
    folder = None
    settings = {"regraded": str(file), "outputs": len(found)}
    if output is not None:
        folder = EvaluationFolder(output)
        _claim(folder, settings)
    _finish(screen, found, folder, settings, how)


def _finish(
    screen: Screen,
    outputs: list[Output],
    folder: EvaluationFolder | None,
    settings: dict[str, Any],
    how: _Grading,
    own: OwnVerdicts | None = None,
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

    verdicts = {}
    if own is not None:
        how = dataclasses.replace(how, graders=[GYM, *how.graders])
        verdicts[GYM] = own(outputs)
    elif not how.graders:
        how = dataclasses.replace(how, graders=[DEFAULT])
    for name in how.graders:
        if name in verdicts:
            continue
        if name == STORED:
            verdicts[name] = tables.stored_verdicts(outputs)
            continue
        with GradingPool(how.workers, time_limit=how.time_limit, grader=name) as pool:
            verdicts[name] = _grade(screen.progress, pool, outputs)
    by = how.graders[0]
    content: dict[str, Any] = {
        "settings": settings,
        "grading": {
            "grader": by,
            "time_limit": None if by in (STORED, GYM) else how.time_limit,
            "ktae": __version__,
        },
        **_results(screen.console, outputs, verdicts[by], how),
    }
    if len(verdicts) > 1:
        tables.print_disagreement(screen.console, outputs, verdicts)
        content["disagreements"] = tables.disagreements(verdicts)
    if folder is not None:
        record.write(to_record(outputs, verdicts[by], settings.get("model"), by), folder.outputs)
        write_json(folder.results, content)
        screen.console.print(f"wrote {folder.results} and {folder.outputs}", soft_wrap=True)
    screen.end(content | {"output": folder.path if folder is not None else None})


def _results(
    console: Console, outputs: list[Output], verdicts: Sequence[Verdict], how: _Grading
) -> dict[str, Any]:
    """Print the tables of each model, and return them as JSON; `models` where there are several."""
    from ktae.cli import eval_tables as tables
    from ktae.evaluation.outputs import by_model
    from ktae.evaluation.scores import score

    found = {}
    models = by_model(outputs)
    for model, places in models.items():
        of_model = [outputs[place] for place in places]
        given = [verdicts[place] for place in places]
        scores, stored = score(of_model, given), tables.stored_accuracies(of_model)
        if len(models) > 1:
            console.print(f"\nmodel {printable(model or 'not named')}", soft_wrap=True)
        tables.print_scores(console, scores, stored)
        tables.print_unanswered(console, of_model, given, how.graders[0])
        differences = tables.differences(of_model, given)
        if stored:
            tables.print_differences(console, differences, how.show)
        found[model or "not named"] = tables.as_json(scores, stored, differences)
    return found.popitem()[1] if len(found) == 1 else {"models": found}


def _grade(console: Console, pool: GradingPool, outputs: Sequence[Output]) -> list[Verdict]:
    from ktae.cli.progress import Bars
    from ktae.grading import Task

    verdicts = []
    with Bars(console, lines=0, transient=True) as bars:
        for verdict in pool.grade_all(Task(o.response, o.answers) for o in outputs):
            verdicts.append(verdict)
            bars.show(f"grading ({pool.grader})", len(verdicts), len(outputs))
    return verdicts
