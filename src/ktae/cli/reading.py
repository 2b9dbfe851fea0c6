"""Rollouts that a command reads, and what it says on stderr about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktae.cli.printing import note
from ktae.estimators import Estimator
from ktae.rollouts.options import ReadOptions
from ktae.tables import in_tables

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.notes import Notes


def load(inputs: Sequence[Path], options: ReadOptions, *, strict: bool = False) -> Dump:
    """The rollouts, at least one; what is noted about them is on stderr.

    Args:
        inputs: files and folders.
        options: how they are read.
        strict: whether the first row that cannot be used is an error.
    """
    from ktae.cli.progress import working
    from ktae.report import inputs as reader

    with working("reading"):
        dump = reader.load(inputs, options, strict=strict)
        reader.require_rollouts(dump)
    note_reading(dump.notes)
    return dump


def note_reading(notes: Notes) -> None:
    """Say on stderr what the files were read as, what was left out, joined and assumed."""
    for line in notes:
        note(line.text + (f"; {line.more[:1].lower()}{line.more[1:]}" if line.more else ""))


def note_unmixed(estimator: Estimator) -> None:
    """Say on stderr that no group has both verdicts, and what that means for credit."""
    unmixed = "no group has both correct and incorrect rollouts"
    if estimator.score_range is None:
        note(f"warning: {unmixed}, so all credit is 0")
    else:
        note(f"{unmixed}: no table compares verdicts; credit by graded rewards is in the file")


def note_single_tokens(estimator: Estimator) -> None:
    """Say on stderr that a table of single tokens does not show the whole of the estimator."""
    shown = in_tables(estimator)
    if shown is None:
        note("tables are of the paper's statistic; this estimator's own credit is in none")
    elif estimator != shown:
        note(
            "tables are of single tokens and verdicts; this estimator's own credit is of larger "
            "units, of places or of scores"
        )
