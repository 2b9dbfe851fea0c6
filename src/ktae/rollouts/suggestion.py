"""Which fields of an unknown row seem to hold the response, the group and the reward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktae.errors import InputError

GUESSES = {
    "response": (
        "response", "responses", "completion", "completions", "output", "outputs", "model_output",
        "generation", "generations", "generated_text", "generated", "model_response", "prediction",
        "predictions", "solution_str", "rollout", "sample", "text", "content",
    ),
    "group": (
        "group", "group_id", "prompt_id", "problem_id", "question_id", "task_id", "example_id",
        "group_index", "prompt_index", "problem_idx", "qid", "doc_id", "unique_id", "problem",
        "prompt", "question", "query", "input", "instruction", "messages", "uid", "idx", "id",
    ),
    "reward": (
        "reward", "rewards", "correct", "is_correct", "correctness", "acc", "accuracy", "score",
        "scores", "exact_match", "pass", "passed", "success", "is_right", "verdict",
    ),
    "answer": (
        "answer", "answers", "gt", "gts", "gold", "ground_truth", "reference", "reference_answer",
        "target", "solution", "label",
    ),
}  # fmt: skip
"""Names that a field may have, the likeliest first."""

MAX_DEPTH = 4

UNKNOWN = "..."
"""In the place of a path that only the user knows."""

ROW_NUMBERS = ("uid", "idx", "id")
"""Groups by these names may be a rollout's and not a problem's; a conversation tells its prompt."""


class UnknownRowsError(InputError):
    """Rows without a response; `options` name the fields that seem to hold what is needed.

    Where `is_template`, some path is `UNKNOWN`, for the user to fill in.
    """

    def __init__(self, message: str, options: list[str]) -> None:
        self.is_template = any(option.endswith(f"={UNKNOWN}") for option in options)
        named = " ".join(options)
        how = f"name its fields: {named}" if self.is_template else f"{named} would read it"
        super().__init__(f"{message}; {how}")
        self.options = options


def options_for(row: dict[str, Any], wanted: tuple[str, ...]) -> list[str]:
    """`--field` options for each of `wanted` that some field seems to hold.

    The response may be the last message of a conversation; the ones before it are its prompt then.

    Args:
        row: as it was read.
        wanted: keys of `GUESSES`.
    """
    there = list(leaves(row))
    options, taken, is_chat = [], set(), False
    for name in wanted:
        field = _best(name, [(path, value) for path, value in there if path not in taken])
        path = field
        if field is None and name == "response":
            # A conversation whose last message is the model's.
            field = next((path for path, value in there if ends_with_model(value)), None)
            path, is_chat = f"{field}.-1.content", field is not None
        if field is None or (is_chat and name == "group" and last_name(field) in ROW_NUMBERS):
            continue
        taken.add(field)
        options += ["--field", f"{name}={path}"]
    return options


def suggested_fields(row: dict[str, Any], *, needs_reward: bool) -> list[str]:
    """`--field` options that would read a row, with `UNKNOWN` for what no field seems to hold.

    Args:
        row: as it was read.
        needs_reward: whether its reward is needed; if not, it is its answer.
    """
    needed = ("response", "group", "reward" if needs_reward else "answer")
    options = options_for(row, needed if needs_reward else (*needed, "reward"))
    paths = {option.partition("=")[0]: option for option in options[1::2]}
    if "response" in paths and ("reward" in paths or not needs_reward):
        return options
    # The messages before a conversation's last one tell its group.
    is_told = paths.get("response", "").endswith(".-1.content")
    named = [name for name in needed if name in paths or not (name == "group" and is_told)]
    return [x for name in named for x in ("--field", paths.get(name, f"{name}={UNKNOWN}"))]


def ends_with_model(value: Any) -> bool:
    """Whether it is a conversation whose last message is the model's."""
    last = value[-1] if isinstance(value, list) and len(value) > 1 else None
    if not (isinstance(last, dict) and isinstance(last.get("content"), str)):
        return False
    return bool(last.get("role") == "assistant")


def is_keyed(row: dict[str, Any]) -> bool:
    """Whether a row holds several problems by their keys, so that no path leads to all of them."""
    return len(row) > 1 and all(
        isinstance(value, dict | list)
        and _best("response", [*leaves({"of": value})]) not in (None, "of")
        for value in row.values()
    )


def last_name(path: str) -> str:
    """The field that a dotted path leads to."""
    return path.rpartition(".")[2].lower()


def _best(name: str, leaves: list[tuple[str, Any]]) -> str | None:
    """The path of the most likely name; the shallowest and first of several."""
    ranked = [
        (GUESSES[name].index(last_name(path)), path.count("."), i)
        for i, (path, value) in enumerate(leaves)
        if last_name(path) in GUESSES[name] and _fits(name, value)
    ]
    return leaves[min(ranked)[2]][0] if ranked else None


def _fits(name: str, value: Any) -> bool:
    """Whether a value is of the kind that such a field holds."""
    if isinstance(value, list) and value and name != "group":
        value = value[0]
    if name == "response":
        return isinstance(value, str) or (isinstance(value, dict) and "content" in value)
    if name == "reward":
        return isinstance(value, bool | int | float)
    if name == "group":
        is_conversation = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
        return is_conversation or isinstance(value, str | int)
    return isinstance(value, str | int | float)


def leaves(value: dict[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Dotted paths and their values; a list of objects stands for its first one."""
    for name, inside in value.items():
        here = f"{path}{name}"
        is_list = isinstance(inside, list) and inside and isinstance(inside[0], dict)
        # A list of objects stands for its first one; a conversation is a value of its own.
        below = inside[0] if is_list else inside
        if isinstance(below, dict) and depth < MAX_DEPTH and not (is_list and "content" in below):
            yield from leaves(below, f"{here}.", depth + 1)
        else:
            yield here, inside
