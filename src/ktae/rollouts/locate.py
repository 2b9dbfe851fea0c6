"""The rows of a container: whatever a file holds, one object for each rollout or problem.

A container is an object that holds its rows in a list (`results[]`), in an object
(`eval.*[]`), or as columns. What stands beside the list is visible in each row, as are the fields
of rows further up. A list of responses in a row is several rollouts, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import choices_of, messages_of
from ktae.rollouts.names import (
    CONVERSATIONS,
    CRITERIA,
    LABELS,
    LIKELY,
    PROMPTS,
    RESPONSES,
    TABLES,
    TURNS,
)
from ktae.rollouts.values import KINDS, Row, as_verdict, is_label, is_null

TABLE = {"columns", "data", "ncols", "nrows", "column_types", "index"}
"""Fields of a table as W&B and pandas write them."""
ONE_EACH = (
    *("reward", "rewards", "score", "scores", "correct", "advantage", "advantages", "group"),
    *("is_correct", "step", "model", "source"),
)
"""Fields that are one value a rollout: a list beside n responses has to be n of them."""
TOKEN_LISTS = ("token_ids", "mask", "log_probs", "entropy")
"""Fields that are one list a rollout."""
MAX_LEVELS = 3
"""Objects within each other in which rows are looked for."""
ENTRIES_LOOKED_AT = 5
KEY = "key"
"""What a row of an object is called in it, by the name of this field."""


class Located(NamedTuple):
    """A row, and where it comes from."""

    row: Row
    where: str
    """Its place, for errors."""
    parent: int | None = None
    """The number of the row that holds this one and others; None where no other row does."""
    path: str = ""
    """The path to its rows within what stands in the file; empty for a row by itself."""
    inherited: tuple[str, ...] = ()
    """Fields of its containers that are no single values, so seen and not kept."""


class Locator:
    """Finds the rows in the values of one file.

    Args:
        detects: whether an object is a row of a known tool.
        path: where the rows are, as the user says; None: they are looked for.
        columns: fields whose lists are dealt out beside the path's own, such as `scores`.
        rewards: fields of which none stands for several rows.
        tokens: fields that are one list a rollout.
    """

    def __init__(
        self,
        detects: Callable[[Row], bool],
        path: str | None = None,
        columns: Sequence[str] = (),
        rewards: Sequence[str] = (),
        tokens: Sequence[str] = (),
    ) -> None:
        self.detects, self.path, self.columns = detects, path, columns
        self.rewards, self.tokens = rewards, tokens
        self.parents = 0
        """Rows so far that hold several."""
        self.single: frozenset[Any] = frozenset()
        """The fields of a row that was one by itself: rows alike need no second look."""

    def rows(self, value: Any, where: str, is_file: bool = False) -> Iterator[Located]:
        """The rows in one value of a file; `is_file`: the file holds nothing else."""
        if self._is_single(value):
            yield Located(value, where)
        elif self.path is not None:
            if not isinstance(value, dict):
                raise InputError(f"{where}: {value!r:.60}; expected an object with {self.path}")
            if self.path:
                yield from self._expanded(Located(value, where), self.path, is_file)
            else:
                yield Located(value, where)
        else:
            yield from self._found(Located(value, where), is_file)

    def _is_single(self, value: Any) -> bool:
        """Whether a value has the fields of a row by itself, and holds nothing else."""
        if type(value) is not dict or value.keys() != self.single:
            return False
        types = set(map(type, value.values()))
        return not (list in types or dict in types)

    def _found(self, located: Located, is_file: bool, level: int = 0) -> Iterator[Located]:
        """The row itself, or the rows in it, or in those."""
        row, where = located.row, located.where
        if not isinstance(row, dict) or self._is_single(row):
            yield located
            return
        if (table := table_of(row)) is not None:
            # A table is a file's, and a batch may be a group.
            names, entries = table
            is_batch = not ({"columns", "data"} <= row.keys())
            parent = self._parent(is_batch and not is_file)
            for n, values in enumerate(entries, start=1):
                one = dict(zip(names, values, strict=True))
                yield Located(one, f"{where}, row {n}", parent, located.path, located.inherited)
            return
        if level < MAX_LEVELS and (path := self._path(row)) is not None:
            for inner in self._expanded(located, path, is_file):
                yield from self._found(inner, False, level + 1)
            return
        if self.detects(row):
            yield located
            return
        if (several := responses_of(row)) is not None:
            yield from self._dealt(located, several)
            return
        self.single = frozenset(row)
        yield located

    def _parent(self, is_one: bool) -> int | None:
        self.parents += 1
        return self.parents if is_one else None

    def _path(self, row: Row) -> str | None:
        """Where the rows are in an object; None where it is a row itself."""
        tables = list(tables_of(row))
        if not tables or self.detects(row):
            return None
        fits = [x for x in tables if any(map(self._is_row, x[1][:ENTRIES_LOOKED_AT]))]
        first = fits[0][1][:ENTRIES_LOOKED_AT] if fits else ()
        are_certain = bool(first) and all(isinstance(x, dict) and is_rollout(x) for x in first)
        if is_rollout(row) and not are_certain:
            return None
        if len(fits) > 1:
            named = [x for x in fits if x[0].rpartition(".")[2].removesuffix("[]") in TABLES]
            fits = named if len(named) == 1 else fits
        if not fits:
            fits = [x for x in tables if x[0].removesuffix("[]").lower() in TABLES]
            fits = fits if len(fits) == 1 else []
        if len(fits) > 1:
            raise InputError(
                f"rows may be at {quoted(x[0] for x in fits)}; --rows PATH says which are meant"
            )
        return fits[0][0] if fits else None

    def _is_row(self, entry: Any) -> bool:
        """Whether an entry is a rollout, or holds some."""
        if not isinstance(entry, dict):
            return False
        if self.detects(entry) or is_rollout(entry, likely=True):
            return True
        return any(map(self._is_row, (x for _, xs in tables_of(entry, 1) for x in xs[:1])))

    def _expanded(self, located: Located, path: str, is_file: bool) -> Iterator[Located]:
        """The rows at a path, with the fields of what they stand in."""
        parent = located.parent if located.parent is not None else self._parent(not is_file)
        longer = f"{located.path}.{path}" if located.path else path
        yield from self._walk(located._replace(parent=parent, path=longer), path, located.row)

    def _walk(self, located: Located, path: str, value: Any) -> Iterator[Located]:
        """Follow a path from a row, `value` being where it has led so far."""
        path = path.removeprefix(".")
        if not path:
            yield located
        elif path[:1] == "*" and isinstance(value, dict):
            # Other values are no fields of this one.
            outer = {k: x for k, x in located.row.items() if not isinstance(x, dict | list)}
            entries = [(k, x) for k, x in value.items() if isinstance(x, dict | list)]
            for key, entry in entries:
                inner = located._replace(row=outer | {KEY: key}, where=f"{located.where}, {key}")
                yield from self._into(inner, path[1:], entry)
        elif path[:2] == "[]" and isinstance(value, list):
            for n, entry in enumerate(value):
                row = located.row | self._columns_at(located.row, entry, n, len(value), located)
                inner = located._replace(row=row, where=f"{located.where}, entry {n + 1}")
                yield from self._into(inner, path[2:], entry)
        elif match := (re.match(r"\[(-?\d+)\]", path) if isinstance(value, list) else None):
            if -len(value) <= int(match[1]) < len(value):
                yield from self._into(located, path[match.end() :], value[int(match[1])])
        else:
            names = value if isinstance(value, dict) else ()
            starts = [x for x in names if path == x or path.startswith((f"{x}.", f"{x}["))]
            if not starts:
                raise InputError(f"{located.where}: no rows at {located.path!r}")
            name = max(starts, key=len)
            row = {k: x for k, x in located.row.items() if x is not value[name]}
            yield from self._into(located._replace(row=row), path[len(name) :], value[name])

    def _into(self, located: Located, path: str, value: Any) -> Iterator[Located]:
        """Go on with the rest of a path in an entry, whose fields come before those around it."""
        if isinstance(value, dict):
            names = tuple(k for k, x in located.row.items() if isinstance(x, dict | list))
            inherited = tuple(x for x in {*located.inherited, *names} if x not in value)
            located = located._replace(row=located.row | value, inherited=inherited)
        elif not path:
            name = re.sub(r"(\[\])+$", "", located.path).rpartition(".")[2]
            located = located._replace(row=located.row | {name: value})
        yield from self._walk(located, path, value)

    def _columns_at(self, row: Row, entry: Any, n: int, size: int, located: Located) -> Row:
        """The n-th entries of the lists that go along with the rows.

        Raises:
            InputError: such a list has another length, or one reward stands for several rows.
        """
        values: dict[str, list[Any]] = {}
        names = {*entry} if isinstance(entry, dict) else set()
        for name in dict.fromkeys((*self.columns, *PROMPTS)):
            column: Any = row.get(name)
            if name in names or not isinstance(column, list):
                continue
            is_single = name in self.tokens and not KINDS["lists"](column)
            is_named = name in self.columns and messages_of(column) is None and not is_single
            if is_named or (name in PROMPTS and KINDS["saids"](column)):
                values[name] = column
        for name, column in values.items():
            if len(column) != size:
                raise InputError(f"{located.where}: {len(column)} of {name} for {size} rows")
        for name in self.rewards:
            if size > 1 and name in row and name not in names and name not in values:
                raise InputError(f"{located.where}: {name} is one for {size} rows")
        return {name: column[n] for name, column in values.items()}

    def _dealt(self, located: Located, name: str) -> Iterator[Located]:
        """One row for each of a row's responses, with its entry of each list beside them."""
        row, where = located.row, located.where
        responses: Any = choices_of(row[name]) or row[name]
        columns = {name: responses} | lists_beside(row, name, len(responses), where)
        parent = located.parent if located.parent is not None else self._parent(True)
        for n in range(len(responses)):
            dealt = {x: values[n] for x, values in columns.items()}
            yield located._replace(row=row | dealt, where=where, parent=parent)
        if not responses:
            yield located._replace(row={})


