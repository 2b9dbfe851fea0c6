"""What the commands that look at rollouts have in common: options, their checks, and one note."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ktae.config import PRESETS, KTAEConfig
from ktae.errors import InputError
from ktae.hub import check_local_or_hub
from ktae.typed_file import parse_yaml

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT",
        help="Run folders of ktae train, TRL's completions, verl's rollout_data_dir, or .jsonl and "
        ".parquet files (also .gz) with group, response or token_ids, reward.",
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
Preset = Annotated[
    str | None,
    typer.Option(help=f"Estimator settings: {', '.join(PRESETS)} [default: the run's]."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Replace one of these settings, such as h3=0 or units=[token, bigram]. Repeatable.",
    ),
]
Threshold = Annotated[
    float, typer.Option(help="Without a verdict: a rollout is correct if its reward is above.")
]
Correctness = Annotated[
    str | None,
    typer.Option(help="TRL's dump: the reward function that says whether a rollout is correct."),
]


def check(tokenizer: str | None, threshold: float) -> None:
    """Raise an InputError for options that cannot be meant."""
    if not math.isfinite(threshold):
        raise InputError(f"--threshold is {threshold}; expected a finite number")
    if tokenizer is not None:
        check_local_or_hub("tokenizer", tokenizer)


def check_device(device: str) -> None:
    """Raise an InputError unless `--device` is one that is here."""
    from ktae.bench import has_gpu

    if device not in ("cpu", "cuda"):
        raise InputError(f"--device is {device!r}; expected cpu or cuda")
    if device == "cuda" and not has_gpu():
        raise InputError("--device is cuda, and there is no CUDA device")


def config_of(
    preset: str | None, settings: list[str] | None, inputs: Sequence[Path]
) -> KTAEConfig | None:
    """The settings that were asked for; None where none were.

    Without a preset, `settings` replace those that the run in `inputs` was trained with, or the
    paper's.
    """
    from ktae.report import inputs as reading

    if preset is None and not settings:
        return None
    own = reading.trained_with(inputs) if preset is None else None
    base = dataclasses.asdict(own) if own else {}
    return KTAEConfig.preset(preset or "paper", **(base | overrides(settings or [])))


def note_left_out(rejected: Sequence[str]) -> None:
    """Say on stderr which rows of a dump could not be used."""
    for message in rejected[:3]:
        typer.echo(f"ktae: left out: {message}", err=True)
    if len(rejected) > 3:
        typer.echo(f"ktae: and {len(rejected) - 3:,} more rows", err=True)


def note_single_tokens(config: KTAEConfig) -> None:
    """Say on stderr what of the settings a table of single tokens leaves out."""
    if config != config.for_single_tokens():
        typer.echo(
            f"ktae: single tokens and verdicts are shown; the settings have units "
            f"{', '.join(config.units)}, graded {str(config.graded).lower()}, control "
            f"{config.control}",
            err=True,
        )


def overrides(settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """`h3=0` as {"h3": 0}: the value is JSON, or else YAML as in a recipe.

    JSON comes first because YAML 1.1 takes 1e-3 for text.
    """
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
