"""Rollouts that a command reads, and what it says on stderr about them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ktae.cli.options import (
    Correctness,
    Fields,
    Inputs,
    MaxResponse,
    PoolModels,
    Threshold,
    TokenizerName,
    fields_of,
)
from ktae.estimators import Estimator
from ktae.files.hub import check_local_or_hub
from ktae.files.text import counted, printable
from ktae.rollouts.options import MAX_RESPONSE, ReadOptions

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.tolerance import Tolerance


@dataclasses.dataclass(frozen=True)
class Reading:
    """What is read and how: the arguments and options that commands over rollouts share."""

    inputs: Inputs
    tokenizer: TokenizerName = None
    threshold: Threshold = None
    correctness: Correctness = None
    field: Fields = None
    pool_models: PoolModels = None
    max_response: MaxResponse = None

    def __post_init__(self) -> None:
        """Raise an InputError for options that cannot be meant."""
        if self.tokenizer is not None:
            check_local_or_hub("tokenizer", self.tokenizer)

    def options(self) -> ReadOptions:
        """What the command line says about reading."""
        return ReadOptions(
            tokenizer=self.tokenizer,
            threshold=self.threshold,
            correctness=self.correctness,
            fields=fields_of(self.field),
            pool_models=self.pool_models,
            max_response=self.max_response or MAX_RESPONSE,
        )

    def load(self, tokenizer: Any = None, *, strict: bool = False) -> Dump:
        """The rollouts, at least one; what is noted about them is on stderr.

        Args:
            tokenizer: the one of the command line, where it is loaded already.
            strict: whether the first row that cannot be used is an error.
        """
        from rich.console import Console

        from ktae.report import inputs as reading

        options = self.options()
        if tokenizer is not None:
            options = dataclasses.replace(options, tokenizer=tokenizer)
        with Console(stderr=True).status("reading"):
            dump = reading.load(self.inputs, options, strict=strict)
            reading.require_rollouts(dump)
        note_reading(dump.tolerance, len(dump.rollouts))
        note_one_sided(dump)
        return dump


def reads_rollouts(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments and options of `Reading` in place of its first parameter."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(Reading, eval_str=True).parameters
    parameters = [*shared.values(), *list(own.parameters.values())[1:]]

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        command(Reading(**{name: given.pop(name) for name in shared}), **given)

    expanded.__dict__["__signature__"] = own.replace(parameters=parameters)
    expanded.__annotations__ = {one.name: one.annotation for one in parameters}
    return expanded


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
    for name in found.taken:
        note(f"of several rewards {name!r} says what is correct (--correctness takes another)")
    if found.left_alone:
        note(found.files_left_alone())
    for message in found.files_of_runs():
        note(message)
    if found.models:
        how = "are pooled; --by-model tells them" if found.pooled else "are told"
        other = "" if found.pooled else ": a group is a problem of one; --pool-models pools them"
        note(f"{found.models:,} models {how} apart{other}")
    if found.repeated:
        note(f"{counted(found.repeated, 'row')} left out: other filters of the same responses")
    if found.split:
        note(
            f"rows with another input than the first of their group: {found.split:,}; each input "
            "is a group of its own (--field group=group compares them)"
        )
    if found.repeated_steps:
        note(found.steps_counted_once())
    if found.empty:
        note(found.rows_without_rollouts())
    for message in found.rejected[:3]:
        note(f"left out: {message}")
    if len(found.rejected) > 3:
        note(f"and {counted(len(found.rejected) - 3, 'more row')}")
    if found.fractional:
        note(
            f"rewards between 0 and 1: {found.fractional:,}; where verdicts count, all of these "
            "are correct (--threshold 0.5 asks for more; 0 says that this is meant)"
        )
    if found.alone:
        note(
            f"rows with neither group nor prompt: {found.alone:,}; each is a group of its own, so "
            "nothing is compared with it"
        )
    if found.hint and n in (found.without_reward, found.alone):
        what = "reward" if n == found.without_reward else "group"
        note(f"no rollout has a {what}; perhaps: {again_with(found.hint)}")


def note_one_sided(dump: Dump) -> None:
    """Say on stderr where rewards differ, and none or all of them are above 0."""
    rewards_b = dump.rollouts["reward"].to_numpy()
    if not len(rewards_b) == dump.tolerance.by_reward > 1:
        return
    low, high = rewards_b.min(), rewards_b.max()
    if low < high and not low <= 0 < high and not dump.tolerance.fractional:
        side, verdict = ("every", "correct") if low > 0 else ("no", "incorrect")
        note(
            f"{side} reward is above 0 ({low:g} to {high:g}), so all rollouts are {verdict}; "
            "--threshold says which rewards mean correct"
        )


def note(text: str) -> None:
    """Say something on stderr; it may quote a file."""
    typer.echo(f"ktae: {printable(text)}", err=True)


def note_unmixed(estimator: Estimator) -> None:
    """Say on stderr that no group has both verdicts, and what that means for credit."""
    found = "no group has both correct and incorrect rollouts"
    if estimator.score_range is None:
        note(f"warning: {found}, so all credit is 0")
    else:
        note(f"{found}: no table compares verdicts; credit by graded rewards is in the file")


def note_single_tokens(estimator: Estimator) -> None:
    """Say on stderr that a table of single tokens does not show the whole of the estimator."""
    shown = estimator.in_tables()
    if shown is None:
        note("tables are of the paper's statistic; this estimator's own credit is in none")
    elif estimator != shown:
        note(
            "tables are of single tokens and verdicts; this estimator's own credit is of larger "
            "units, of places or of scores"
        )
