"""`ktae bench`: estimators in worlds where the advantage of every token is known exactly."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen, note
from ktae.errors import InputError, expected_one_of
from ktae.files import plots
from ktae.files.text import counted

if TYPE_CHECKING:
    from ktae.inference import Interval

LEGEND = """\
Share of the ceiling: 0 is GRPO, 1 what exact advantages as credit add to the cosine with the true
policy gradient; a larger weight can pass 1. -: exact advantages add nothing there.
"""
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
"""Of the table of a world: headings, and the fields of `pointing.Result`."""
DEFAULTS = (
    "backoff",
    "paper",
    "calibrated",
    "trigrams",
    "sharp-trigrams",
    "tempo",
    "conflict-tokens",
    "stride",
    "anchor-states",
    "salt",
    "turn-rewards",
    "mt-grpo",
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
    from ktae.estimators import as_estimator, resolved

    for name in world_names or ():
        if name not in WORLDS:
            raise InputError(f"--world {name}: {expected_one_of(WORLDS, name)}")
    estimators = {name: resolved(as_estimator(name)) for name in names or DEFAULTS}
    worlds = {name: WORLDS[name]() for name in world_names or WORLDS}
    with _progress(screen, "measuring", len(worlds) * len(estimators), lines=0) as step:
        results, left = pointing.measure(worlds, estimators, step, seed)
    means = {r.estimator: pointing.mean_share(results, r.estimator) for r in results}
    rows = sorted(means, key=lambda name: -means[name][0])
    share = {(r.estimator, r.world): r.share_of_ceiling for r in results}
    screen.table(
        "Share of the ceiling",
        rows,
        [
            *((w, *(_cell(share.get((name, w)), "{:+.2f}") for name in rows)) for w in worlds),
            None,
            ("mean", *(f"{means[name][0]:+.2f}" for name in rows)),
            ("lowest", *(f"{means[name][1]:+.2f}" for name in rows)),
        ],
        first="world",
    )
    screen.print(*LEGEND.splitlines(), style="dim")
    for name in world_names or ():
        of_world = [r for r in results if r.world == name]
        screen.table(
            f"{name}: {100 * of_world[0].base_rate:.1f} % of the tokens decide",
            list(COLUMNS),
            [(r.estimator, *(_cell(getattr(r, x)) for x in COLUMNS.values())) for r in of_world],
        )
    for x in left:
        if x.is_error:
            note(f"{x.estimator} failed in world {x.world}: {x.reason}")
    lacking = Counter((x.estimator, x.reason) for x in left if not x.is_error)
    for (name, reason), n in lacking.items():
        note(f"{name} {reason}; left out of {counted(n, 'world')}")
    if output is not None:
        plots.save(pointing.picture(results, rows, list(worlds)), output)
        screen.print(f"wrote {output}")
    screen.end({"seed": seed, "batch": pointing.BATCH, "results": results, "left_out": left})
    if any(x.is_error for x in left):
        raise typer.Exit(1)


def _cell(value: float | Interval | None, form: str = "{:.2f} ({:.2f} to {:.2f})") -> str:
    if value is None:
        return "-"
    return form.format(*value) if isinstance(value, tuple) else f"{value:.3g}"


@contextlib.contextmanager
def _progress(screen: Screen, phase: str, total: int, lines: int) -> Iterator[Callable[..., None]]:
    """A function of what is done next, which moves a bar by one."""
    from ktae.cli.progress import Bars

    with Bars(screen.progress, lines=lines) as bars:
        steps = iter(range(1, total + 1))
        yield lambda *what: bars.show(phase, next(steps), total, ", ".join(what))


def _learn(screen: Screen, path: Path) -> None:
    from ktae.bench import learning

    total = len(learning.SETTINGS) * len(learning.ARMS + learning.ADDED)
    with _progress(screen, "training", total, lines=total) as step:
        gains = learning.learn(path, step)
    screen.table(
        "Gain over GRPO: area under the exact success curve",
        ("gain (95 %)", "p (Holm)", "of the ceiling", "rate"),
        [
            (
                f"{x.setting}: {x.arm}",
                f"{x.gain:+.3f} ({x.low:+.3f} to {x.high:+.3f})",
                f"{x.p:.2g}",
                _cell(x.share_of_ceiling),
                f"{x.rate:g}",
            )
            for x in gains
        ],
        first="setting: arm",
    )
    screen.print(f"the trainings are in {path}")
    screen.end({"gains": gains, "runs": path})
