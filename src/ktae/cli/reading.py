"""What the commands that read rollouts have in common: their options, and how they start."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae import estimators
from ktae.cli.options import rare
from ktae.cli.printing import AsJson, note
from ktae.errors import InputError
from ktae.files.hub import check_local_or_hub
from ktae.files.inputs import spooled
from ktae.files.text import path_text
from ktae.rollouts import EXAMPLE
from ktae.rollouts.options import ReadOptions
from ktae.tables import in_tables

if TYPE_CHECKING:
    from ktae.report.inputs import Dump
    from ktae.rollouts.notes import Notes

NAMES = estimators.PRESETS | estimators.KINDS
FIELD = "Where a field is in a row, such as reward=scores.acc. Can be given several times."
ROWS = "Where the rows are in a container, such as results[].samples[] or eval.*[]; fields are"
GROUP_BY = "What tells groups apart, such as task_id; given several times, all of them."
THRESHOLD = "A rollout without a verdict is correct if its reward is above this [default: 0]."
CORRECTNESS = "Of several rewards or metrics the one that says what is correct."
POOL = "Compare several models as one; without it, each has groups of its own."
JOIN = "Take files together: a group may span them, such as files of seeds."
INPUT = (
    "Files or folders with rollouts: run folders of ktae train; dumps of TRL, verl, OpenRLHF, "
    "slime, NeMo-RL, verifiers, lm-evaluation-harness or lighteval; any .jsonl, .json, .csv, "
    ".eval or .parquet file (also .gz); - is standard input."
)
ESTIMATOR = (
    f"What computes credit: {', '.join(NAMES)}, a recipe's section such as "
    "'{estimator: ktae, h3: 0}', or your own as MODULE:NAME or FILE.py:NAME [default: what "
    "held-out pairs advise, else backoff; in permutation-test paper]."
)
SETTINGS = (
    "One of the estimator's settings, such as h3=0, or what wraps it, such as "
    "'transforms=[centred, {scaled: 2}]'. Can be given several times."
)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The options that say how rows are read."""

    field: Annotated[list[str] | None, rare("--field", "-f", metavar="NAME=PATH", help=FIELD)] = (
        None
    )
    rows: Annotated[
        str | None,
        rare(metavar="PATH", help=f"{ROWS} relative to a row [default: they are looked for]."),
    ] = None
    group_by: Annotated[list[str] | None, rare(metavar="PATH", help=GROUP_BY)] = None
    threshold: Annotated[float | None, rare(help=THRESHOLD)] = None
    correctness: Annotated[str | None, rare(help=CORRECTNESS)] = None
    pool_models: Annotated[bool, rare("--pool-models", help=POOL)] = False
    join: Annotated[bool, rare("--join", help=JOIN)] = False

    @property
    def how(self) -> ReadOptions:
        """The same as the readers take it.

        Raises:
            InputError: there can be no such tokenizer, or a field or threshold makes no sense.
        """
        from ktae.rollouts.paths import parse_fields

        names = {x.name for x in dataclasses.fields(ReadOptions)} - {"fields", "group_by"}
        values = {name: value for name, value in vars(self).items() if name in names}
        if values["tokenizer"] is not None:
            check_local_or_hub("tokenizer", values["tokenizer"])
        fields = parse_fields(self.field or [])
        if self.group_by and "group" in fields:
            raise InputError("both --group-by and --field group=PATH; expected one")
        return ReadOptions(fields=fields, group_by=tuple(self.group_by or ()), **values)


@dataclasses.dataclass(frozen=True)
class Saved(Rows):
    """The options that say how saved outputs are read."""

    tokenizer: Annotated[
        str | None, rare(help="Counts the lengths that saved outputs do not hold.")
    ] = None
    partial: Annotated[
        bool,
        rare("--partial", help="Saved problems may be missing; those that all have are compared."),
    ] = False

    def read(
        self, paths: Sequence[Path], notes: Notes, benchmarks: Sequence[str] | None = None
    ) -> list[Any]:
        """What `ktae.experiments.outputs.read` gives of each."""
        from ktae.experiments.outputs import evaluations_in, read
        from ktae.rollouts.folders import choose_files

        paths = [*map(spooled, paths)]
        files = [x for y in paths for x in evaluations_in(y) or choose_files(y)[0]]
        for file, n in Counter(map(os.path.realpath, files)).items():
            if n > 1:
                notes.add("overlap", path_text(Path(file).name))
        more: dict[str, Any] = {"partial": self.partial, "benchmarks": benchmarks}
        return [read(path, self.how, notes=notes, **more) for path in paths]


