"""verifiers and prime-rl: token credit on the message graphs of their traces.

A trace is a graph of messages. Each node holds the tokens that it adds, and one advantage for each
token that the policy sampled there. A trace is one rollout: its sampled tokens in the order of its
nodes. Its rewards by turn, if any, are `trace.info["turn_rewards"]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ktae.estimators.transforms import require_scale
from ktae.trainers.lists import Credited, Rollout, credit_of
from ktae.trainers.settings import Settings, one_of

ALGORITHMS = ("grpo", "echo", "max_rl")
"""Those of prime-rl that compare the traces of a group with each other, and nothing else."""


def use_in_prime_rl(algorithm: str = "grpo", **options: Any) -> None:
    """Make one of prime-rl's algorithms, the `type` of `[orchestrator.algo]`, train on token
    advantages in this process. `options` are fields of `ktae.trainers.settings.Settings`."""
    from prime_rl.orchestrator import algo

    one_of("algorithm", algorithm, ALGORITHMS, "which does not compare a group's traces alone")
    credited = with_credit(algo.ALGORITHM_CLASSES[algorithm], **options)
    scaled = False if algorithm == "grpo" else None  # grpo's are R - mean
    require_scale(
        credited.credit_settings.estimator, scaled, f"prime-rl's algorithm is {algorithm}"
    )
    algo.ALGORITHM_CLASSES[algorithm] = credited


def with_credit(algorithm: type, **options: Any) -> Any:
    """A prime-rl `Algorithm` class that adds token credit to the advantages of another one."""

    class TokenCredit(algorithm):
        """The algorithm, plus credit."""

        credit_settings = Settings(**options).tried()

        async def score_group(self, episodes: list[Any]) -> None:
            """Assign the algorithm's advantages, and add to them."""
            await super().score_group(episodes)
            traces = [trace for episode in episodes for trace in episode.traces]
            traces = [t for t in traces if any(n.advantages is not None for n in t.nodes)]
            add_credit(traces, self.credit_settings)

    TokenCredit.__name__ = TokenCredit.__qualname__ = f"TokenCredit{algorithm.__name__}"
    return TokenCredit


def add_credit(traces: Sequence[Any], settings: Settings) -> Credited:
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
        turn_rewards = (getattr(trace, "info", None) or {}).get("turn_rewards")
        rollouts.append(Rollout(parts, trace.agent.name, score, first, turn_rewards))
    credited = credit_of(rollouts, settings)
    metrics = credited.metrics()
    for trace, credit in zip(traces, credited.parts, strict=True):
        for node, values in zip(trace.nodes, credit, strict=True):
            added = [x for x, is_sampled in zip(values, node.mask, strict=True) if is_sampled]
            if added:  # a message of the environment's has none, and keeps what it has
                base = node.advantages or [0.0] * len(added)
                node.advantages = [a + c for a, c in zip(base, added, strict=True)]
        trace.record_metrics(metrics)
    return credited
