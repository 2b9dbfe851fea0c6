"""What is said of rows that nothing reads: what they hold, and a command that has been tried."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of, plain_text
from ktae.rollouts.groups import group_codes
from ktae.rollouts.names import ANSWERS, LIKELY
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import MISSING, UnknownRowsError, at, leaves, name_of
from ktae.rollouts.roles import author
from ktae.rollouts.values import Row, as_label, as_verdict, is_label, is_null, is_number

SHOWN = 60
"""Paths of a row that are shown."""
LOOKED_AT = 1000
"""Rows that say what a field holds."""
TRIED = 3
"""Candidates of each field that are tried."""
FITS = 0.9
"""The share of a field's values that have to be what it is proposed for, and of rows to be read."""
NOT_POLICY = re.compile(
    r"judge|critic|feedback|observ|(^|_)obs(_|$)|env|user|system|tool|prompt|question|problem|query|"
    r"instruct|input|context|gold|refer|ground|target|label|expected|answer|(^|_)id|uuid|path|file|url|time|date|"
    r"error|model$|model_name|status|type|reason$|template|canonical|test|latest"
)
"""Names of texts that are hardly the policy's."""
REWARD_LIKE = re.compile(
    r"correct|pass|success|reward|score|acc|solved|resolved|valid|right|status"
)


def usual_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the commonest shape; those with more fields count as such, too."""
    shape = Counter(frozenset(row) for row in rows).most_common(1)[0][0]
    return [row for row in rows if shape <= row.keys()]


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
    rows: str | None
    n_read: int
    n_rows: int
    groups: int
    correct: int
    incorrect: int
    prompt: str | None
    response: str

    def text(self, path: Path) -> str:
        """What a person reads: the command, what it gives, and the first prompt and response."""
        options = [f"--rows {shlex.quote(self.rows)}"] if self.rows else []
        options += [f"--field {shlex.quote(f'{k}={x}')}" for k, x in self.fields.items()]
        lines = [
            f"this reads {self.n_read:,} of {self.n_rows:,} rows: {self.groups:,} groups, "
            f"{self.correct:,} correct, {self.incorrect:,} incorrect:",
            f"  ktae report {shlex.quote(str(path))} {' '.join(options)}",
        ]
        if self.prompt:
            lines.append(f"  the first prompt begins {self.prompt[:60]!r}")
        return "\n".join([*lines, f"  the first response begins {self.response[:60]!r}"])


def propose(
    path: Path, rows: Sequence[Row], options: ReadOptions, read: Callable[..., Any]
) -> Proposal | None:
    """Fields that read a file's rows, tried on the whole file; None where none are found.

    Args:
        path: the file.
        rows: its rows, or the first of them.
        options: as it was to be read.
        read: `ktae.rollouts.readers.read`.
    """
    values = _columns(usual_rows(rows[:LOOKED_AT])) if rows else {}
    responses = _responses(values)
    rewards: list[str | None] = [*_rewards(values)]
    if options.fields:
        named = options.fields
        responses = [named["response"]] if "response" in named else responses
    if not options.needs_reward:
        rewards = [*rewards[:TRIED], None]
    best: Proposal | None = None
    for response, reward in itertools.product(responses[:TRIED], rewards[:TRIED]):
        groups = _groups(values, response)
        for group in [*groups[:TRIED], None]:
            fields = {"response": response, "group": group, "reward": reward}
            fields |= _others(values, response, group)
            tried = _tried(
                read, path, {k: x for k, x in fields.items() if x is not None}, options, len(rows)
            )
            if tried is not None and (best is None or (best.incorrect and best.correct) == 0):
                best = tried
                if best.correct and best.incorrect:
                    return best
    return best


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The values of each path, row by row, nulls left out."""
    paths = dict.fromkeys(path for row in rows[:20] for path, _ in leaves(row) if path)
    columns = {}
    for path in paths:
        values = [x for x in (at(row, path) for row in rows) if x is not MISSING and not is_null(x)]
        if len(values) >= FITS * len(rows) and "[]" not in path:
            columns[path] = values
    return columns


def _share(values: Sequence[Any], kind: Any) -> float:
    return sum(bool(kind(x)) for x in values) / max(len(values), 1)


def _rank(path: str, name: str) -> int:
    """How likely a path is that field by its name, from 0 on."""
    names, last = LIKELY[name], name_of(path)
    parts = re.split(r"[\W_]+", last)
    if last in names or last.removesuffix("s") in names:
        return names.index(last if last in names else last.removesuffix("s"))
    return len(names) + (0 if set(parts) & set(names) else 100)


