"""`ktae curves`: the training curves of several runs in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, TableFormat


def curves(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders of ktae train; output folders of TRL; metrics.jsonl or the console's "
            "text of verl. Names that differ in a seed's number, such as grpo-seed0 and "
            "grpo-seed1, are one line with a band.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The picture: .png, .svg or .pdf."),
    ] = Path("curves.png"),
    smooth: Annotated[int, options.number(min=1, help="Steps of a trailing mean.")] = 1,
    as_json: AsJson = False,
    tables: TableFormat = "text",
) -> None:
    """Draw accuracy, reward, response length and entropy of several runs; tell their last values.

    A line is the mean of its seeds, and the band reaches from the lowest to the highest.
    """
    from ktae.evaluation import curves
    from ktae.files import plots

    options.require_picture("--output", output)
    screen = Screen(as_json, tables)
    arms = curves.arms(runs)
    plots.save(curves.draw(arms, smooth), output)
    held_out = [name for name in curves.panels(arms) if name.startswith(curves.HELD_OUT)]
    if held_out:
        screen.table(
            "held-out accuracy at the end, mean of the runs",
            [name.removeprefix(f"{curves.HELD_OUT}, ") for name in held_out],
            [(arm.name, *(_cell(arm.last(name)) for name in held_out)) for arm in arms],
        )
    rows = []
    for arm in arms:
        last = [arm.last(name) for name in ("reward", "response length", "entropy")]
        times = [arm.median(name) for name in ("seconds", "credit seconds")]
        rows.append((arm.name, f"{len(arm.seeds)}", *map(_cell, (*last, *times))))
    screen.table(
        "training: the last tenth of the steps, and median seconds",
        ("runs", "reward", "tokens", "entropy", "s a step", "of it credit"),
        rows,
    )
    screen.print(f"wrote {output}")
    screen.end({"arms": arms, "output": output})


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}"
