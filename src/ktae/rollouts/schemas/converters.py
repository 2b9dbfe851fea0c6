"""What paths cannot say: from a row's other fields with those that `tools.toml` reads, the row
itself, its place (which begins errors) and its source to the plain rows in it."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktae.arrays import is_above
from ktae.errors import InputError
from ktae.rollouts.conversation import dialogue, joined, segments
from ktae.rollouts.locate import Located
from ktae.rollouts.paths import MISSING, at
from ktae.rollouts.schemas.base import SCORES, Items, Schema, Source
from ktae.rollouts.values import KINDS, Row, as_label, is_null, is_number, without

VERL_KEY = re.compile(r"((.+)_\d+)_(\d{1,9})", re.DOTALL)
"""verl's default trainer writes each rollout's key as `uid`: "{sample}_{rollout}_{output}"."""
SAMPLES_FILE = re.compile(r"samples_(.+?)(_\d{4}-\d\d-\d\dT.*)?\.json.*")
"""lm-evaluation-harness has the task in the name of the file."""


def new_steps(items: Items, source: Source) -> Items:
    """The rows of TRL without those of a step whose rollouts are those of the step before.

    TRL logs its last generation batch at every step, and one batch may serve several steps.
    """
    for step, rows in itertools.groupby(items, key=lambda item: str(as_label(item[0]["step"]))):
        of_step, names = list(rows), ("prompt", "completion", "advantage", "advantages")
        batch = Counter(repr([row.get(name) for name in names]) for row, _ in of_step)
        before, last = source.run.get(source.path.parent, (step, None))
        source.run[source.path.parent] = step, batch
        if step != before and batch == last:
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
        rows = list(outputs)
        row, located = rows[-1]
        source.notes.add("intermediate", n=len(rows) - 1)
        if str(row.get("uid")).startswith("pad") and not row["input"] and not row["output"]:
            source.notes.add("padding")
        else:
            yield row | {"input": rows[0][0]["input"]}, located  # the session's prompt


# --- trainers


def trl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """One column a reward function, which gives floats, and whatever else was logged."""
    rest = without(row, ("step", "prompt", "completion", "advantage", "advantages"))
    scores = {k: x for k, x in rest.items() if x is None or isinstance(x, float)}
    scores |= {k: x for k, x in rest.items() if isinstance(x, bool) and k.endswith("_reward")}
    if not any(x is not None for x in scores.values()):
        scores = {k: x for k, x in rest.items() if KINDS["score"](x)}
    yield plain | {SCORES: scores}


def verl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`acc`, where it is there, is the verdict, free of length penalties."""
    if sample := VERL_KEY.fullmatch(str(row.get("uid", ""))):
        plain["group"] = sample[2]
    value: Any = row.get("acc")
    if row.get("undecided") == 1:
        plain["correct"] = None
    elif is_number(value) and not is_null(value):
        plain["correct"] = is_above(value, source.options.threshold or 0.0)
        if 0 < value < 1 and source.options.threshold is None:
            source.notes.add("values", f"{value:g}")
    yield plain


def slime_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A `Sample`: `tokens` are the prompt's and the response's."""
    tokens, n = row["tokens"], row["response_length"]
    if isinstance(tokens, list) and isinstance(n, int) and 0 < n <= len(tokens):
        plain |= {"token_ids": tokens[-n:], "mask": row.get("loss_mask")}
    if isinstance(plain.setdefault("reward", None), dict):
        plain[SCORES] = plain["reward"]
    yield plain


def skyrl_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """The `score` may be a list of one reward a token."""
    score = row["score"]
    yield plain | {"reward": sum(score) if isinstance(score, list) else score}


# --- episodes of verifiers and prime-rl


def _first_of(value: Any, *paths: str) -> Any:
    """What the first of these paths leads to; None where all lead nowhere or to null."""
    values = (at(value, path) for path in paths)
    return next((x for x in values if x is not MISSING and x is not None), None)


def episode_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """Each trainable agent's trace is a rollout; its group is the trainer's, or the task's."""
    for trace in row["traces"]:
        if _first_of(trace, "agent.trainable") is False:
            continue
        task = trace.get("task") or row["task"]
        key = _first_of(row, "group.id") or _first_of(task, "key", "hash", "data.id", "data.idx")
        labels = [str(x) for x in (key, _first_of(trace, "agent.name")) if x is not None]
        rewards = {k: r for k, r in (trace.get("rewards") or {}).items() if r is not None}
        weighted = [r["score"] * r.get("weight", 1) for r in rewards.values()]
        rollout = {
            "id": trace.get("id"),
            "group": " ".join(labels) or None,
            "step": _first_of(row, "run.work.step"),
            "answer": _first_of(task, "data.answer"),
            "model": next((x["model"] for x in trace.get("calls") or () if x.get("model")), None),
            "source": _first_of(row, "env.name", "env.id"),
            "reward": trace.get("reward", sum(weighted) if weighted else None),
            "advantage": _first_of(trace, "info.advantage"),
            "is_evaluation": _first_of(row, "run.work.type", "run.type") == "eval",
            "scores": {k: r["score"] for k, r in rewards.items()},
            "metrics": trace.get("metrics"),
        }
        yield rollout | last_branch(trace.get("nodes") or [])


