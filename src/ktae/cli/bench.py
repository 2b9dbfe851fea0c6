"""`ktae bench`: how long the estimator takes here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.options import DEVICES, check_device, one_of, require_folder
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from ktae.bench import Timing

DTYPES = ("int32", "int64")
DEFAULT = ["cpu", "torch", "triton", "copy", "verl grpo", "verl grpo_vectorized"]


def bench(
    contenders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CONTENDER",
            help="What is timed: backends, estimators, copy, 'torch sort', 'verl grpo', 'verl "
            "grpo_vectorized' [default: all backends but naive and numpy, copy, and verl's].",
        ),
    ] = None,
    groups: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Take so many groups of 16 rollouts. Can be given several times, for several "
            "sizes [default: 1024].",
        ),
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=1, metavar="N", help="Take so many distinct token ids.")
    ] = 151_643,
    dtype: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of(DTYPES),
            help="Hold token ids as this type: int32 or int64.",
        ),
    ] = "int32",
    repeats: Annotated[
        int, typer.Option(min=1, metavar="N", help="Time so many rounds, after one of warm-up.")
    ] = 7,
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of(DEVICES),
            help="Run torch and its sort on this device: cpu or cuda.",
        ),
    ] = "cpu",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Append the results, with machine, versions and date, to this CSV file.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Time the estimator on the paper's batch, beside verl's advantages and a memory copy."""
    from ktae import bench as benchmark
    from ktae.backends import BACKENDS

    names = contenders or DEFAULT
    known = [*BACKENDS, *DEFAULT, "torch sort", *benchmark.ESTIMATORS]
    for name in names:
        if name not in known:
            raise InputError(f"no contender {name!r}; expected {', '.join(dict.fromkeys(known))}")
    if dtype not in DTYPES:
        raise InputError(f"--dtype is {dtype!r}; expected int32 or int64")
    check_device(device)
    require_folder("--output", output)
    screen = Screen(as_json)
    found = []
    for n_groups in groups or [1024]:
        batch = benchmark.random_batch(groups=n_groups, vocabulary=vocabulary, dtype=dtype)
        timings = benchmark.compare(batch, names, repeats=repeats, device=device)
        tokens = int(batch.mask.sum())
        title = f"{len(batch.groups):,} rollouts, {tokens:,} tokens, {dtype}"
        screen.console.print(_table(title, timings))
        if output is not None:
            benchmark.write_csv(output, batch, timings, vocabulary=vocabulary)
        of_batch = {"rollouts": len(batch.groups), "tokens": tokens, "dtype": dtype}
        found.append(of_batch | {"timings": [_as_dict(timing) for timing in timings]})
    screen.end(found)


def _as_dict(timing: Timing) -> dict[str, Any]:
    seconds = timing.quantiles if timing.seconds else (None, None, None)
    return (
        {"name": timing.name, "device": timing.device, "threads": timing.threads}
        | dict(zip(("p20_s", "median_s", "p80_s"), seconds, strict=True))
        | {"repeats": len(timing.seconds), "note": timing.note}
    )


def _table(title: str, timings: Sequence[Timing]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for column in ("", "median ms", "20 % to 80 %", "of copy", ""):
        table.add_column(column, justify="left" if not column else "right")
    copy = next((t.quantiles[1] for t in timings if t.name == "copy" and t.seconds), None)
    for timing in timings:
        table.add_row(timing.name, *_cells(timing, copy), timing.note)
    return table


def _cells(timing: Timing, copy: float | None) -> tuple[str, str, str]:
    if not timing.seconds:
        return "not measured", "", ""
    low, median, high = (1000 * x for x in timing.quantiles)
    # The copy is the CPU's: what another device takes cannot be measured by it.
    ratio = f"{median / 1000 / copy:.1f}×" if copy and timing.device == "cpu" else ""
    return f"{median:.1f}", f"{low:.1f} to {high:.1f}", ratio
