"""What is said of rows that nothing reads: what they hold, and a command that has been tried."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import LIKELY, NAMES, UnknownRowsError, name_of
from ktae.rollouts.plain import Columns, has_policy, is_verdict, usual_rows
from ktae.rollouts.values import KINDS, Row, as_label

SHOWN = 60
"""Paths of a row that are shown."""
TRIED = 3
"""Candidates of each field that are tried."""
FITS = 0.9
"""The share of a field's values that have to be what it is proposed for, and of rows to be read."""
MAX_DEPTH = 6
"""Levels of a row that are shown and looked at."""


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Paths of a row and what they lead to; a list of one text stands for that text."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        value, path = value[0], f"{path}[0]"
    if isinstance(value, dict) and depth < MAX_DEPTH and (path == "" or value):
        for name, inside in value.items():
            yield from leaves(inside, f"{path}.{name}" if path else str(name), depth + 1)
    else:
        yield path, value


def unknown_rows(rows: Sequence[Row], message: str, needed: Sequence[str]) -> UnknownRowsError:
    """The error of rows in no known form, with what the commonest of them hold."""
    values = list(leaves(usual_rows(rows)[0]))[:SHOWN]
    missing = " ".join(f"--field {name}=PATH" for name in needed)
    width = max((len(path) for path, _ in values), default=0)
    lines = [f"  {path:{width}}  {_described(value)}" for path, value in values]
    return UnknownRowsError("\n".join([f"{message}; name its fields: {missing}", *lines]))


def _described(value: Any) -> str:
    """The type of a value, and an example of it."""
    if isinstance(value, list):
        n = len(messages_of(value) or ())
        return f"{n} messages" if n else f"list of {len(value)}"
    kinds = {str: "text", bool: "true or false", int: "number", float: "number"}
    shown = json.dumps(value, default=str)
    shown = shown[:47] + "..." if len(shown) > 50 else shown
    return f"{kinds.get(type(value), type(value).__name__)} {shown}"


def propose(
    path: Path, rows: Sequence[Row], options: ReadOptions, read: Callable[..., Any]
) -> tuple[dict[str, str], str] | None:
    """Fields that read a file, and what a person is told; None where none are found."""
    columns = Candidates(usual_rows(rows) if rows else [])
    named = options.fields.get("response")
    responses = [named] if named else columns.responses()[:TRIED]
    outcomes = columns.outcomes()[:TRIED] if options.needs_reward else [None]
    for response, reward in itertools.product(responses, outcomes):
        for group in [*columns.groups(response)[:TRIED], None]:
            fields = {"response": response, "group": group, "reward": reward}
            known = {k: x for k, x in fields.items() if x is not None} | columns.others(response)
            if told := _tried(read, path, known, options):
                return known, told
    return None


