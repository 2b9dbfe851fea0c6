"""What the commands that look at rollouts have in common: options, their checks, and one note."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.errors import InputError
from ktae.estimators import KINDS, PRESETS, Estimator, from_section, to_section
from ktae.files.hub import check_local_or_hub
from ktae.files.text import printable

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.tolerance import Tolerance

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT",
        help="Run folders of ktae train; dumps of TRL, verl, OpenRLHF, slime, NeMo-RL, verifiers, "
        "lm-evaluation-harness or lighteval; any .jsonl, .json or .parquet (also .gz); folders.",
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        metavar="PATH_OR_NAME",
        help="Tokenizer folder or Hugging Face name; a run folder has its own. Without one, texts "
        "are cut at words.",
    ),
]
EstimatorName = Annotated[
    str | None,
    typer.Option("--estimator", "-e", help=f"{', '.join(PRESETS | KINDS)} [default: the run's]."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Replace one of the estimator's settings, such as h3=0, or wrap it in "
        "'transforms=[centred, {scaled: 2}]'. Repeatable.",
    ),
]
Threshold = Annotated[
    float, typer.Option(help="Without a verdict: a rollout is correct if its reward is above.")
]
Correctness = Annotated[
    str | None,
    typer.Option(help="Of several rewards or metrics: the one that says what is correct."),
]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        "-f",
        metavar="NAME=PATH",
        help="Where a field is in a row, such as response=output or reward=scores.acc. Repeatable.",
    ),
]
PoolModels = Annotated[
    bool | None,
    typer.Option(
        "--pool-models/--by-model",
        help="Rollouts of several models are one group, or a group is a problem of one model "
        "[default: by model, unless most rollouts would be alone].",
        show_default=False,
    ),
]

MaxResponse = Annotated[
    int | None,
    typer.Option(min=1, help="Longest response, in characters [default: 2,000,000]."),
]


def check(tokenizer: str | None, threshold: float) -> None:
    """Raise an InputError for options that cannot be meant."""
    if not math.isfinite(threshold):
        raise InputError(f"--threshold is {threshold}; expected a finite number")
    if tokenizer is not None:
        check_local_or_hub("tokenizer", tokenizer)


def require_folder(option: str, path: Path | None) -> None:
    """Raise an InputError, before any work, where a file that an option names has no folder."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f"{option} {path}: folder {path.parent} does not exist")


def load_dump(
    inputs: Sequence[Path],
    tokenizer: str | None,
    *,
    threshold: float,
    correctness: str | None,
    field: Sequence[str] | None,
    pool_models: bool | None,
    max_response: int | None,
) -> Dump:
    """The rollouts that the options of a command name, at least one; what is noted is on stderr."""
    from rich.console import Console

    from ktae.report import inputs as reading

    with Console(stderr=True).status("reading"):
        dump = reading.load(
            inputs,
            tokenizer,
            threshold=threshold,
            correctness=correctness,
            fields=fields_of(field),
            pool_models=pool_models,
            max_response=max_response,
        )
        reading.require_rollouts(dump)
    note_reading(dump.tolerance, len(dump.rollouts))
    return dump


def check_device(device: str) -> None:
    """Raise an InputError unless `--device` is one that is here."""
    from ktae.bench import has_gpu

    if device not in ("cpu", "cuda"):
        raise InputError(f"--device is {device!r}; expected cpu or cuda")
    if device == "cuda" and not has_gpu():
        raise InputError("--device is cuda, and there is no CUDA device")


def estimator_of(
    name: str | None, settings: Sequence[str] | None, inputs: Sequence[Path] = ()
) -> Estimator | None:
    """The estimator that was asked for; None where none was.

    Without a name, `settings` replace those of the run in `inputs`, or the paper's; `transforms`
    wrap that estimator.
    """
    from ktae.report import inputs as reading

    if name is None and not settings:
        return None
    own = reading.trained_with(inputs) if name is None else None
    section = to_section(own) if own else name or "paper"
    base = {"estimator": section} if isinstance(section, str) else section
    given = overrides(settings or [])
    more = given.pop("transforms", None)
    more = [more] if isinstance(more, str | dict) else more
    if isinstance(more, list):
        given["transforms"] = [*base.get("transforms", []), *more]
    elif more is not None:
        given["transforms"] = more  # from_section says what is wrong
    return from_section(base | given)


def fields_of(given: Sequence[str] | None) -> dict[str, str]:
    """What `--field` says, as {"response": "output"}."""
    from ktae.rollouts.schemas.nested import parse_fields

    return parse_fields(given or [])


def again_with(options: Sequence[str]) -> str:
    """The command line that is running, with further options."""
    return shlex.join(["ktae", *sys.argv[1:], *options])


def note_reading(found: Tolerance, n: int) -> None:
    """Say on stderr what the files were read as, what was left out, and what seems to be missing.

    Args:
        found: what the reader has noted.
        n: how many rollouts were read.
    """
    if found.schemas:
        _note(found.read_as())
    if found.left_alone:
        _note(found.files_left_alone())
    if found.models:
        how = "are pooled; --by-model tells them" if found.pooled else "are told"
        other = "" if found.pooled else ": a group is a problem of one; --pool-models pools them"
        _note(f"{found.models:,} models {how} apart{other}")
    if found.repeated:
        _note(f"{found.repeated:,} rows left out: other filters of the same responses")
    for message in found.rejected[:3]:
        _note(f"left out: {message}")
    if len(found.rejected) > 3:
        _note(f"and {len(found.rejected) - 3:,} more rows")
    if found.hint and n in (found.without_reward, found.alone):
        what = "reward" if n == found.without_reward else "group"
        _note(f"no rollout has a {what}; perhaps: {again_with(found.hint)}")


def _note(text: str) -> None:
    typer.echo(f"ktae: {printable(text)}", err=True)


def note_single_tokens(estimator: Estimator) -> None:
    """Say on stderr that a table of single tokens does not show the whole of the estimator."""
    shown = estimator.in_tables()
    if shown is None:
        what = "tables show the paper's statistic of single tokens"
        typer.echo(f"ktae: {what}; the credit is {estimator}'s, which has none", err=True)
    elif estimator != shown:
        typer.echo(
            f"ktae: single tokens and verdicts are shown; the estimator is {estimator}", err=True
        )


def overrides(settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """`h3=0` as {"h3": 0}: the value is JSON, or else YAML as in a recipe.

    JSON comes first because YAML 1.1 takes 1e-3 for text.
    """
    from ktae.files.typed import parse_yaml

    overrides: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"{option} {setting}: expected KEY=VALUE, such as h3=0")
        try:
            overrides[key] = json.loads(text)
        except (ValueError, RecursionError):
            overrides[key] = parse_yaml(text, f"{option} {setting}")
    return overrides
