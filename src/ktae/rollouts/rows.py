"""From a plain rollout, whatever file it comes from, to a row of the record.

docs/read-your-own.md has the fields. What is no field of the record is kept, as JSON, in its column
`extra`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktae.arrays import is_above
from ktae.errors import InputError, quoted
from ktae.rollouts.conversation import from_json, joined, plain_text, response_of
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import NAMES
from ktae.rollouts.schemas import FINAL
from ktae.rollouts.values import KINDS, PARSERS, Row, any_text, as_verdict, prompt_digest, without

IGNORED = -100  # the label of a token that no loss is computed of
KNOWN = {"ktae:graded", "is_evaluation"} | PARSERS.keys()
"""Names that are not kept among a row's further fields."""
ALIASES, ASKS, THOUGHTS = map(
    frozenset, ((*NAMES.steps, *NAMES.masks), NAMES.prompts[1:], NAMES.thoughts)
)


class MissingFieldError(InputError):
    """A rollout without a field that it needs."""


def to_record_row(
    plain: Row, where: str, options: ReadOptions, notes: Notes, alone: str | None, is_plain: bool
) -> Row:
    """A row of the record, with `is_alone` and the columns of `ktae.rollouts.groups.READ`.

    `alone` is the label of a row that has neither label nor prompt; None: it is of no group.
    `is_plain`: no tool says what its groups are. Where notes are strict, a row has an outcome.
    """
    fields = flatten_conversations(plain, where, notes)
    rename_aliases(fields, where)
    label, is_alone = fields.get("group"), False
    if isinstance(label, str) and not label.strip():
        label = fields["group"] = None  # as CSV has it
    # The same prompt of a step is the same group, also where nobody wrote that down.
    is_final, prompt_id = fields.pop(FINAL, False), None
    prompt = fields.pop("ktae:task", None) or fields.get("prompt")
    if prompt is not None and not (is_final and label is not None):
        images = [fields[x] for x in ("image", "images") if fields.get(x)]
        prompt_id = prompt_digest(any_text([prompt, images] if images else prompt))
    elif label is None and alone is not None:
        fields["group"], is_alone = alone, True
    complete_reward(fields, notes, is_plain, options.needs_reward)
    made, has_verdict = parsed(fields, where), "correct" in fields  # null is a verdict, too
    for is_there, names in (
        ("response" in made or "token_ids" in made, ("response", "token_ids")),
        ("group" in made or prompt_id, ("group", "prompt")),
        ("reward" in made or has_verdict, ("reward", "correct")),
        ("answer" in made or options.needs_reward, ("answer",)),
    ):
        if not is_there and fields.keys().isdisjoint(names):
            its = quoted(x for x in plain if not x.startswith("ktae:"))
            message = f"no field {' or '.join(map(repr, names))}; its fields are {its}"
            raise MissingFieldError(f"{where}: {message}")
        if not is_there:
            expected = PARSERS[names[0]][1]
            raise InputError(f"{where}: {names[0]} is {fields.get(names[0])}; expected {expected}")
    if not has_verdict:
        made["correct"] = float(is_above(made["reward"], options.threshold or 0.0))
    if is_plain and label is None and prompt_id:
        notes.add("without_group")
    made["label"], made["prompt_id"] = made.pop("group", None), prompt_id
    made["is_evaluation"], made["by_reward"] = bool(fields.get("is_evaluation")), not has_verdict
    made["extra"], made["is_alone"] = further_fields(fields), is_alone
    return made | (graded if isinstance(graded := fields.get("ktae:graded"), dict) else {})


def complete_reward(fields: Row, notes: Notes, is_plain: bool, needs_reward: bool) -> None:
    """Make a reward of a verdict and a verdict of a reward, where one is there alone."""
    reward, no_reward = fields.get("reward"), fields.get("reward") is None
    may_lack_one = not (notes.strict and needs_reward) or ("reward" in fields and not is_plain)
    if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
        fields |= {"reward": verdict, "correct": fields.get("correct", verdict)}
    elif no_reward and may_lack_one:
        fields.setdefault("correct", None)  # what a tool has null for is an unknown verdict
    if "correct" in fields and (no_reward or not needs_reward):
        # Where grading needs none, it may be shaped, or stand in for a verdict that is not known.
        fields["reward"] = as_verdict(fields["correct"])
        notes.add("without_reward", n=int(needs_reward and fields["reward"] is None))


