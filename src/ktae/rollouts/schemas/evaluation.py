"""Outputs of evaluations that take more than paths: lm-evaluation-harness, lighteval, inspect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import joined
from ktae.rollouts.files import without_format
from ktae.rollouts.paths import first_of
from ktae.rollouts.schemas.base import CORRECTNESS_NAMES, Source, choose
from ktae.rollouts.values import Row, as_verdict, is_number, is_score, without

SAMPLES_FILE = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT.*)?$")


def dealt(row: Row, where: str, responses: list[Any], **columns: Any) -> Iterator[Row]:
    """One row for each of several responses, with its entry of each column.

    A `value` is the rewards; one value for several says nothing about each of them.
    """
    n = len(responses)
    if "value" in columns:
        value = columns.pop("value")
        values = value if isinstance(value, list) else [value]
        columns["reward"] = values if len(values) == n else [None] * n
    for name, entries in columns.items():
        if len(entries) != n:
            raise InputError(f"{where}: {len(entries)} of {name} for {n} of response")
    for i, response in enumerate(responses):
        yield row | {"response": response} | {name: x[i] for name, x in columns.items()}


def lm_eval_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """One row a problem and filter; `resps` holds the responses, `arguments` the prompt.

    Several filters read the same responses, so one counts: the file's first, or the one that
    `--correctness` names. Rows that do not name theirs are told by their problem: it comes again.
    """
    seen, named = source.state.setdefault("seen", set()), row.get("filter")
    asked = source.options.correctness_names
    if named is not None and asked and asked[0] not in row:
        source.state["filter"] = asked[0]
        asked = () if asked[0] == named else asked
    is_other = named != source.state.setdefault("filter", named)
    if is_other or (named is None and row["doc_id"] in seen):
        source.notes.add("filters")
        return
    seen.add(row["doc_id"])
    responses = row["resps"]
    if len(responses) != 1:
        raise InputError(f"{where}: log-likelihoods of choices; expected one generated response")
    names = row.get("metrics")
    metrics = {name: row[name] for name in names if name in row} if isinstance(names, list) else {}
    others = without(plain, ["answer"]).items()
    metrics = metrics or {name: x for name, x in others if is_number(x)}
    metrics = metrics or {name: x for name, x in others if isinstance(x, bool)}
    prompt = row.get("arguments")
    # The first argument of the first request: of a list of lists, or of objects in objects.
    for _ in range(2):
        if isinstance(prompt, dict | list):
            prompt = next(iter(prompt.values() if isinstance(prompt, dict) else prompt), None)
    plain |= {"prompt": prompt, "group": str(row["doc_id"])}
    # The file has the task in its name, and the rows have not.
    if task := SAMPLES_FILE.fullmatch(without_format(source.path.name)):
        plain["benchmark"] = task[1]
    value, texts = choose(metrics, CORRECTNESS_NAMES, where, source, asked), _as_list(responses[0])
    if not isinstance(value, list) and row.get("filtered_resps") == texts[:1]:  # the others are not
        value = [value, *[None] * (len(texts) - 1)]  # graded
    yield from dealt(plain, where, texts, value=value)


def lighteval_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`doc`, `model_response` and `metric`; the response's tokens where the engine gave them."""
    doc, response = row["doc"], row["model_response"]
    texts, ids = response.get("text"), response.get("output_tokens")
    if not isinstance(texts, list) or not texts:
        raise InputError(f"{where}: model_response has no text; expected generated responses")
    thoughts = response.get("reasonings")
    if isinstance(thoughts, list) and len(thoughts) == len(texts):
        texts = [joined(pair) for pair in zip(thoughts, texts, strict=True)]
    choices, gold = doc.get("choices") or [], _as_list(doc.get("gold_index"))
    answers = [choices[i] for i in gold if isinstance(i, int) and 0 <= i < len(choices)]
    metrics = {name: x for name, x in row["metric"].items() if is_number(x)}
    rollout = {
        "group": None if doc.get("id") in (None, "") else str(doc["id"]),
        "prompt": doc.get("query"),
        "answer": answers[0] if len(answers) == 1 else answers or None,
        "metric": metrics,
    }
    names = str(doc.get("task_name") or "").split("|")
    if name := names[1] if len(names) > 2 else names[0]:
        rollout["benchmark"] = name
    value = choose(metrics, CORRECTNESS_NAMES, where, source)
    # The engine may have given ids for some samples only; then the text is what counts.
    ids = ids if isinstance(ids, list) and len(ids) == len(texts) else [None] * len(texts)
    for made in dealt(rollout, where, texts, value=value, token_ids=ids):
        yield made if made["token_ids"] else without(made, ["token_ids"])


def inspect_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A sample of inspect's log: `messages`, scores by scorer, and perhaps the log's `eval`."""
    error = first_of(row, "error.message")
    if error is not None and "assistant" not in {x.get("role") for x in row["messages"]}:
        name = f"sample {row.get('id')!r} has no answer"
        source.notes.reject(InputError(f"{where}: {name}; its error is {error!r:.200}"))
        return
    scores: Row = {}
    for name, score in (row.get("scores") or {}).items():
        value = score.get("value") if isinstance(score, dict) else score
        several = value if isinstance(value, dict) else {name: value}
        scores |= {f"{name}/{k}" if k in scores else k: x for k, x in several.items()}
    value = choose(scores, CORRECTNESS_NAMES, where, source) if scores else None
    if isinstance(value, str) and as_verdict(value) is None:
        source.notes.add("verdicts", repr(value))  # P is partly correct, N is no answer
    yield {
        "group": str(row.get("id")),
        "response": row["messages"],  # the input is the first of them
        "prompt": row.get("input"),
        "answer": row.get("target"),
        "model": first_of(row, "eval.model"),
        "epoch": row.get("epoch"),
        "scores": scores,
        "reward": value if is_score(value) else None,
    }


def summed(row: Row) -> Row:
    """SkyRL's row; its `score` may be a list of one reward a token, whose sum it takes."""
    score = row["score"]
    is_list = isinstance(score, list) and all(map(is_number, score))
    return row | {"score": sum(score)} if is_list else row


def qwen_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A problem of Qwen2.5-Math's outputs: `code` has its responses, `score` their verdicts."""
    yield from dealt(plain, where, row["code"], reward=row["score"])


def is_of_authors(row: Row) -> bool:
    """Whether a row with `model_output` is the KTAE authors', who have a text or one a sample."""
    if isinstance(row["model_output"], str):
        return "task_name" in row
    return isinstance(row["model_output"], list) and "gt" in row


def authors_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`task_name`, `gt`, `model_output`, `reward`: texts, or lists of one entry a sample.

    These files name no problem: the n-th row of a task is its n-th problem.
    """
    responses, golds = _as_list(row["model_output"]), row.get("gt", row.get("answer"))
    rewards = _as_list(row.get("reward", [None] * len(responses)))
    name, numbers = row.get("task_name"), source.state.setdefault("numbers", Counter())
    label = str(numbers[str(name)]) if name is None else f"{name}/{numbers[str(name)]}"
    numbers[str(name)] += 1
    rollout = {"group": label, "prompt": row.get("prompt"), "answer": golds}
    rollout |= {"benchmark": name} if name else {}
    is_each = isinstance(golds, list) and len(golds) == len(responses)
    each: Row = {"answer": golds} if is_each else {}
    yield from dealt(rollout, where, responses, reward=rewards, **each)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
