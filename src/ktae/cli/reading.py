"""Rollouts that a command reads, and what it says on stderr about them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktae.cli.printing import note
from ktae.estimators import Estimator
from ktae.files.text import counted
from ktae.rollouts.options import ReadOptions
from ktae.tables import in_tables

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.tolerance import Tolerance


def load(inputs: Sequence[Path], options: ReadOptions, *, strict: bool = False) -> Dump:
    """The rollouts, at least one; what is noted about them is on stderr.

    Args:
        inputs: files and folders.
        options: how they are read.
        strict: whether the first row that cannot be used is an error.
    """
    from rich.console import Console

    from ktae.report import inputs as reader

    with Console(stderr=True).status("reading"):
        dump = reader.load(inputs, options, strict=strict)
        reader.require_rollouts(dump)
    note_dump(dump)
    return dump


def note_dump(dump: Dump) -> None:
    """Say on stderr what was read, and where rewards differ and none or all are above 0."""
    note_reading(dump.tolerance, len(dump.rollouts))
    rewards_b = dump.rollouts["reward"].to_numpy()
    if len(rewards_b) == dump.tolerance.by_reward > 1 and not dump.tolerance.fractional:
        low, high = rewards_b.min(), rewards_b.max()
        if low < high and not low <= 0 < high:
            side, verdict = ("every", "correct") if low > 0 else ("no", "incorrect")
            note(
                f"{side} reward is above 0 ({low:g} to {high:g}), so all rollouts are {verdict}; "
                "--threshold says which rewards mean correct"
            )


def note_unit(dump: Dump) -> None:
    """Say on stderr where words stand for tokens."""
    if dump.unit == "words":
        note("no --tokenizer: words are compared, not the policy's tokens")


def note_reading(tolerance: Tolerance, n: int) -> None:
    """Say on stderr what the files were read as, what was left out, and what seems to be missing.

    Args:
        tolerance: what the reader has noted.
        n: how many rollouts were read.
    """
    if tolerance.schemas:
        note(tolerance.read_as())
    for name in tolerance.taken:
        note(f"of several rewards {name!r} says what is correct (--correctness takes another)")
    for text in (
        tolerance.files_left_alone(),
        *tolerance.files_of_runs(),
        tolerance.steps_counted_once(),
        tolerance.rows_without_rollouts(),
        *(f"left out: {x}" for x in tolerance.rejected[:3]),
        (more := len(tolerance.rejected) - 3) > 0 and f"and {counted(more, 'more row')}",
    ):
        if text:
            note(text)
    for number, text in (
        (
            tolerance.models,
            "models are pooled; --by-model tells them apart"
            if tolerance.pooled
            else "models are told apart: a group is a problem of one; --pool-models pools them",
        ),
        (tolerance.repeated, "rows are left out: other filters of the same responses"),
        (
            tolerance.split,
            "rows have another input than the first of their group; each input is a group of its "
            "own (--field group=group compares them)",
        ),
        (
            tolerance.fractional,
            "rewards are between 0 and 1; where verdicts count, all of these are correct "
            "(--threshold 0.5 asks for more; 0 says that this is meant)",
        ),
        (
            tolerance.alone,
            "rows have neither group nor prompt; each is a group of its own, so nothing is "
            "compared with it",
        ),
    ):
        if number:
            note(f"{number:,} {text}")
    if tolerance.hint and n in (tolerance.without_reward, tolerance.alone):
        what = "reward" if n == tolerance.without_reward else "group"
        note(f"no rollout has a {what}; perhaps: {shlex.join(tolerance.hint)}")


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
