"""What verifiers and prime-rl write: episodes of traces, single traces, and earlier flat results.

A trace is a graph of messages, each with the tokens that it adds to the conversation before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktae.rollouts.conversation import Segment, dialogue, joined, pieces, role_of
from ktae.rollouts.paths import first_of
from ktae.rollouts.schemas.base import Source, choose, step_of
from ktae.rollouts.schemas.trainers import constant, trained_part
from ktae.rollouts.values import Row, is_label, is_number, label_of, without


def episode_rows(plain: Row, row: Row, where: str, source: Source) -> Iterator[Row]:
    """Each trainable agent's trace is a rollout; its group is the task's, or the trainer's, with
    the agent's name."""
    for trace, rollout in trace_rows(row, where, source):
        rollout |= _last_branch(_list(trace.get("nodes")))
        advantage = first_of(trace, "info.advantage")
        if rollout.get("advantage") is None and is_number(advantage):
            rollout["advantage"] = advantage
        yield rollout


def trace_rows(row: Row, where: str, source: Source) -> Iterator[tuple[Row, Row]]:
    """Each trainable trace of a row, and its plain row but for prompt, response and tokens.

    prime-rl wrote single traces before it wrote episodes; such a row is its own trace.
    """
    env = first_of(row, "env.name", "env.id", "info.prime_rl.env_name")
    for trace in _list(row.get("traces", [row])):
        if not isinstance(trace, dict) or first_of(trace, "agent.trainable") is False:
            continue
        task: Row = trace["task"] if isinstance(trace.get("task"), dict) else row["task"]
        data = task.get("data") or task  # the fields of the task itself, in single traces
        keys = (task.get("key"), task.get("hash"), data.get("id"), data.get("idx"))
        key = next((key for key in keys if key is not None), label_of(data.get("prompt")))
        name, group = first_of(trace, "agent.name"), first_of(row, "group.id")
        group = group or (f"{env}/{key}" if env else str(key))
        step = first_of(row, "run.work.step")
        kind = first_of(trace, "info.kind") or first_of(row, "run.work.type", "run.type")
        # The reward or metric that was asked for, or the weighted sum of the rewards.
        reward = trace.get("reward")
        if source.options.correctness:
            reward = choose(named_scores(trace), (), where, source)
        elif not is_number(reward):
            values = [r["score"] * r.get("weight", 1) for r in _rewards(trace).values()]
            reward = sum(values) if values else None
        models = (call["model"] for call in _list(trace.get("calls")) if call.get("model"))
        rollout = {
            "group": f"{group} {name}" if name else group,  # also where it is alone in this row
            "step": step_of(source.path) if step is None else step,
            "answer": first_of(task, "data.answer", "answer"),
            "model": next(models, None),
            "source": env,
            "reward": reward,
            **{name: trace.get(name) for name in ("id", "metrics", "stop_condition")},
            **({} if kind is None else {"is_evaluation": kind == "eval"}),
        }
        yield trace, rollout


def named_scores(trace: Row) -> Row:
    """A trace's metrics and its unweighted rewards by name, without what was not scored."""
    scores = {name: r["score"] for name, r in _rewards(trace).items()}
    return (trace.get("metrics") or {}) | scores


def _rewards(trace: Row) -> Row:
    """By name; a bare number, as earlier versions wrote, is a score of weight 1."""
    rewards = {name: r for name, r in (trace.get("rewards") or {}).items() if r is not None}
    return {name: {"score": r} if is_number(r) else r for name, r in rewards.items()}


def _last_branch(nodes: list[Row]) -> Row:
    """The conversation that ends with the last message: its prompt, response, tokens and mask."""
    path: list[Row] = []
    # From the last message up to the first, by each one's parent. A broken file may have a circle.
    # What was tried to make the conversation shorter leads nowhere.
    tried = ("compaction_attempt" in str(node.get("semantic_parents")) for node in nodes)
    at = max((i for i, is_tried in enumerate(tried) if not is_tried), default=None)
    while at is not None and len(path) <= len(nodes):
        path.insert(0, nodes[at])
        at = nodes[at].get("parent")
    # What tools and users say in between is part of the text; the mask leaves its tokens out.
    parts = []
    for node in path:
        message = node.get("message")
        role = role_of(message) if isinstance(message, dict) and "role" in message else None
        role = "policy" if node.get("sampled") else "tool" if role == "policy" else role
        parts.append(Segment(joined(piece.text for piece in pieces(message)), role or "tool"))
    talk = dialogue(parts)
    plain: Row = {"prompt": joined(part.text for part in parts), "response": ""}
    if talk is not None:
        plain = {"prompt": talk.prompt} | talk.as_row()
    ids, mask, advantages, log_probs = (
        [x for node in path for x in _list(node.get(name))]
        for name in ("token_ids", "mask", "advantages", "logprobs")
    )
    if True in mask and len(mask) == len(ids):
        plain |= trained_part(ids, mask) | {"advantage": constant(advantages)}
        if len(log_probs) == sum(mask):
            rest = iter(log_probs)
            plain["log_probs"] = [next(rest) if sampled else None for sampled in plain["mask"]]
    return plain


def has_traces(row: Row) -> bool:
    """Whether an object is an episode, or a single trace."""
    is_trace = isinstance(row.get("nodes"), list) and isinstance(row.get("rewards"), dict)
    return isinstance(row.get("task"), dict) and (isinstance(row.get("traces"), list) or is_trace)


def has_example(row: Row) -> bool:
    """Whether flat results number their examples, as `example_id` or, earlier, `id`."""
    has_task = isinstance(row.get("task"), str) and "prompt" in row
    return is_label(row.get("example_id")) or (is_label(row.get("id")) and has_task)


def of_one_turn(row: Row) -> Row:
    """Flat results whose `trajectory` has tokens and is one turn; others without it."""
    row = {"example_id": row.get("id")} | row
    turns = _list(row.get("trajectory"))
    has_ids = len(turns) == 1 and first_of(turns[0], "tokens.completion_ids")
    return row if has_ids else without(row, ["trajectory"])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