def _responses(values: dict[str, list[Any]]) -> list[str]:
    """Paths whose values may be what the policy wrote, the likeliest first."""

    def is_talk(value: Any) -> bool:
        messages = messages_of(value)
        return messages is not None and any(map(author, messages))

    texts, talks = [], []
    for path, column in values.items():
        distinct = len({str(x) for x in column})
        if _share(column, is_talk) >= FITS:
            talks.append(path)
        elif (
            _share(column, lambda x: isinstance(x, str)) >= FITS
            and not NOT_POLICY.search(path.lower())
            and (2 * distinct > len(column) or _rank(path, "response") < 100)
            and distinct > 1
            and _share(column, lambda x: as_verdict(x) is not None) < FITS
        ):
            texts.append(path)
    length = {x: sum(map(len, values[x])) / len(values[x]) for x in texts}
    texts = [x for x in texts if _rank(x, "response") < 100 or length[x] > 40]
    texts.sort(key=lambda x: (_rank(x, "response") >= 100, -length[x], _rank(x, "response")))
    # A conversation says who wrote what.
    return talks + texts


def _rewards(values: dict[str, list[Any]]) -> list[str]:
    """Paths whose values may be the reward, the likeliest first."""
    kept = []
    for path, column in values.items():
        are_verdicts = _share(column, lambda x: as_verdict(x) is not None) >= FITS
        are_numbers = _share(column, is_number) >= FITS
        is_named = REWARD_LIKE.search(name_of(path)) is not None
        if (are_verdicts and (is_named or all(isinstance(x, bool) for x in column))) or (
            are_numbers and _rank(path, "reward") < 100
        ):
            differs = len({str(x) for x in column}) > 1
            kept.append((not differs, _rank(path, "reward"), not are_verdicts, path))
    return [path for *_, path in sorted(kept, key=lambda x: x[:3])]


def _groups(values: dict[str, list[Any]], response: str) -> list[str]:
    """Paths whose values may tell the problem: labels and prompts that repeat."""
    kept = []
    for path, column in values.items():
        if path == response or _share(column, is_label) != 1:
            continue
        n = len({str(as_label(x)) for x in column})
        rank = _rank(path, "group")  # labels come before prompts
        is_id = re.search(r"(^|_)(id|idx|index|key)$", name_of(path)) is not None
        if 1 < n < len(column) and (rank < len(LIKELY["group"]) or is_id):
            kept.append((rank, path))
    return [path for _, path in sorted(kept)]


def _others(values: dict[str, list[Any]], response: str, group: str | None) -> dict[str, str]:
    """The prompt and the reference answer, where names and values say so."""
    others: dict[str, str] = {}
    for name, names in (("prompt", LIKELY["prompt"]), ("answer", ANSWERS)):
        paths = [x for x in values if name_of(x) in names and x != response and "." in x]
        paths = [
            x for x in paths if _share(values[x], lambda x: isinstance(plain_text(x), str)) == 1
        ]
        others |= {name: paths[0]} if len(paths) == 1 else {}
    return others


def _tried(
    read: Callable[..., Any], path: Path, fields: dict[str, str], options: ReadOptions, n_rows: int
) -> Proposal | None:
    """What comes out with these fields; None where rows are left out or nothing is compared."""
    how = dataclasses.replace(options, fields={**options.fields, **fields}, proposes=False)
    notes = Notes()
    try:
        table = read([path], how, notes=notes)
    except InputError:
        return None
    n_read, left = len(table), notes.counts["rejected"]
    if left > max(1, (1 - FITS) * (n_read + left)) or notes.counts["turn_rows"]:
        return None
    codes_b, firsts = group_codes(table)
    if len(codes_b) == len(firsts) or notes.counts["alone"]:
        return None
    correct = table["correct"].to_pylist()
    if options.needs_reward and 2 * correct.count(None) > len(correct):
        return None
    texts = set(table["response"].to_pylist())
    if len(texts) <= len(firsts) or (options.needs_reward and len({*correct} - {None}) < 2):
        return None  # a group's texts are one, as what was asked is, or nothing tells them apart
    first = table.slice(0, 1).to_pylist()[0]
    return Proposal(
        fields=fields,
        rows=options.rows,
        n_read=n_read,
        n_rows=n_read + left,
        groups=len(firsts),
        correct=correct.count(1.0),
        incorrect=correct.count(0.0),
        prompt=first["prompt"],
        response=first["response"] or "",
    )
