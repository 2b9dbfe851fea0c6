"""`ktae eval`: a model on benchmarks or on a recipe's task, or saved outputs graded again."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from ktae._version import __version__
from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, plain
from ktae.cli.reading import Saved, note_reading
from ktae.errors import InputError, expected_one_of

if TYPE_CHECKING:
    from ktae.experiments.benchmarks import BenchmarkProblem
    from ktae.experiments.engines import Engine
    from ktae.experiments.evaluation import EvaluationFolder
    from ktae.experiments.outputs import Output
    from ktae.grading import Verdict

MAX_NEW_TOKENS = 3000
"""As in the paper's evaluation."""
TIME_LIMIT = 5.0
"""Processor seconds to grade an output; after that it is undecided."""


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
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

    def require_effect(self, saved: Saved, is_saved: bool, benchmarks: str | None) -> None:
        """Raise where an option would have no effect: it would be taken for one that has."""
        of_task = ("data", "template") if self.recipe else ("set", "problems")
        for group, names, where in (
            (self, vars(self), "with --regrade")
            if is_saved
            else (saved, vars(saved), "with a MODEL"),
            (self, of_task, "with --recipe" if self.recipe else "without --recipe"),
        ):
            for field in dataclasses.fields(group):
                if field.name in names and getattr(group, field.name) != field.default:
                    raise InputError(f"--{field.name.replace('_', '-')} has no effect {where}")
        if self.recipe and benchmarks is not None:
            raise InputError("--benchmarks has no effect with --recipe")
        if self.samples > 1 and self.temperature == 0:
            raise InputError(
                "--samples above 1 needs --temperature above 0: greedy ones are all alike"
            )


Graders = dict[str, "Callable[[Output], Verdict]"]


class Questions(NamedTuple):
    """What a model is asked."""

    problems: list[BenchmarkProblem]
    longest: int
    """Tokens of a response."""
    template: str
    """For problems without messages of their own."""
    graders: Graders
    """By name, the task's own grader where it has one."""


@options.spread
def eval_(
    asked: GenerationOptions,
    saved: Saved,
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
            help="ktae, ktae-boxed, ktae-last, math-verify; of --recipe demo or reasoning-gym, of "
            "--regrade stored; with commas between. The first one's verdicts count [default: "
            "ktae; with --recipe the task's]."
        ),
    ] = None,
    as_json: AsJson = False,
    workers: options.Workers = None,
) -> None:
    """Evaluate a model on benchmarks or on a recipe's task; or, with --regrade, saved outputs."""
    from ktae.experiments.evaluation import EvaluationFolder
    from ktae.rollouts.notes import Notes

    if (model is None) == (regrade is None):
        raise InputError("expected either a MODEL or --regrade INPUT")
    asked.require_effect(saved, regrade is not None, benchmarks)
    screen, notes, wanted = Screen(as_json), Notes(strict=True), _names(benchmarks)
    questions = None if asked.recipe is None else _of_recipe(asked, asked.recipe)
    own = {} if questions is None else questions.graders
    chosen = _chosen_graders(_names(graders), own, regrade is not None)
    if regrade is not None:
        outputs = _saved_outputs(saved, regrade, notes, wanted)
        settings: dict[str, Any] = {"regraded": str(regrade), "outputs": len(outputs)}
        # Without --output nothing is written: grading again takes seconds.
        folder = None if output is None else EvaluationFolder(output)
        if folder is not None:
            folder.claim(settings)
    else:
        folder, settings, outputs = _answered(screen, str(model), output, asked, questions, wanted)
    graded = {x: graded_by(screen, outputs, x, workers, own.get(x)) for x in chosen}
    _finish(screen, folder, settings, graded, notes)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _chosen_graders(names: list[str] | None, own: Graders, is_saved: bool) -> list[str]:
    from ktae.experiments.outputs import STORED
    from ktae.grading.graders import DEFAULT, GRADERS

    known = [*GRADERS, *own, *([STORED] if is_saved else [])]
    chosen = names or [*own] or [DEFAULT]
    if unknown := [grader for grader in chosen if grader not in known]:  # not after hours
        raise InputError(f"no grader {unknown[0]!r}; expected one of {', '.join(known)}")
    return chosen


def _saved_outputs(
    saved: Saved, path: Path, notes: Any, benchmarks: list[str] | None
) -> list[Output]:
    from ktae.experiments.outputs import note_stored

    (outputs,) = saved.read([path], notes, benchmarks)
    if saved.threshold is None:
        note_stored(outputs, notes)
    note_reading(notes)
    return outputs