# --- what an object is


def is_rollout(row: Row, likely: bool = False) -> bool:
    """Whether an object has a response, or the conversation of a rollout.

    `likely`: names that may be of one count, too.
    """
    if isinstance(row.get("token_ids"), list):
        return True
    if any(x in row and (KINDS["said"](row[x]) or choices_of(row[x])) for x in RESPONSES):
        return True
    if any(messages_of(row[x]) is not None for x in CONVERSATIONS if x in row):
        return True
    return likely and any(
        KINDS["said"](row[x]) for x in (*LIKELY["response"], *TURNS) if row.get(x)
    )


def tables_of(
    row: Row, levels: int = MAX_LEVELS, path: str = ""
) -> Iterator[tuple[str, list[Any]]]:
    """Paths of an object that may lead to rows, each with the rows."""
    inner = {k: x for k, x in row.items() if isinstance(k, str) and isinstance(x, dict | list)}
    lists = [x for x in inner.values() if _is_table(x)]
    objects = [x for x in inner.values() if isinstance(x, dict)]
    if len(lists) > 1 and len(lists) == len(inner) and not set(inner) <= {*TABLES, *TURNS}:
        yield f"{path}*[]", [x for table in lists for x in table[:1]]
        return
    if (
        len(objects) > 1
        and len(objects) == len(inner)
        and _are_alike(objects)
        and len(row) == len(inner)
    ):
        yield f"{path}*", objects
        return
    for name, value in inner.items():
        if name.lower() in TURNS:
            continue
        if isinstance(value, list) and _is_table(value):
            yield f"{path}{name}[]", value
        elif isinstance(value, dict) and levels:
            yield from tables_of(value, levels - 1, f"{path}{name}.")


