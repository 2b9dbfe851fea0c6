"""`ktae curves`: the training curves of several runs in one picture."""

from __future__ import annotations

from collections.abc import Iterable
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

    def cells(values: Iterable[float | None]) -> list[str]:
        return ["-" if x is None else f"{x:,.3g}" for x in values]

    if held_out:
        columns = [name.removeprefix(f"{HELD_OUT}, ") for name in held_out]
        rows = [(arm.name, *cells(map(arm.last, held_out))) for arm in arms]
        screen.table("held-out accuracy at the end, mean of the runs", columns, rows)
    rows = []
    for arm in arms:
        last = map(arm.last, ("reward", "response length", "entropy"))
        medians = map(arm.median, ("seconds", "credit seconds"))
        rows.append((arm.name, *cells((len(arm.seeds), *last, *medians))))
    columns = ["runs", "reward", "tokens", "entropy", "s a step", "of it credit"]
    screen.table("training: the last tenth of the steps, and median seconds", columns, rows)
    screen.print(f"wrote {output}")
    screen.end({"arms": arms, "output": output})
