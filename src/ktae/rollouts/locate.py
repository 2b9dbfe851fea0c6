"""The rows of a container: whatever a file holds, one object for each rollout or problem.

A container is an object that holds its rows in a list (`results[]`), in an object
(`eval.*[]`), or as columns. What stands beside the list is visible in each row, as are the fields
of rows further up. A list of responses in a row is several rollouts, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import choices_of, messages_of
from ktae.rollouts.names import LIKELY, NAMES
from ktae.rollouts.paths import Trail, at, name_of, walk
from ktae.rollouts.values import KINDS, Row, as_verdict, is_null, is_number

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
LOOKED_AT = 5
"""Entries of a list that say what it holds."""
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
    inherited: frozenset[str] = frozenset()
    """Fields of its containers that are no single values, so seen and not kept."""
    is_repeated: bool = False
    """Whether the row before has the same fields and types, and no list or object in them."""


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
        self.single: tuple[Any, ...] = ()
        """Fields and types of a row that was one by itself: rows alike need no second look."""

    def rows(self, value: Any, where: str, is_file: bool = False) -> Iterator[Located]:
        """The rows in one value of a file; `is_file`: the file holds nothing else."""
        if type(value) is dict and self.single == (*value, *map(type, value.values())):
            yield Located(value, where, is_repeated=True)
            return
        located = Located(value, where)
        if self.path is None:
            yield from self._find(located, is_file)
        elif not isinstance(value, dict):
            raise InputError(f"{where}: {value!r:.60}; expected an object with {self.path}")
        else:
            yield from self._expand(located, self.path, is_file) if self.path else [located]

    def _find(self, located: Located, is_file: bool, level: int = 0) -> Iterator[Located]:
        """The row itself, or the rows in it, or in those."""
        row = located.row
        if not isinstance(row, dict):
            yield located
        elif (rows := table_of(row, located.where)) is not None:
            parent = self._parent(located, not is_file)
            for n, entry in enumerate(rows, start=1):
                yield located._replace(row=entry, where=f"{located.where}, row {n}", parent=parent)
        elif level < MAX_LEVELS and (path := self._path(row, is_file)) is not None:
            for inner in self._expand(located, path, is_file):
                yield from self._find(inner, False, level + 1)
        elif not self.detects(row) and (name := responses_in(row)) is not None:
            rows = dealt(row, name, located.where)
            parent = self._parent(located, True)
            for entry in rows or [{}]:
                yield located._replace(row=entry, parent=parent)
        else:
            types = tuple(map(type, row.values()))
            self.single = () if list in types or dict in types else (*row, *types)
            yield located

    def _parent(self, located: Located, is_parent: bool) -> int | None:
        if located.parent is None and is_parent:
            self.parents += 1
            return self.parents
        return located.parent

    def _path(self, row: Row, is_file: bool) -> str | None:
        """Where the rows are in an object; None where it is a row itself."""
        tables = list(tables_of(row))
        if not tables or self.detects(row):
            return None
        fits = [x for x in tables if any(map(self._is_row, x[1][:LOOKED_AT]))]
        first = fits[0][1][:LOOKED_AT] if fits else ()
        are_certain = bool(first) and all(isinstance(x, dict) and is_rollout(x) for x in first)
        if is_rollout(row) and not are_certain:
            return None
        # Among several tables, or where none is known to hold rollouts, the name decides; a file's
        # only one holds its rows.
        named = [
            x for x in fits or tables if name_of(x[0]) in NAMES.tables and (fits or "." not in x[0])
        ]
        if len(fits) != 1:
            is_only = is_file and len(tables) == 1
            fits = named if len(named) == 1 else fits or (tables if is_only else [])
        if len(fits) > 1:
            paths = quoted(x[0] for x in fits)
            raise InputError(f"rows may be at {paths}; --rows PATH says which are meant")
        return fits[0][0] if fits else None

    def _is_row(self, entry: Any) -> bool:
        """Whether an entry is a rollout, or holds some."""
        if not isinstance(entry, dict):
            return False
        if self.detects(entry) or is_rollout(entry, likely=True):
            return True
        return any(map(self._is_row, (x for _, xs in tables_of(entry, 1) for x in xs[:1])))

    def _expand(self, located: Located, path: str, is_file: bool) -> Iterator[Located]:
        """The rows at a path, with the fields of what they stand in."""
        parent, is_empty = self._parent(located, not is_file), True
        longer = f"{located.path}.{path}" if located.path else path
        located = located._replace(parent=parent, path=longer)
        for value, trail in walk(located.row, path):
            is_empty = False
            yield self._row_at(located, value, trail)
        if is_empty and not isinstance(at(located.row, path.partition("[]")[0]), list):
            raise InputError(f"{located.where}: no rows at {longer!r}")

    def _row_at(self, located: Located, value: Any, trail: Trail) -> Located:
        """What a path has led to, whose fields come before those of the containers on its way."""
        row, where, inherited = located.row, located.where, located.inherited
        for container, key, sign in trail:
            inside = container[key]
            if sign == "*":  # other values are no fields of this one
                row = {k: x for k, x in row.items() if not isinstance(x, dict | list)} | {KEY: key}
                where = f"{where}, {key}"
            elif sign == "[]":
                row = row | self._columns_at(row, inside, key, len(container), where)
                where = f"{where}, entry {key + 1}"
            elif isinstance(container, dict):
                row = {k: x for k, x in row.items() if x is not inside}
            if isinstance(inside, dict):
                inherited |= {k for k, x in row.items() if isinstance(x, dict | list)}
                row, inherited = row | inside, inherited - inside.keys()
        if not isinstance(value, dict):
            row = row | {name_of(located.path): value}
        return located._replace(row=row, where=where, inherited=inherited)

    def _columns_at(self, row: Row, entry: Any, n: int, size: int, where: str) -> Row:
        """The n-th entries of the lists that go along with the rows.

        Raises:
            InputError: such a list has another length, or one reward stands for several rows.
        """
        values: dict[str, list[Any]] = {}
        names = {*entry} if isinstance(entry, dict) else set()
        for name in dict.fromkeys((*self.columns, *NAMES.prompts)):
            column: Any = row.get(name)
            if name in names or not isinstance(column, list):
                continue
            is_single = name in self.tokens and not KINDS["lists"](column)
            is_named = name in self.columns and messages_of(column) is None and not is_single
            if is_named or (name in NAMES.prompts and KINDS["saids"](column)):
                values[name] = column
                if len(column) != size:
                    raise InputError(f"{where}: {len(column)} of {name} for {size} rows")
        for name in self.rewards:
            if size > 1 and name in row and name not in names and name not in values:
                raise InputError(f"{where}: {name} is one for {size} rows")
        return {name: column[n] for name, column in values.items()}


# --- what an object is


def is_rollout(row: Row, likely: bool = False) -> bool:
    """Whether an object has a response, or the conversation of a rollout.

    `likely`: names that may be of one count, too.
    """
    return (
        isinstance(row.get("token_ids"), list)
        or any(x in row and (KINDS["said"](row[x]) or choices_of(row[x])) for x in NAMES.responses)
        or any(messages_of(row[x]) is not None for x in NAMES.conversations if x in row)
        or (likely and any(KINDS["said"](row[x]) for x in LIKELY["response"] if row.get(x)))
    )


def tables_of(
    row: Row, levels: int = MAX_LEVELS, path: str = ""
) -> Iterator[tuple[str, list[Any]]]:
    """Paths of an object that may lead to rows, each with the rows."""
    inner = {k: x for k, x in row.items() if isinstance(k, str) and isinstance(x, dict | list)}
    lists = [x for x in inner.values() if _is_table(x)]
    objects = [x for x in inner.values() if isinstance(x, dict)]
    if 1 < len(lists) == len(inner) and not set(inner) <= {*NAMES.tables, *NAMES.turns}:
        yield f"{path}*[]", [x for table in lists for x in table[:1]]
    elif 1 < len(objects) == len(row) and _are_alike(objects[:LOOKED_AT]):
        yield f"{path}*", objects
    else:
        for name, value in inner.items():
            if name.lower() in NAMES.turns:
                continue
            if isinstance(value, list) and _is_table(value):
                yield f"{path}{name}[]", value
            elif isinstance(value, dict) and levels:
                yield from tables_of(value, levels - 1, f"{path}{name}.")


def _is_table(value: Any) -> bool:
    """Whether it is a list of objects that are no messages."""
    entries = value[:LOOKED_AT] if isinstance(value, list) else []
    are_messages = any(isinstance(x, dict) and {"role", "from"} & x.keys() for x in entries)
    return bool(entries) and all(isinstance(x, dict) for x in entries) and not are_messages


def _are_alike(objects: Sequence[Row]) -> bool:
    """Whether objects are rollouts that have most of their fields in common."""
    common = set.intersection(*(set(x) for x in objects))
    is_most = 2 * len(common) >= max(map(len, objects))
    return len(common) > 1 and is_most and any(is_rollout(x, likely=True) for x in objects)


def table_of(row: Row, where: str) -> list[Row] | None:
    """The rows of a table that stands as columns; None for any other object.

    Tables of W&B and pandas, objects of columns by the row's number, and batches: lists of one
    value a rollout, prompts or labels among them.
    """
    if {"columns", "data"} <= row.keys() <= TABLE and isinstance(row["data"], list):
        return [dict(zip(map(str, row["columns"]), x, strict=True)) for x in row["data"]]
    values = list(row.values())
    if len(values) > 1 and all(isinstance(x, dict) and x for x in values):
        keys = values[0].keys()
        if not all(x.keys() == keys and all(str(k).isdecimal() for k in x) for x in values):
            return None
        return [{name: column[key] for name, column in row.items()} for key in keys]
    lists = {k: x for k, x in row.items() if isinstance(x, list) and x}
    name = next(
        (x for x in NAMES.responses if len(lists) > 1 and KINDS["saids"](lists.get(x))), None
    )
    asked = [x for x in NAMES.prompts if KINDS["saids"](lists.get(x))]
    labels = [
        x for x in NAMES.labels if KINDS["saids"](lists.get(x)) or KINDS["labels"](lists.get(x))
    ]
    # For token ids alone nothing says that their lists are a batch, unless all are lists.
    if name is None and KINDS["lists"](lists.get("tokens")) and KINDS["lists"](lists.get("masks")):
        name, asked, labels = "tokens", [], ["tokens"]
    if name is None or not (asked or labels):
        return None
    size = len(lists[name])
    if wrong := [x for x in asked if len(lists[x]) != size]:
        raise InputError(f"{where}: {len(lists[wrong[0]])} of {wrong[0]} for {size} of {name}")
    columns = {k: x if len(lists.get(k, ())) == size else [x] * size for k, x in row.items()}
    return [
        dict(zip(columns, entries, strict=True)) for entries in zip(*columns.values(), strict=True)
    ]


def responses_in(row: Row) -> Any:
    """The field that holds several responses; None where a row is one rollout."""
    for name in NAMES.responses:
        value = row.get(name)
        if value is not None and (value == [] or KINDS["saids"](value) or choices_of(value)):
            return name
    return "token_ids" if KINDS["lists"](row.get("token_ids")) else None


def dealt(row: Row, name: str, where: str) -> list[Row]:
    """One row for each of the responses in a field, with its entry of each list beside them.

    Raises:
        InputError: a list of rewards has another length, or one reward stands for several; or
            nothing says that the entries of `name` are rollouts and no turns of one.
    """
    responses: list[Any] = choices_of(row[name]) or row[name]
    columns, n = {name: responses}, len(responses)
    lists = {k: x for k, x in row.items() if k != name and isinstance(x, list)}
    if about := next((x for x in NAMES.criteria if x in lists), None):
        raise InputError(f"{where}: scores are of each of {about!r}; expected one a response")
    for field, values in lists.items():
        if field in TOKEN_LISTS:
            is_dealt = any(isinstance(x, list) for x in values)
        else:
            are_verdicts = len(values) == n and all(map(KINDS["verdict"], values))
            is_dealt = field in ONE_EACH or are_verdicts
        if is_dealt and len(values) != n:
            raise InputError(f"{where}: {len(values)} of {field} for {n} of {name}")
        columns |= {field: values} if is_dealt else {}
    for field in ("reward", "correct"):
        if n > 1 and field not in columns and not is_null(row.get(field)):
            raise InputError(
                f"{where}: {field} is {row[field]!r:.60}, one for {n} of {name}; name one of them"
            )
    scores = [x for x in columns.get("scores", []) if is_number(x) and as_verdict(x) is None]
    if name == "responses" and not all(0 <= float(x) <= 1 for x in scores):
        raise InputError(
            f"{where}: {name!r} may be several answers or the turns of one, which 'scores' does "
            f"not say; --rows {name}[] says that each is a rollout"
        )
    return [row | {k: x[i] for k, x in columns.items()} for i in range(n)]