def rename_aliases(fields: Row, where: str) -> None:
    """Give a step, and a mask of token ids, their names. A mask of another length is an error."""
    if ALIASES.isdisjoint(fields):
        return
    steps = [x for x in NAMES.steps if KINDS["number"](fields.get(x))]
    if steps and fields.get("step") is None:
        fields["step"] = fields.pop(steps[0])
    masks = [x for x in NAMES.masks if isinstance(fields.get(x), list)]
    ids = fields.get("token_ids")
    if masks and isinstance(ids, list) and fields.get("mask") is None:
        fitting = [x for x in masks if len(fields[x]) == len(ids)]
        if fitting:
            fields["mask"] = fields.pop(fitting[0])
        elif masks != ["labels"]:
            raise InputError(f"{where}: {masks[0]} and token_ids differ in length")


def flatten_conversations(row: Row, where: str, notes: Notes) -> Row:
    """The row with what the policy wrote in a conversation as its response, and its prompt.

    Without a field `prompt` those of `NAMES.prompts` are the prompt, such as instruction and input.
    A question beside a template is part of the prompt. A prompt that is final is left as it is.
    """
    # NaN is what pandas writes for null in a column of numbers.
    fields: Row = {k: None if type(x) is float and x != x else x for k, x in row.items()}
    is_final = fields.pop("ktae:prompt_is_final", False)
    prompt = plain_text(fields.get("prompt"))
    if not ASKS.isdisjoint(fields):
        names: Sequence[str] = NAMES.prompts if prompt is None else ()
        if isinstance(prompt, str) and fields.get("group") is None and not is_final:
            # In a chat nothing beside it asks, such as the query that a policy wrote.
            names = NAMES.questions[: 7 if isinstance(fields["prompt"], str) else 4]
        texts: dict[str, str] = {}
        for name in (x for x in names if x in fields):
            value = fields[name]
            if KINDS["texts by name"](value) and "role" not in value:
                value = joined(value.values())  # such as a template's variables
            asked = plain_text(value)
            if isinstance(asked, str) and asked not in (prompt or ""):
                texts[name] = asked
        prompt = joined(dict.fromkeys((prompt, *texts.values()))) if texts else prompt
        fields = without(fields, texts)
    response = fields.get("response")
    if isinstance(response, str) and not THOUGHTS.isdisjoint(fields):
        thought = next((x for x in map(fields.get, NAMES.thoughts) if isinstance(x, str)), "")
        if thought.strip() not in response:
            response = [{"role": "assistant", "reasoning_content": thought, "content": response}]
            fields = without(fields, [x for x in NAMES.thoughts if fields.get(x) == thought])
    if talk := response_of(response, fields.get("prompt", prompt), where):
        asked = talk.pop("prompt")
        fields |= talk
        if asked is not None and not is_final:
            named = prompt if isinstance(prompt, str) else ""
            both = (named, asked, f"{named}\n{asked}")
            prompt = next(x for x in both if named in x and asked in x)
    if prompt is not None:
        fields["prompt"] = prompt
    if fields.get("segments"):
        notes.add("context")
        if fields.get("token_ids") is not None and fields.get("mask") is None:
            notes.add("ids")
            fields["token_ids"] = None
    return fields


def parsed(fields: Row, where: str) -> Row:
    """The values of the record's columns among the fields of a row."""
    made: Row = {}
    for name, value in fields.items():
        if value is None or name not in PARSERS:
            continue
        parse, expected = PARSERS[name]
        try:
            made[name] = parse(value)
        except (TypeError, ValueError, OverflowError, AttributeError):
            raise InputError(f"{where}: {name} is {value!r:.60}; expected {expected}") from None
    if (mask := made.get("mask")) is not None:
        ids = made.get("token_ids", ())
        if len(mask) != len(ids):
            raise InputError(f"{where}: mask and token_ids differ in length")
        are_labels = not np.isin(mask, (0, 1)).all()
        if are_labels and ((mask != IGNORED) & (mask != ids)).any():
            raise InputError(
                f"{where}: mask is {fields['mask']!r:.60}; expected true or false, 0 or 1, or "
                f"{IGNORED} and the token id"
            )
        made["mask"] = mask != (IGNORED if are_labels else 0)
    return made


def further_fields(fields: Row) -> str | None:
    """The JSON of what is no field of the record, and of what a record's `extra` holds already."""
    if fields.keys() <= KNOWN:
        return None
    rest = without(fields, KNOWN)
    extra = from_json(rest.pop("extra", None)) or {}
    rest = extra | rest if isinstance(extra, dict) else rest | {"extra": extra}
    return any_text(rest) if rest else None
