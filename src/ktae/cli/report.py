"""`ktae report`: rollouts in, one HTML file out."""

from __future__ import annotations

import contextlib
import os
import sys
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
from ktae.files.text import counted, path_text, printable


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
            "--watch", help="Serve the page on this machine, and follow one run as it is trained."
        ),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --watch, listen on another address [default: 127.0.0.1].",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="N",
            help="With --watch, listen on this port [default: 8642 or, if it is in use, a free "
            "one].",
        ),
    ] = None,
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
    if watch:
        if output is not None:
            raise InputError(f"--watch serves the page and writes no file; leave out {output}")
        if as_json:
            raise InputError("--watch serves the page and prints no numbers; leave out --json")
        _watch(reading.inputs, title, host, port, options)
    elif host is not None or port is not None:
        raise InputError("--host and --port belong to --watch, which is not given")
    else:
        _write(Screen(as_json), reading.inputs, output or Path("report.html"), title, options)


def _write(
    screen: Screen, inputs: list[Path], output: Path, title: str | None, options: dict[str, Any]
) -> None:
    from rich.console import Console

    from ktae.report import write_report
    from ktae.rollouts.groups import has_mixed

    require_outputs(inputs, ("--output", output))
    if output.suffix not in (".html", ".htm"):
        raise InputError(f"--output is {output}; expected a name that ends in .html")
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


def _watch(
    inputs: list[Path],
    title: str | None,
    host: str | None,
    port: int | None,
    options: dict[str, Any],
) -> None:
    from ktae.report.following import Following
    from ktae.report.watch import HOST, serving

    if len(inputs) != 1:
        raise InputError(f"--watch follows one run; {len(inputs)} inputs are given")
    folder = inputs[0]
    if folder.is_file():
        raise InputError(f"--watch follows a folder with a file for each step; {folder} is a file")
    following = Following(folder, **options)
    name = title or f"ktae: {path_text(folder.resolve().name)}"
    with serving(following, name, host=host or HOST, port=port) as server:
        if not folder.is_dir():
            note(f"{folder} does not exist yet; waiting for it")
        if host not in (None, HOST, "localhost", "::1"):
            note("whoever can reach that address can read the rollouts")
        typer.echo(f"watching {printable(str(folder))} at {server.url} (Ctrl-C ends it)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    typer.echo("\nstopped")
    if server.thread is not None and server.thread.is_alive():
        # It compiles, which nothing stops. A process that ends in order would wait for it.
        sys.stdout.flush()
        os._exit(0)