class Candidates(Columns):
    """Paths of rows that may be a rollout's fields, the likeliest first."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__(rows)
        paths = dict.fromkeys(path for row in rows[:20] for path, _ in leaves(row))
        self.paths = [x for x in paths if x and self.fits(x, KINDS["any"], 1, FITS)]

    def rank(self, path: str, meaning: str) -> int:
        """How likely a field has a meaning by its name, or that of the object that it is the text
        of; 100: hardly."""
        last, outer = name_of(path), path.rpartition(".")[0]
        if last in ("raw", "text", "content", "value") and outer:
            last = name_of(outer)
        names, parts = LIKELY[meaning], {*re.split(r"[\W_]+", last)}
        known = [names.index(x) for x in (last, last.removesuffix("s")) if x in names]
        return known[0] if known else 100 if parts.isdisjoint(names) else 99

    def distinct(self, path: str) -> int:
        """How many values a field has."""
        return len({str(as_label(x)) for x in self.values(path)})

    def responses(self) -> list[str]:
        """What the policy may have written: a conversation says who wrote what."""
        kept: list[tuple[int, float, str]] = []
        for path in self.paths:
            is_text = self.fits(path, KINDS["text"], FITS) and not self.fits(path, is_verdict, FITS)
            if self.fits(path, has_policy, FITS):
                kept.append((-1, 0, path))
            elif is_text and not re.search("|".join(NAMES.not_policy), path.lower()):
                values, n = self.values(path), self.distinct(path)
                length, is_named = sum(map(len, values)) / len(values), self.rank(path, "response")
                if n > 1 and (is_named < 100 or (length > 40 and 2 * n > len(values))):
                    kept.append((is_named // 100, -length, path))
        return [path for *_, path in sorted(kept, key=lambda x: x[:2])]

    def outcomes(self) -> list[str]:
        """What may be the reward: verdicts, and numbers whose name says so."""
        kept = []
        for path in self.paths:
            are_verdicts, rank = self.fits(path, is_verdict, FITS), self.rank(path, "reward")
            # A word such as "incorrect" is a verdict under any name, and a number seldom is.
            are_words = self.fits(path, lambda x: not str(x)[:1].isdecimal(), 1.0)
            is_named = are_words or re.search("|".join(NAMES.reward_like), path.lower())
            is_number = rank < 100 and self.fits(path, KINDS["number"], FITS)
            if (are_verdicts and is_named) or is_number:
                kept.append((self.distinct(path) < 2, rank, not are_verdicts, path))
        return [path for *_, path in sorted(kept)]

    def groups(self, response: str) -> list[str]:
        """What may tell the problem: labels and prompts that repeat, labels first."""
        kept = []
        for path in self.paths:
            rank, repeats = self.rank(path, "group"), self.fits(path, KINDS["label"], 1.0)
            repeats = repeats and 1 < self.distinct(path) < len(self.values(path))
            is_named = rank < 100 or re.search(r"(^|_)(id|idx|index|key)$", name_of(path))
            if path != response and is_named and repeats:
                kept.append((rank, path))
        return [path for _, path in sorted(kept)]

    def others(self, response: str) -> dict[str, str]:
        """The prompt and the reference answer further inside a row, where names say so."""
        fields: dict[str, str] = {}
        for name in ("prompt", "answer"):
            paths = [x for x in self.paths if x != response and "." in x and self.distinct(x) > 1]
            paths = [x for x in paths if self.rank(x, name) < 99 and self.fits(x, KINDS["said"])]
            fields |= {name: paths[0]} if len(paths) == 1 else {}
        return fields


def _tried(
    read: Callable[..., Any], path: Path, fields: dict[str, str], options: ReadOptions
) -> str | None:
    """What a person is told of these fields; None where they do not read the file."""
    how = dataclasses.replace(options, fields={**options.fields, **fields}, proposes=False)
    notes = Notes()
    try:
        table = read([path], how, notes=notes)
    except InputError:
        return None
    n, n_groups, counts = len(table), len(group_codes(table)[1]), notes.counts
    left, correct = counts["rejected"], table["correct"].to_pylist()
    # A group's texts are one where they are what was asked.
    n_texts = len(pc.unique(table["response"]))
    is_alone = n_groups in (n, n_texts) or n_texts < n_groups
    is_mixed = len({*correct} - {None}) == 2 and 2 * correct.count(None) <= n
    is_whole = left <= max(1, (1 - FITS) * (n + left)) and not counts["turn_rows"] + counts["alone"]
    if is_alone or not is_whole or (options.needs_reward and not is_mixed):
        return None
    flags = [f"--rows {shlex.quote(options.rows)}"] if options.rows else []
    flags += [f"--field {shlex.quote(f'{k}={x}')}" for k, x in fields.items()]
    shown = {x: table[x][0].as_py() for x in ("prompt", "response")}
    lines = [
        f"this reads {n:,} of {n + left:,} rows: {n_groups:,} groups, {correct.count(1.0):,} "
        f"correct, {correct.count(0.0):,} incorrect:",
        f"  ktae report {shlex.quote(str(path))} {' '.join(flags)}",
        *(f"  the first {k} begins {x[:60]!r}" for k, x in shown.items() if x),
    ]
    return "\n".join(lines)