def _is_table(value: Any) -> bool:
    """Whether it is a list of objects that are no messages."""
    if not isinstance(value, list) or not value:
        return False
    entries = value[:ENTRIES_LOOKED_AT]
    are_messages = any(isinstance(x, dict) and {"role", "from"} & x.keys() for x in entries)
    return all(isinstance(x, dict) for x in entries) and not are_messages


def _are_alike(objects: Sequence[Row]) -> bool:
    """Whether objects are rollouts that have most of their fields in common."""
    some = objects[:ENTRIES_LOOKED_AT]
    common = set.intersection(*(set(x) for x in some))
    is_most = 2 * len(common) >= max(map(len, some))
    return len(common) > 1 and is_most and any(is_rollout(x, likely=True) for x in some)


def table_of(row: Row) -> tuple[list[str], list[Any]] | None:
    """The names and rows of a table that stands as columns; None for any other object.

    Tables of W&B and pandas, objects of columns by the row's number, and batches: lists of one
    value a rollout, prompts or labels among them.
    """
    if {"columns", "data"} <= row.keys() <= TABLE and isinstance(row["data"], list):
        return [str(x) for x in row["columns"]], row["data"]
    values = list(row.values())
    if len(values) > 1 and all(isinstance(x, dict) and x for x in values):
        keys = values[0].keys()
        if all(x.keys() == keys for x in values) and all(str(x).isdecimal() for x in keys):
            return list(row), list(zip(*(x.values() for x in values), strict=True))
        return None
    lists = {k: x for k, x in row.items() if isinstance(x, list) and x}
    if len(lists) < 2:
        return None
    name = next((x for x in RESPONSES if x in lists and KINDS["saids"](lists[x])), None)
    others = [x for x in PROMPTS if KINDS["saids"](lists.get(x))]
    others += [
        x for x in LABELS if KINDS["saids"](v := lists.get(x)) or (v and all(map(is_label, v)))
    ]
    if name is None:
        # Of token ids alone nothing says that their lists are a batch, unless all are lists.
        is_batch = KINDS["lists"](row.get("tokens")) and KINDS["lists"](row.get("masks"))
        name, others = ("tokens", ["tokens"]) if is_batch else (None, [])
    if name is None or not others:
        return None
    size = len(lists[name])
    if wrong := [x for x in others if len(lists[x]) != size and x in PROMPTS]:
        raise InputError(f"{len(lists[wrong[0]])} of {wrong[0]} for {size} of {name}")
    columns = {k: x if len(lists.get(k, ())) == size else [x] * size for k, x in row.items()}
    return list(columns), list(zip(*columns.values(), strict=True))