def _of_benchmarks(asked: GenerationOptions, names: Sequence[str] | None) -> Questions:
    from ktae.experiments.benchmarks import PAPER, load
    from ktae.experiments.templates import TEMPLATES

    template = asked.template or "chat"
    if template not in TEMPLATES:
        raise InputError(f"no template {template!r}; {expected_one_of(TEMPLATES, template)}")
    wanted = dict.fromkeys(names or PAPER)
    problems = [problem for name in wanted for problem in load(name, asked.data)]
    return Questions(problems, MAX_NEW_TOKENS, template, {})


def _of_recipe(asked: GenerationOptions, file: Path) -> Questions:
    """The first held-out problems of a recipe's task, and who grades them."""
    from ktae.experiments import recipe as recipes
    from ktae.experiments.benchmarks import BenchmarkProblem
    from ktae.experiments.tasks import task_of

    recipe = recipes.load(file, asked.set or ())
    task = task_of(recipe)
    if task.plays_episodes:
        raise InputError(
            f"an episode of the language {task.name} takes several turns, and a response "
            "is one; ktae train scores episodes before and after (before.json, summary.json)"
        )
    rows = task.held_out_rows(asked.problems)
    problems = [
        BenchmarkProblem(task.name, i, row.prompt, (row.answer,))
        if isinstance(row.prompt, str)
        else BenchmarkProblem(task.name, i, row.prompt[-1]["content"], (row.answer,), row.prompt)
        for i, row in enumerate(rows)
    ]

    def grade(output: Output) -> Verdict:
        reference = rows[int(output.problem)].reference
        (verdict,) = task.grade([output.response], [reference], [bool(output.finished)])
        return verdict

    grader = recipe.reward or task.grader
    template = "plain" if task.chat_template else "recipe"
    longest = recipe.rollout.max_response_length
    return Questions(problems, longest, template, {grader: grade} if grader else {})


def _answered(
    screen: Screen,
    model: str,
    output: Path | None,
    asked: GenerationOptions,
    questions: Questions | None,
    benchmarks: Sequence[str] | None,
) -> tuple[EvaluationFolder, dict[str, Any], list[Output]]:
    """Let the model answer the problems, or go on where an earlier evaluation was cut short."""
    from ktae.cli.progress import Bars
    from ktae.experiments.engines import ENGINES, Sampling
    from ktae.experiments.evaluation import EvaluationFolder, Job, generate_all
    from ktae.files.hub import local_or_hub

    model = local_or_hub("model", model)
    folder = EvaluationFolder(output or Path("evals") / _name_of(model))
    questions = questions or _of_benchmarks(asked, benchmarks)
    sampling = Sampling(
        asked.samples,
        asked.temperature,
        asked.max_new_tokens or questions.longest,
        asked.batch_size or ENGINES[asked.engine].batch_size,
        asked.seed,
    )
    job = Job(model, asked.engine, questions.template, questions.problems, sampling)
    with screen.others_aside(), Bars(screen.progress, lines=20) as bars:
        bars.show(f"looking at {model}", 0, None)  # all of its weights are read
        settings = job.settings()
        folder.claim(settings)

        def load_engine() -> Engine:
            bars.show(f"loading {model}", 0, None)
            return ENGINES[asked.engine](model)

        tell = functools.partial(bars.show, "generating")
        return folder, settings, generate_all(folder, job, load_engine, tell)


def _name_of(model: str) -> str:
    """What its evaluation is called: `a` for `runs/a/model`, the model of a run."""
    from ktae.experiments.run_folder import RunFolder

    path = Path(os.path.abspath(model))  # `.` and `..` have a name, too
    run = RunFolder(path.parent)
    return path.parent.name if path == run.model and run.recipe.is_file() else path.name


def graded_by(
    screen: Screen,
    outputs: Sequence[Output],
    grader: str,
    workers: int | None,
    own: Callable[[Output], Verdict] | None = None,
) -> list[Output]:
    """All outputs with new verdicts, of ktae's grader of that name or of a task's `own`."""
    from ktae.cli.progress import Bars
    from ktae.experiments.outputs import STORED, grade, stored
    from ktae.grading import GradingPool

    if own is not None:
        return [o._replace(verdict=own(o), grader=grader) for o in outputs]
    if grader == STORED:
        return stored(outputs)
    with (
        GradingPool(workers, time_limit=TIME_LIMIT, grader=grader) as pool,
        Bars(screen.progress, lines=0) as bars,
    ):
        return grade(pool, outputs, functools.partial(bars.show, f"grading ({grader})"))


def _finish(
    screen: Screen,
    folder: EvaluationFolder | None,
    settings: dict[str, Any],
    graded: Mapping[str, list[Output]],
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
