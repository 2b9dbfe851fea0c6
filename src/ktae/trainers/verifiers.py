"""verifiers and prime-rl: token credit on the message graphs of their traces.

A trace is a graph of messages. Each node holds the tokens that it adds, and one advantage for each
token that the policy sampled there. A trace is one rollout: its sampled tokens in the order of its
nodes. Branches may share nodes, and a node has one answer, whichever branch it is trained in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktae.trainers.lists import Credited, Rollout, Settings, by_part, credit_of, one_of

ALGORITHMS = ("grpo", "echo", "max_rl")
"""Those of prime-rl that compare the traces of a group with each other, and nothing else."""


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
    Settings.of(options).beside(
        scaled, f"the rollout advantages are those of prime-rl's {algorithm}"
    )
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
    nodes = [[(node.token_ids, node.mask) for node in trace.nodes] for trace in traces]
    first = [next((x for n in trace.nodes for x in n.advantages or ()), 0.0) for trace in traces]
    rollouts = [
        Rollout.of_parts(of_trace, trace.agent.name, score, advantage)
        for trace, of_trace, score, advantage in zip(traces, nodes, scores, first, strict=True)
    ]
    credited = credit_of(rollouts, settings, step=step)
    metrics = credited.metrics() if traces else {}
    for trace, of_trace, values in zip(traces, nodes, credited.lists, strict=True):
        for node, credit in zip(trace.nodes, by_part(values, of_trace), strict=True):
            if credit:  # a message of the environment's has none, and keeps what it has
                base = node.advantages or [0.0] * len(credit)
                node.advantages = [a + c for a, c in zip(base, credit, strict=True)]
        trace.record_metrics(metrics)
    return credited
