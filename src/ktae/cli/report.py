"""`ktae report`: rollouts in, one HTML file out. `ktae show`: a group in the terminal."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ktae.cli.score import note_single_tokens, overrides
from ktae.config import PRESETS, KTAEConfig
from ktae.errors import InputError
from ktae.hub import check_local_or_hub

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="INPUT...",
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
        "--set", "-s", metavar="KEY=VALUE", help="Replace a setting, such as h3=0. Repeatable."
    ),
]
Threshold = Annotated[
    float, typer.Option(help="Without a verdict: a rollout is correct if its reward is above.")
]
Correctness = Annotated[
    str | None,
    typer.Option(help="TRL's dump: the reward function that says whether a rollout is correct."),
]


def report(
    inputs: Inputs,
    tokenizer: TokenizerName = None,
    output: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    preset: Preset = None,
    settings: Settings = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
    title: Annotated[str | None, typer.Option(help="[default: the inputs' names]")] = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Above this, whole groups are left out; the page says which.")
    ] = 6_000_000,
) -> None:
    """Explain a rollout dump: one HTML file that needs no network and no server."""
    from rich.console import Console

    from ktae.report import write_report

    check(tokenizer, threshold)
    for path in inputs:
        if os.path.realpath(path) == os.path.realpath(output):
            raise InputError(f"--output would overwrite {output}, which is one of the inputs")
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: folder {output.parent} does not exist")
    started = time.perf_counter()
    with Console(stderr=True).status("reading and scoring"):
        dump = write_report(
            inputs,
            output,
            tokenizer=tokenizer,
            config=config_of(preset, settings),
            threshold=threshold,
            correctness=correctness,
            max_tokens=max_tokens,
            title=title,
        )
    for message in dump.tolerance.rejected[:3]:
        typer.echo(f"ktae: left out: {message}", err=True)
    if len(dump.tolerance.rejected) > 3:
        typer.echo(f"ktae: and {len(dump.tolerance.rejected) - 3:,} more rows", err=True)
    if dump.unit == "words":
        typer.echo(
            "ktae: no --tokenizer: the page compares words, not the policy's tokens", err=True
        )
    typer.echo(
        f"{len(dump.rollouts):,} rollouts in {time.perf_counter() - started:.1f} s; "
        f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB)"
    )


def show(
    inputs: Inputs,
    group: Annotated[str | None, typer.Option(help="Its label [default: the first mixed].")] = None,
    step: Annotated[int | None, typer.Option(help="Its training step.")] = None,
    tokenizer: TokenizerName = None,
    preset: Preset = None,
    settings: Settings = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
) -> None:
    """Show one group in the terminal: every token coloured by its term."""
    from rich.console import Console

    from ktae.report import inputs as reading
    from ktae.report import terminal

    check(tokenizer, threshold)
    dump = reading.load(inputs, tokenizer, threshold=threshold, correctness=correctness)
    console = Console(markup=False, emoji=False, highlight=False)
    config = config_of(preset, settings)
    terminal.show_group(console, dump, group, step, config)
    if (used := config or dump.config) is not None:
        note_single_tokens(used)


def check(tokenizer: str | None, threshold: float) -> None:
    """Raise an InputError for options that cannot be meant."""
    if not math.isfinite(threshold):
        raise InputError(f"--threshold is {threshold}; expected a finite number")
    if tokenizer is not None:
        check_local_or_hub("tokenizer", tokenizer)


def config_of(preset: str | None, settings: list[str] | None) -> KTAEConfig | None:
    """The settings that were asked for; None where none were."""
    if preset is None and not settings:
        return None
    return KTAEConfig.preset(preset or "paper", **overrides(settings or []))
