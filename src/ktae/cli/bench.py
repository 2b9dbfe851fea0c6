"""`ktae bench`: estimators in worlds where the advantage of every token is known exactly."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, note
from ktae.cli.progress import stepping
from ktae.errors import InputError, expected_one_of
from ktae.files import plots
from ktae.files.text import counted

LEGEND = """\
Share of the ceiling: 0 is GRPO, 1 what exact advantages as credit add to the cosine with the true
policy gradient; a larger weight can pass 1. -: exact advantages add nothing there."""
COLUMNS = ["cosine", "share_of_ceiling", "permuted_share", "best_weight", "best_share"]
COLUMNS += ["average_precision", "sign", "bias", "variance"]
"""Fields of `pointing.Result`."""
DEFAULTS = ["backoff", "paper", "calibrated", "trigrams", "sharp-trigrams", "tempo"]
DEFAULTS += ["conflict-tokens", "stride", "anchor-states", "salt", "turn-rewards", "mt-grpo"]
several = functools.partial(typer.Option, metavar="NAME")


def bench(
    estimator: Annotated[
        list[str],
        several("-e", "--estimator", help="Also your own, MODULE:NAME or FILE.py:NAME; several."),
    ] = DEFAULTS,
    world: Annotated[
        list[str] | None, several(help="Print every column of it; several [default: all].")
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Train instead, with exact advantages and with credit.")
    ] = False,
    runs: Annotated[
        Path, typer.Option(metavar="FILE", help="With --learn, the CSV of trainings to go on from.")
    ] = Path("bench-learning.csv"),
    output: Annotated[
        Path | None, options.output_option(help="A picture of the shares: .png, .svg or .pdf.")
    ] = None,
    seed: Annotated[int, options.rare_number(min=0, help="Of the responses.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Where does credit point the right way? Worlds in which the truth is known say so.

    Each estimator's credit, beside GRPO's advantages, is compared with the exact policy gradient.
    GRPO, exact advantages, random places and permuted labels are always there.
    """
    options.require_outputs([], ("--output", output, plots.KINDS))
    screen = Screen(as_json)
    if not learn:
        return _point(screen, estimator, world or [], output, seed)
    if estimator != DEFAULTS or world or output or seed:
        raise InputError("--learn has fixed arms and seeds; expected none of the other options")
    from ktae.bench import learning

    total = len(learning.SETTINGS) * len(learning.ARMS + learning.ADDED)
    with stepping(screen.progress, "training", total, lines=total) as step:
        gains = learning.learn(runs, step)
    rows = [
        [f"{x.setting}: {x.arm}", *map(_cell, ((x.gain, x.low, x.high), x.p, x.share_of_ceiling))]
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
    from ktae.estimators import as_estimator, resolved

    for name in shown:
        if name not in WORLDS:
            raise InputError(f"--world {name}: {expected_one_of(WORLDS, name)}")
    estimators = {name: resolved(as_estimator(name)) for name in names}
    worlds = {name: WORLDS[name]() for name in shown or WORLDS}
    with stepping(screen.progress, "measuring", len(worlds) * len(estimators), lines=0) as step:
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
    texts = [f"failed in world {x.world}: {x.reason}" if x.is_error else x.reason for x in left]
    names = [x.estimator for x in left]
    for (name, text), n in Counter(zip(names, texts, strict=True)).items():
        note(f"{name} {text}; left out of {counted(n, 'world')}")
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
