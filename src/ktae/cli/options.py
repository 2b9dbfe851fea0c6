"""The options that several commands have, their checks, and the rollouts that are read by them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.printing import note
from ktae.errors import InputError
from ktae.estimators import KINDS, PRESETS, Estimator, from_section, resolved, to_section
from ktae.files.hub import check_local_or_hub
from ktae.files.plots import KINDS as KINDS_OF_PICTURES
from ktae.rollouts import EXAMPLE
from ktae.rollouts.options import ReadOptions
from ktae.tables import in_tables

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.notes import Notes

rare = functools.partial(typer.Option, rich_help_panel="Rarely needed")
"""An option that few people ask for: the help has a panel of its own for these."""

number = functools.partial(typer.Option, metavar="N")
rare_number = functools.partial(rare, metavar="N")

Inputs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="INPUT",
        help="Files or folders with rollouts: run folders of ktae train; dumps of TRL, verl, "
        "OpenRLHF, slime, NeMo-RL, verifiers, lm-evaluation-harness or lighteval; any .jsonl, "
        ".json, .csv or .parquet file (also .gz).",
    ),
]
Example = Annotated[
    bool, typer.Option("--example", help="Take rollouts of a small model, which come with ktae.")
]
TokenizerName = Annotated[
    str | None,
    typer.Option(help="A tokenizer's folder or hub name [default: the run's, or else words]."),
]
EstimatorName = Annotated[
    str | None,
    typer.Option(
        "--estimator",
        "-e",
        metavar="NAME",
        help=f"What computes credit: {', '.join(PRESETS | KINDS)}, a recipe's section such as "
        "'{estimator: ktae, h3: 0}', or your own as MODULE:NAME or FILE.py:NAME "
        "[default: the run's, or else paper].",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="One of the estimator's settings, such as h3=0, or what wraps it, such as "
        "'transforms=[centred, {scaled: 2}]'. Can be given several times.",
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="A file for what --json would print."),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file for a forest plot.")
]
Threshold = Annotated[
    float | None,
    rare(help="A rollout without a verdict is correct if its reward is above this [default: 0]."),
]
Correctness = Annotated[
    str | None, rare(help="Of several rewards or metrics the one that says what is correct.")
]
Fields = Annotated[
    list[str] | None,
    rare(
        "--field",
        "-f",
        metavar="NAME=PATH",
        help="Where a field is in a row, such as response=output or "
        "reward=samples[].score. Can be given several times.",
    ),
]
PoolModels = Annotated[
    bool | None,
    rare(
        "--pool-models/--by-model",
        help="Whether several models are compared as one [default: by model; of rollouts, unless "
        "most would be alone].",
        show_default=False,
    ),
]
Join = Annotated[
    bool, rare("--join", help="Take files together: a group may span them, such as files of seeds.")
]
Evaluation = Annotated[
    bool,
    rare("--evaluation", help="Of a run that holds both, read evaluations and not training."),
]
Workers = Annotated[
    int | None, rare_number(min=1, help="Processes that grade [default: one a processor].")
]


def inputs_or_example(inputs: list[Path] | None, example: bool) -> list[Path]:
    """What a command reads.

    Raises:
        InputError: there are both, or neither.
    """
    if bool(inputs) == example:
        what = "INPUT and --example" if inputs else "neither INPUT nor --example"
        raise InputError(f"{what}; expected one: files and folders with rollouts, or the example")
    return inputs or [EXAMPLE]


def read_options(
    field: Sequence[str] | None = None,
    tokenizer: str | None = None,
    threshold: float | None = None,
    correctness: str | None = None,
    pool_models: bool | None = None,
    join: bool = False,
    evaluation: bool = False,
) -> ReadOptions:
    """What the command line says about reading rollouts.

    Raises:
        InputError: there can be no such tokenizer, or a field or threshold makes no sense.
    """
    from ktae.rollouts.paths import parse_fields

    if tokenizer is not None:
        check_local_or_hub("tokenizer", tokenizer)
    return ReadOptions(
        tokenizer=tokenizer,
        threshold=threshold,
        correctness=correctness,
        fields=parse_fields(field or []),
        pool_models=pool_models,
        join=join,
        evaluation=evaluation,
    )


def require_outputs(inputs: Iterable[Path], **outputs: Path | None) -> None:
    """Raise an InputError, before any work, for a file that cannot be written or that is read.

    Args:
        inputs: files and folders with rollouts.
        outputs: by the names of options the files that they name.
    """
    from ktae.rollouts.folders import choose_files

    named = {f"--{name}": path for name, path in outputs.items() if path is not None}
    # A folder of many files takes time to look through.
    choices = [choose_files(path)[0] for path in inputs] if named else []
    read = {os.path.realpath(file) for files in choices for file in files}
    for option, path in named.items():
        if not path.parent.is_dir():
            raise InputError(f"{option} {path}: folder {path.parent} does not exist")
        if os.path.realpath(path) in read:
            raise InputError(f"{option} would overwrite {path}, which is one of the inputs")
        if option == "--plot":
            require_picture(option, path)


def require_picture(option: str, path: Path) -> None:
    """Raise an InputError, before any work, for a file that no picture can be written to."""
    if path.suffix not in KINDS_OF_PICTURES:
        raise InputError(f"{option} {path}: expected a name that ends in .png, .svg or .pdf")
    if find_spec("matplotlib") is None:
        raise InputError(
            f"{option} {path}: a picture needs matplotlib, which is not installed; "
            "pip install matplotlib"
        )


def estimator_of(
    name: str | None, settings: Sequence[str] | None, inputs: Sequence[Path] = ()
) -> Estimator | None:
    """The estimator that was asked for; None where none was.

    Without a name, `settings` replace those of the run in `inputs`, or the paper's.

    Raises:
        InputError: there is no such estimator, or it needs what no dump holds.
    """
    from ktae.credit import POLICY
    from ktae.report.inputs import trained_with

    if name is not None:
        estimator = resolved(with_settings(name, settings))  # the user has named what is run
        if estimator.needs_policy:
            needs = " and the ".join(POLICY[need] for need in sorted(estimator.needs_policy))
            raise InputError(
                f"--estimator {name} needs the {needs} of each token, which dumps of rollouts do "
                "not hold; in Python, ktae.token_credit takes them"
            )
        return estimator
    if not settings:
        return None
    # Settings without a name change what the run was trained with, so that is looked up first.
    trained = trained_with(inputs)
    of_run = trained.estimator if trained else None
    return with_settings(to_section(of_run) if of_run else "paper", settings)


def with_settings(section: Any, settings: Sequence[str] | None) -> Estimator:
    """The estimator of a name or a recipe's section, its settings replaced; `transforms` wrap it.

    Args:
        section: such as `paper`, or `{estimator: ktae, h3: 0}` as text or as a mapping.
        settings: each as in `h3=0`, the value as in a recipe.
    """
    from ktae.files.typed import parse_yaml

    if isinstance(section, str) and section not in PRESETS | KINDS:
        section = parse_yaml(section, f"--estimator {section}")
    if not settings or not isinstance(section, str | Mapping):
        return from_section(section)
    base = {"estimator": section} if isinstance(section, str) else section
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise InputError(f"--set {setting}: expected KEY=VALUE, such as h3=0")
        changes[key] = parse_yaml(text, f"--set {setting}")
    # What is asked for wraps what is there; null takes nothing away.
    old, new = base.get("transforms") or [], changes.pop("transforms", None)
    old, new = ([x] if isinstance(x, str | dict) else x for x in (old, new))
    if new is not None:  # what is no list from_section refuses
        changes["transforms"] = [*old, *new] if isinstance(new, list) else new
    return from_section({**base, **changes})


def load(inputs: Sequence[Path], how: ReadOptions, *, strict: bool = False) -> Dump:
    """The rollouts, at least one; what is noted about them is on stderr.

    `strict`: the first row that cannot be used is an error.
    """
    from ktae.cli.progress import working
    from ktae.report import inputs as reader

    with working("reading"):
        dump = reader.load(inputs, how, strict=strict)
    note_reading(dump.notes)
    return dump


def note_reading(notes: Notes) -> None:
    """Say on stderr what the files were read as, what was left out, joined and assumed."""
    for line in notes:
        note(line.text + (f"; {line.more[:1].lower()}{line.more[1:]}" if line.more else ""))


def note_unmixed(estimator: Estimator) -> None:
    """Say on stderr that no group has both verdicts, and what that means for credit."""
    unmixed = "no group has both correct and incorrect rollouts"
    if estimator.score_range is None:
        note(f"warning: {unmixed}, so all credit is 0")
    else:
        note(f"{unmixed}: no table compares verdicts; credit by graded rewards is in the file")


def note_single_tokens(estimator: Estimator) -> None:
    """Say on stderr that a table of single tokens does not show the whole of the estimator."""
    shown = in_tables(estimator)
    if shown is None:
        note("tables are of the paper's statistic; this estimator's own credit is in none")
    elif estimator != shown:
        note(
            "tables are of single tokens and verdicts; this estimator's own credit is of larger "
            "units, of places or of scores"
        )
