"""What is said of rows that nothing reads: what they hold, and a command that has been tried."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of
from ktae.rollouts.groups import group_codes
from ktae.rollouts.names import LIKELY, NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import UnknownRowsError, name_of
from ktae.rollouts.plain import Columns, Kind, has_policy, is_verdict, usual_rows
from ktae.rollouts.values import KINDS, Row, as_label

SHOWN = 60
"""Paths of a row that are shown."""
TRIED = 3
"""Candidates of each field that are tried."""
FITS = 0.9
"""The share of a field's values that have to be what it is proposed for, and of rows to be read."""
MAX_DEPTH = 6
"""Levels of a row that are shown and looked at."""
NOT_POLICY, REWARD_LIKE = (re.compile("|".join(x)) for x in (NAMES.not_policy, NAMES.reward_like))


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Paths of a row and what they lead to; a list of one text stands for that text."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        value, path = value[0], f"{path}[0]"
    if isinstance(value, dict) and depth < MAX_DEPTH and (path == "" or value):
        for name, inside in value.items():
            yield from leaves(inside, f"{path}.{name}" if path else str(name), depth + 1)
    else:
        yield path, value


def unknown_rows(
    rows: Sequence[Row], where: str, message: str, needed: Sequence[str]
) -> UnknownRowsError:
    """The error of rows in no known form, with what the commonest of them hold."""
    values = list(leaves(usual_rows(rows)[0]))
    missing = " ".join(f"--field {name}=PATH" for name in needed)
    lines = [f"{where}: {message}; name its fields: {missing}"]
    width = max((len(path) for path, _ in values[:SHOWN]), default=0)
    lines += [f"  {path:{width}}  {described(value)}" for path, value in values[:SHOWN]]
    if len(values) > SHOWN:
        lines.append(f"  and {len(values) - SHOWN:,} more paths")
    return UnknownRowsError("\n".join(lines))


def described(value: Any) -> str:
    """The type of a value, and an example of it."""
    if (messages := messages_of(value)) is not None and not isinstance(value, str):
        return f"{len(messages)} messages"
    if isinstance(value, list):
        return f"list of {len(value)}" + (f" of {described(value[0])}" if value else "")
    kinds = {str: "text", bool: "true or false", int: "number", float: "number"}
    shown = json.dumps(value, default=str)
    shown = shown[:47] + "..." if len(shown) > 50 else shown
    return f"{kinds.get(type(value), type(value).__name__)} {shown}"


class Proposal(NamedTuple):
    """Fields that read a file, and what came out when they were tried."""

    fields: dict[str, str]
    table: Any
    """The record."""
    n_rows: int
    """How many rows the file has."""
    groups: int
    is_mixed: bool
    """Whether some rollouts are correct and some incorrect."""

    def text(self, path: Path, rows: str | None) -> str:
        """What a person reads: the command, what it gives, and the first prompt and response."""
        options = [f"--rows {shlex.quote(rows)}"] if rows else []
        options += [f"--field {shlex.quote(f'{k}={x}')}" for k, x in self.fields.items()]
        correct = self.table["correct"].to_pylist()
        lines = [
            f"this reads {len(self.table):,} of {self.n_rows:,} rows: {self.groups:,} groups, "
            f"{correct.count(1.0):,} correct, {correct.count(0.0):,} incorrect:",
            f"  ktae report {shlex.quote(str(path))} {' '.join(options)}",
        ]
        first = self.table.slice(0, 1).to_pylist()[0]
        texts = [(name, first[name]) for name in ("prompt", "response") if first[name]]
        return "\n".join([*lines, *(f"  the first {k} begins {x[:60]!r}" for k, x in texts)])


def propose(
    path: Path, rows: Sequence[Row], options: ReadOptions, read: Callable[..., Any]
) -> Proposal | None:
    """Fields that read a file, of which `rows` are the first; each is tried on the whole file with
    `read` (`ktae.rollouts.readers.read`). None where none are found."""
    columns = Candidates(usual_rows(rows) if rows else [])
    named = options.fields.get("response")
    responses = [named] if named else columns.responses()[:TRIED]
    rewards: list[str | None] = [*columns.rewards()[:TRIED], *[None] * (not options.needs_reward)]
    best: Proposal | None = None
    for response, reward in itertools.product(responses, rewards):
        for group in [*columns.groups(response)[:TRIED], None]:
            fields = {"response": response, "group": group, "reward": reward}
            fields |= columns.others(response)
            known = {k: x for k, x in fields.items() if x is not None}
            tried = _tried(read, path, known, options)
            if tried is not None and tried.is_mixed:
                return tried
            best = best or tried
    return best


