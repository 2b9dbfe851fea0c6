"""Dumps of trainers: TRL, verl, OpenRLHF, slime, NeMo-RL.

Where a tool writes no group, rollouts of one step with the same prompt are one group.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from ktae.errors import InputError
from ktae.rollouts.rows import as_label, is_label, is_null
from ktae.rollouts.schemas.base import (
    Row,
    Schema,
    Source,
    choose,
    constant,
    has,
    is_number,
    messages_text,
    prompt_label,
    reward_fields,
    without,
)

TRL_FIELDS = ("step", "prompt", "completion", "advantage")
VERL_FIELDS = ("step", "input", "output", "score")

NEMO_RL_FIELDS = (
    *("content", "rewards", "filtered_rewards", "idx", "token_ids", "token_loss_mask"),
    *("input_lengths", "advantages", "generation_logprobs", "prev_logprobs"),
)
"""Fields of NeMo-RL's that are no fields of a rollout as they are."""

VERL_KEY = re.compile(r"(.+)_\d+_\d+", re.DOTALL)
"""verl's default trainer writes each rollout's key as `uid`: "{sample}_{rollout}_{output}"."""

VERL_PADDING = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")
"""The `uid` of the rows with which verl's default trainer fills up a batch."""

CORRECTNESS_NAMES = ("correct", "correctness", "correctness_reward", "accuracy", "accuracy_reward")
"""Rewards that say whether a rollout is correct, if one alone is there."""

STEP = re.compile(r"(?:step|rollout)[_-]?(\d+)")
"""A training step in the name of a file."""

STEP_FOLDER = re.compile(r"(?:[a-z_]*step|rollout)[_-]?(\d+)")
"""The name of a training step's folder, such as step_7 or global_step_7."""


def is_padding(row: object) -> bool:
    """Whether a row of verl's dump is no rollout: its key says so, and it holds no text."""
    return (
        isinstance(row, dict)
        and VERL_PADDING.fullmatch(str(row.get("uid"))) is not None
        and not row.get("input")
        and not row.get("output")
    )


def goes_on(row: object, following: object) -> bool:
    """Whether the next row of verl's dump is a later output of the same session.

    Of several outputs only the last is a rollout. verl writes them one after another, numbered from
    0 on.
    """
    sessions, numbers = [], []
    for x in (row, following):
        if not isinstance(x, dict) or not x.keys() >= set(VERL_FIELDS):
            return False
        key = str(x.get("uid", ""))
        if not VERL_KEY.fullmatch(key):
            return False
        session, _, output = key.rpartition("_")
        sessions.append((x["step"], session))
        numbers.append(int(output))
    return sessions[0] == sessions[1] and numbers[1] == numbers[0] + 1


def step_of(path: Path) -> int | None:
    """The step that a file's name tells, or else its folder's; None where neither does."""
    match = STEP.search(path.name) or STEP_FOLDER.fullmatch(path.parent.name)
    return int(match[1]) if match else None


def trl_step(row: object) -> float | None:
    """The step of a row of TRL's; None where it is none, or its step is no number."""
    if not (isinstance(row, dict) and TRL.detects(row)):
        return None
    step = row["step"]
    return float(step) if is_number(step) and not is_null(step) else None


def trl_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """`step`, `prompt`, `completion`, one column a reward function, whatever else was logged."""
    rest = without(row, TRL_FIELDS)
    # Every number that TRL logged beside its own fields may be a reward function.
    rewards = {name: x for name, x in rest.items() if x is None or is_number(x)}
    if source.correctness in rest:
        rewards[source.correctness] = rest[source.correctness]
    reward = choose(rewards, CORRECTNESS_NAMES, where, source)
    # A column `correct` is whatever a reward function logged: what decides is the reward.
    rest.pop("correct", None)
    yield rest | {
        "group": prompt_label(row["prompt"]),
        "step": row["step"],
        "prompt": messages_text(row["prompt"]),
        "response": messages_text(row["completion"]),
        "advantage": row["advantage"],
        "reward": reward,
        **({"correct": None} if is_null(reward) else {}),
    }


def verl_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """`input`, `output`, `gts`, `score`, `step`, the reward function's fields, perhaps `uid`."""
    rest = without(row, (*VERL_FIELDS, "gts"))
    sample = VERL_KEY.fullmatch(str(rest.get("uid", "")))
    plain = rest | {
        "group": sample[1] if sample else prompt_label(row["input"]),
        "step": row["step"],
        "prompt": row["input"],
        "response": row["output"],
        "answer": row.get("gts"),
        "reward": row["score"],
    }
    acc = rest.get("acc")
    if rest.get("undecided") == 1 or ("acc" in rest and is_null(acc)):
        plain["correct"] = None  # `acc` is 0 where the verifier could not tell
    elif isinstance(acc, str) and acc.lower() in ("true", "false"):
        plain["correct"] = acc.lower() == "true"
    elif isinstance(acc, bool | int | float | Decimal):
        plain["correct"] = acc > 0  # the verifier's verdict, free of length penalties
    elif "acc" in rest:
        raise InputError(f"{where}: acc is {acc!r:.60}; expected a number, true, false or null")
    yield plain


