"""Rows of trainers that take more than paths: TRL, verl, slime, NeMo-RL, Atropos."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ktae.arrays import is_above
from ktae.errors import InputError
from ktae.rollouts.conversation import Segment, dialogue
from ktae.rollouts.locate import Located
from ktae.rollouts.schemas.base import CORRECTNESS_NAMES, Items, Source, choose
from ktae.rollouts.values import (
    IGNORED,
    KINDS,
    Row,
    as_label,
    as_verdict,
    is_null,
    is_number,
    is_score,
    prompt_digest,
    without,
)

VERL_KEY = re.compile(r"((.+)_\d+)_(\d{1,9})", re.DOTALL)
"""verl's default trainer writes each rollout's key as `uid`: "{sample}_{rollout}_{output}"."""
VERL_PADDING = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")
"""The `uid` of the rows with which verl's default trainer fills up a batch."""
COUNTS = re.compile(r"(^|_)(id|ids|idx|index|length|len|tokens|turns|count|num|seed)(_|$)")
"""Names of whole numbers that are no rewards."""


def new_steps(items: Items, source: Source) -> Items:
    """The rows of TRL without those of a step whose rollouts are those of the step before.

    TRL logs its last generation batch at every step, and one batch may serve several steps:
    `num_iterations` above 1, or `steps_per_generation` above the accumulation of gradients.
    """

    def logged(row: Row) -> list[Any]:
        return [row["prompt"], row["completion"], row.get("advantage", row.get("advantages"))]

    for label, rows in itertools.groupby(items, key=lambda item: str(as_label(item[0]["step"]))):
        of_step, step = list(rows), int(label) if label.isdecimal() else -1
        batch = source.path.parent, Counter(repr(logged(row)) for row, _ in of_step)
        before, last = source.run.get("step", (step, None))
        source.run["step"] = step, batch
        if step > before and batch == last:
            source.notes.add("steps", f"step {step} repeats step {before}")
        else:
            yield from of_step


def last_outputs(items: Items, source: Source) -> Items:
    """The rows of verl without padding, and of the outputs of a session the last alone.

    Outputs of a session follow each other, are numbered on, and have one reference answer.
    """
    number = itertools.count()

    def session(item: tuple[Row, Located]) -> object:
        row, located = item
        n, key = next(number), VERL_KEY.fullmatch(str(row.get("uid")))
        return (row["step"], row.get("gts"), key[1], int(key[3]) - n) if key else located.where

    for _, outputs in itertools.groupby(items, key=session):
        first, *others = outputs
        row, located = (first, *others)[-1]
        source.notes.add("intermediate", n=len(others))
        if VERL_PADDING.fullmatch(str(row.get("uid"))) and not row["input"] and not row["output"]:
            source.notes.add("padding")
        else:
            yield row | {"input": first[0]["input"]}, located  # the session's prompt


def trl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`step`, `prompt`, `completion`, one column a reward function, whatever else was logged."""
    rest = without(row, ("step", "prompt", "completion", "advantage", "advantages"))
    # A reward function gives floats. Other columns that were logged are seldom scores.
    flags = {name: x for name, x in rest.items() if isinstance(x, bool)}
    rewards = {name: x for name, x in rest.items() if x is None or is_number(x)}
    rewards |= {name: x for name, x in flags.items() if not rewards or name.endswith("_reward")}
    if any(isinstance(x, float) for x in rewards.values()):
        rewards = {k: x for k, x in rewards.items() if type(x) is not int or not COUNTS.search(k)}
    asked = source.options.correctness_names
    rewards |= {name: rest[name] for name in asked if name in rest}
    likely = [name for name in CORRECTNESS_NAMES if name in rewards] or ["reward"]
    # A column `correct` is whatever a reward function logged: what decides is the reward.
    yield without(plain, ["correct"]) | {"reward": choose(rewards, likely, where, source)}


def verl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`input`, `output`, `gts`, `score`, `step`, the reward function's fields, perhaps `uid`."""
    if sample := VERL_KEY.fullmatch(str(row.get("uid", ""))):
        plain["group"] = sample[2]
    rest = without(row, ("step", "input", "output", "score", "gts"))
    names = source.options.correctness_names
    value: Any = None
    if names:
        scores = {k: x for k, x in rest.items() if k in names or is_score(x)}
        value = choose(scores, (), where, source)
    elif "acc" in row and row.get("undecided") != 1:
        names, value = ("acc",), row["acc"]  # the verifier's verdict, free of length penalties
    verdict = as_verdict(value) if isinstance(value, bool | str) else None
    if is_number(value) and not is_null(value):
        verdict = is_above(value, source.options.threshold or 0.0)
        if 0 < value < 1 and source.options.threshold is None:
            source.notes.add("values", f"{value:g}")
    elif names and is_null(value):
        source.notes.add("verdicts", f"{names[0]} null")
    elif verdict is None and not is_null(value):
        expected = "expected a number, true, false or null"
        raise InputError(f"{where}: {' or '.join(names)} is {value!r:.60}; {expected}")
    if names or row.get("undecided") == 1:
        plain["correct"] = verdict
    yield plain


