"""`ktae report`: rollouts in, one HTML file out."""

from __future__ import annotations

import contextlib
import functools
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ktae.cli.options import (
    EstimatorName,
    Settings,
    estimator_of,
    require_outputs,
)
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import (
    Reading,
    note,
    note_one_sided,
    note_reading,
    note_unit,
    note_unmixed,
    reads_rollouts,
)
from ktae.errors import InputError
from ktae.estimators import preset
from ktae.files.text import counted, printable


@reads_rollouts
def report(
    reading: Reading,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the page to this HTML file [default: report.html].",
        ),
    ] = None,
    estimator: EstimatorName = None,
    settings: Settings = None,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Give the page this title [default: the inputs' names]."),
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Show at most this many tokens; whole groups are left out, and the page says "
            "which.",
        ),
    ] = 6_000_000,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Show the rollouts of at most so many groups; the numbers over all groups stay "
            "[default: as many as --max-tokens has room for].",
        ),
    ] = None,
    regrade: Annotated[
        bool,
        typer.Option(
            "--regrade/--no-regrade",
            help="Grade rollouts that have a reference answer, and list where the dump differs.",
        ),
    ] = True,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Write the page anew as the run goes on; it loads itself again."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explain a rollout dump: one HTML file that needs no network and no server."""
    options = {
        "options": reading.options(),
        "estimator": estimator_of(estimator, settings, reading.inputs),
        "max_tokens": max_tokens,
        "max_groups": groups,
        "regrade": regrade,
    }
    out = output or Path("report.html")
    if watch:
        if as_json:
            raise InputError("--watch writes the page again and again; leave out --json")
        _watch(reading.inputs, out, title, options)
    else:
        _write(Screen(as_json), reading.inputs, out, title, options)


def _write(
    screen: Screen, inputs: list[Path], output: Path, title: str | None, options: dict[str, Any]
) -> None:
    from rich.console import Console

    from ktae.report import write_report
    from ktae.rollouts.groups import has_mixed

    _require_page(inputs, output)
    started = time.perf_counter()
    with Console(stderr=True).status("reading and scoring"):
        dump = write_report(inputs, output, title=title, **options)
    note_reading(dump.tolerance, len(dump.rollouts))
    note_one_sided(dump)
    note_unit(dump)
    used = options["estimator"] or dump.estimator or preset("paper")
    if used.score_range is None and not has_mixed(dump.rollouts):
        note_unmixed(used)
    shown, n = dump.shown or (0, 0)
    if shown < n:
        note(f"{shown:,} of {n:,} groups are in the page; its numbers over groups are of all")
    seconds, size = time.perf_counter() - started, output.stat().st_size
    screen.console.print(
        f"{counted(len(dump.rollouts), 'rollout')} in {seconds:.1f} s; "
        f"wrote {output} ({size / 1e6:.1f} MB)",
        soft_wrap=True,
    )
    screen.end(
        {
            "rollouts": len(dump.rollouts),
            "groups": {"all": n, "shown": shown},
            "left_out": len(dump.tolerance.rejected),
            "unit": dump.unit,
            "seconds": seconds,
            "output": output,
            "bytes": size,
        }
    )


def _watch(inputs: list[Path], output: Path, title: str | None, options: dict[str, Any]) -> None:
    from ktae.report import write_report
    from ktae.report.watch import watch

    _require_page([], output)  # the inputs need not be there yet
    write = functools.partial(write_report, inputs, output, title=title, reloads=True, **options)
    typer.echo(f"watching {', '.join(printable(str(path)) for path in inputs)} (Ctrl-C ends it)")
    with contextlib.suppress(KeyboardInterrupt):
        for dump in watch(inputs, write):
            if isinstance(dump, InputError):
                note(str(dump))
            else:
                typer.echo(f"{counted(len(dump.rollouts), 'rollout')}; wrote {output}")
    typer.echo("\nstopped")


def _require_page(inputs: list[Path], output: Path) -> None:
    """Raise an InputError for an output that is no page, or one of the inputs."""
    require_outputs(inputs, ("--output", output))
    if output.suffix not in (".html", ".htm"):
        raise InputError(f"--output is {output}; expected a name that ends in .html")
