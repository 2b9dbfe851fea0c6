"""`ktae bench`: how long the estimator takes here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli.options import check_device, require_folder
from ktae.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from ktae.bench import Timing

DEFAULT = ["cpu", "torch", "triton", "copy", "verl grpo", "verl grpo_vectorized"]


def bench(
    contenders: Annotated[
        list[str] | None,
        typer.Argument(
            help="Backends, estimators, copy, 'torch sort', 'verl grpo', 'verl grpo_vectorized' "
            "[default: all but naive and the sort]."
        ),
    ] = None,
    groups: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="Groups of 16 rollouts; repeat it for several sizes [default: 1024]."
        ),
    ] = None,
    vocabulary: Annotated[int, typer.Option(min=1, help="Distinct token ids.")] = 151_643,
    dtype: Annotated[str, typer.Option(help="Of the token ids: int32 or int64.")] = "int32",
    repeats: Annotated[int, typer.Option(min=1, help="Timed rounds, after one of warm-up.")] = 7,
    device: Annotated[str, typer.Option(help="Of torch and its sort: cpu or cuda.")] = "cpu",
    csv: Annotated[
        Path | None, typer.Option(help="Append the results, with machine, versions and date.")
    ] = None,
) -> None:
    """Time the estimator on the paper's batch, beside verl's advantages and a memory copy."""
    from rich.console import Console

    from ktae import bench as benchmark
    from ktae.backends import BACKENDS

    names = contenders or DEFAULT
    known = [*BACKENDS, *DEFAULT, "torch sort", *benchmark.ESTIMATORS]
    for name in names:
        if name not in known:
            raise InputError(f"no contender {name!r}; expected {', '.join(dict.fromkeys(known))}")
    if dtype not in ("int32", "int64"):
        raise InputError(f"--dtype is {dtype!r}; expected int32 or int64")
    check_device(device)
    require_folder("--csv", csv)
    console = Console()
    for n_groups in groups or [1024]:
        batch = benchmark.random_batch(groups=n_groups, vocabulary=vocabulary, dtype=dtype)
        timings = benchmark.compare(batch, names, repeats=repeats, device=device)
        tokens = int(batch.mask.sum())
        title = f"{len(batch.groups):,} rollouts, {tokens:,} tokens, {dtype}"
        console.print(_table(title, timings))
        if csv is not None:
            benchmark.write_csv(csv, batch, timings, vocabulary=vocabulary)


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