def slime_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A `Sample`: `tokens` are the prompt's and the response's, `label` is the reference answer."""
    if isinstance(reward := row.get("reward"), dict):
        likely = [x for x in ("score", "reward") if x in reward] or CORRECTNESS_NAMES
        plain["reward"] = choose(reward, likely, where, source)
    tokens, n = row["tokens"], row["response_length"]
    if isinstance(tokens, list) and isinstance(n, int) and 0 < n <= len(tokens):
        plain |= {"token_ids": tokens[len(tokens) - n :], "mask": row.get("loss_mask")}
    yield {"reward": None} | plain


def nemo_rl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A batch of one: each field is a list of one value. Tokens are the prompt's and the rest.

    The response begins with the first token that is trained on; `input_lengths` says where padding
    begins. `content` holds the texts of the messages. In the response every other one is the
    policy's, the last for one, and the mask says how many are.
    """
    values, plain = (
        {k: x[0] if isinstance(x, list) and len(x) == 1 else x for k, x in some.items()}
        for some in (row, plain)
    )
    content, ids, mask = (values.get(x) for x in ("content", "token_ids", "token_loss_mask"))
    texts = [content] if isinstance(content, str) else content or []
    plain["reward"] = values.get("filtered_rewards", values.get("rewards"))
    if ids is None and len(texts) > 2:
        raise InputError(
            f"{where}: content has {len(texts)} texts, and no token_ids with a token_loss_mask say "
            "which of them the policy wrote; expected a prompt and a response"
        )
    turns = sum(1 for trained, _ in itertools.groupby(mask or [True], key=bool) if trained)
    numbered = zip(range(len(texts) - 1, -1, -1), texts, strict=True)
    roles = ((x, "policy" if n % 2 == 0 and n < 2 * turns else "tool") for n, x in numbered)
    talk = dialogue([Segment(x, role) for x, role in roles])
    if talk is not None:
        plain |= talk.as_row() | ({} if talk.prompt is None else {"prompt": talk.prompt})
    advantages = values.get("advantages")
    if isinstance(ids, list) and isinstance(mask, list) and any(mask):
        first, length = list(map(bool, mask)).index(True), values.get("input_lengths")
        part = slice(first, length if isinstance(length, int) else len(ids))
        label = f"prompt {prompt_digest(ids[:first])}"
        plain |= {"group": label, "token_ids": ids[part], "mask": mask[part]}
        log_probs = values.get("generation_logprobs")
        if isinstance(log_probs, list) and len(log_probs) == len(ids):
            plain["log_probs"] = log_probs[part]
        if isinstance(advantages, list):
            advantages = [x for x, trained in zip(advantages, mask, strict=False) if trained]
    yield plain | {"advantage": constant(advantages)}


def atropos_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A rollout of a row: `tokens` of prompt and response, `masks` of labels, `scores`."""
    labels = plain["mask"]
    mask = [x != IGNORED if IGNORED in labels else bool(x) for x in labels]
    if KINDS["messages"](row.get("messages")):
        plain |= {"response": row["messages"], "_prompt_is_final": True}
    yield plain | trained_part(plain["token_ids"], mask)


def trained_part(ids: Sequence[Any], mask: Sequence[Any]) -> Row:
    """Token ids and mask without the prompt, which stands before the first one trained on."""
    first = mask.index(True) if True in mask else 0
    return {"token_ids": ids[first:], "mask": mask[first:]}


def constant(values: object) -> float | None:
    """The number itself, or the one that a whole list repeats; None for anything else."""
    if isinstance(values, list):
        return values[0] if values and all(x == values[0] for x in values) else None
    return values if isinstance(values, int | float) else None
