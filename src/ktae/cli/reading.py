"""Rollouts that a command reads, and what it says on stderr about them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ktae.cli.options import fields_of
from ktae.estimators import Estimator
from ktae.files.text import printable

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.tolerance import Tolerance


def load_dump(
    inputs: Sequence[Path],
    tokenizer: Any,
    *,
    threshold: float,
    correctness: str | None,
    field: Sequence[str] | None,
    pool_models: bool | None,
    max_response: int | None,
    strict: bool = False,
) -> Dump:
    """The rollouts that the options of a command name, at least one; what is noted is on stderr.

    `strict` refuses a row that cannot be used, and makes up for nothing that a row lacks.
    """
    from rich.console import Console

    from ktae.report import inputs as reading

    with Console(stderr=True).status("reading"):
        dump = reading.load(
            inputs,
            tokenizer,
            threshold=threshold,
            correctness=correctness,
            fields=fields_of(field),
            pool_models=pool_models,
            max_response=max_response,
            strict=strict,
        )
        reading.require_rollouts(dump)
    note_reading(dump.tolerance, len(dump.rollouts))
    return dump


def note_unit(dump: Dump) -> None:
    """Say on stderr where words stand for tokens."""
    if dump.unit == "words":
        note("no --tokenizer: words are compared, not the policy's tokens")


def again_with(options: Sequence[str], program: str = "ktae") -> str:
    """The command line that is running, with further options."""
    return shlex.join([program, *sys.argv[1:], *options])


def note_reading(found: Tolerance, n: int) -> None:
    """Say on stderr what the files were read as, what was left out, and what seems to be missing.

    Args:
        found: what the reader has noted.
        n: how many rollouts were read.
    """
    if found.schemas:
        note(found.read_as())
    if found.left_alone:
        note(found.files_left_alone())
    if found.models:
        how = "are pooled; --by-model tells them" if found.pooled else "are told"
        other = "" if found.pooled else ": a group is a problem of one; --pool-models pools them"
        note(f"{found.models:,} models {how} apart{other}")
    if found.repeated:
        note(f"{found.repeated:,} rows left out: other filters of the same responses")
    for message in found.rejected[:3]:
        note(f"left out: {message}")
    if len(found.rejected) > 3:
        note(f"and {len(found.rejected) - 3:,} more rows")
    if found.hint and n in (found.without_reward, found.alone):
        what = "reward" if n == found.without_reward else "group"
        note(f"no rollout has a {what}; perhaps: {again_with(found.hint)}")


def note(text: str) -> None:
    """Say something on stderr; it may quote a file."""
    typer.echo(f"ktae: {printable(text)}", err=True)


def note_single_tokens(estimator: Estimator) -> None:
    """Say on stderr that a table of single tokens does not show the whole of the estimator."""
    shown = estimator.in_tables()
    if shown is None:
        what = "tables show the paper's statistic of single tokens"
        note(f"{what}; the credit is {estimator}'s, which has none")
    elif estimator != shown:
        note(f"single tokens and verdicts are shown; the estimator is {estimator}")
