"""`ktae curves`: the training curves of several runs in one picture."""

from __future__ import annotations

from pathlib import Path

from ktae.cli import options
from ktae.cli.printing import Screen


def run(
    runs: list[Path], output: Path = Path("curves.png"), smooth: int = 1, as_json: bool = False
) -> None:
    """Draw accuracy, reward, response length and entropy of runs, and print their last values.

    A line is the mean of its seeds, and the band reaches from the lowest to the highest.
    """
    from ktae.experiments import curves
    from ktae.experiments.curves import HELD_OUT
    from ktae.files import plots

    options.require_output(output)
    screen, arms = Screen(as_json), curves.arms(runs)
    plots.save(curves.draw(arms, smooth), output)
    held_out = [name for name in curves.panels(arms) if name.startswith(HELD_OUT)]
    for heading, columns, values in (
        (
            "held-out accuracy at the end, mean of the runs",
            [name.removeprefix(f"{HELD_OUT}, ") for name in held_out],
            lambda arm: map(arm.last, held_out),
        ),
        (
            "training: the last tenth of the steps, and median seconds",
            ["runs", "reward", "tokens", "entropy", "s a step", "of it credit"],
            lambda arm: (
                len(arm.seeds),
                *map(arm.last, ("reward", "response length", "entropy")),
                *map(arm.median, ("seconds", "credit seconds")),
            ),
        ),
    ):
        rows = [(x.name, *("-" if y is None else f"{y:,.3g}" for y in values(x))) for x in arms]
        if columns:
            screen.table(heading, columns, rows)
    screen.print(f"wrote {output}")
    screen.end({"arms": arms, "output": output})
