"""`ktae eval`: a model on benchmarks or on a recipe's task, or saved outputs graded again."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ktae._version import __version__
from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, plain
from ktae.cli.reading import Saved, note_reading
from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.experiments.evaluation import EvaluationFolder, Questions

TIME_LIMIT = 5.0
"""Processor seconds to grade an output; after that it is undecided."""


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """What a model is asked, and how it answers."""

    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Take the held-out problems, prompts and grader of this recipe."
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Override keys of --recipe."),
    ] = None
    samples: Annotated[int, options.number(min=1, help="Responses to each problem.")] = 1
    temperature: Annotated[
        float,
        typer.Option(min=0, metavar="T", help="Sampling temperature; 0 means greedy decoding."),
    ] = 0.0
    max_new_tokens: Annotated[
        int | None,
        options.number(min=1, help="Longest response [default: 3000; with --recipe the recipe's]."),
    ] = None
    problems: Annotated[
        int | None,
        options.rare_number(min=1, help="Number of problems of --recipe [default: the recipe's]."),
    ] = None
    data: Annotated[
        Path | None,
        options.rare(metavar="FOLDER", help="Where the benchmarks' files are [default: the hub]."),
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
        Literal["transformers", "vllm"],
        options.rare(metavar="NAME", help="The engine that generates: transformers or vllm."),
    ] = "transformers"
    batch_size: Annotated[
        int | None,
        options.rare_number(
            min=1, help="Responses generated at once [default: 32, with vllm 512]."
        ),
    ] = None
    seed: Annotated[int, options.rare_number(min=0, help="Seed of sampling.")] = 0

    def require_effect(self, saved: Saved, is_saved: bool, benchmarks: str | None) -> None:
        """Raise an InputError for an option that would have no effect."""
        where = "with --regrade" if is_saved else "with a MODEL"
        unused = self if is_saved else saved
        idle = [(unused, field.name, where) for field in dataclasses.fields(unused)]
        of_others = ("data", "template") if self.recipe else ("set", "problems")
        idle += [(self, x, f"with{'' if self.recipe else 'out'} --recipe") for x in of_others]
        for group, name, where in idle:
            if getattr(group, name) != getattr(type(group), name):
                raise InputError(f"--{name.replace('_', '-')} has no effect {where}")
        if self.recipe and benchmarks is not None:
            raise InputError("--benchmarks has no effect with --recipe")
        if self.samples > 1 and self.temperature == 0:
            raise InputError(
                "--samples above 1 needs --temperature above 0: greedy responses are all alike"
            )


@options.spread
def eval_(
    asked: GenerationOptions,
    saved: Saved,
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A folder or a model's name on the hub."),
    ] = None,
    regrade: Annotated[
        Path | None,
        typer.Option(
            metavar="INPUT",
            help="Grade saved outputs with reference answers instead of asking a model.",
        ),
    ] = None,
    benchmarks: Annotated[
        str | None,
        typer.Option(
            help="aime24, aime25, math500, amc, amc23, minerva, olympiadbench, gsm8k, separated by "
            "commas [default: the paper's five; with --regrade all in the file]."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        options.output_option(
            metavar="FOLDER",
            help="Where results are written; an unfinished evaluation there is continued "
            "[default: evals/MODEL; with --regrade nothing is written].",
        ),
    ] = None,
    graders: Annotated[
        str | None,
        typer.Option(
            help="ktae, ktae-boxed, ktae-last, math-verify; with --recipe also demo or "
            "reasoning-gym; separated by commas. The first one counts "
            "[default: ktae; with --recipe the task's]."
        ),
    ] = None,
    as_json: AsJson = False,
    workers: options.Workers = None,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or grade saved outputs (--regrade)."""
    from ktae.experiments import evaluation
    from ktae.grading.graders import DEFAULT, GRADERS
    from ktae.rollouts.notes import Notes

    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    asked.require_effect(saved, regrade is not None, benchmarks)
    screen, notes, wanted = Screen(as_json), Notes(strict=True), _names(benchmarks)
    questions = evaluation.Questions()
    if asked.recipe is not None:
        questions = evaluation.of_recipe(asked.recipe, asked.set or (), asked.problems)
    of_task = questions.graders
    known = [*GRADERS, *of_task]
    chosen = _names(graders) or [*of_task] or [DEFAULT]
    if unknown := [grader for grader in chosen if grader not in known]:
        raise InputError(f"no grader {unknown[0]!r}; expected one of {', '.join(known)}")
    if regrade is not None:
        (outputs,) = saved.read([regrade], notes, wanted)
        note_reading(notes)
        settings: dict[str, Any] = {"regraded": str(regrade), "outputs": len(outputs)}
        folder = None if output is None else evaluation.EvaluationFolder(output)
        if folder is not None:
            folder.claim(settings)
    else:
        folder, settings, outputs = _answered(screen, str(model), output, asked, questions, wanted)
    graded = {x: graded_by(screen, outputs, x, workers, of_task.get(x)) for x in chosen}
    _finish(screen, folder, settings, graded, notes)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


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
    from ktae.experiments.engines import ENGINES, Engine, Sampling
    from ktae.experiments.evaluation import EvaluationFolder, Job, generate_all, of_benchmarks
    from ktae.files.hub import local_or_hub

    model = local_or_hub("model", model)
    if asked.recipe is None:
        questions = of_benchmarks(benchmarks, asked.data, asked.template or "chat")
    folder = EvaluationFolder(output or Path("evals") / _name_of(model))
    sampling = Sampling(
        asked.samples,
        asked.temperature,
        asked.max_new_tokens or questions.longest,
        asked.batch_size or ENGINES[asked.engine].batch_size,
        asked.seed,
    )
    job = Job(model, asked.engine, questions.problems, sampling)
    with screen.others_aside(), Bars(screen.progress, lines=20) as bars:
        settings = job.settings()
        folder.claim(settings)

        def load_engine() -> Engine:
            bars.show(f"loading {model}", 0, None)
            return ENGINES[asked.engine](model)

        tell = functools.partial(bars.show, "generating")
        return folder, settings, generate_all(folder, job, load_engine, tell)


