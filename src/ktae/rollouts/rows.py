"""Plain rollouts, whatever file they come from: completed, checked and made rows of the record.

docs/read-your-own.md has their fields. What is no field of the record is kept, as JSON, in its
column `extra`; a field `extra` that holds a JSON object as text, as that column does, is taken
apart again.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from ktae.arrays import MAX_TOKEN_ID, is_above
from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import PROMPTS, joined, messages_of, plain_text, response_of
from ktae.rollouts.notes import Notes

Row = dict[str, Any]


class Each(list[Any]):
    """Values of one rollout each, or, of several levels, lists of such."""


WORDS = {
    **dict.fromkeys(("true", "correct", "pass", "passed", "c", "1"), True),
    **dict.fromkeys(("false", "incorrect", "fail", "failed", "i", "0"), False),
}
"""Texts that are verdicts, in small letters; C and I are inspect's."""
IGNORED = -100
"""The label of a token that no loss is computed of."""
STEPS = ("global_step", "training_step", "train_step")
MASKS = ("loss_mask", "response_mask", "action_mask", "assistant_masks", "labels")
OTHER_NAMES = frozenset((*STEPS, *MASKS))
"""What trainers call a step, and a mask that is as long as the token ids."""
QUESTIONS = ("problem", "question", "problems", "questions")
"""Fields that hold a problem where `prompt` is a template or a system's message."""
LONGEST_LABEL = 80
"""Characters. A longer text in the place of a group becomes a short label."""

_AS_JSON = json.JSONEncoder(ensure_ascii=False, default=str).encode


# --- what a value is


def as_verdict(value: object) -> bool | None:
    """Whether a verdict says correct; None for what is no verdict."""
    if isinstance(value, str):
        return WORDS.get(value.strip().lower())
    return bool(value == 1) if value in (0, 1) else None


def is_null(value: object) -> bool:
    """Null; NaN too, since that is what pandas writes for null in a column of numbers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_number(value: object) -> bool:
    """Whether it is a number, and not true or false."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_score(value: object) -> bool:
    """Whether it is a number, a verdict, or null."""
    return value is None or is_number(value) or as_verdict(value) is not None


def as_label(value: object) -> object:
    """A group's label as it was meant: pandas has integers as 7.0 where others are null, and
    databases have them as decimals."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def is_label(value: object) -> bool:
    """Whether it can be a group's label: text or an integer."""
    return isinstance(as_label(value), int | str) and not isinstance(value, bool)


