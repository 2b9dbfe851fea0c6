"""`ktae curves`: the training curves of several runs in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen


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
        options.output_option(help="The picture: .png, .svg or .pdf."),
    ] = Path("curves.png"),
    smooth: Annotated[int, options.number(min=1, help="Average over this many steps.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Draw accuracy, reward, response length and entropy of runs, and print their last values.

    A line is the mean of its seeds, and the band reaches from the lowest to the highest.
    """
    from ktae.experiments import curves
    from ktae.files import plots
    from ktae.rollouts.metrics import HELD_OUT

    options.require_outputs([], ("--output", output, plots.KINDS))
    screen = Screen(as_json)
    arms = curves.arms(runs)
    plots.save(curves.draw(arms, smooth), output)

    def row(arm: curves.Arm, values: list[float | None]) -> tuple[str, ...]:
        return (arm.name, *("-" if x is None else f"{x:,.3g}" for x in values))

    if held_out := [name for name in curves.panels(arms) if name.startswith(HELD_OUT)]:
        screen.table(
            "held-out accuracy at the end, mean of the runs",
            [name.removeprefix(f"{HELD_OUT}, ") for name in held_out],
            [row(arm, [arm.last(name) for name in held_out]) for arm in arms],
        )
    last, times = ("reward", "response length", "entropy"), ("seconds", "credit seconds")
    screen.table(
        "training: the last tenth of the steps, and median seconds",
        ("runs", "reward", "tokens", "entropy", "s a step", "of it credit"),
        [row(arm, [len(arm.seeds), *map(arm.last, last), *map(arm.median, times)]) for arm in arms],
    )
    screen.print(f"wrote {output}")
    screen.end({"arms": arms, "output": output})