@dataclasses.dataclass(frozen=True)
class Reading(Rows):
    """The options of a command that reads rollouts, and what they come to.

    Raises:
        InputError: there are both inputs and the example, or neither.
    """

    inputs: Annotated[list[Path] | None, typer.Argument(metavar="INPUT", help=INPUT)] = None
    example: Annotated[
        bool,
        typer.Option("--example", help="Take rollouts of a small model, which come with ktae."),
    ] = False
    estimator: Annotated[
        str | None, typer.Option("--estimator", "-e", metavar="NAME", help=ESTIMATOR)
    ] = None
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help=SETTINGS)
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(help="A tokenizer's folder or hub name [default: the run's, or else words]."),
    ] = None
    as_json: AsJson = False

    def __post_init__(self) -> None:
        if bool(self.inputs) == self.example:
            both = "INPUT and --example" if self.inputs else "neither INPUT nor --example"
            raise InputError(f"{both}; expected files and folders with rollouts, or the example")

    def flags(self) -> list[str]:
        """The options that say how rows are read, for a command that reads the same."""
        flags: list[str] = []
        for name in (*(field.name for field in dataclasses.fields(Rows)), "tokenizer"):
            value, flag = getattr(self, name), f"--{name.replace('_', '-')}"
            if value is True:
                flags.append(flag)
            elif value is not None and value is not False:  # a threshold of 0 is one
                for x in value if isinstance(value, list) else [value]:
                    flags += [flag, str(x)]
        return flags

    @property
    def paths(self) -> list[Path]:
        """The files and folders."""
        return [*map(spooled, self.inputs or [EXAMPLE])]

    def asked(self) -> estimators.Estimator | None:
        """The estimator that was asked for; None where none was.

        Settings without a name replace those of the default estimator.

        Raises:
            InputError: there is no such estimator, or it needs what no dump holds.
        """
        from ktae.credit import POLICY

        if self.estimator is None:
            return with_settings(estimators.DEFAULT, self.settings) if self.settings else None
        # The user has named it.
        estimator = estimators.resolved(with_settings(self.estimator, self.settings))
        if estimator.needs_policy:
            needs = " and the ".join(POLICY[need] for need in sorted(estimator.needs_policy))
            raise InputError(
                f"--estimator {self.estimator} needs the {needs} of each token, which dumps of "
                "rollouts do not hold; in Python, ktae.token_credit takes them"
            )
        return estimator

    def load(self, *, tokenizer: Any = None, strict: bool = False) -> Dump:
        """The rollouts, at least one; what is noted about them is on stderr.

        Args:
            tokenizer: the one that was asked for, if it is loaded.
            strict: the first row that cannot be used is an error.
        """
        from ktae.cli.progress import working
        from ktae.report import inputs as reader

        how = dataclasses.replace(self.how, tokenizer=tokenizer) if tokenizer else self.how
        with working("reading", self.paths):
            dump = reader.load(self.paths, how, strict=strict)
        note_reading(dump.notes)
        return dump


def note_reading(notes: Notes) -> None:
    """Say on stderr what the files were read as, what was left out, joined and assumed."""
    for line in notes:
        note(line.text + (f". {line.more}" if line.more else ""))


def with_settings(section: Any, settings: Sequence[str] | None) -> estimators.Estimator:
    """The estimator of a name or a recipe's section, as text or as a mapping, with its settings
    (each as in `h3=0`) replaced; `transforms` wrap it."""
    from ktae.files.typed import parse_yaml

    if isinstance(section, str) and section not in NAMES:
        section = parse_yaml(section, f"--estimator {section}")
    if not settings or not isinstance(section, str | Mapping):
        return estimators.from_section(section)
    base = {"estimator": section} if isinstance(section, str) else section
    changes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise InputError(f"--set {setting}: expected KEY=VALUE, such as h3=0")
        changes[key] = parse_yaml(text, f"--set {setting}")
    # What is asked for wraps what is there; null takes nothing away.
    old, new = base.get("transforms") or [], changes.pop("transforms", None)
    old, new = ([x] if isinstance(x, str | dict) else x for x in (old, new))
    if new is not None:  # what is no list from_section refuses
        changes["transforms"] = [*old, *new] if isinstance(new, list) else new
    return estimators.from_section({**base, **changes})


def note_unmixed(estimator: estimators.Estimator) -> None:
    """Say on stderr that no group has both verdicts, and what that means for credit."""
    unmixed = "no group has both correct and incorrect rollouts"
    if not estimator.takes_scores:
        note(f"warning: {unmixed}, so all credit is 0")
    else:
        note(f"{unmixed}: no table compares verdicts; credit by graded rewards is in the file")


def note_single_tokens(estimator: estimators.Estimator) -> None:
    """Say on stderr that a table of single tokens does not show the whole of the estimator."""
    shown = in_tables(estimator)
    if shown is None:
        note(
            "the tables show the paper's statistic, since this estimator has none of single tokens"
        )
    elif estimator != shown:
        note(
            "the tables count single tokens; this estimator's credit also rests on longer units, "
            "places or scores"
        )
