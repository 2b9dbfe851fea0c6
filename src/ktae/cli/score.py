"""`ktae score`: rollouts in, token credit and the credit table out."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    note_single_tokens,
    note_unit,
    note_unmixed,
    reads_rollouts,
)
from ktae.errors import InputError
from ktae.estimators import Estimator, preset
from ktae.files.text import counted, printable, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ktae.report.inputs import Dump
    from ktae.report.scoring import Scores, Strongest

LEGEND = """\
right, wrong  rollouts of each kind with the token, out of those in its groups
impact        credit x |right rollouts with the token - their expected number|, over groups
credit        mean over groups in which the two differ (groups), weighted by that distance
p             exact, within groups, identical rollouts once; not corrected for picking tokens
"""
OF_SINGLE = """\
*             what a single token would get; the files' column credit is the estimator's own
"""


class Backend(StrEnum):
    """What scores rollouts that lie in files; the other backends are for tensors on a GPU."""

    AUTO = "auto"
    CPU = "cpu"
    NAIVE = "naive"


Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write one row a rollout to this Parquet file, and the credit table beside it, to "
        "*.tokens.parquet.",
    ),
]


@reads_rollouts
def score(
    reading: Reading,
    estimator: EstimatorName = None,
    settings: Settings = None,
    output: Output = Path("scores.parquet"),
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Show so many tokens for, and so many against.")
    ] = 10,
    groups: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show so many mixed groups, from the first on.")
    ] = 3,
    backend: Annotated[
        Backend,
        typer.Option(
            metavar="NAME", help="Compute with auto, cpu (the same) or naive (slow, the reference)."
        ),
    ] = Backend.AUTO,
    as_json: AsJson = False,
) -> None:
    """Score rollouts: which tokens speak for a correct answer, and which against it."""
    from rich.console import Console

    from ktae.report import scoring
    from ktae.report.inputs import own_tokenizer
    from ktae.rollouts import tokens

    asked = estimator_of(estimator, settings, reading.inputs)
    tokens_out = _output_paths(output, reading.inputs)
    screen = Screen(as_json)
    started = time.perf_counter()
    named = reading.tokenizer or own_tokenizer(reading.inputs)
    loaded = tokens.load_tokenizer(str(named)) if named else None
    dump = reading.load(tokenizer=loaded, strict=True)
    chosen = asked or dump.estimator or preset("paper")
    words = _words(dump)
    with Console(stderr=True).status("scoring"):
        scores = scoring.score(dump.rollouts, loaded, chosen, backend=backend.value, words=words)
        scoring.write(scores, output, tokens_out)
    seconds = time.perf_counter() - started
    counts = _counts(scores)
    _print_header(screen.console, counts, dump.unit, seconds)
    _warn(scores, chosen, named)
    note_unit(dump)
    note_single_tokens(chosen)
    _print_strongest(screen.console, scores, top, groups, own=chosen.in_tables() == chosen)
    screen.console.print(f"wrote {output} and {tokens_out}", soft_wrap=True)
    screen.end(
        counts
        | {"unit": dump.unit, "estimator": scoring.described(chosen), "seconds": seconds}
        | {"output": {"rollouts": output, "tokens": tokens_out}}
        | _strongest_as_dict(scores, top, groups)
    )


def _output_paths(output: Path, inputs: list[Path]) -> Path:
    """Where the credit table goes; an InputError, before any work, if it cannot be written."""
    if output.suffix != ".parquet":
        raise InputError(f"--output {output}: expected a name that ends in .parquet")
    tokens_out = output.with_suffix(".tokens.parquet")
    require_outputs(inputs, ("--output", output), ("--output", tokens_out))
    return tokens_out


def _words(dump: Dump) -> dict[int, str] | None:
    """The words, by number, where there is no tokenizer.

    Raises:
        InputError: some rollouts have only text, others only token ids.
    """
    if dump.unit != "words":
        return None
    if without := dump.rollouts["response"].null_count:
        raise InputError(
            f"{without:,} of {len(dump.rollouts):,} rollouts have token_ids and no response, and "
            "others a response and no token_ids; expected one of the two everywhere, or --tokenizer"
        )
    texts = (text.decode() for text in dump.texts if text is not None)
    return dict(zip(dump.token_ids.tolist(), texts, strict=True))


def _counts(scores: Scores) -> dict[str, Any]:
    import pyarrow.compute as pc

    groups = scores.groups
    return {
        "rollouts": len(scores.record),
        "unknown_correctness": scores.record["correct"].null_count,
        "groups": {
            "all": len(groups),
            "mixed": sum(group.mixed for group in groups),
            "all_right": sum(group.n_true > 0 and group.n_false == 0 for group in groups),
            "all_wrong": sum(group.n_false > 0 and group.n_true == 0 for group in groups),
            "undecided": sum(group.n_true == group.n_false == 0 for group in groups),
        },
        "tokens": pc.sum(pc.list_value_length(scores.record["token_ids"])).as_py(),
    }


def _print_header(console: Console, counts: dict[str, Any], unit: str, seconds: float) -> None:
    groups, unknown = counts["groups"], counts["unknown_correctness"]
    what = "words" if unit == "words" else "tokens"
    split = ", ".join(
        f"{n:,} {kind.replace('_', ' ')}"
        for kind, n in groups.items()
        if kind != "all" and (n or kind != "undecided")
    )
    console.print(
        counted(counts["rollouts"], "rollout")
        + (f" ({unknown:,} of unknown correctness)" if unknown else "")
        + f", {counted(groups['all'], 'group')} ({split}), "
        f"{counts['tokens']:,} {what}, {seconds:.1f} s",
        soft_wrap=True,
    )


def _strongest_as_dict(scores: Scores, top: int, n_groups: int) -> dict[str, Any]:
    from ktae.report.scoring import strongest

    mixed = [group for group in scores.groups if group.mixed]
    return {
        "strongest": strongest(scores.tokens, top),
        "by_group": [
            {"group": group.label, "step": group.step}
            | strongest(scores.tokens[group.rows], top)._asdict()
            for group in mixed[:n_groups]
        ],
    }


def _warn(scores: Scores, estimator: Estimator, tokenizer: object) -> None:
    groups = scores.groups
    single = sum(group.rollouts == 1 for group in groups)
    if single:
        _warning(f"{single:,} of {counted(len(groups), 'group')} have one rollout; its credit is 0")
    if not any(group.mixed for group in groups):
        note_unmixed(estimator)
    if tokenizer and scores.tokens["token"].null_count:
        _warning(f"{tokenizer} does not know all token ids: did it make them?")


def _warning(text: str) -> None:
    note(f"warning: {text}")


def _print_strongest(
    console: Console, scores: Scores, top: int, n_groups: int, *, own: bool
) -> None:
    """Tables of single tokens; `own`: their credit is the estimator's."""
    from ktae.report.scoring import strongest

    mixed = [group for group in scores.groups if group.mixed]
    if not mixed:
        return
    title = f"Over the file: {counted(len(mixed), 'mixed group')}"
    over_file = _table(console, title, with_groups=True, own=own)
    _fill(console, over_file, strongest(scores.tokens, top), with_groups=True)
    console.print(over_file)
    console.print(LEGEND + ("" if own else OF_SINGLE), style="dim", soft_wrap=True)
    for group in mixed[:n_groups]:
        step = "" if group.step is None else f", step {group.step}"
        table = _table(console, f"Group {group.label}{step}", with_groups=False, own=own)
        _fill(console, table, strongest(scores.tokens[group.rows], top), with_groups=False)
        console.print(table)


def _table(console: Console, title: str, *, with_groups: bool, own: bool) -> Table:
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
    for name in ("id", "impact", "credit" if own else "credit*", "right (a)", "wrong (b)", "p"):
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