def openrlhf_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """`input`, `output`, `reward`, and `label` where the data set has a reference answer.

    Other tools write these names, too, some of them beside a `group`. It may be no problem's label
    but a topic's, so it never holds two inputs of one step.
    """
    by_input = prompt_label(row["input"])
    group: object = by_input
    if is_label(row.get("group")):
        group = as_label(row["group"])
        # The first input of a group keeps its label; any other one is told apart.
        first = source.state.setdefault(f"{group} {row.get('step')}", by_input)
        if first != by_input:
            source.split += 1
            group = f"{group}, {by_input}"
    yield (
        without(row, ("input", "output", "reward", "label"))
        | ({"answer": row["label"]} if "label" in row else {})
        | {
            "group": group,
            "prompt": messages_text(row["input"]),
            "response": row["output"],
            **reward_fields(row["reward"]),
        }
    )


def slime_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """A `Sample`: `tokens` are the prompt's and the response's, `label` is the reference answer."""
    used = ("tokens", "response_length", "loss_mask", "label", "prompt", "reward", "group_index")
    reward = row.get("reward")
    if isinstance(reward, dict):
        reward = choose(reward, ("score", "reward", *CORRECTNESS_NAMES), where, source)
    group = row.get("group_index")
    plain = without(row, (*used, "rollout_id")) | {
        "group": prompt_label(row["prompt"]) if group is None else str(group),
        "prompt": messages_text(row["prompt"]),
        "answer": row.get("label"),
        **reward_fields(reward),
    }
    step = row.get("rollout_id")
    plain["step"] = step_of(source.path) if step is None else step
    tokens, n = row["tokens"], row["response_length"]
    if isinstance(tokens, list) and isinstance(n, int) and 0 < n <= len(tokens):
        plain["token_ids"] = tokens[len(tokens) - n :]
        plain["mask"] = row.get("loss_mask")
    yield plain


def nemo_rl_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """A batch of one: each field is a list of one value. Tokens are the prompt's and the rest.

    The response begins with the first token that is trained on; `input_lengths` says where padding
    begins. Without token ids `content` holds the messages' texts, the response last.
    """
    values = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in row.items()
    }
    content = values.get("content")
    texts = [content] if isinstance(content, str) else content or []
    plain = without(values, NEMO_RL_FIELDS) | {
        "step": step_of(source.path),
        "response": texts[-1] if texts else None,
        **reward_fields(values.get("filtered_rewards", values.get("rewards"))),
    }
    if len(texts) > 1:
        plain["prompt"] = messages_text(texts[:-1])
    ids, mask = values.get("token_ids"), values.get("token_loss_mask")
    if isinstance(ids, list) and isinstance(mask, list) and any(mask):
        # Before the first token that is trained on stands the prompt.
        first = next(i for i, trained in enumerate(mask) if trained)
        length = values.get("input_lengths")
        response = slice(first, length if isinstance(length, int) else len(ids))
        plain |= {
            "group": prompt_label(ids[:first]),
            "token_ids": ids[response],
            "mask": mask[response],
        }
        log_probs = values.get("generation_logprobs")
        if isinstance(log_probs, list) and len(log_probs) == len(ids):
            plain["log_probs"] = log_probs[response]
    elif "prompt" in plain:
        plain["group"] = prompt_label(plain["prompt"])
    advantages = values.get("advantages")
    if isinstance(advantages, list) and isinstance(mask, list):
        advantages = [x for x, trained in zip(advantages, mask, strict=False) if trained]
    yield plain | {"advantage": constant(advantages)}


TRL = Schema("TRL's logged completions", has(*TRL_FIELDS), trl_rows, by_prompt=True)
VERL = Schema("verl's rollout dump", has(*VERL_FIELDS), verl_rows, by_prompt=True)
OPENRLHF = Schema(
    "OpenRLHF's outputs", has("input", "output", "reward"), openrlhf_rows, by_prompt=True
)
GROUPED = dataclasses.replace(
    OPENRLHF,
    detects=lambda row: is_label(row.get("group")) and OPENRLHF.detects(row),
    by_prompt=False,
)
"""The same with a group's label in each row."""
SLIME = Schema(
    "slime's samples", has("tokens", "response_length", "prompt", "response"), slime_rows
)
NEMO_RL = Schema(
    "NeMo-RL's training data",
    has("content", "rewards", "idx"),
    nemo_rl_rows,
    files="train_data_step",
)
