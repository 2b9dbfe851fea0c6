"""Plain rows: which field of a file that no known tool has written means what.

A field must hold what its name says, in the rows at the beginning of the file. Where two fields may
be meant, nothing is guessed: an error names both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import author, choices_of, messages_of, plain_text
from ktae.rollouts.names import NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.paths import at, name_of
from ktae.rollouts.schemas.base import CORRECTNESS_NAMES, Schema, Source, choose
from ktae.rollouts.values import (
    KINDS,
    MISSING,
    Row,
    as_label,
    as_verdict,
    is_label,
    is_null,
    is_number,
)
from ktae.rollouts.values import label_of as as_group

Kind = Callable[[Any], bool]


class AmbiguousError(InputError):
    """Two fields may have one meaning."""


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
        values = self.values(path)
        if (
            not values
            or len(values) < present * len(self.rows)
            or 2 * len(values) <= len(self.rows)
        ):
            return False
        return sum(map(bool, map(kind, values))) >= max(share * len(values), 1)

    def one_of(
        self, names: Sequence[str], meaning: str, spell: Callable[[Any], Any] = str
    ) -> str | None:
        """The field of that meaning: the first, unless another has other values."""
        for row in self.rows if len(names) > 1 else ():
            if len({str(spell(row[x])) for x in names if not is_null(row.get(x))}) > 1:
                raise AmbiguousError(
                    f"{quoted(names)} may be the {meaning}, and differ; --field {meaning}=NAME "
                    "says which"
                )
        return names[0] if names else None


def is_response(value: Any) -> bool:
    """Whether a value is text, a conversation, or several choices."""
    return KINDS["said"](value) or choices_of(value) is not None


def has_policy(value: Any) -> bool:
    """Whether a value is a conversation in which the policy speaks."""
    messages = messages_of(value)
    return messages is not None and any(map(author, messages))


def is_verdict(value: Any) -> bool:
    """Whether a value says correct or incorrect."""
    return as_verdict(value) is not None


def understand(rows: Sequence[Row], notes: Notes, named: Collection[str] = ()) -> Schema | None:
    """The schema of plain rows, by names and values; what is `named` is known.

    None where nothing is a response.

    Raises:
        AmbiguousError: two fields may be the response, the verdict, the answer or the label.
    """
    columns = Columns(rows)
    drops: list[str] = []
    fields = {"response": _response(columns)}
    has_ids = columns.fits("token_ids", KINDS["list"])
    if fields["response"] is None and not has_ids and {"response", "token_ids"}.isdisjoint(named):
        return None
    fields["correct"] = None if "reward" in named else _verdict(columns, drops, notes)
    several = None
    if fields["correct"] is None:
        is_reward = any("reward" in row for row in rows) and not columns.fits(
            "reward", KINDS["dict"]
        )
        dicts = [x for x in NAMES.rewards if columns.fits(x, KINDS["dict"]) and not is_reward]
        scores = [x for x in NAMES.rewards if columns.fits(x, KINDS["score"]) and not dicts]
        several = next(iter(dicts), None)
        fields["reward"] = "reward" if is_reward else columns.one_of(scores, "reward")
        if fields["reward"] is None and several is None and "correct" not in named:
            fields["correct"] = _only_verdict(columns, notes)
    label, is_final = (None, False) if "group" in named else _label(columns)
    fields["group!" if is_final else "group"] = label
    if "answer" not in named:
        fields["answer"] = _answer(columns, fields["response"], label, drops, notes)
    reads = [(k, x) for k, x in fields.items() if x is not None and k not in named and k != x]
    # What a name says wrongly stays, under another.
    reads += [(f"{name} (field)", name) for name in drops]
    split = next((x for x in NAMES.splits if _tells_evaluations(columns.values(x))), None)
    has_messages = "messages" in columns.rows[0] and fields["response"] != "messages"
    require_rollouts(columns, notes)

    def convert(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
        if split is not None:
            plain = plain | {"is_evaluation": str(row.get(split)).lower() in NAMES.evaluations}
        before = _prompt_of(row.get("messages")) if has_messages and "response" in plain else None
        if before is not None and "prompt" not in plain:
            plain = plain | {"prompt": before}
        rewards = row.get(several or "")
        if isinstance(rewards, dict) and not source.options.correctness and "reward" not in named:
            chosen = choose(rewards, CORRECTNESS_NAMES, where, source)
            plain = plain | {"reward": chosen}
        yield plain

    schema = Schema("plain rollouts", is_plain=True)
    schema.convert = convert if split or has_messages or several else None
    schema.fields = [(name, [path]) for name, path in reads]
    return schema


def _prompt_of(messages: Any) -> Any:
    """The messages beside a response that are its prompt; None for none."""
    talk = messages_of(messages) or []
    while talk and author(talk[-1]):
        talk = talk[:-1]
    return talk or None


def _response(columns: Columns) -> str | None:
    names = [x for x in NAMES.responses if columns.fits(x, is_response)]
    if "response" in names and columns.fits("group", is_label):
        return "response"  # such a row is what it says
    if names or columns.fits("token_ids", KINDS["list"]):
        return columns.one_of(names, "response", plain_text)
    talks = [
        x
        for x in dict.fromkeys((*NAMES.conversations, *NAMES.turns))
        if columns.fits(x, has_policy)
    ]
    return columns.one_of(talks, "response")


def _verdict(columns: Columns, drops: list[str], notes: Notes) -> str | None:
    names = [x for x in NAMES.verdicts if columns.fits(x, is_verdict, 0.9)]
    is_there = any("correct" in row for row in columns.rows)
    if is_there and "correct" not in names:
        share_other = 0.5 if names else 1.0
        is_other = columns.fits("correct", lambda x: not is_verdict(x), share_other)
        if not is_other or not (names or columns.fits("reward", KINDS["score"])):
            return "correct"
        drops.append("correct")
        notes.add("other_field", f"correct: {names[0] if names else 'reward'!r}")
    if "correct" in names and columns.fits("group", is_label):
        return "correct"
    # One of several verdicts that say the same is enough.
    return columns.one_of(names, "correct", as_verdict)


def _only_verdict(columns: Columns, notes: Notes) -> str | None:
    """The one field of verdicts part of whose name is a verdict's, such as `correct_by_rule`."""
    names = [
        name
        for name in columns.rows[0]
        if not {*re.split(r"[\W_]+", name_of(name))}.isdisjoint(NAMES.verdicts)
        and columns.fits(name, is_verdict, 0.9)
    ]
    if len(names) == 1:
        notes.add("taken", repr(names[0]))
    return names[0] if len(names) == 1 else None


