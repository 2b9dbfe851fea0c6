"""`ktae bench`: estimators in worlds where the advantage of every token is known exactly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import typer

from ktae.cli import options
from ktae.cli.printing import Screen, note
from ktae.errors import InputError, expected_one_of
from ktae.files import plots
from ktae.files.text import counted

LEGEND = """\
Share of the ceiling: 0 is GRPO, 1 what exact advantages as credit add to the cosine with the true
policy gradient; a larger weight can pass 1. -: exact advantages add nothing there."""
COLUMNS = ["cosine", "share_of_ceiling", "permuted_share", "best_weight", "best_share"]
COLUMNS += ["average_precision", "sign", "bias", "variance"]  # fields of `pointing.Result`
DEFAULTS = ["backoff", "paper", "calibrated", "trigrams", "sharp-trigrams", "tempo"]
DEFAULTS += ["conflict-tokens", "stride", "anchor-states", "salt", "turn-rewards", "mt-grpo"]


def run(
    estimator: list[str] = DEFAULTS,
    world: list[str] | None = None,
    learn: bool = False,
    runs: Path = Path("bench-learning.csv"),
    output: Path | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Where does credit point the right way? Worlds in which the truth is known say so.

    Each estimator's credit, beside GRPO's advantages, is compared with the exact policy gradient.
    GRPO, exact advantages, random places and permuted labels are always there.
    """
    options.require_output(output)
    screen = Screen(as_json)
    if not learn:
        return _point(screen, estimator, world or [], output, seed)
    if estimator != DEFAULTS or world or output or seed:
        raise InputError("--learn has fixed arms and seeds; expected none of the other options")
    from ktae.bench import learning
    from ktae.cli.progress import Bars

    n_trainings = len(learning.SETTINGS) * len(learning.ARMS + learning.ADDED)
    with Bars(screen.progress) as bars:
        gains = learning.learn(runs, bars.stepwise("training", n_trainings))
    rows = [
        (f"{x.setting}: {x.arm}", *map(_cell, ((x.gain, x.low, x.high), x.p, x.share_of_ceiling)))
        for x in gains
    ]
    columns = ("gain (95 %)", "p (Holm)", "of the ceiling")
    screen.table("Gain over GRPO: area under the exact success curve", columns, rows)
    screen.print(f"the trainings are in {runs}")
    screen.end({"gains": gains, "runs": runs})


def _point(
    screen: Screen, names: list[str], shown: list[str], output: Path | None, seed: int
) -> None:
    from ktae.bench import pointing
    from ktae.bench.worlds import WORLDS
    from ktae.cli.progress import Bars
    from ktae.estimators import as_estimator, resolved

    for name in shown:
        if name not in WORLDS:
            raise InputError(f"--world {name}: {expected_one_of(WORLDS, name)}")
    estimators = {name: resolved(as_estimator(name)) for name in names}
    worlds = {name: WORLDS[name]() for name in shown or WORLDS}
    with Bars(screen.progress) as bars:
        step = bars.stepwise("measuring", len(worlds) * len(estimators))
        results, left = pointing.measure(worlds, estimators, step, seed)
    means = {x.estimator: pointing.mean_share(results, x.estimator) for x in results}
    order = sorted(means, key=lambda name: -means[name][0])
    shares = {(x.world, x.estimator): x.share_of_ceiling for x in results}
    rows: list[Any] = [[w, *(_cell(shares.get((w, x)), "{:+.2f}") for x in order)] for w in worlds]
    mean, lowest = ([f"{means[name][i]:+.2f}" for name in order] for i in (0, 1))
    rows += [None, ["mean", *mean], ["lowest", *lowest]]
    screen.table("Share of the ceiling", order, rows, first="world")
    screen.print(*LEGEND.splitlines(), style="dim")
    for name in shown:
        measured = [x for x in results if x.world == name]
        rows = [[x.estimator, *(_cell(getattr(x, field)) for field in COLUMNS)] for x in measured]
        heading = f"{name}: {100 * measured[0].base_rate:.1f} % of the tokens decide"
        screen.table(heading, [field.replace("_", " ") for field in COLUMNS], rows)
    left_out = Counter((x.estimator, x.reason, x.is_error) for x in left)
    for (name, reason, failed), n in left_out.items():
        note(f"{name} {'failed: ' if failed else ''}{reason}; left out of {counted(n, 'world')}")
    if output is not None:
        plots.save(pointing.picture(results, order, list(worlds)), output)
        screen.print(f"wrote {output}")
    screen.end({"seed": seed, "batch": pointing.BATCH, "results": results, "left_out": left})
    if any(x.is_error for x in left):
        raise typer.Exit(1)


def _cell(value: Any, form: str = "{:.2f} ({:.2f} to {:.2f})") -> str:
    if value is None:
        return "-"
    return form.format(*value) if isinstance(value, tuple) else f"{value:.3g}"