def responses_of(row: Row) -> str | None:
    """The field that holds several responses; None where a row is one rollout."""
    for name in RESPONSES:
        value = row.get(name)
        if value is None:
            continue
        if isinstance(value, list) and KINDS["saids"](value):
            return name
        if choices_of(value):
            return name
    ids = row.get("token_ids")
    return "token_ids" if ids and KINDS["lists"](ids) else None


def lists_beside(row: Row, name: str, n: int, where: str) -> dict[str, list[Any]]:
    """The lists that have one entry for each of n responses.

    Raises:
        InputError: a list of rewards has another length, or one reward stands for several; or
            nothing says that the entries of `name` are rollouts and no turns of one.
    """
    lists = {k: x for k, x in row.items() if k != name and isinstance(x, list)}
    if about := next((x for x in CRITERIA if x in lists), None):
        raise InputError(f"{where}: scores are of each of {about!r}; expected one a response")
    columns = {}
    for field, values in lists.items():
        if field in TOKEN_LISTS:
            is_dealt = any(isinstance(x, list) for x in values)
        else:
            is_dealt = field in ONE_EACH or (
                len(values) == n and all(map(KINDS["verdict"], values))
            )
        if not is_dealt:
            continue
        if len(values) != n:
            raise InputError(f"{where}: {len(values)} of {field} for {n} of {name}")
        columns[field] = values
    for field in ("reward", "correct"):
        if n > 1 and field not in columns and not is_null(row.get(field)):
            raise InputError(
                f"{where}: {field} is {row[field]!r:.60}, one for {n} of {name}; name one of them"
            )
    scores = columns.get("scores", [])
    if any(not is_null(x) and as_verdict(x) is None for x in scores) and name == "responses":
        between = all(is_null(x) or 0 <= float(x) <= 1 for x in scores)
        if not between:
            raise InputError(
                f"{where}: {name!r} may be several answers or the turns of one, which 'scores' "
                f"does not say; --rows {name}[] says that each is a rollout"
            )
    return columns