def last_branch(nodes: list[Row]) -> Row:
    """The conversation that ends with the last message: its prompt, response, tokens and mask.

    A trace is a graph of messages, each with the tokens that it adds to those before it.
    """
    path: list[Row] = []
    # What was tried to make the conversation shorter leads nowhere.
    kept = [i for i, x in enumerate(nodes) if "compaction_" not in str(x.get("semantic_parents"))]
    at = max(kept, default=None)
    while at is not None and len(path) <= len(nodes):
        path.insert(0, nodes[at])  # a broken file may have a circle
        at = nodes[at].get("parent")
    said = [(x.get("message") or {}) | {"trainable": bool(x.get("sampled"))} for x in path]
    plain = dialogue(segments({"role": "tool"} | message for message in said)) or {"response": ""}
    ids, mask = ([x for node in path for x in node.get(k) or ()] for k in ("token_ids", "mask"))
    if True in mask and len(mask) == len(ids):
        first = mask.index(True)
        plain |= {"token_ids": ids[first:], "mask": mask[first:]}
    return plain


# --- evaluations


def dealt(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """One row for each of several responses; one value for all of them says nothing about each."""
    responses = plain["response"] if isinstance(plain["response"], list) else [plain["response"]]
    n = len(responses)

    def entry(value: Any, i: int, shared: Any = None) -> Any:
        is_each = isinstance(value, list) and len(value) == n
        value = value[i] if is_each else value if n == 1 else shared
        return None if value == [] else value

    for i, response in enumerate(responses):
        made = {"answer": entry(plain.get("answer"), i, plain.get("answer"))}
        made |= {k: entry(plain[k], i) for k in ("reward", "token_ids") if k in plain}
        if SCORES in plain:
            made[SCORES] = {k: entry(x, i) for k, x in plain[SCORES].items()}
        yield plain | made | {"response": response}


def authors_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """These files name no problem: the n-th row of a task is its n-th problem."""
    numbers, task = source.run.setdefault(source.path, Counter()), row.get("task_name", "row")
    group = f"{task}/{numbers[task]}"
    numbers[task] += 1
    yield from dealt(plain | {"group": group}, row, where, source)


def lm_eval_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """One row a problem and filter; `resps` holds the responses.

    Several filters read the same responses; when a problem comes again, it is another filter's.
    """
    seen = source.run.setdefault(source.path, set())
    if row["doc_id"] in seen:
        source.notes.add("filters")
        return
    seen.add(row["doc_id"])
    if len(row["resps"]) != 1:
        raise InputError(f"{where}: log-likelihoods of choices; expected one generated response")
    names = row.get("metrics") or [k for k in plain if isinstance(plain[k], float | bool | list)]
    if task := SAMPLES_FILE.fullmatch(source.path.name):
        plain["benchmark"] = task[1]
    plain[SCORES] = {name: plain[name] for name in names if name in plain}
    yield from dealt(plain | {"response": row["resps"][0]}, row, where, source)


def lighteval_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """`doc`, `model_response` and `metric`; the response's tokens where the engine gave them."""
    doc, texts = row["doc"], row["model_response"]["text"]
    thoughts = row["model_response"].get("reasonings") or [None] * len(texts)
    gold, names = doc.get("gold_index"), str(doc.get("task_name") or "").split("|")
    answers = [doc["choices"][i] for i in (gold if isinstance(gold, list) else [gold])]
    plain |= {
        "response": [joined(pair) for pair in zip(thoughts, texts, strict=True)],
        "answer": answers[0] if len(answers) == 1 else answers,
        "benchmark": names[1] if len(names) > 2 else names[0] or None,
        SCORES: {k: x for k, x in row["metric"].items() if is_number(x)},
    }
    yield from dealt(plain, row, where, source)


def inspect_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """A sample of inspect's log, with scores by scorer; its input is the first of its messages."""
    scores: Row = {}
    for name, score in row["scores"].items():
        value = score.get("value") if isinstance(score, dict) else score
        scores |= value if isinstance(value, dict) else {name: value}
    # P (partly correct) and N (no answer) are unknown.
    scores = {k: None if x in ("P", "N") else x for k, x in scores.items()}
    scores = {k: x for k, x in scores.items() if KINDS["score"](x)}
    yield plain | {"scores": scores} | ({SCORES: scores} if scores else {"reward": None})


# --- all of them

TOOLS = tomllib.loads(Path(__file__).with_name("tools.toml").read_text(encoding="utf-8"))["tool"]
FUNCTIONS = [{k: globals()[x[k]] for k in ("convert", "once") if k in x} for x in TOOLS]
SCHEMAS = tuple(Schema(**tool | named) for tool, named in zip(TOOLS, FUNCTIONS, strict=True))
"""In the order in which they are tried."""


def is_plain(row: Row) -> bool:
    """Whether a row has a group and a response, and so is what it says, whatever else it has."""
    return "group" in row and ("token_ids" in row or KINDS["said"](row.get("response")))


def detect(row: Row, likely: Schema | None = None) -> Schema | None:
    """The schema of a row, None for a plain one; `likely` is that of the row before."""
    schemas = SCHEMAS if likely is None else (likely, *SCHEMAS)
    return None if is_plain(row) else next((x for x in schemas if x.detects(row)), None)
