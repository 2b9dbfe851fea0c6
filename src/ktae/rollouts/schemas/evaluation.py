"""Outputs of evaluations: lm-evaluation-harness, lighteval, and the JSON of the paper's authors."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.files import without_format
from ktae.rollouts.schemas.base import (
    Row,
    Schema,
    Source,
    choose,
    has,
    is_number,
    messages_text,
    prompt_label,
    reward_fields,
    without,
)

METRICS = ("exact_match", "math_verify", "extractive_match", "acc", "accuracy", "qem", "em")
"""Metrics that say whether an output is correct, if one alone is there."""

SAMPLES_FILE = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT.*)?$")


def lm_eval_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """One row a problem and filter; `resps` holds the responses, `arguments` the prompt.

    Several filters read the same responses, so only the file's first one counts.
    """
    if row.get("filter") != source.state.setdefault("filter", row.get("filter")):
        source.skipped += 1
        return
    responses = row["resps"]
    if not isinstance(responses, list) or len(responses) != 1:
        raise InputError(f"{where}: log-likelihoods of choices; expected one generated response")
    responses = responses[0] if isinstance(responses[0], list) else [responses[0]]
    names = row.get("metrics")
    metrics = {name: row[name] for name in names if name in row} if isinstance(names, list) else {}
    metrics = metrics or {name: x for name, x in row.items() if is_number(x) and name != "doc_id"}
    value = choose(metrics, METRICS, where, source)
    task = SAMPLES_FILE.fullmatch(without_format(source.path.name))
    used = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps")
    # The file has the task in its name, and the rows have not.
    plain = without(row, used) | {
        "group": str(row["doc_id"]),
        "prompt": _lm_eval_prompt(row.get("arguments")),
        "answer": row.get("target"),
        **({"benchmark": task[1]} if task else {}),
    }
    yield from _responses(plain, responses, value, where)


def _lm_eval_prompt(arguments: Any) -> object:
    """The first argument of the first request: of a list of lists, or of objects in objects."""
    # The first argument of the first request, in either of two shapes.
    for _ in range(2):
        if isinstance(arguments, dict):
            arguments = next(iter(arguments.values()), None)
        elif isinstance(arguments, list):
            arguments = arguments[0] if arguments else None
    if isinstance(arguments, str) and arguments.startswith('[{"role"'):
        try:
            return messages_text(json.loads(arguments))  # a chat template was applied later
        except ValueError:
            return arguments
    return arguments


def lighteval_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """`doc`, `model_response` and `metric`; the response's tokens where the engine gave them."""
    doc, response = row["doc"], row["model_response"]
    texts = response.get("text")
    if not isinstance(texts, list) or not texts:
        raise InputError(f"{where}: model_response has no text; expected generated responses")
    metrics = {name: x for name, x in (row["metric"] or {}).items() if is_number(x)}
    choices, gold = doc.get("choices") or [], doc.get("gold_index")
    places = gold if isinstance(gold, list) else [gold]
    answers = [choices[i] for i in places if isinstance(i, int) and 0 <= i < len(choices)]
    names = str(doc.get("task_name") or "").split("|")
    name = names[1] if len(names) > 2 else names[0]
    label = doc.get("id")
    plain: Row = {
        "group": prompt_label(doc.get("query")) if label in (None, "") else str(label),
        "prompt": doc.get("query"),
        "answer": answers[0] if len(answers) == 1 else answers or None,
        "metric": metrics,
        **({"benchmark": name} if name else {}),
    }
    ids = response.get("output_tokens")
    value = choose(metrics, METRICS, where, source)
    # The engine may have given ids for some samples only; then the text is what counts.
    has_ids = isinstance(ids, list) and len(ids) == len(texts)
    for i, rollout in enumerate(_responses(plain, texts, value, where)):
        yield rollout | ({"token_ids": ids[i]} if has_ids and ids[i] else {})


def old_lighteval_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """Before 0.10: `full_prompt`, `predictions`, `gold`, `metrics`; lists may be printed ones."""
    texts, gold = _listed(row["predictions"]), _listed(row.get("gold"))
    metrics = {name: x for name, x in (row["metrics"] or {}).items() if is_number(x)}
    prompt = row.get("example") or row["full_prompt"]
    plain: Row = {
        "group": prompt_label(prompt),
        "prompt": prompt,
        "answer": gold[0] if len(gold) == 1 else gold or None,
        "metric": metrics,
    }
    yield from _responses(plain, texts, choose(metrics, METRICS, where, source), where)


def _responses(plain: Row, responses: list[Any], value: object, where: str) -> Iterator[Row]:
    """One row a response. One value for several responses says nothing about each of them."""
    n = len(responses)
    values = value if isinstance(value, list) and len(value) == n else [value if n == 1 else None]
    values = values if len(values) == n else [None] * n
    for response, reward in zip(responses, values, strict=True):
        if not isinstance(response, str):
            raise InputError(f"{where}: {response!r:.60}; expected a generated text")
        yield plain | {"response": response, **reward_fields(reward)}


def authors_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """`task_name`, `gt`, `model_output`, `reward`: texts, or lists of one entry a sample.

    Problems are numbered by their order.
    """
    responses = _as_list(row["model_output"])
    rewards = _as_list(row.get("reward", [None] * len(responses)))
    golds = row.get("gt", row.get("answer"))
    if not isinstance(golds, list) or len(golds) != len(responses):
        golds = [golds] * len(responses)
    if len(rewards) != len(responses):
        raise InputError(f"{where}: {len(rewards)} rewards for {len(responses)} outputs")
    name = row.get("task_name")
    numbers: Counter[str] = source.state.setdefault("numbers", Counter())
    # These files name no problem: the n-th row of a task is its n-th problem.
    number = numbers[str(name)]
    numbers[str(name)] += 1
    for response, reward, gold in zip(responses, rewards, golds, strict=True):
        yield {
            **({} if name is None else {"benchmark": name}),
            "group": str(number) if name is None else f"{name}/{number}",
            "prompt": row.get("prompt"),
            "response": response,
            "answer": gold,
            **reward_fields(reward),
        }


def _listed(value: Any) -> list[Any]:
    """A list, also where it was printed by Python."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return [value]
    return _as_list(value)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


LM_EVAL = Schema(
    "samples of lm-evaluation-harness",
    has("doc_id", "resps", "doc"),
    lm_eval_rows,
    files="samples_",
)
LIGHTEVAL = Schema(
    "lighteval's details",
    lambda row: all(isinstance(row.get(x), dict) for x in ("doc", "model_response", "metric")),
    lighteval_rows,
    files="details_",
)
OLD_LIGHTEVAL = Schema(
    "lighteval's details (before 0.10)",
    lambda row: has("predictions", "full_prompt")(row) and isinstance(row.get("metrics"), dict),
    old_lighteval_rows,
)
AUTHORS = Schema(
    "the outputs of the KTAE authors",
    lambda row: (
        isinstance(row.get("model_output"), str | list)
        and not row.keys().isdisjoint(("gt", "task_name"))
    ),
    authors_rows,
)
