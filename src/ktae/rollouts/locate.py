"""The rows of a container: whatever a file holds, one object for each rollout or problem.

A container is an object that holds its rows in a list (`results[]`), in an object (`eval.*[]`), or
as columns. What stands beside the list is visible in each row, as are the fields of rows further
up. A list of responses in a row is several rollouts, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import choices_of, messages_of
from ktae.rollouts.paths import LIKELY, MISSING, NAMES, at
from ktae.rollouts.schemas import Source, detect
from ktae.rollouts.values import KINDS, Row, as_verdict, is_null, is_number, without

TABLE = {"columns", "data", "ncols", "nrows", "column_types", "index"}  # W&B's and pandas'
ONE_EACH = {
    *("reward", "rewards", "score", "scores", "correct", "advantage", "advantages", "group"),
    *("is_correct", "step", "model", "source"),
}  # fields that are one value a rollout: a list beside n responses has to be n of them
OUTCOMES = {*NAMES.verdicts, *NAMES.rewards}  # one of these for several rollouts is of none
TOKEN_LISTS = ("token_ids", "mask", "log_probs", "entropy")  # fields that are one list a rollout
LOOKED_AT = 5  # entries of a list that say what it holds
KEY = "key"  # what a row of an object is called in it, by the name of this field


class Located(NamedTuple):
    """A row, and where it comes from."""

    row: Row
    where: str  # its place, for errors
    parent: int | None = None  # the number of the row that holds this one and others, if one does
    path: str = ""  # to its rows within what stands in the file; empty for a row by itself
    inherited: frozenset[str] = frozenset()  # fields of its containers that are seen and not kept
    table: str | None = None  # the key of the list that it is in, in an object of lists
    is_repeated: bool = False  # the row before has the same fields and types, none list or object


class Locator:
    """Finds the rows in the values of one file. Where the response is named, they get its name."""

    def __init__(self, source: Source) -> None:
        self.source, self.options = source, source.options
        self.each = {*ONE_EACH, *self.options.fields.values()}
        self.parents = 0  # rows so far that hold several
        # Fields and types of a row that was one by itself: rows alike need no second look.
        self.single: tuple[Any, ...] = ()

    def rows(self, value: Any, where: str, is_file: bool = False) -> Iterator[Located]:
        """The rows in one value of a file; `is_file`: the file holds nothing else."""
        if type(value) is dict and self.single == (*value, *map(type, value.values())):
            yield Located(value, where, is_repeated=True)
        elif self.options.rows and isinstance(value, dict):
            for inner in self._expand(Located(value, where), self.options.rows, is_file):
                yield from self._rollouts(inner, False)
        else:
            yield from self._find(Located(value, where), is_file)

    def _find(self, located: Located, is_file: bool, levels: int = 3) -> Iterator[Located]:
        """The row itself, or the rows in it, or in those."""
        row = located.row
        if not isinstance(row, dict):
            yield located
        elif (rows := table_of(row)) is not None:
            parent = self._parent(located, not is_file)
            for n, entry in enumerate(rows, start=1):
                inner = Located(entry, f"{located.where}, row {n}", parent)
                yield from self._rollouts(inner, False)
        elif levels and (path := self._path(row, is_file)):
            for inner in self._expand(located, path, is_file):
                yield from self._find(inner, False, levels - 1)
        else:
            yield from self._rollouts(located, is_file)

    def _rollouts(self, located: Located, is_file: bool) -> Iterator[Located]:
        """A row as it is, or one for each of the responses in it."""
        row, is_named = located.row, self.options.names_response
        if is_named:
            fields = self.options.fields  # a prompt that tells the group stays one
            used = {x for k, x in fields.items() if k != "group" or x not in NAMES.prompts}
            row = without(row, used - fields.keys()) | self.source.named(row)
            name = responses_in(row, ("response",))
        else:
            name = responses_in(row) if detect(row) is None else None
        if name is None:
            types = tuple(map(type, row.values()))
            is_single = not is_named and list not in types and dict not in types
            self.single = (*row, *types) if is_single else ()
            yield located._replace(row=row)
            return
        rows, is_batch = self._dealt(row, name, located.where)
        parent = self._parent(located, not (is_batch and is_file))
        yield from (located._replace(row=x, parent=parent) for x in rows or [{}])

    def _parent(self, located: Located, is_parent: bool) -> int | None:
        self.parents += (is_first := located.parent is None and is_parent)
        return self.parents if is_first else located.parent

    def _path(self, row: Row, is_file: bool) -> str | None:
        """Where the rows are in an object; None where it is a row itself."""
        fields = self.options.fields
        named = fields.get("response", fields.get("token_ids"))
        response = MISSING if named is None else at(row, named)
        is_row = response is not MISSING and not isinstance(response, dict)
        tables = {} if is_row or detect(row) is not None else dict(tables_of(row))
        certain = [x for x, rows in tables.items() if all(map(is_rollout, rows[:LOOKED_AT]))]
        if is_rollout(row) and not certain:
            return None
        # Among several tables the name decides; a file's only one holds its rows.
        paths = certain or list(tables)
        is_only = len(paths) == 1 and (certain or is_file or "*" in paths[0])
        last = [re.split(r"[.\[]", x.removesuffix("[]"))[-1] for x in paths]
        likely = [x for x, y in zip(paths, last, strict=True) if is_only or y in NAMES.tables]
        if len(likely) > 1:
            raise InputError(f"rows may be at {quoted(likely)}; --rows PATH says which are meant")
        return likely[0] if likely else None

    def _expand(self, located: Located, path: str, is_file: bool) -> Iterator[Located]:
        """The rows at a path, whose fields come before those of what they stand in."""
        parent, hops = self._parent(located, not is_file), re.findall(r"\*|\[\]|[^.\[\]*]+", path)
        name = next(x for x in (*hops[::-1], KEY) if x not in ("*", "[]"))
        longer = f"{located.path}.{path}" if located.path else path
        for value, beside, where in self._walk(located.row, hops, {}, located.where):
            inside = value if isinstance(value, dict) else {name: value}
            several = {k for k, x in beside.items() if isinstance(x, dict | list)}
            inherited = (located.inherited | several) - inside.keys()
            table = str(beside[KEY]) if "*" in hops else located.table
            yield Located(beside | inside, where, parent, longer, inherited, table)

    def _walk(
        self, value: Any, hops: Sequence[str], beside: Row, where: str
    ) -> Iterator[tuple[Any, Row, str]]:
        """What a path leads to, each with the fields on its way and its place."""
        if not hops:
            yield value, beside, where
        elif hops[0] == "[]" and isinstance(value, list):
            first = value[0] if value and isinstance(value[0], dict) else {}
            columns, _ = self._columns(without(beside, first), len(value), where)
            shared = without(beside, OUTCOMES) if len(value) > 1 else beside
            for n, x in enumerate(value):
                fields = shared | {name: column[n] for name, column in columns.items()}
                yield from self._walk(x, hops[1:], fields, f"{where}, entry {n + 1}")
        elif hops[0] == "*" and isinstance(value, dict):
            single = {k: x for k, x in value.items() if not isinstance(x, dict | list)}
            for key, x in without(value, single).items():
                yield from self._walk(x, hops[1:], beside | single | {KEY: key}, f"{where}, {key}")
        elif isinstance(value, dict) and hops[0] in value:
            fields = beside | without(value, hops[:1])
            yield from self._walk(value[hops[0]], hops[1:], fields, where)
        else:
            raise InputError(f"{where}: no {hops[0]!r} on the way to rows")

    def _columns(self, row: Row, n: int, where: str) -> tuple[Row, bool]:
        """The lists of a row that have one value for each of n rollouts, and whether these are of
        several prompts or labels."""
        lists = {k: x for k, x in row.items() if isinstance(x, list) and x}
        ids = [x for x in NAMES.prompts if KINDS["lists"](lists.get(x)) and len(lists[x]) == n]
        lists |= {x: [*map(str, lists[x])] for x in ids if not KINDS["saids"](lists[x])}
        asked = [x for x in NAMES.prompts if KINDS["saids"](lists.get(x))]
        is_batch = bool(asked) or any(KINDS["labels"](lists.get(x)) for x in NAMES.labels)
        columns: Row = {}
        for field, values in lists.items():
            is_dealt = field in self.each or field in asked
            if field in TOKEN_LISTS:
                is_dealt = any(isinstance(x, list) for x in values)
            elif len(values) == n:
                is_dealt = is_dealt or is_batch or all(map(KINDS["verdict"], values))
            if is_dealt and len(values) != n:
                raise InputError(f"{where}: {len(values)} of {field} for {n} rollouts")
            columns |= {field: values} if is_dealt else {}
        return columns, is_batch

    def _dealt(self, row: Row, name: str, where: str) -> tuple[list[Row], bool]:
        """One row for each of the responses in a field, with its entry of each list beside them."""
        responses: list[Any] = choices_of(row[name]) or row[name]
        n = len(responses)
        columns, is_batch = self._columns(without(row, [name]), n, where)
        if name == "tokens":  # nothing else is a list of one value a rollout
            is_batch = True
            columns = {k: x for k, x in row.items() if isinstance(x, list) and len(x) == n}
        if about := next((x for x in NAMES.criteria if isinstance(row.get(x), list)), None):
            raise InputError(f"{where}: scores are of each of {about!r}; expected one a response")
        for field in ("reward", "correct"):
            if n > 1 and field not in columns and not is_null(row.get(field)):
                raise InputError(f"{where}: {field} is one for {n} of {name}")
        scores = [x for x in columns.get("scores", []) if is_number(x) and as_verdict(x) is None]
        if name == "responses" and not all(0 <= float(x) <= 1 for x in scores):
            raise InputError(
                f"{where}: {name!r} may be several answers or the turns of one, which 'scores' "
                f"does not say; --rows {name}[] says that each is a rollout"
            )
        columns |= {name: responses}
        shared = without(row, OUTCOMES) if n > 1 else row
        return [shared | {k: x[i] for k, x in columns.items()} for i in range(n)], is_batch


# --- what an object is


def is_rollout(row: Any, likely: bool = False) -> bool:
    """Whether an object has a response, or the conversation of a rollout."""
    return isinstance(row, dict) and (
        isinstance(row.get("token_ids"), list)
        or any(x in row and (KINDS["said"](row[x]) or choices_of(row[x])) for x in NAMES.responses)
        or any(messages_of(row[x]) is not None for x in NAMES.conversations if x in row)
        or (likely and any(KINDS["said"](row[x]) for x in LIKELY["response"] if row.get(x)))
    )


def tables_of(row: Row, path: str = "", levels: int = 3) -> Iterator[tuple[str, list[Any]]]:
    """Paths of an object that may lead to rows, each with the rows."""
    inner = {k: x for k, x in row.items() if isinstance(k, str) and isinstance(x, dict | list)}
    n_lists = sum(map(_is_table, inner.values()))
    objects = [x for x in inner.values() if isinstance(x, dict)]
    if 1 < n_lists == len(inner) and not set(inner) <= {*NAMES.tables, *NAMES.turns}:
        yield f"{path}*[]", [x for table in inner.values() for x in table[:1]]
    elif 1 < len(objects) == len(row) and _are_alike(objects[:LOOKED_AT]):
        yield f"{path}*", objects
    else:
        for name, value in inner.items():
            if name.lower() in NAMES.turns:
                continue
            if isinstance(value, dict):
                yield from tables_of(value, f"{path}{name}.", levels - 1) if levels else ()
            elif _is_table(value):
                yield f"{path}{name}[]", value


def _is_table(value: Any) -> bool:
    """Whether it is a list of objects that are no messages."""
    entries = value[:LOOKED_AT] if isinstance(value, list) else []
    return bool(entries) and all(
        isinstance(x, dict) and not {"role", "from"} & x.keys() for x in entries
    )


def _are_alike(objects: Sequence[Row]) -> bool:
    """Whether objects are rollouts that have most of their fields in common."""
    common = set.intersection(*(set(x) for x in objects))
    is_most = 2 * len(common) >= max(map(len, objects))
    return len(common) > 1 and is_most and any(is_rollout(x, likely=True) for x in objects)


def table_of(row: Row) -> list[Row] | None:
    """The rows of a table as W&B or pandas write it; None for any other object."""
    names, data = (row.get(x, []) for x in ("columns", "data"))
    is_table = row.keys() <= TABLE and KINDS["list"](names) and KINDS["lists"](data)
    if is_table and {*map(len, data)} == {len(names)}:
        return [dict(zip(map(str, names), x, strict=True)) for x in data]
    values = list(row.values())
    if len(values) > 1 and all(isinstance(x, dict) and x for x in values):
        keys = values[0].keys()
        if all(x.keys() == keys and all(str(k).isdecimal() for k in x) for x in values):
            return [{name: column[key] for name, column in row.items()} for key in keys]
    return None


def responses_in(row: Row, names: Sequence[str] | None = None) -> str | None:
    """The field that holds several responses; None where a row is one rollout."""
    for name in names or NAMES.responses:
        value = row.get(name)
        if value is not None and (value == [] or KINDS["saids"](value) or choices_of(value)):
            return name
    if KINDS["lists"](row.get("tokens")) and KINDS["lists"](row.get("masks")):
        return "tokens"
    return "token_ids" if KINDS["lists"](row.get("token_ids")) else None
