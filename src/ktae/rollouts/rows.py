"""Plain rollouts, whatever file they come from: completed, checked and made rows of the record.

docs/read-your-own.md has their fields. What is no field of the record is kept, as JSON, in its
column `extra`; a field `extra` that holds a JSON object as text, as that column does, is taken
apart again.
"""

from __future__ import annotations

import json
from typing import Any

from ktae.arrays import is_above
from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import joined, plain_text, response_of
from ktae.rollouts.names import NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.schemas.base import FINAL
from ktae.rollouts.values import (
    IGNORED,
    PARSERS,
    Row,
    any_text,
    as_verdict,
    is_null,
    is_number,
    prompt_digest,
    without,
)

INTERNAL = frozenset(("_prompt_id", "_is_alone", FINAL, "extra", "is_evaluation"))
"""Names that are not kept among a row's further fields."""
ALIASES, ASKS, THOUGHTS = (
    frozenset((*NAMES.steps, *NAMES.masks)),
    frozenset(NAMES.questions),
    frozenset(NAMES.thoughts),
)


class MissingFieldError(InputError):
    """A rollout without a field that it needs."""


def complete(
    row: Row,
    where: str,
    notes: Notes,
    alone: str | None,
    *,
    is_plain: bool = True,
    needs_reward: bool = True,
) -> Row:
    """`row` with the texts of its conversations, and with what it lacks and can do without.

    `alone` is the label of a row that has neither label nor prompt; None: it is of no group. Where
    the notes are strict, no reward is made up. `is_plain`: no tool says what its groups are.
    """
    fields, strict = with_texts(row, where, notes), notes.strict
    if not ALIASES.isdisjoint(fields):
        rename_aliases(fields, where)
    if isinstance(fields.get("group"), str) and not fields["group"].strip():
        fields["group"] = None  # as CSV has it
    if not ("response" in fields or "token_ids" in fields):
        return fields  # refused, with the fields that it has
    # The same prompt of a step is the same group, also where nobody wrote that down.
    is_final, label = fields.pop(FINAL, False), fields.get("group")
    prompt = fields.pop("_task", None) or fields.get("prompt")
    if prompt is not None and not (is_final and not is_null(label)):
        images = [fields[x] for x in ("image", "images") if fields.get(x)]
        fields["_prompt_id"] = prompt_digest([prompt, images] if images else prompt)
        if is_null(label) and is_plain:
            notes.add("without_group")
    elif is_null(label) and alone is not None:
        fields["group"], fields["_is_alone"] = alone, True
    _complete_reward(fields, notes, strict, is_plain, needs_reward)
    return fields


def _complete_reward(
    fields: Row, notes: Notes, strict: bool, is_plain: bool, needs_reward: bool
) -> None:
    """Make a reward of a verdict and a verdict of a reward, where one is there alone."""
    reward = fields.get("reward")
    if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
        fields |= {"reward": float(verdict), "correct": fields.get("correct", verdict)}
    elif is_null(reward):
        if "reward" in fields and not is_plain:  # what a tool has null for is an unknown verdict
            fields.setdefault("correct", None)
        known = as_verdict(fields.get("correct"))
        if known is not None and not (strict and "reward" in fields):
            fields["reward"] = float(known)
        elif known is None and ("correct" in fields or not strict or not needs_reward):
            notes.add("without_reward", n=int(needs_reward))
            fields |= {"reward": None, "correct": fields.get("correct")}
    if not needs_reward and "correct" in fields:
        # A reward may be shaped, or stand in for a verdict that is not known.
        known = as_verdict(fields["correct"])
        fields["reward"] = None if known is None else float(known)


def rename_aliases(fields: Row, where: str) -> None:
    """Give a step, and a mask of token ids, their names. A mask of another length is an error."""
    names = {"step": [x for x in NAMES.steps if is_number(fields.get(x))]}
    if isinstance(ids := fields.get("token_ids"), list):
        masks = [x for x in NAMES.masks if isinstance(fields.get(x), list)]
        names["mask"] = [x for x in masks if len(fields[x]) == len(ids)]
        misfits = [x for x in masks if x != "labels"]
        if misfits and not names["mask"] and fields.get("mask") is None:
            raise InputError(f"{where}: {misfits[0]} and token_ids differ in length")
    for name, aliases in names.items():
        if aliases and fields.get(name) is None:
            fields[name] = fields.pop(aliases[0])


