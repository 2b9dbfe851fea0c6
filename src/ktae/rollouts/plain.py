"""Plain rows: which field of a file that no known tool has written means what.

A field must hold what its name says, in the rows at the beginning of the file. Where two fields may
be meant, nothing is guessed: an error names both.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import choices_of, messages_of, plain_text
from ktae.rollouts.names import (
    ANSWERS,
    CONVERSATIONS,
    EPISODES,
    EVALUATIONS,
    LABELS,
    PROMPTS,
    RESPONSES,
    REWARDS,
    SPLITS,
    TURN_NUMBERS,
    TURNS,
    VERDICTS,
)
from ktae.rollouts.notes import Notes
from ktae.rollouts.roles import author
from ktae.rollouts.values import (
    KINDS,
    Row,
    as_label,
    as_verdict,
    is_label,
    is_null,
    is_number,
    label_of,
)

SAMPLE = 1000
"""Rows of a file that say what its fields mean."""
USUAL = 0.5
"""The share of rows that have a field, and of its values that are what its name says."""


class AmbiguousError(InputError):
    """Two fields may have one meaning."""


@dataclasses.dataclass
class Meanings:
    """Which field of a plain row is what of a rollout."""

    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    """Of a rollout's fields those that a row has by another name."""
    drops: tuple[str, ...] = ()
    """Fields whose plain names are not what they are."""
    rewards: str | None = None
    """A field that holds several rewards by name."""
    is_final: bool = False
    """Whether the label is the group, whatever the prompt."""
    split: str | None = None
    """The field that says which rollouts are of an evaluation."""

    def plain(self, row: Row) -> Row:
        """The row with its fields by the names of a rollout's."""
        if not (self.fields or self.drops or self.split or self.rewards):
            return row
        plain = {f"{k} (field)" if k in self.drops else k: x for k, x in row.items()}
        for name, field in self.fields.items():
            if field in row:
                plain[name] = label_of(row[field]) if name == "group" else row[field]
                if field != name and field not in self.drops:
                    plain.pop(field, None)
        if self.is_final:
            plain["_group_is_final"] = True
        if self.split is not None:
            plain["is_evaluation"] = str(row.get(self.split)).lower() in EVALUATIONS
        if (
            "prompt" not in plain
            and "response" in plain
            and self.fields.get("response") != "messages"
        ):
            before = prompt_of(row.get("messages"), plain["response"])
            plain |= {} if before is None else {"prompt": before}
        return plain


def prompt_of(messages: Any, response: Any) -> Any:
    """The messages beside a response that are its prompt; None for none."""
    talk = messages_of(messages)
    if talk is None:
        return None
    while talk and author(talk[-1]):
        talk = talk[:-1]
    return talk or None