def _name_of(model: str) -> str:
    """The name of a model's evaluation: `a` for `runs/a/model`, the model of a run."""
    from ktae.experiments.run_folder import RunFolder

    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    run = RunFolder(path.parent)
    return path.parent.name if path == run.model and run.recipe.is_file() else path.name


def graded_by(
    screen: Screen,
    outputs: Any,
    grader: str,
    workers: int | None,
    own: Callable[[Any], list[Any]] | None = None,
) -> Any:
    """The outputs graded anew, by ktae's grader of that name or by a task's own."""
    from ktae.cli.progress import Bars
    from ktae.experiments.outputs import grade, with_verdicts
    from ktae.grading import GradingPool

    if own is not None:
        return with_verdicts(outputs, own(outputs), grader)
    with (
        GradingPool(workers, time_limit=TIME_LIMIT, grader=grader) as pool,
        Bars(screen.progress, lines=0) as bars,
    ):
        return grade(pool, outputs, functools.partial(bars.show, f"grading ({grader})"))


def _finish(
    screen: Screen,
    folder: EvaluationFolder | None,
    settings: dict[str, Any],
    graded: dict[str, Any],
    notes: Any,
) -> None:
    """Print the figures of the first grader, and write them with the outputs."""
    from ktae.cli import eval_tables as tables
    from ktae.experiments.outputs import to_record
    from ktae.experiments.run_folder import write_json
    from ktae.grading.graders import GRADERS
    from ktae.rollouts import record

    grader, outputs = next(iter(graded.items()))
    limit = TIME_LIMIT if grader in GRADERS else None
    content: dict[str, Any] = {
        "settings": settings,
        "grading": {"grader": grader, "time_limit": limit, "ktae": __version__},
        **tables.print_models(screen, outputs, grader),
    }
    if len(graded) > 1:
        content["disagreements"] = tables.print_disagreement(screen, graded)
    content["notes"] = notes.listed()
    if folder is not None:
        record.write(to_record(outputs, settings.get("model")), folder.outputs)
        write_json(folder.summary, plain(content))
        screen.print(f"wrote {folder.summary} and {folder.outputs}")
    screen.end(content | {"output": folder.path if folder is not None else None})
