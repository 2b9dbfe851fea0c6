"""`ktae score`: rollouts in, token credit and the credit table out."""

from __future__ import annotations

import os
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli.options import (
    Correctness,
    EstimatorName,
    Fields,
    Inputs,
    MaxResponse,
    PoolModels,
    Settings,
    Threshold,
    check,
    estimator_of,
    fields_of,
    note_reading,
    note_single_tokens,
    require_folder,
)
from ktae.errors import InputError
from ktae.estimators import Estimator, preset
from ktae.files.text import printable, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ktae.report.scoring import Scores, Strongest

LEGEND = """\
right, wrong  rollouts of each kind with the token, out of those in its groups
impact        credit x |right rollouts with the token - their expected number|, over groups
credit        mean over groups in which the two differ (groups), weighted by that distance
p             exact, within groups; not corrected for picking among many tokens
"""


class Backend(StrEnum):
    """What scores rollouts that lie in files; the other backends are for tensors on a GPU."""

    AUTO = "auto"
    CPU = "cpu"
    NAIVE = "naive"


TokenizerName = Annotated[
    str | None,
    typer.Option(
        metavar="PATH_OR_NAME",
        help="Tokenizer folder or Hugging Face name. Needed where rollouts have no token_ids; "
        "shows tokens as text.",
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="One row a rollout; the credit table goes beside it, to *.tokens.parquet.",
    ),
]


def score(
    inputs: Inputs,
    tokenizer: TokenizerName = None,
    estimator: EstimatorName = None,
    settings: Settings = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModels = None,
    max_response: MaxResponse = None,
    output: Output = Path("scores.parquet"),
    top: Annotated[int, typer.Option(min=1, help="Tokens to show, for and against.")] = 10,
    groups: Annotated[
        int, typer.Option(min=0, help="Mixed groups to show, from the first on.")
    ] = 3,
    backend: Annotated[
        Backend, typer.Option(help="naive is the slow oracle; auto is cpu.")
    ] = Backend.AUTO,
) -> None:
    """Score rollouts: which tokens speak for a correct answer, and which against it."""
    from rich.console import Console

    from ktae.report import scoring
    from ktae.rollouts import readers, tokens
    from ktae.rollouts.tolerance import Tolerance

    check(tokenizer, threshold)
    fields = fields_of(field)
    chosen = estimator_of(estimator, settings) or preset("paper")
    tokens_out = _output_paths(output, inputs)
    console = Console(markup=False, emoji=False, highlight=False)
    started = time.perf_counter()
    with Console(stderr=True).status("reading"):
        found = Tolerance(strict=True)
        rollouts = readers.read(
            inputs,
            threshold=threshold,
            correctness=correctness,
            fields=fields,
            pool_models=pool_models,
            max_response=max_response,
            tolerance=found,
        )
        loaded = tokens.load_tokenizer(tokenizer) if tokenizer is not None else None
    note_reading(found, len(rollouts))
    with Console(stderr=True).status("scoring"):
        scores = scoring.score(rollouts, loaded, chosen, backend=backend.value)
        scoring.write(scores, output, tokens_out)
    _print_header(console, scores, time.perf_counter() - started)
    _warn(scores, chosen, tokenizer)
    note_single_tokens(chosen)
    _print_strongest(console, scores, top, groups)
    console.print(f"wrote {output} and {tokens_out}", soft_wrap=True)


def _output_paths(output: Path, inputs: list[Path]) -> Path:
    """Where the credit table goes; an InputError, before any work, if it cannot be written."""
    from ktae.rollouts.folders import rollout_files

    if output.suffix != ".parquet":
        raise InputError(f"--output {output}: expected a name that ends in .parquet")
    require_folder("--output", output)
    tokens_out = output.with_suffix(".tokens.parquet")
    read = [os.path.realpath(file) for path in inputs for file in rollout_files(path)]
    for path in (output, tokens_out):
        if os.path.realpath(path) in read:
            raise InputError(f"--output would overwrite {path}, which is one of the inputs")
    return tokens_out


def _print_header(console: Console, scores: Scores, seconds: float) -> None:
    import pyarrow.compute as pc

    groups = scores.groups
    kinds = {
        "mixed": sum(group.mixed for group in groups),
        "all right": sum(group.n_true > 0 and group.n_false == 0 for group in groups),
        "all wrong": sum(group.n_false > 0 and group.n_true == 0 for group in groups),
        "undecided": sum(group.n_true == group.n_false == 0 for group in groups),
    }
    split = ", ".join(f"{n:,} {kind}" for kind, n in kinds.items() if n or kind != "undecided")
    unknown = scores.record["correct"].null_count
    n_tokens = pc.sum(pc.list_value_length(scores.record["token_ids"])).as_py()
    console.print(
        f"{len(scores.record):,} rollouts"
        + (f" ({unknown:,} of unknown correctness)" if unknown else "")
        + f", {len(groups):,} groups ({split}), {n_tokens:,} tokens, {seconds:.1f} s",
        soft_wrap=True,
    )


def _warn(scores: Scores, estimator: Estimator, tokenizer: str | None) -> None:
    groups = scores.groups
    single = sum(group.rollouts == 1 for group in groups)
    if single:
        _warning(f"{single:,} of {len(groups):,} groups have one rollout; its credit is 0")
    if estimator.score_range is None and not any(group.mixed for group in groups):
        _warning("no group has both correct and incorrect rollouts, so all credit is 0")
    if tokenizer is not None and scores.tokens["token"].null_count:
        _warning(f"{tokenizer} does not know all token ids: did it make them?")


def _warning(text: str) -> None:
    typer.echo(f"ktae: warning: {text}", err=True)


def _print_strongest(console: Console, scores: Scores, top: int, n_groups: int) -> None:
    from ktae.report.scoring import strongest

    mixed = [group for group in scores.groups if group.mixed]
    if not mixed:
        return
    over_file = _table(console, f"Over the file: {len(mixed):,} mixed groups", with_groups=True)
    _fill(console, over_file, strongest(scores.tokens, top), with_groups=True)
    console.print(over_file)
    console.print(LEGEND, style="dim")
    for group in mixed[:n_groups]:
        step = "" if group.step is None else f", step {group.step}"
        table = _table(console, f"Group {group.label}{step}", with_groups=False)
        _fill(console, table, strongest(scores.tokens[group.rows], top), with_groups=False)
        console.print(table)


def _table(console: Console, title: str, *, with_groups: bool) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(_encodable(console, printable(title))),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("token", overflow="fold", max_width=24)
    for name in ("id", "impact", "credit", "right (a)", "wrong (b)", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    if with_groups:
        table.add_column("groups", justify="right")
    return table


def _fill(console: Console, table: Table, shown: Strongest, *, with_groups: bool) -> None:
    """Rows for the tokens in favour, a line, rows for those against."""
    from rich.text import Text

    for tokens in shown:
        for token in tokens:
            cells = (
                str(token.token_id),
                f"{token.impact:+.2f}",
                f"{token.credit:+.3f}",
                f"{token.a}/{token.n_true}",
                f"{token.b}/{token.n_false}",
                _p(token.p_value),
                *([str(token.groups)] if with_groups else []),
            )
            table.add_row(Text(_encodable(console, visible(token.token or ""))), *cells)
        table.add_section()


def _encodable(console: Console, text: str) -> str:
    return text.encode(console.encoding, "backslashreplace").decode(console.encoding)


def _p(p: float) -> str:
    from ktae.inference import P_VALUE_FLOOR

    if p <= P_VALUE_FLOOR:
        return f"<{P_VALUE_FLOOR:.0e}"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"