class Columns:
    """The values of rows by field, as far as they say what a field is."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def values(self, name: str) -> list[Any]:
        """Those that are not null, row by row."""
        return [row[name] for row in self.rows if not is_null(row.get(name))]

    def fits(self, name: str, kind: Callable[[Any], bool], share: float = USUAL) -> bool:
        """Whether most rows have the field, and as many of its values are of a kind as asked."""
        values = self.values(name)
        if 2 * len(values) <= len(self.rows):
            return False
        return sum(map(bool, map(kind, values))) >= max(share * len(values), 1)

    def differ(self, names: Sequence[str], spell: Callable[[Any], Any]) -> bool:
        """Whether fields have different values in a row."""
        return any(
            len({str(spell(row[x])) for x in names if not is_null(row.get(x))}) > 1
            for row in self.rows
        )


def understand(rows: Sequence[Row], notes: Notes, named: Collection[str] = ()) -> Meanings:
    """What the fields of plain rows mean, by names and values; what is `named` is known.

    Raises:
        AmbiguousError: two fields may be the response, the verdict, the answer or the label.
    """
    columns, meanings = Columns(rows), Meanings()
    fields = {
        "response": _response(columns),
        "correct": _verdict(columns, meanings, notes) if "reward" not in named else None,
    }
    fields["reward"] = None if fields["correct"] else _reward(columns, meanings)
    meanings.fields = {k: x for k, x in fields.items() if x is not None and k not in named}
    if "group" not in named:
        label = _label(columns, meanings, notes)
        meanings.fields |= {} if label is None else {"group": label}
    if "answer" not in named:
        answer = _answer(columns, meanings, notes)
        meanings.fields |= {} if answer is None else {"answer": answer}
    meanings.fields = {k: x for k, x in meanings.fields.items() if k != x}
    meanings.split = _split(columns)
    note_turns(columns, notes)
    return meanings


def _one_of(
    columns: Columns, names: Sequence[str], meaning: str, spell: Callable[[Any], Any] = str
) -> str | None:
    """The field of that meaning: the first, unless another has other values."""
    if len(names) > 1 and columns.differ(names, spell):
        raise AmbiguousError(
            f"{quoted(names)} may be the {meaning}, and differ; --field {meaning}=NAME says which"
        )
    return names[0] if names else None


def _response(columns: Columns) -> str | None:
    def is_response(value: Any) -> bool:
        return KINDS["said"](value) or choices_of(value) is not None

    names = [x for x in RESPONSES if columns.fits(x, is_response)]
    if "response" in names and columns.fits("group", is_label):
        return "response"  # such a row is what it says
    if names:
        return _one_of(columns, names, "response", plain_text)
    if columns.fits("token_ids", KINDS["list"]):
        return None

    def has_policy(value: Any) -> bool:
        messages = messages_of(value)
        return messages is not None and any(map(author, messages))

    talks = [x for x in dict.fromkeys((*CONVERSATIONS, *TURNS)) if columns.fits(x, has_policy)]
    return _one_of(columns, talks, "response")


def _verdict(columns: Columns, meanings: Meanings, notes: Notes) -> str | None:
    def is_verdict(value: Any) -> bool:
        return as_verdict(value) is not None

    names = [x for x in VERDICTS if columns.fits(x, is_verdict, 0.9)]
    if "correct" not in names and any("correct" in row for row in columns.rows):
        if names and columns.fits("correct", lambda x: not is_verdict(x)):
            notes.add("other_field", f"correct: {names[0]!r}")
            meanings.drops += ("correct",)
        elif not columns.fits("correct", lambda x: not is_verdict(x), 1.0) or not columns.fits(
            "reward", KINDS["score"]
        ):
            return "correct"
        else:
            meanings.drops += ("correct",)
            notes.add("other_field", "correct: 'reward'")
    if "correct" in names and columns.fits("group", is_label):
        return "correct"
    # One of several verdicts that say the same is enough.
    return _one_of(columns, names, "correct", as_verdict)


def _reward(columns: Columns, meanings: Meanings) -> str | None:
    """The reward where nothing is a verdict; several by name are chosen from later."""
    if any("reward" in row for row in columns.rows) and not columns.fits("reward", KINDS["dict"]):
        return "reward"
    for name in REWARDS:
        if columns.fits(name, KINDS["dict"]):
            meanings.rewards = name
            return None
    names = [x for x in REWARDS if columns.fits(x, KINDS["score"])]
    return _one_of(columns, names, "reward")


def _prompts(columns: Columns) -> list[str]:
    """What each row asks, as text."""
    names = [x for x in (*PROMPTS, "messages", "conversation") if columns.values(x)]
    return [str([plain_text(row.get(x)) for x in names if x in PROMPTS]) for row in columns.rows]


def _label(columns: Columns, meanings: Meanings, notes: Notes) -> str | None:
    """What tells the problem: a field whose values repeat, and that goes with the prompt."""
    if columns.fits("group", lambda value: label_of(value) is not None):
        return "group"
    prompts, n = _prompts(columns), len(columns.rows)
    has_prompts = len(set(prompts)) > 1 or any(row.get("prompt") for row in columns.rows)
    names = []
    for name in LABELS:
        if not columns.fits(name, is_label) or len(columns.values(name)) < n:
            continue
        of_label = defaultdict[str, set[str]](set)
        for row, prompt in zip(columns.rows, prompts, strict=True):
            of_label[str(as_label(row[name]))].add(prompt)
        if len(of_label) == n or (len(of_label) == 1 and n > 2 and name != "group"):
            continue  # a number of the row, or the same in all of them
        if all(len(x) == 1 for x in of_label.values()) or not has_prompts:
            names.append(name)
        elif 5 * len(set(prompts)) > 4 * n:  # prompts hardly repeat: users, or what was seen
            names.append(name)
            meanings.is_final = True
    for name in names[1:]:
        pairs = {(str(row[names[0]]), str(row[name])) for row in columns.rows}
        if not len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}):
            raise AmbiguousError(
                f"{quoted(names)} may be the group, and differ; --field group=NAME says which"
            )
    return names[0] if names else None


def _answer(columns: Columns, meanings: Meanings, notes: Notes) -> str | None:
    """The reference answer, which is the same in all rollouts of a problem."""
    response = meanings.fields.get("response")
    names = [x for x in ANSWERS if x != response and columns.fits(x, lambda value: True)]
    label, prompts = meanings.fields.get("group"), _prompts(columns)
    differing = []
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
    if "answer" in differing:
        meanings.drops += ("answer",)
    answer = _one_of(columns, known, "answer", lambda x: str(as_label(x)).strip().lower())
    if answer != "answer" and "answer" in names:
        notes.add("other_field", f"answer: {answer!r}")
    return answer


def _split(columns: Columns) -> str | None:
    """The field that tells rollouts of training and of evaluations apart, if a file has both."""
    for name in SPLITS:
        values = {str(x).lower() for x in columns.values(name)}
        if values & {*EVALUATIONS} and values - {*EVALUATIONS}:
            return name
    return None


def note_turns(columns: Columns, notes: Notes) -> None:
    """Note rows that are turns of one episode: they have its number, and are numbered in it.

    Raises:
        InputError: where notes are strict.
    """
    for episode in EPISODES:
        for turn in TURN_NUMBERS:
            if not (columns.fits(episode, is_label) and columns.fits(turn, is_number)):
                continue
            numbers = defaultdict[str, list[float]](list)
            for row in columns.rows:
                if is_number(row.get(turn)):
                    numbers[str(row.get(episode))].append(row[turn])
            turns = [x for x in numbers.values() if len(x) > 1]
            are_turns = all(sorted(x) == [min(x) + i for i in range(len(x))] for x in turns)
            if turns and are_turns:
                notes.add("turn_rows", f"{turn!r} of {episode!r}", n=sum(map(len, turns)))
                if notes.strict:
                    raise InputError(
                        f"rows are turns: {turn!r} counts within each {episode!r}; expected one "
                        "row a rollout, such as its messages"
                    )
                return
