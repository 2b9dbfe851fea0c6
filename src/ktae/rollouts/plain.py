"""Plain rows: which field of a file that no known tool has written means what.

A field must hold what its name says, in the rows at the beginning of the file. Where two fields may
be meant, nothing is guessed: an error names both.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import author, messages_of, plain_text
from ktae.rollouts.notes import Notes
from ktae.rollouts.paths import MISSING, NAMES, UnknownRowsError, at
from ktae.rollouts.schemas import Schema, Source
from ktae.rollouts.values import KINDS, Row, as_label, as_verdict, is_label, is_null, label_of

SHOWN, MAX_DEPTH = 60, 6  # paths of a row that are shown, and their levels
OWN_STEP = r"step-\d+\.parquet"  # the files of ktae's own run folder
Kind = Callable[[Any], bool]


def usual_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the commonest shape; those with more fields count as such, too."""
    shape = Counter(frozenset(row) for row in rows).most_common(1)[0][0]
    return [row for row in rows if shape <= row.keys()]


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
    lines = []
    for path, value in values:
        messages = messages_of(value) if isinstance(value, list) else None
        text = json.dumps(value, default=str)
        shown = f"{len(messages)} messages" if messages else text[:57] + "..." * (len(text) > 57)
        lines.append(f"  {path:{width}}  {shown}")
    return UnknownRowsError("\n".join([f"{message}; name its fields: {missing}", *lines]))


class Columns:
    """The values of rows by path, as far as they say what a field is."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def values(self, path: str) -> list[Any]:
        """Those that are not null, row by row."""
        values = (at(row, path) for row in self.rows)
        return [x for x in values if x is not MISSING and not is_null(x)]

    def fits(self, path: str, kind: Kind, share: float = 0.5, present: float = 0.5) -> bool:
        """Whether at least that share of a field's values, of which most rows have one, fit."""
        values, n = self.values(path), len(self.rows)
        is_there = len(values) >= present * n and 2 * len(values) > n
        return is_there and sum(map(bool, map(kind, values))) >= max(share * len(values), 1)

    def one_of(
        self, names: Sequence[str], meaning: str, spell: Callable[[Any], Any] = str
    ) -> str | None:
        """The field of that meaning: the first, unless another has other values."""
        if meaning in names and self.fits("group", is_label):
            return meaning  # such a row is what it says
        for row in self.rows if len(names) > 1 else ():
            if len({str(spell(row[x])) for x in names if not is_null(row.get(x))}) > 1:
                raise _ambiguous(names, meaning)
        return names[0] if names else None


def _ambiguous(names: Sequence[str], meaning: str) -> UnknownRowsError:
    return UnknownRowsError(
        f"{quoted(names)} may be the {meaning}, and differ; --field {meaning}=NAME says which"
    )