class Candidates(Columns):
    """Paths of rows that may be a rollout's fields, the likeliest first."""

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__(rows)
        paths = dict.fromkeys(path for row in rows[:20] for path, _ in leaves(row))
        self.paths = [x for x in paths if x and self.holds(x, KINDS["any"])]

    def holds(self, path: str, kind: Kind) -> bool:
        """Whether nearly all rows have the field, and nearly all of its values are of a kind."""
        return self.fits(path, kind, FITS, FITS)

    def name(self, path: str) -> str:
        """What a field is called: `prompt.text` is a prompt."""
        last, outer = name_of(path), path.rpartition(".")[0]
        return name_of(outer) if last in ("raw", "text", "content", "value") and outer else last

    def rank(self, path: str, meaning: str) -> int:
        """How likely a field has a meaning by its name, from 0 on; 100 and more: hardly."""
        names, last = LIKELY[meaning], self.name(path)
        known = next((x for x in (last, last.removesuffix("s")) if x in names), None)
        has_part = not {*re.split(r"[\W_]+", last)}.isdisjoint(names)
        return len(names) + (0 if has_part else 100) if known is None else names.index(known)

    def distinct(self, path: str) -> int:
        """How many values a field has."""
        return len({str(as_label(x)) for x in self.values(path)})

    def responses(self) -> list[str]:
        """What the policy may have written: a conversation says who wrote what."""
        talks = [x for x in self.paths if self.holds(x, has_policy)]
        texts = []
        for path in self.paths:
            is_text = self.holds(path, KINDS["text"]) and not self.holds(path, is_verdict)
            if not is_text or path in talks or NOT_POLICY.search(path.lower()):
                continue
            values, n = self.values(path), self.distinct(path)
            length, rank = sum(map(len, values)) / len(values), self.rank(path, "response")
            if n > 1 and (rank < 100 or (length > 40 and 2 * n > len(values))):
                texts.append((rank >= 100, -length, rank, path))
        return talks + [path for *_, path in sorted(texts)]

    def rewards(self) -> list[str]:
        """What may be the reward: verdicts, and numbers whose name says so."""
        kept = []
        for path in self.paths:
            are_verdicts, rank = self.holds(path, is_verdict), self.rank(path, "reward")
            # A word such as "incorrect" is a verdict under any name, and a number seldom is.
            are_words = self.fits(path, lambda x: not str(x)[:1].isdecimal(), 1.0)
            is_named = REWARD_LIKE.search(path.lower()) or are_words
            if (are_verdicts and is_named) or (self.holds(path, KINDS["number"]) and rank < 100):
                kept.append((self.distinct(path) < 2, rank, not are_verdicts, path))
        return [path for *_, path in sorted(kept)]

    def groups(self, response: str) -> list[str]:
        """What may tell the problem: labels and prompts that repeat, labels first."""
        kept = []
        for path in self.paths:
            n, rank = self.distinct(path), self.rank(path, "group")
            is_named = rank < 100 or re.search(r"(^|_)(id|idx|index|key)$", name_of(path))
            repeats = 1 < n < len(self.values(path)) and self.fits(path, KINDS["label"], 1.0)
            if path != response and is_named and repeats:
                kept.append((rank, path))
        return [path for _, path in sorted(kept)]

    def others(self, response: str) -> dict[str, str]:
        """The prompt and the reference answer further inside a row, where names say so."""
        fields: dict[str, str] = {}
        for name in ("prompt", "answer"):
            paths = [x for x in self.paths if x != response and "." in x]
            paths = [x for x in paths if self.name(x) in LIKELY[name] and self.distinct(x) > 1]
            texts = [x for x in paths if self.fits(x, KINDS["said"], 1.0)]
            fields |= {name: texts[0]} if len(texts) == 1 else {}
        return fields


def _tried(
    read: Callable[..., Any], path: Path, fields: dict[str, str], options: ReadOptions
) -> Proposal | None:
    """What comes out with these fields; None where rows are left out or nothing is compared."""
    how = dataclasses.replace(options, fields={**options.fields, **fields}, proposes=False)
    notes = Notes()
    try:
        table = read([path], how, notes=notes)
    except InputError:
        return None
    codes_b, firsts = group_codes(table)
    left, correct = (
        notes.counts["rejected"],
        [x for x in table["correct"].to_pylist() if x is not None],
    )
    # A group's texts are one where they are what was asked.
    texts, is_alone = set(table["response"].to_pylist()), len(codes_b) == len(firsts)
    is_short = left > max(1, (1 - FITS) * (len(table) + left)) or 2 * len(correct) < len(table)
    if is_alone or len(texts) <= len(firsts) or notes.counts["turn_rows"] or notes.counts["alone"]:
        return None
    is_mixed = len({*correct}) == 2
    if options.needs_reward and (is_short or not is_mixed):
        return None
    return Proposal(fields, table, len(table) + left, len(firsts), is_mixed)