def list_of(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a value is a list of such values."""
    return lambda value: isinstance(value, list) and all(map(kind, value))


def is_said(value: Any) -> bool:
    """Whether it is text or a conversation."""
    return isinstance(value, str) or messages_of(value) is not None


def of_type(*kinds: type) -> Callable[[Any], bool]:
    """Whether a value is of one of these types."""
    return lambda value: isinstance(value, kinds)


KINDS: dict[str, Callable[[Any], bool]] = {
    "any": of_type(object),
    "text": of_type(str),
    "said": is_said,
    "messages": lambda value: messages_of(value) is not None,
    "number": is_number,
    "number?": lambda value: value is None or is_number(value),
    "score": is_score,
    "label": is_label,
    "dict": of_type(dict),
    "list": of_type(list),
    "texts": list_of(of_type(str)),
    "saids": lambda value: messages_of(value) is None and list_of(is_said)(value),
    "scores": list_of(is_score),
    "lists": lambda value: bool(value) and list_of(of_type(list))(value),
}
"""What a field of a schema's signature may hold."""


# --- what becomes of a field's value: an exception says that it is none


def text(value: Any) -> str:
    """Text. Half a surrogate pair, which JSON can spell and nothing can write, is U+FFFD."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return str(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return str(value)


def any_text(value: Any) -> str:
    """Text; of anything else its JSON."""
    return text(value if isinstance(value, str) else _AS_JSON(value))


def answer(value: Any) -> str:
    """Text; of a list of accepted answers the texts, which numbers become as they are written."""
    if isinstance(value, list) and value and set(map(type, value)) <= {str, int, float, Decimal}:
        value = [str(as_label(x)) for x in value]  # no booleans among them
    return any_text(value)


def group_label(value: Any) -> str:
    """Text, or the digits of an integer."""
    return text(str(as_label(value)) if is_label(value) else None)


def number(value: Any) -> float | None:
    """A finite number; null for NaN."""
    parsed = float(value) if is_number(value) else math.inf
    if math.isinf(parsed):
        raise ValueError
    return None if math.isnan(parsed) else parsed


def integer(value: Any) -> int | None:
    """An integer, also as 7.0, which is how pandas has it where others are null, or as text."""
    parsed = number(int(value) if isinstance(value, str) else value)
    if parsed is not None and (parsed != int(parsed) or abs(parsed) > MAX_TOKEN_ID):
        raise ValueError
    return None if parsed is None else int(parsed)


def verdict(value: Any) -> float | None:
    """1, 0, or null where nothing is known."""
    known = as_verdict(value)
    return None if is_null(value) else float(known)  # type: ignore[arg-type]  # None raises


def token_ids(value: Any) -> np.ndarray:
    """(T,) int32: a column of arrays is made much faster than one of lists."""
    ids = np.array(array("i", value))
    if set(map(type, value)) - {int} or ids.min(initial=0) < 0 or not isinstance(value, list):
        raise ValueError
    return ids


def mask(value: Any) -> np.ndarray:
    """(T,) bool, or numbers where an entry is neither 0 nor 1."""
    if not isinstance(value, list) or set(map(type, value)) - {bool, int, float}:
        raise ValueError
    entries = np.array(value, dtype=float)
    return entries != 0 if np.isin(entries, (0, 1)).all() else entries


def spans(value: Any) -> list[int] | None:
    """Begins and ends within a text, as the record has them; anything else by that name is none."""
    is_list = isinstance(value, list) and all(type(x) is int for x in value)
    is_rising = is_list and [0, *value, MAX_TOKEN_ID] == sorted([0, *value, MAX_TOKEN_ID])
    return value if is_rising and len(value) % 2 == 0 else None


VERDICTS = "true or false, 1 or 0, correct or incorrect, pass or fail, C or I, or null (unknown)"
PARSERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "group": (group_label, "text or an integer"),
    "step": (integer, "an integer within ±(2^31 - 1)"),
    "prompt": (any_text, "text"),
    "response": (text, "text or messages"),
    "answer": (answer, "text"),
    "token_ids": (token_ids, "a list of integers from 0 to 2^31 - 1"),
    "mask": (mask, "a list of booleans"),
    "reward": (number, "a finite number"),
    "correct": (verdict, VERDICTS),
    "advantage": (number, "a finite number"),
    "model": (any_text, "text"),
    "source": (any_text, "text"),
    "context_spans": (spans, "begins and ends"),
}
"""What becomes of each field's value, null aside, and what an error expects."""


def prompt_label(prompt: object) -> str:
    """A group's label made of its prompt: the same prompt has the same label in every step."""
    said = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    digest = hashlib.blake2s(said.strip().encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"prompt {digest}"


def label_of(value: Any) -> Any:
    """A group's label, or each of several: of a long text or a conversation one made of it."""
    if is_null(value):
        return None
    if isinstance(value, Each):
        return Each(map(label_of, value))
    if isinstance(value, list) and messages_of(value) is None:
        return value  # of one label a rollout, or of no use
    if is_label(value) and not (isinstance(value, str) and len(value) > LONGEST_LABEL):
        return as_label(value)
    return prompt_label(plain_text(value))


# --- rollouts


class MissingFieldError(InputError):
    """A rollout without a field that it needs."""


def without(row: Row, names: Iterable[str]) -> Row:
    """The other fields of a row."""
    names = frozenset(names)
    return {name: value for name, value in row.items() if name not in names}


def complete(row: Row, where: str, notes: Notes) -> Row:
    """`row` with the texts of its conversations, and with what it lacks and can do without.

    Where the notes are strict, nothing is made up.
    """
    fields, strict = with_texts(row, where, notes), notes.strict
    of_row = fields.pop("of_row", False)
    if not OTHER_NAMES.isdisjoint(fields):
        take_other_names(fields, where)
    if isinstance(fields.get("group"), str) and not fields["group"].strip():
        fields["group"] = None  # as CSV has it
    if not ("response" in fields or "token_ids" in fields):
        return fields  # refused, with the fields that it has
    # The same prompt of a step is the same group, also where nobody wrote that down.
    if is_null(fields.get("group")) and ("group" not in fields or not strict):
        if fields.get("prompt") is not None:
            notes.add("without_group")
            images = [fields[x] for x in ("image", "images") if fields.get(x)]
            fields["group"] = prompt_label(
                [fields["prompt"], images] if images else fields["prompt"]
            )
        elif of_row or not strict:
            notes.add("by_row" if of_row else "alone")
            fields["group"] = where.rpartition(", ")[2] if of_row else where
    # A verdict is a reward of 1 or 0.
    if is_null(fields.get("reward")):
        known = as_verdict(fields.get("correct"))
        if known is not None and not (strict and "reward" in fields):
            fields["reward"] = float(known)
        elif known is None and ("correct" in fields or not strict):
            notes.add("without_reward")
            fields |= {"reward": None, "correct": fields.get("correct")}
    return fields


def take_other_names(fields: Row, where: str) -> None:
    """Give a step, and a mask of token ids, their names. A mask of another length is an error."""
    names = {"step": [x for x in STEPS if is_number(fields.get(x))]}
    if isinstance(ids := fields.get("token_ids"), list):
        masks = [x for x in MASKS if isinstance(fields.get(x), list)]
        names["mask"] = [x for x in masks if len(fields[x]) == len(ids)]
        misfits = [x for x in masks if x != "labels"]
        if misfits and not names["mask"] and fields.get("mask") is None:
            raise InputError(f"{where}: {misfits[0]} and token_ids differ in length")
    for name, others in names.items():
        if others and fields.get(name) is None:
            fields[name] = fields.pop(others[0])


def with_texts(row: Row, where: str, notes: Notes) -> Row:
    """The row with what the policy said in a conversation as its response, and its prompt.

    Without a field `prompt` those of other `PROMPTS` are the prompt, such as instruction and input.
    Where no label tells the problem, a question beside it is part of it.
    """
    fields = dict(row)
    prompt = plain_text(fields.get("prompt"))
    if prompt is None or (isinstance(prompt, str) and is_null(fields.get("group"))):
        names = PROMPTS if prompt is None else QUESTIONS
        texts = {name: plain_text(fields[name]) for name in names if name in fields}
        texts = {k: x for k, x in texts.items() if isinstance(x, str) and x not in (prompt or "")}
        prompt = joined(dict.fromkeys((prompt, *texts.values()))) if texts else prompt
        fields = without(fields, texts)
    said, thought = fields.get("response"), fields.get("reasoning_content")
    if isinstance(said, str) and isinstance(thought, str):
        said = [{"role": "assistant", "reasoning_content": thought, "content": said}]
    talk = response_of(said, row.get("prompt", prompt), where)
    if talk is not None:
        fields |= {"response": talk.response, "context_spans": talk.context or None}
        if talk.prompt is not None:
            told = prompt if isinstance(prompt, str) else ""
            longer, shorter = sorted((told, talk.prompt), key=len, reverse=True)
            prompt = longer if shorter in longer else f"{told}\n{talk.prompt}"
        if talk.is_of_users:
            notes.add("turns")
    if prompt is not None:
        fields["prompt"] = prompt
    if fields.get("context_spans"):
        notes.add("context")
        if fields.get("token_ids") is not None and fields.get("mask") is None:
            notes.add("ids")
            fields["token_ids"] = None
    return fields


def to_record_row(row: Row, where: str, threshold: float) -> Row:
    """One row of the record from a plain rollout; a verdict is a reward above the threshold."""
    fields = dict(row)
    for name, other in (("response", "token_ids"), ("group", "prompt"), ("reward", "correct")):
        if name not in fields and (other == "prompt" or other not in fields):
            raise MissingFieldError(
                f"{where}: no field {name!r}; its fields are {quoted(row)}; expected {name} or "
                f"{other}, or --field {name}=NAME for one of them"
            )
    parsed: Row = {}
    for name, (parse, expected) in PARSERS.items():
        value = fields.pop(name, None)
        try:
            parsed[name] = None if value is None and name != "group" else parse(value)
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise InputError(f"{where}: {name} is {value!r:.60}; expected {expected}") from None
    reward, ids, labels = parsed["reward"], parsed["token_ids"], parsed["mask"]
    if "correct" not in row:  # null is a verdict, too: that nothing is known
        if reward is None:
            raise InputError(
                f"{where}: reward is {row['reward']}; expected a finite number, or a field "
                "correct, which is null where nothing is known"
            )
        parsed["correct"] = float(is_above(reward, threshold))
    if parsed["response"] is None and ids is None:
        raise InputError(f"{where}: response is null; expected text, or token_ids")
    if labels is not None:
        if len(labels) != (0 if ids is None else len(ids)):
            raise InputError(f"{where}: mask and token_ids differ in length")
        if labels.dtype != bool and ((labels != IGNORED) & (labels != ids)).any():
            raise InputError(
                f"{where}: mask is {row['mask']!r:.60}; expected true or false, 0 or 1, or "
                f"{IGNORED} and the token id"
            )
        parsed["mask"] = labels if labels.dtype == bool else labels != IGNORED
    # A record's column `extra` is a JSON object as text; anything else by that name is a field.
    extra = fields.pop("extra", None)
    try:
        further = json.loads(extra) if isinstance(extra, str) else None
    except (ValueError, RecursionError):
        further = None
    if not isinstance(further, dict):
        further = {} if extra is None else {"extra": extra}
    further |= fields
    return parsed | {"extra": any_text(further) if further else None}