def with_texts(row: Row, where: str, notes: Notes) -> Row:
    """The row with what the policy wrote in a conversation as its response, and its prompt.

    Without a field `prompt` those of `NAMES.prompts` are the prompt, such as instruction and input.
    A question beside a template is part of the prompt. A prompt that is final is left as it is.
    """
    fields = dict(row)
    is_final = fields.pop("_prompt_is_final", False)
    prompt = plain_text(fields.get("prompt"))
    is_unlabelled = is_null(fields.get("group")) and not is_final
    if prompt is None or (
        is_unlabelled and not ASKS.isdisjoint(fields) and isinstance(prompt, str)
    ):
        # In a chat nothing beside it asks, such as the query that a policy wrote.
        is_chat = not isinstance(fields.get("prompt"), str)
        names = NAMES.prompts if prompt is None else NAMES.questions[: 4 if is_chat else 7]
        texts = {name: _asked(fields[name]) for name in names if name in fields}
        texts = {k: x for k, x in texts.items() if isinstance(x, str) and x not in (prompt or "")}
        prompt = joined(dict.fromkeys((prompt, *texts.values()))) if texts else prompt
        fields = without(fields, texts)
    response = fields.get("response")
    thoughts = () if THOUGHTS.isdisjoint(fields) else NAMES.thoughts
    thought = next((fields[x] for x in thoughts if isinstance(fields.get(x), str)), None)
    if isinstance(response, str) and thought and thought.strip() not in response:
        response = [{"role": "assistant", "reasoning_content": thought, "content": response}]
        fields = without(fields, [x for x in NAMES.thoughts if fields.get(x) == thought])
    talk = response_of(response, row.get("prompt", prompt), where)
    if talk is not None:
        fields |= talk.as_row()
        if talk.prompt is not None and not is_final:
            named = prompt if isinstance(prompt, str) else ""
            longer, shorter = sorted((named, talk.prompt), key=len, reverse=True)
            prompt = longer if shorter in longer else f"{named}\n{talk.prompt}"
    if prompt is not None:
        fields["prompt"] = prompt
    if fields.get("segments"):
        notes.add("context")
        if fields.get("token_ids") is not None and fields.get("mask") is None:
            notes.add("ids")
            fields["token_ids"] = None
    return fields


def _asked(value: Any) -> Any:
    """The text of a question; of an object of texts, such as a template's variables, all."""
    is_texts = isinstance(value, dict) and all(isinstance(x, str) for x in value.values())
    return joined(value.values()) if is_texts and "role" not in value else plain_text(value)


def to_record_row(row: Row, where: str, threshold: float) -> Row:
    """One row of the record from a plain rollout; a verdict is a reward above the threshold."""
    for name, other in (("response", "token_ids"), ("group", "prompt"), ("reward", "correct")):
        if name not in row and other not in row:
            raise MissingFieldError(
                f"{where}: no field {name!r}; its fields are {quoted(row)}; expected {name} or "
                f"{other}, or --field {name}=NAME for one of them"
            )
    made: Row = {}
    rest: Row = {}
    for name, value in row.items():
        if name not in PARSERS:
            rest[name] = value
        elif value is not None:
            parse, expected = PARSERS[name]
            try:
                made[name] = parse(value)
            except (TypeError, ValueError, OverflowError, AttributeError):
                raise InputError(f"{where}: {name} is {value!r:.60}; expected {expected}") from None
    has_verdict = "correct" in row  # null is a verdict, too: that nothing is known
    label, prompt_id, reward = made.get("group"), row.get("_prompt_id"), made.get("reward")
    ids, labels = made.get("token_ids"), made.get("mask")
    if label is None and prompt_id is None:
        _raise_missing(row, "group", where)
    if not has_verdict:
        if reward is None:
            _raise_missing(row, "reward", where)
        made["correct"] = float(is_above(reward or 0.0, threshold))
    if ids is None and "response" not in made:
        _raise_missing(row, "response", where)
    if labels is not None:
        if len(labels) != (0 if ids is None else len(ids)):
            raise InputError(f"{where}: mask and token_ids differ in length")
        if labels.dtype != bool and ((labels != IGNORED) & (labels != ids)).any():
            raise InputError(
                f"{where}: mask is {row['mask']!r:.60}; expected true or false, 0 or 1, or "
                f"{IGNORED} and the token id"
            )
        made["mask"] = labels if labels.dtype == bool else labels != IGNORED
    made["is_evaluation"], made["by_reward"] = bool(row.get("is_evaluation")), not has_verdict
    made["label"], made["prompt_id"], made["extra"] = label, prompt_id, further_fields(rest)
    return made


def _raise_missing(row: Row, name: str, where: str) -> None:
    raise InputError(f"{where}: {name} is {row.get(name)}; expected {PARSERS[name][1]}")


def further_fields(rest: Row) -> str | None:
    """The JSON of what is no field of the record, and of what a record's `extra` holds already."""
    if rest.keys() <= INTERNAL and "extra" not in rest:
        return None
    fields = {name: x for name, x in rest.items() if name not in INTERNAL}
    extra = rest.get("extra")
    try:
        inner = json.loads(extra) if isinstance(extra, str) else None
    except (ValueError, RecursionError):
        inner = None
    # Anything but a JSON object by that name is a field.
    if not isinstance(inner, dict):
        inner = {} if extra is None else {"extra": extra}
    inner |= fields
    return any_text(inner) if inner else None
