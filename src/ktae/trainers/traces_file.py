"""Token advantages in a file of verifiers' traces; verifiers need not be installed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ktae.errors import InputError
from ktae.estimators.transforms import require_scale
from ktae.files.atomic import atomic_write
from ktae.rollouts.files import iterate_rows
from ktae.rollouts.schemas.base import Source
from ktae.rollouts.schemas.verifiers import has_traces, named_scores, trace_rows
from ktae.trainers.settings import Settings
from ktae.trainers.verifiers import add_to_nodes

DECIMALS = 6
"""Digits of advantages in a file, after the point."""


def write_advantages(source: str | Path, path: str | Path, **options: Any) -> int:
    """Write a `traces.jsonl` again, with token advantages on the nodes of its traces.

    They are the reward minus the group's mean, as of prime-rl's GRPO, plus the credit. Groups may
    be spread over the file. Traces that ended with an error or have no reward stay as they are, and
    so does whatever else the file holds.

    `source` has episodes or single traces, `path` is the new file, which may be the same, `options`
    are fields of `ktae.trainers.settings.Settings`. It gives the number of traces that got some.

    Raises:
        InputError: the file cannot be read or written, or an option is unknown.
    """
    if Path(path).suffix not in (".jsonl", ".json"):
        raise InputError(f"the new file is {path}; expected a name that ends in .jsonl")
    settings = Settings.of(options)
    require_scale(settings.estimator, False, "the rollout advantages are R - mean")
    rows: list[tuple[Any, str]] = list(iterate_rows(Path(source)))
    traces, named = [], []
    of_group: dict[Any, list[float]] = {}
    for row, where in rows:
        if not isinstance(row, dict) or not has_traces(row):
            raise InputError(f"{where}: {str(row)[:60]}; expected an episode or a trace")
        for trace, plain in trace_rows(row, where, Source(Path(source))):
            reward, group = plain["reward"], (plain["step"], plain["group"])
            if not trace.get("ok", True) or reward is None:
                continue
            if not math.isfinite(reward):
                raise InputError(f"{where}: the reward is {reward}; expected a finite number")
            traces.append((trace.get("nodes") or [], trace.get("info"), group, float(reward)))
            of_group.setdefault(group, []).append(float(reward))
            named.append(dict.fromkeys(trace.get("rewards") or {}) | named_scores(trace))
    views = []
    for nodes, info, group, reward in traces:
        base = reward - sum(of_group[group]) / len(of_group[group])
        views.append((SimpleNamespace(nodes=[_view(x, base) for x in nodes], info=info), group))
    add_to_nodes(views, settings.scores([reward for *_, reward in traces], named), settings)
    for (nodes, *_), (view, _) in zip(traces, views, strict=True):
        for node, values in zip(nodes, view.nodes, strict=True):
            if values.advantages:
                node["advantages"] = [round(x, DECIMALS) for x in values.advantages]
    with atomic_write(path) as temporary:
        text = "".join(json.dumps(row) + "\n" for row, _ in rows)
        temporary.write_text(text, encoding="utf-8")
    return len(traces)


def _view(node: dict[str, Any], advantage: float) -> SimpleNamespace:
    """A node of a file, as traces in memory have it."""
    mask = node.get("mask") or []
    base = [advantage for is_sampled in mask if is_sampled]
    return SimpleNamespace(token_ids=node.get("token_ids") or [], mask=mask, advantages=base)
