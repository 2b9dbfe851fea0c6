"""Token advantages in a `traces.jsonl` of verifiers or prime-rl: read, scored, and written again.

verifiers need not be installed. What else a file holds stays as it is.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.files.atomic import atomic_write
from ktae.rollouts.files import iterate_rows
from ktae.rollouts.schemas.base import Source
from ktae.rollouts.schemas.verifiers import TRACES, named_scores, trace_rows
from ktae.trainers.lists import Part, Rollout, Settings, by_part, credit_of

DECIMALS = 6
"""Of the advantages."""


class _Scored(NamedTuple):
    """A trace that has tokens and a reward."""

    nodes: list[dict[str, Any]]
    group: tuple[Any, Any]
    reward: float
    named: dict[str, Any]

    def parts(self) -> list[Part]:
        return [(node.get("token_ids") or [], node.get("mask") or []) for node in self.nodes]


def write_advantages(source: str | Path, path: str | Path, **options: Any) -> int:
    """Write the file again, with token advantages on the nodes of its traces.

    They are the reward minus the group's mean, as of prime-rl's GRPO, plus the credit. Groups may
    be spread over the file. Traces that ended with an error or have no reward stay as they are.

    Args:
        source: a file of episodes, or of single traces.
        path: the new file, JSON Lines: `.jsonl` or `.json`, also with `.gz`. It may be the same.
        **options: fields of `ktae.trainers.lists.Settings`. `correctness` is a reward or metric.

    Returns:
        The number of traces that got advantages.

    Raises:
        InputError: the file cannot be read or written, or an option is wrong.
    """
    compressed = str(path).endswith(".gz")
    if not str(path).removesuffix(".gz").endswith((".jsonl", ".json")):
        raise InputError(
            f"the new file is {path}; expected a name that ends in .jsonl or .jsonl.gz"
        )
    settings = Settings.of(options).beside(False, "the rollout advantages are R - mean")
    rows: list[tuple[Any, str]] = list(iterate_rows(Path(source)))
    for row, where in rows:
        if not isinstance(row, dict) or not TRACES.detects(row):
            raise InputError(f"{where}: {str(row)[:60]}; expected an episode or a trace")
    scored = [trace for row, where in rows for trace in _scored(row, where, Path(source))]
    scores = settings.scores([trace.reward for trace in scored], [trace.named for trace in scored])
    rollouts = [
        Rollout.of_parts(trace.parts(), trace.group, score)
        for trace, score in zip(scored, scores, strict=True)
    ]
    rewards: dict[tuple[Any, Any], list[float]] = defaultdict(list)
    for trace in scored:
        rewards[trace.group].append(trace.reward)
    for trace, values in zip(scored, credit_of(rollouts, settings).lists, strict=True):
        advantage = trace.reward - sum(rewards[trace.group]) / len(rewards[trace.group])
        for node, credit in zip(trace.nodes, by_part(values, trace.parts()), strict=True):
            if credit:
                node["advantages"] = [round(advantage + value, DECIMALS) for value in credit]
    with atomic_write(path) as temporary:
        text = "".join(json.dumps(row) + "\n" for row, _ in rows).encode()
        temporary.write_bytes(gzip.compress(text) if compressed else text)
    return len(scored)


def _scored(row: dict[str, Any], where: str, path: Path) -> Iterator[_Scored]:
    for trace, plain in trace_rows(row, where, Source(path)):
        if trace.get("ok", True) and plain["reward"] is not None:
            if not math.isfinite(plain["reward"]):
                raise InputError(
                    f"{where}: the reward is {plain['reward']}; expected a finite number"
                )
            group = (plain["step"], plain["group"])
            unknown = dict.fromkeys(trace.get("rewards") or {})
            named = unknown | named_scores(trace)
            yield _Scored(trace.get("nodes") or [], group, float(plain["reward"]), named)
