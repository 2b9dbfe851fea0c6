"""What the commands that read rollouts have in common: their options, and how they start."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktae import estimators
from ktae.cli.options import spooled
from ktae.cli.printing import note
from ktae.errors import InputError
from ktae.files.hub import check_local_or_hub
from ktae.rollouts import EXAMPLE
from ktae.rollouts.options import ReadOptions

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.notes import Notes


@dataclasses.dataclass(frozen=True)
class Rows:
    """The options that say how rows are read."""

    tokenizer: str | None = None
    field: list[str] | None = None
    rows: str | None = None
    group_by: list[str] | None = None
    pool_models: bool = False
    join: bool = False

    @property
    def how(self) -> ReadOptions:
        """The same as the readers take it.

        Raises:
            InputError: there can be no such tokenizer, or a field or threshold makes no sense.
        """
        from ktae.rollouts.paths import parse_fields

        if self.tokenizer is not None:
            check_local_or_hub("tokenizer", self.tokenizer)
        fields = parse_fields(self.field or [])
        if self.group_by and "group" in fields:
            raise InputError("both --group-by and --field group=PATH; expected one")
        same = {x.name for x in dataclasses.fields(ReadOptions)} - {"fields", "group_by"}
        values = {name: value for name, value in vars(self).items() if name in same}
        return ReadOptions(fields=fields, group_by=tuple(self.group_by or ()), **values)


@dataclasses.dataclass(frozen=True)
class OutputOptions(Rows):
    """The options that say how saved outputs are read."""

    partial: bool = False

    def read(
        self, paths: Sequence[Path], notes: Notes, benchmarks: Sequence[str] | None = None
    ) -> list[Any]:
        """What `ktae.experiments.outputs.read` gives of each."""
        from ktae.experiments.outputs import read

        more: dict[str, Any] = {"partial": self.partial, "benchmarks": benchmarks}
        return [read(spooled(path), self.how, notes=notes, **more) for path in paths]


@dataclasses.dataclass(frozen=True)
class Inputs(Rows):
    """The options of a command that reads rollouts.

    Raises:
        InputError: there are both inputs and the example, or neither.
    """

    inputs: list[Path] | None = None
    example: bool = False
    threshold: float | None = None
    correctness: str | None = None
    as_json: bool = False

    def __post_init__(self) -> None:
        if bool(self.inputs) == self.example:
            both = "INPUT and --example" if self.inputs else "neither INPUT nor --example"
            raise InputError(f"{both}; expected files and folders with rollouts, or the example")

    @property
    def paths(self) -> list[Path]:
        """The files and folders."""
        return [*map(spooled, self.inputs or [EXAMPLE])]

    def load(self, *, strict: bool = False) -> Dump:
        """The rollouts, at least one; what is noted about them is on stderr.

        With `strict` the first row that cannot be used is an error.
        """
        from ktae.cli.progress import working
        from ktae.report import inputs as reader

        with working("reading", self.paths):
            dump = reader.load(self.paths, self.how, strict=strict)
        note_reading(dump.notes)
        return dump


@dataclasses.dataclass(frozen=True)
class Reading(Inputs):
    """The options of a command that scores rollouts with one estimator."""

    estimator: str | None = None

    def asked(self) -> estimators.Estimator | None:
        """The estimator that was asked for; None where none was.

        Raises:
            InputError: there is no such estimator, or it needs what no dump holds.
        """
        if self.estimator is None:
            return None
        estimator = named(self.estimator)
        if estimator.needs_policy:
            raise InputError(
                f"--estimator {self.estimator} needs log-probabilities or entropies of tokens, "
                "which no dump holds; in Python, ktae.token_credit takes them"
            )
        return estimator


def named(text: str) -> estimators.Estimator:
    """The estimator of a name, a recipe's section or an import path, whose code is run."""
    from ktae.files.typed import parse_yaml

    is_name = text in estimators.PRESETS or text in estimators.KINDS
    section = text if is_name else parse_yaml(text, f"--estimator {text}")
    return estimators.resolved(estimators.from_section(section))


def note_reading(notes: Notes) -> None:
    """Say on stderr what the files were read as, what was left out, joined and assumed."""
    for line in notes:
        note(line.text + (f". {line.more}" if line.more else ""))