def understand(rows: Sequence[Row], notes: Notes, named: Collection[str] = ()) -> Schema | None:
    """The schema of plain rows, by names and values; what is `named` is known."""
    columns = Columns(rows)
    is_named = not {"response", "token_ids"}.isdisjoint(named)
    has_ids = is_named or columns.fits("token_ids", KINDS["list"])
    texts = [x for x in NAMES.responses if columns.fits(x, KINDS["response"])]
    if not (texts or has_ids):
        talks = dict.fromkeys((*NAMES.conversations, *NAMES.turns))
        texts = [x for x in talks if columns.fits(x, KINDS["policy"])]
        if not texts:
            return None
    fields = {"response": columns.one_of(texts, "response", plain_text)}
    if {"reward", "correct"}.isdisjoint(named):
        fields |= _outcome(columns)
    label, is_final = ("group", False) if "group" in named else _label(columns)
    fields["group!" if is_final else "group"] = label
    if "answer" not in named:
        fields["answer"] = _answer(columns, fields["response"], label, notes)
    reads = [(k, x) for k, x in fields.items() if x is not None and k not in named and k != x]
    for name in ("correct", "answer"):  # what a name says wrongly stays, under another
        other = fields.get(name, name) or (fields.get("reward") if name == "correct" else None)
        if other not in (None, name) and columns.values(name):
            reads.append((f"{name} (field)", name))
            notes.add("other_field", f"{name}: {other!r}")
    names = (*NAMES.splits, "key")  # of a container of rows by split
    values = {x: {str(y).lower() for y in columns.values(x)} for x in names}
    evaluations = {*NAMES.evaluations}  # beside training they are left out
    split = next((x for x, y in values.items() if y & evaluations and y - evaluations), None)
    has_messages = "messages" in rows[0] and fields["response"] != "messages"
    _note_turns(columns, notes)

    def convert(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
        if split is not None:
            plain = plain | {"is_evaluation": str(row.get(split)).lower() in evaluations}
        if has_messages and "prompt" not in plain:  # those before the policy's last
            talk = reversed(messages_of(row.get("messages")) or [])
            asked = [*itertools.dropwhile(author, talk)][::-1]
            plain = plain | ({"prompt": asked} if asked else {})
        yield plain

    schema = Schema("plain rollouts", run=OWN_STEP, is_plain=True)
    schema.convert = convert if split or has_messages else None
    schema.fields = [(name, [path]) for name, path in reads]
    return schema


def _outcome(columns: Columns) -> dict[str, str | None]:
    """Where the verdict is, or else the reward, which may be several by name."""
    names = [x for x in NAMES.verdicts if columns.fits(x, KINDS["decided"], 0.9)]
    scores = [x for x in NAMES.rewards if columns.fits(x, KINDS["score"])]
    has_correct, has_reward = (any(x in row for row in columns.rows) for x in ("correct", "reward"))
    is_other = columns.fits("correct", lambda x: as_verdict(x) is None, 0.5 if names else 1.0)
    if has_correct and "correct" not in names and not (is_other and (names or "reward" in scores)):
        names = ["correct"]
    for name in {*names[:1]} & {*NAMES.verdicts[4:]}:
        if len({*map(as_verdict, columns.values(name))}) == 1:  # such as each request's success
            names += [x for x in scores if columns.fits(x, KINDS["decided"], 0.9)]
    if names:  # one of several verdicts that say the same is enough
        return {"correct": columns.one_of(names, "correct", as_verdict)}
    dicts = [x for x in NAMES.rewards if columns.fits(x, KINDS["dict"])]
    by_name = dicts[0] if dicts and (not has_reward or "reward" in dicts) else None
    return {"reward": by_name or ("reward" if has_reward else columns.one_of(scores, "reward"))}


def _label(columns: Columns) -> tuple[str | None, bool]:
    """What tells the problem, and whether it does so whatever the prompt."""
    if columns.fits("group", lambda value: label_of(value) is not None):
        return "group", False
    rows, names, is_final = columns.rows, list[str](), False
    asked = [x for x in NAMES.prompts if columns.values(x)]
    prompts = [str([plain_text(row.get(x)) for x in asked]) for row in rows]
    has_prompts = len(set(prompts)) > 1 or any(row.get("prompt") for row in rows)
    for name in NAMES.labels:
        if len(columns.values(name)) < len(rows) or not columns.fits(name, is_label):
            continue
        labels = [str(as_label(row[name])) for row in rows]
        n = len({*labels})
        if n == len(rows) or (n == 1 and len(rows) > 2):
            continue  # a number of the row, or the same in all of them
        # Prompts that hardly repeat are of users, or what was seen.
        is_task = has_prompts and len({*zip(labels, prompts, strict=True)}) > n
        if not is_task or 5 * len(set(prompts)) > 4 * len(rows):
            names.append(name)
            is_final = is_final or is_task
    for name in names[1:]:  # two numberings of the same problems are one
        pairs = {(str(row[names[0]]), str(row[name])) for row in rows}
        if not len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}):
            raise _ambiguous(names, "group")
    return (names[0] if names else None), is_final


def _answer(columns: Columns, response: str | None, label: str | None, notes: Notes) -> str | None:
    """The reference answer, which is the same in all rollouts of a problem."""
    names = [x for x in NAMES.answers if x != response and columns.fits(x, KINDS["any"])]
    told = [*([label] if label else NAMES.prompts), "benchmark", "task_name", "data_source"]
    groups = [str([plain_text(row.get(x)) for x in told]) for row in columns.rows]

    def is_known(name: str) -> bool:
        values = (str(as_label(row.get(name))) for row in columns.rows)
        return len({*zip(groups, values, strict=True)}) == len({*groups})

    known = [x for x in names if is_known(x)]
    if not known and "answer" in names:
        notes.add("unsure_answers", "'answer'")
        return "answer"
    return columns.one_of(known, "answer", lambda x: str(as_label(x)).strip().lower())


def _note_turns(columns: Columns, notes: Notes) -> None:
    """Note rows that are turns of one episode: they have its number, and are numbered in it."""
    episodes = [x for x in NAMES.episodes if columns.fits(x, is_label)]
    turns = [x for x in NAMES.turn_numbers if columns.fits(x, KINDS["number"])]
    for episode, turn in itertools.product(episodes, turns):
        numbers = defaultdict[str, list[float]](list)
        for row in columns.rows:
            if KINDS["number"](row.get(turn)):
                numbers[str(row.get(episode))].append(row[turn])
        several = [sorted(x) for x in numbers.values() if len(x) > 1]
        if several and all(x == [x[0] + i for i in range(len(x))] for x in several):
            notes.add("turn_rows", f"{turn!r} of {episode!r}", n=sum(map(len, several)))
            if notes.strict:
                raise InputError(
                    f"rows are turns: {turn!r} counts within each {episode!r}; expected one row a "
                    "rollout, such as its messages"
                )
            return
