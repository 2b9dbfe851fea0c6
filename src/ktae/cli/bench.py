"""`ktae bench`: estimators in worlds where the advantage of every token is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, note
from ktae.errors import InputError, expected_one_of
from ktae.files import plots
from ktae.files.text import counted

if TYPE_CHECKING:
    from ktae.bench.pointing import Result
    from ktae.estimators import Estimator
    from ktae.inference import Interval

LEGEND = """\
Share of the ceiling: 0 is GRPO, 1 what exact advantages as credit add to the cosine with the true
policy gradient; a larger weight can pass 1. -: exact advantages add nothing there.
"""
DEFAULTS = (
    "backoff",
    "paper",
    "calibrated",
    "trigrams",
    "sharp-trigrams",
    "tempo",
    "conflict-tokens",
    "anchor-states",
)


def bench(
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            "-e",
            metavar="NAME",
            help="An estimator, or your own as MODULE:NAME or FILE.py:NAME. Can be given several "
            f"times [default: {', '.join(DEFAULTS)}].",
        ),
    ] = None,
    world: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A world, of which every column is printed. Can be given several times "
            "[default: all].",
        ),
    ] = None,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn", help="Train instead: what would exact advantages gain, and what does credit?"
        ),
    ] = False,
    runs: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="With --learn, the CSV of the trainings; those that it has are not run again.",
        ),
    ] = Path("bench-learning.csv"),
    output: Annotated[
        Path | None,
        options.output_option(help="A picture of the shares: .png, .svg or .pdf."),
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
    if learn:
        if estimator or world or output or seed:
            raise InputError("--learn has fixed arms and seeds; expected none of the other options")
        _learn(screen, runs)
    else:
        _point(screen, estimator, world, output, seed)


def _point(
    screen: Screen,
    names: list[str] | None,
    world_names: list[str] | None,
    output: Path | None,
    seed: int,
) -> None:
    from ktae.bench import pointing
    from ktae.bench.worlds import WORLDS
    from ktae.cli.progress import Bars
    from ktae.estimators import as_estimator, resolved

    for name in world_names or ():
        if name not in WORLDS:
            raise InputError(f"--world {name}: {expected_one_of(WORLDS, name)}")
    estimators: dict[str, Estimator] = {
        name: resolved(as_estimator(name)) for name in names or DEFAULTS
    }
    worlds = {name: WORLDS[name]() for name in world_names or WORLDS}
    total = len(worlds) * len(estimators)
    with Bars(screen.progress, lines=0) as bars:
        steps = iter(range(1, total + 1))
        results, left = pointing.measure(
            worlds,
            estimators,
            lambda what: bars.show("measuring", next(steps), total, what),
            seed,
        )
    rows = list(dict.fromkeys(r.estimator for r in results))
    rows.sort(key=lambda name: -pointing.mean_share(results, name)[0])
    _print_shares(screen, results, rows, list(worlds))
    for name in world_names or ():
        _print_world(screen, [r for r in results if r.world == name])
    lacking = {(x.estimator, x.reason): 0 for x in left if not x.is_error}
    for x in left:
        if x.is_error:
            note(f"{x.estimator} failed in world {x.world}: {x.reason}")
        else:
            lacking[x.estimator, x.reason] += 1
    for (name, reason), n in lacking.items():
        note(f"{name} {reason}; left out of {counted(n, 'world')}")
    if output is not None:
        plots.save(pointing.picture(results, rows, list(worlds)), output)
        screen.print(f"wrote {output}")
    screen.end({"seed": seed, "batch": pointing.BATCH, "results": results, "left_out": left})
    if any(x.is_error for x in left):
        raise typer.Exit(1)


def _print_shares(
    screen: Screen, results: Sequence[Result], rows: list[str], worlds: list[str]
) -> None:
    from ktae.bench import pointing

    share = {(r.estimator, r.world): r.share_of_ceiling for r in results}

    def cell(name: str, world: str) -> str:
        interval = share.get((name, world))
        return "-" if interval is None else f"{interval.value:+.2f}"

    means = {name: pointing.mean_share(results, name) for name in rows}
    screen.table(
        "Share of the ceiling",
        rows,
        [
            *((world, *(cell(name, world) for name in rows)) for world in worlds),
            None,
            ("mean", *(f"{means[name][0]:+.2f}" for name in rows)),
            ("lowest", *(f"{means[name][1]:+.2f}" for name in rows)),
        ],
        first="world",
    )
    screen.print(LEGEND, style="dim")


COLUMNS = {
    "cosine": "cosine",
    "share of the ceiling": "share_of_ceiling",
    "permuted": "permuted_share",
    "best weight": "best_weight",
    "share there": "best_share",
    "avg. precision": "average_precision",
    "sign": "sign",
    "bias": "bias",
    "variance": "variance",
}


def _print_world(screen: Screen, results: Sequence[Result]) -> None:
    def cell(value: float | Interval | None) -> str:
        if value is None:
            return "-"
        return (
            "{:.2f} ({:.2f} to {:.2f})".format(*value)
            if isinstance(value, tuple)
            else f"{value:.3g}"
        )

    screen.table(
        f"{results[0].world}: {100 * results[0].base_rate:.1f} % of the tokens decide",
        list(COLUMNS),
        [(r.estimator, *(cell(getattr(r, name)) for name in COLUMNS.values())) for r in results],
    )


def _learn(screen: Screen, path: Path) -> None:
    from ktae.bench import learning
    from ktae.cli.progress import Bars

    total = len(learning.SETTINGS) * len(learning.ARMS)
    with Bars(screen.progress, lines=total) as bars:
        steps = iter(range(total))
        gains = learning.learn(
            path,
            lambda setting, arm: bars.show("training", next(steps), total, f"{arm}, {setting}"),
        )
    rows: list[tuple[str, ...] | None] = []
    for gain in gains:
        if rows and gain.arm == learning.ARMS[1]:
            rows.append(None)
        share = "-" if gain.share_of_ceiling is None else f"{gain.share_of_ceiling:+.2f}"
        interval = f"{gain.gain:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
        rows.append(
            (f"{gain.setting}: {gain.arm}", interval, f"{gain.p:.2g}", share, f"{gain.rate:g}")
        )
    screen.table(
        "Gain over GRPO: area under the exact success curve",
        ("gain (95 %)", "p (Holm)", "of the ceiling", "rate"),
        rows,
        first="setting: arm",
    )
    screen.print(f"the trainings are in {path}")
    screen.end({"gains": gains, "runs": path})
