"""Rows of the dumps that TRL and verl write, as plain rows; and plain rows with gaps, completed.

TRL (`log_completions`, `completions/*.parquet`): `step`, `prompt`, `completion`, one column a
reward function, whatever the reward functions logged, `advantage`. verl
(`trainer.rollout_data_dir`, `*.jsonl`): `input`, `output`, `gts`, `score`, `step`, and the reward
function's further fields, such as `acc` (the default trainer leaves those out and adds `uid`). Both
hold text and no token ids. Where no `uid` tells the group, rollouts of one step with the same
prompt are one group. verl fills a batch up to a multiple of its ranks with rows that are no
rollouts, and dumps those too (`is_padding`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.rows import is_null

TRL_FIELDS = ("step", "prompt", "completion", "advantage")
VERL_FIELDS = ("step", "input", "output", "score")

VERL_KEY = re.compile(r"(.+)_\d+_\d+", re.DOTALL)
"""verl's default trainer writes each rollout's key as `uid`: "{sample}_{rollout}_{output}"."""

VERL_PADDING = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")
"""The `uid` of the rows with which verl's default trainer fills up a batch."""

CORRECTNESS_NAMES = ("correct", "correctness", "correctness_reward", "accuracy", "accuracy_reward")
"""Rewards of a TRL dump that say whether a rollout is correct, if one alone is there."""


def plain_row(row: object, where: str, correctness: str | None = None) -> object:
    """A row of TRL's or verl's dump as `ktae.rollouts.rows` describes rows; any other as it is.

    Args:
        row: what was read.
        where: file and line or row, the beginning of every error.
        correctness: the reward function of a TRL dump that says whether a rollout is correct; its
            column becomes the reward, since the dump does not hold the weights of several.

    Raises:
        InputError: the row is TRL's, and which reward says "correct" cannot be told.
    """
    if not isinstance(row, dict) or "group" in row:
        return row
    if all(name in row for name in TRL_FIELDS):
        return _from_trl(row, where, correctness)
    if all(name in row for name in VERL_FIELDS):
        return _from_verl(row)
    return row


def is_padding(row: object) -> bool:
    """Whether a row of verl's dump is no rollout: its key says so, and it holds no text."""
    return (
        isinstance(row, dict)
        and VERL_PADDING.fullmatch(str(row.get("uid"))) is not None
        and not row.get("input")
        and not row.get("output")
    )


def prompt_label(prompt: object) -> str:
    """A group's label made of its prompt: the same prompt has the same label in every step."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    digest = hashlib.blake2s(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"prompt {digest}"


def _from_trl(row: dict[str, Any], where: str, correctness: str | None) -> dict[str, Any]:
    rest = {name: value for name, value in row.items() if name not in TRL_FIELDS}
    reward = rest[_correctness_column(rest, where, correctness)]
    # A column `correct` is whatever a reward function logged: what decides is the reward.
    rest.pop("correct", None)
    return rest | {
        "group": prompt_label(row["prompt"]),
        "step": row["step"],
        "prompt": _messages_text(row["prompt"]),
        "response": _messages_text(row["completion"]),
        "advantage": row["advantage"],
        "reward": reward,
        **({"correct": None} if is_null(reward) else {}),
    }


def _correctness_column(rest: dict[str, Any], where: str, correctness: str | None) -> str:
    rewards = [
        name
        for name, value in rest.items()
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    ]
    if correctness is not None and correctness in rest:
        return correctness
    likely = rewards if len(rewards) == 1 else [x for x in rewards if x in CORRECTNESS_NAMES]
    if correctness is not None or len(likely) != 1:
        raise InputError(
            f"{where}: correctness is {correctness!r}; expected the reward function that says "
            "whether a rollout is correct (--correctness on the command line), one of "
            f"{', '.join(map(repr, rewards)) or 'none here'}"
        )
    return likely[0]


def _from_verl(row: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in row.items() if name not in (*VERL_FIELDS, "gts")}
    sample = VERL_KEY.fullmatch(str(rest.get("uid", "")))
    plain = rest | {
        "group": sample[1] if sample else prompt_label(row["input"]),
        "step": row["step"],
        "prompt": row["input"],
        "response": row["output"],
        "answer": row.get("gts"),
        "reward": row["score"],
    }
    if rest.get("undecided") == 1 or ("acc" in rest and is_null(rest["acc"])):
        plain["correct"] = None  # `acc` is 0 where the verifier could not tell
    elif rest.get("acc") in (0, 1):  # the verifier's verdict, free of length penalties
        plain["correct"] = rest["acc"]
    return plain


def _messages_text(value: object) -> object:
    """The texts of a conversation's messages, or the value itself where it is none."""
    if not isinstance(value, list):
        return value
    parts = []
    for message in value:
        content = message.get("content") if isinstance(message, dict) else message
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                parts.append(text)
    return "\n".join(parts)


@dataclasses.dataclass
class Tolerance:
    """For people who look at a dump: what rows lack is made up for, and counted here."""

    without_reward: int = 0
    """Rows with neither a reward nor a verdict, which would be a reward of 1 or 0."""
    without_group: int = 0
    """Rows without a group that were grouped by their prompt."""
    alone: int = 0
    """Rows with neither group nor prompt, each a group of its own."""
    half_surrogates: int = 0
    """Rows whose text held half a surrogate pair, which is no text; shown as U+FFFD."""
    padding: int = 0
    """verl's padding rows, which are left out."""
    rejected: list[str] = dataclasses.field(default_factory=list)
    """What was wrong with the rows that could not be used."""

    def complete(self, row: object, where: str) -> object:
        """`row`, with whatever it lacks and can be done without."""
        if not isinstance(row, dict) or not ("response" in row or "token_ids" in row):
            return row  # refused, with the fields that it has
        fields = {name: self._whole(value) for name, value in row.items()}
        if any(fields[name] != value for name, value in row.items() if isinstance(value, str)):
            self.half_surrogates += 1
        if fields.get("group") is None:
            prompt = fields.get("prompt", fields.get("problem"))
            self.without_group += prompt is not None
            self.alone += prompt is None
            fields["group"] = where if prompt is None else prompt_label(prompt)
        if is_null(fields.get("reward")):
            known = not is_null(fields.get("correct"))
            self.without_reward += not known
            fields["reward"] = float(fields["correct"] == 1) if known else None
            fields.setdefault("correct", None)
        return fields

    @staticmethod
    def _whole(value: object) -> object:
        if isinstance(value, str) and not value.isascii():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