def _prompts(columns: Columns) -> list[str]:
    """What each row asks, as text."""
    names = [x for x in NAMES.prompts if columns.values(x)]
    return [str([plain_text(row.get(x)) for x in names]) for row in columns.rows]


def _label(columns: Columns) -> tuple[str | None, bool]:
    """What tells the problem, and whether it does so whatever the prompt.

    That is a field whose values repeat, and that goes with the prompt.
    """
    if columns.fits("group", lambda value: as_group(value) is not None):
        return "group", False
    prompts, n, names, is_final = _prompts(columns), len(columns.rows), list[str](), False
    has_prompts = len(set(prompts)) > 1 or any(row.get("prompt") for row in columns.rows)
    for name in NAMES.labels:
        if len(columns.values(name)) < n or not columns.fits(name, is_label):
            continue
        of_label = defaultdict[str, set[str]](set)
        for row, prompt in zip(columns.rows, prompts, strict=True):
            of_label[str(as_label(row[name]))].add(prompt)
        if len(of_label) == n or (len(of_label) == 1 and n > 2 and name != "group"):
            continue  # a number of the row, or the same in all of them
        # Prompts that hardly repeat are of users, or what was seen.
        is_task = has_prompts and any(len(x) > 1 for x in of_label.values())
        if not is_task or 5 * len(set(prompts)) > 4 * n:
            names.append(name)
            is_final = is_final or is_task
    for name in names[1:]:
        pairs = {(str(row[names[0]]), str(row[name])) for row in columns.rows}
        if not len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}):
            raise AmbiguousError(
                f"{quoted(names)} may be the group, and differ; --field group=NAME says which"
            )
    return (names[0] if names else None), is_final


def _answer(
    columns: Columns, response: str | None, label: str | None, drops: list[str], notes: Notes
) -> str | None:
    """The reference answer, which is the same in all rollouts of a problem."""
    names = [x for x in NAMES.answers if x != response and columns.fits(x, lambda value: True)]
    prompts, differing = _prompts(columns), []
    for name in names:
        of_group = defaultdict[str, set[str]](set)
        for row, prompt in zip(columns.rows, prompts, strict=True):
            about = [row.get(x) for x in (label or "", "benchmark", "task_name", "data_source")]
            of_group[str(about if label else [prompt, *about])].add(str(row.get(name)))
        if any(len(x) > 1 for x in of_group.values()):
            differing.append(name)
    known = [x for x in names if x not in differing]
    if not known:
        if "answer" in differing:
            notes.add("unsure_answers", "'answer'")
        return "answer" if "answer" in differing else None
    answer = columns.one_of(known, "answer", lambda x: str(as_label(x)).strip().lower())
    if "answer" in differing:
        drops.append("answer")
        notes.add("other_field", f"answer: {answer!r}")
    return answer


def _tells_evaluations(values: Sequence[Any]) -> bool:
    """Whether values of a field tell rollouts of training and of evaluations apart."""
    texts = {str(x).lower() for x in values}
    return not texts.isdisjoint(NAMES.evaluations) and not texts <= {*NAMES.evaluations}


def require_rollouts(columns: Columns, notes: Notes) -> None:
    """Note rows that are turns of one episode: they have its number, and are numbered in it.

    Raises:
        InputError: where notes are strict.
    """
    episodes = [x for x in NAMES.episodes if columns.fits(x, is_label)]
    turns = [x for x in NAMES.turn_numbers if columns.fits(x, is_number)]
    for episode, turn in ((x, y) for x in episodes for y in turns):
        numbers = defaultdict[str, list[float]](list)
        for row in columns.rows:
            if is_number(row.get(turn)):
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
