"""Plain rows: which field of a file that no known tool has written means what.

A field must hold what its name says, in the rows at the beginning of the file. Where two fields may
be meant, nothing is guessed: an error names both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import author, choices_of, messages_of, plain_text
from ktae.rollouts.names import NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.paths import UnknownRowsError, at
from ktae.rollouts.schemas.base import CORRECTNESS_NAMES, Schema, Source, choose
from ktae.rollouts.values import KINDS, MISSING, Row, as_label, as_verdict, is_label, is_null
from ktae.rollouts.values import label_of as as_group

OWN_STEP = r"step-\d+\.parquet"
"""The files of ktae's own run folder."""
Kind = Callable[[Any], bool]


def usual_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the commonest shape; those with more fields count as such, too."""
    shape = Counter(frozenset(row) for row in rows).most_common(1)[0][0]
    return [row for row in rows if shape <= row.keys()]


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
        if not values or len(values) < present * n or 2 * len(values) <= n:
            return False
        return sum(map(bool, map(kind, values))) >= max(share * len(values), 1)

    def one_of(
        self, names: Sequence[str], meaning: str, spell: Callable[[Any], Any] = str
    ) -> str | None:
        """The field of that meaning: the first, unless another has other values."""
        for row in self.rows if len(names) > 1 else ():
            if len({str(spell(row[x])) for x in names if not is_null(row.get(x))}) > 1:
                raise UnknownRowsError(
                    f"{quoted(names)} may be the {meaning}, and differ; --field {meaning}=NAME "
                    "says which"
                )
        return names[0] if names else None

    def prompts(self) -> list[str]:
        """What each row asks, as text."""
        names = [x for x in NAMES.prompts if self.values(x)]
        return [str([plain_text(row.get(x)) for x in names]) for row in self.rows]


def has_policy(value: Any) -> bool:
    """Whether a value is a conversation in which the policy speaks."""
    return any(map(author, messages_of(value) or ()))


def is_verdict(value: Any) -> bool:
    """Whether a value says correct or incorrect."""
    return as_verdict(value) is not None


def understand(rows: Sequence[Row], notes: Notes, named: Collection[str] = ()) -> Schema | None:
    """The schema of plain rows, by names and values; what is `named` is known.

    None where nothing is a response.

    Raises:
        UnknownRowsError: two fields may be the response, the verdict, the answer or the label.
        InputError: rows are turns, and notes are strict.
    """
    columns = Columns(rows)
    fields: dict[str, str | None] = {"response": _response(columns)}
    has_ids = columns.fits("token_ids", KINDS["list"])
    if fields["response"] is None and not has_ids and {"response", "token_ids"}.isdisjoint(named):
        return None
    if "reward" not in named and "correct" not in named:
        fields["correct"] = _verdict(columns)
    several = None
    if fields.get("correct") is None and "reward" not in named:
        dicts = [x for x in NAMES.rewards if columns.fits(x, KINDS["dict"])]
        scores = [x for x in NAMES.rewards if columns.fits(x, KINDS["score"])]
        has_reward = any("reward" in row for row in rows) and "reward" not in dicts
        several = dicts[0] if dicts and not has_reward else None
        fields["reward"] = "reward" if has_reward else columns.one_of(scores, "reward")
    label, is_final = (None, False) if "group" in named else _label(columns)
    fields["group!" if is_final else "group"] = label
    if "answer" not in named:
        fields["answer"] = _answer(columns, fields["response"], label, notes)
    reads = [(k, x) for k, x in fields.items() if x is not None and k not in named and k != x]
    for name in ("correct", "answer"):  # what a name says wrongly stays, under another
        other = fields.get(name, name) or (fields.get("reward") if name == "correct" else None)
        if other not in (None, name) and columns.values(name):
            reads.append((f"{name} (field)", name))
            notes.add("other_field", f"{name}: {other!r}")
    split = next((x for x in NAMES.splits if _tells_evaluations(columns.values(x))), None)
    has_messages = "messages" in rows[0] and fields["response"] != "messages"
    _note_turns(columns, notes)

    def convert(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
        if split is not None:
            plain = plain | {"is_evaluation": str(row.get(split)).lower() in NAMES.evaluations}
        if has_messages and "prompt" not in plain:
            plain = plain | _prompt_of(row.get("messages"))
        rewards = row.get(several or "")
        if isinstance(rewards, dict) and not source.options.correctness:
            plain = plain | {"reward": choose(rewards, CORRECTNESS_NAMES, where, source)}
        yield plain

    schema = Schema("plain rollouts", run=OWN_STEP, is_plain=True)
    schema.convert = convert if split or has_messages or several else None
    schema.fields = [(name, [path]) for name, path in reads]
    return schema


def _prompt_of(messages: Any) -> Row:
    """The prompt, where a row has messages beside its response."""
    talk = messages_of(messages) or []
    while talk and author(talk[-1]):
        talk = talk[:-1]
    return {"prompt": talk} if talk else {}


def _response(columns: Columns) -> str | None:
    def is_response(value: Any) -> bool:
        return KINDS["said"](value) or choices_of(value) is not None

    names = [x for x in NAMES.responses if columns.fits(x, is_response)]
    if "response" in names and columns.fits("group", is_label):
        return "response"  # such a row is what it says
    if names or columns.fits("token_ids", KINDS["list"]):
        return columns.one_of(names, "response", plain_text)
    talks = dict.fromkeys((*NAMES.conversations, *NAMES.turns))
    return columns.one_of([x for x in talks if columns.fits(x, has_policy)], "response")


def _verdict(columns: Columns) -> str | None:
    """The field of verdicts; of several that say the same the first."""
    names = [x for x in NAMES.verdicts if columns.fits(x, is_verdict, 0.9)]
    is_other = columns.fits("correct", lambda x: not is_verdict(x), 0.5 if names else 1.0)
    if any("correct" in row for row in columns.rows) and "correct" not in names:
        is_needed = not (names or columns.fits("reward", KINDS["score"]))
        return "correct" if is_needed or not is_other else columns.one_of(names, "correct")
    if "correct" in names and columns.fits("group", is_label):
        return "correct"
    return columns.one_of(names, "correct", as_verdict)


def _label(columns: Columns) -> tuple[str | None, bool]:
    """What tells the problem, and whether it does so whatever the prompt.

    That is a field whose values repeat, and that goes with the prompt.
    """
    if columns.fits("group", lambda value: as_group(value) is not None):
        return "group", False
    prompts, n, names, is_final = columns.prompts(), len(columns.rows), list[str](), False
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
    for name in names[1:]:  # two numberings of the same problems are one
        pairs = {(str(row[names[0]]), str(row[name])) for row in columns.rows}
        if not len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}):
            raise UnknownRowsError(
                f"{quoted(names)} may be the group, and differ; --field group=NAME says which"
            )
    return (names[0] if names else None), is_final


def _answer(columns: Columns, response: str | None, label: str | None, notes: Notes) -> str | None:
    """The reference answer, which is the same in all rollouts of a problem."""
    prompts, known = columns.prompts(), list[str]()
    names = [x for x in NAMES.answers if x != response and columns.fits(x, lambda value: True)]
    for name in names:
        of_group = defaultdict[str, set[str]](set)
        for row, prompt in zip(columns.rows, prompts, strict=True):
            about = [row.get(x) for x in (label or "", "benchmark", "task_name", "data_source")]
            of_group[str(about if label else [prompt, *about])].add(str(row.get(name)))
        if all(len(x) == 1 for x in of_group.values()):
            known.append(name)
    if not known and "answer" in names:
        notes.add("unsure_answers", "'answer'")
        return "answer"
    return columns.one_of(known, "answer", lambda x: str(as_label(x)).strip().lower())


def _tells_evaluations(values: Sequence[Any]) -> bool:
    """Whether values of a field tell rollouts of training and of evaluations apart."""
    texts = {str(x).lower() for x in values}
    return not texts.isdisjoint(NAMES.evaluations) and not texts <= {*NAMES.evaluations}


def _note_turns(columns: Columns, notes: Notes) -> None:
    """Note rows that are turns of one episode: they have its number, and are numbered in it.

    Raises:
        InputError: where notes are strict.
    """
    episodes = [x for x in NAMES.episodes if columns.fits(x, is_label)]
    turns = [x for x in NAMES.turn_numbers if columns.fits(x, KINDS["number"])]
    for episode, turn in ((x, y) for x in episodes for y in turns):
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
