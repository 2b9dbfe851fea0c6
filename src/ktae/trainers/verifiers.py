"""verifiers and prime-rl: token credit on the message graphs of their traces, and in their files.

A trace is a graph of messages. Each node holds the tokens that it adds, and one advantage for each
token that the policy sampled there. A trace is one rollout: its sampled tokens in the order of its
nodes. Branches may share nodes, and a node has one answer, whichever branch it is trained in.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError
from ktae.estimators.transforms import require_scale
from ktae.files.atomic import atomic_write
from ktae.rollouts.files import iterate_rows
from ktae.rollouts.schemas.base import Source
from ktae.rollouts.schemas.verifiers import TRACES, named_scores, trace_rows
from ktae.trainers.lists import Credited, Rollout, Settings, credit_of, one_of

ALGORITHMS = ("grpo", "echo", "max_rl")
"""Those of prime-rl that compare the traces of a group with each other, and nothing else."""

DECIMALS = 6
"""Of the advantages in a file."""


def use_in_prime_rl(algorithm: str = "grpo", **options: Any) -> None:
    """Make one of prime-rl's algorithms train on token advantages, in this process.

    Args:
        algorithm: the `type` of `[orchestrator.algo]`.
        **options: fields of `ktae.trainers.lists.Settings`. `correctness` is a reward or metric
            that the environment gives.

    Raises:
        InputError: an option is wrong, or the algorithm does not compare whole groups.
    """
    from prime_rl.orchestrator import algo

    one_of("algorithm", algorithm, ALGORITHMS, "which does not compare a group's traces alone")
    scaled = False if algorithm == "grpo" else None  # grpo's are R - mean
    what = f"the rollout advantages are those of prime-rl's {algorithm}"
    require_scale(Settings.of(options).estimator, scaled, what)
    algo.ALGORITHM_CLASSES[algorithm] = with_credit(algo.ALGORITHM_CLASSES[algorithm], **options)


def with_credit(algorithm: type, **options: Any) -> type:
    """A prime-rl `Algorithm` class that adds token credit to the advantages of another one.

    Args:
        algorithm: such as `prime_rl.orchestrator.algo.GRPOAlgorithm`.
        **options: as in `use_in_prime_rl`.
    """
    settings = Settings.of(options).tried(step=0)

    class TokenCredit(algorithm):
        """The algorithm, plus credit."""

        async def score_group(self, episodes: list[Any]) -> None:
            """Assign the algorithm's advantages, and add to them."""
            await super().score_group(episodes)
            traces = [trace for episode in episodes for trace in episode.traces]
            scored = [t for t in traces if any(n.advantages is not None for n in t.nodes)]
            work = getattr(episodes[0].run, "work", None) if episodes else None
            add_credit(scored, settings, step=getattr(work, "step", None))

    TokenCredit.__name__ = TokenCredit.__qualname__ = f"TokenCredit{algorithm.__name__}"
    return TokenCredit


def add_credit(traces: Sequence[Any], settings: Settings, *, step: int | None = None) -> Credited:
    """Add credit to the advantages of one group's `verifiers.v1` traces, in place.

    Traces of different agents are not compared. Each trace gets the metrics `credit/...`, which
    prime-rl shows with those of the environment. Nodes without advantages count as 0.
    """
    named = [
        trace.metrics | {name: None if r is None else r.score for name, r in trace.rewards.items()}
        for trace in traces
    ]
    scores = settings.scores([trace.reward for trace in traces], named)
    rollouts = []
    for trace, score in zip(traces, scores, strict=True):
        parts = [(node.token_ids, node.mask) for node in trace.nodes]
        first = next((x for node in trace.nodes for x in node.advantages or ()), 0.0)
        rollouts.append(Rollout(parts, trace.agent.name, score, first))
    credited = credit_of(rollouts, settings, step=step)
    metrics = credited.metrics()
    for trace, credit in zip(traces, credited.parts, strict=True):
        for node, values in zip(trace.nodes, credit, strict=True):
            added = _sampled(values, node.mask)
            if added:  # a message of the environment's has none, and keeps what it has
                base = node.advantages or [0.0] * len(added)
                node.advantages = [a + c for a, c in zip(base, added, strict=True)]
        trace.record_metrics(metrics)
    return credited


def write_advantages(source: str | Path, path: str | Path, **options: Any) -> int:
    """Write a `traces.jsonl` again, with token advantages on the nodes of its traces.

    They are the reward minus the group's mean, as of prime-rl's GRPO, plus the credit. Groups may
    be spread over the file. Traces that ended with an error or have no reward stay as they are, and
    so does whatever else the file holds. verifiers need not be installed.

    Args:
        source: a file of episodes, or of single traces.
        path: the new file, JSON Lines; it may be the same.
        **options: fields of `ktae.trainers.lists.Settings`. `correctness` is a reward or metric.

    Returns:
        The number of traces that got advantages.

    Raises:
        InputError: the file cannot be read or written, or an option is wrong.
    """
    if Path(path).suffix not in (".jsonl", ".json"):
        raise InputError(f"the new file is {path}; expected a name that ends in .jsonl")
    settings = Settings.of(options)
    require_scale(settings.estimator, False, "the rollout advantages are R - mean")
    rows: list[tuple[Any, str]] = list(iterate_rows(Path(source)))
    traces, rewards, named, groups = [], [], [], []
    by_group: dict[Any, list[float]] = defaultdict(list)
    for row, where in rows:
        if not isinstance(row, dict) or not TRACES.detects(row):
            raise InputError(f"{where}: {str(row)[:60]}; expected an episode or a trace")
        for trace, plain in trace_rows(row, where, Source(Path(source))):
            reward = plain["reward"]
            if not trace.get("ok", True) or reward is None:
                continue
            if not math.isfinite(reward):
                raise InputError(f"{where}: the reward is {reward}; expected a finite number")
            traces.append(trace.get("nodes") or [])
            rewards.append(float(reward))
            named.append(dict.fromkeys(trace.get("rewards") or {}) | named_scores(trace))
            groups.append((plain["step"], plain["group"]))
            by_group[groups[-1]].append(rewards[-1])
    parts = [[(n.get("token_ids") or [], n.get("mask") or []) for n in nodes] for nodes in traces]
    rollouts = list(map(Rollout, parts, groups, settings.scores(rewards, named)))
    credited = credit_of(rollouts, settings)
    for nodes, of_nodes, group, reward, credit in zip(
        traces, parts, groups, rewards, credited.parts, strict=True
    ):
        advantage = reward - sum(by_group[group]) / len(by_group[group])
        for node, (_, mask), values in zip(nodes, of_nodes, credit, strict=True):
            if added := _sampled(values, mask):
                node["advantages"] = [round(advantage + value, DECIMALS) for value in added]
    with atomic_write(path) as temporary:
        text = "".join(json.dumps(row) + "\n" for row, _ in rows)
        temporary.write_text(text, encoding="utf-8")
    return len(traces)


def _sampled(values: Sequence[float], mask: Sequence[Any]) -> list[float]:
    return [value for value, is_sampled in zip(values, mask, strict=True) if is_sampled]
