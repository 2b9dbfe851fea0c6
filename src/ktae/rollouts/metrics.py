"""What trainers log of each training step: their files, and one table of the metrics' names."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line
from ktae.files.inputs import read_input

HELD_OUT = "held-out accuracy"
NAMES = {
    "reward": ("reward", "critic/score/mean"),
    "response length": ("completions/mean_length", "response_length/mean"),
    "entropy": ("entropy", "actor/entropy", "actor/entropy_loss"),
    "KL": ("kl", "actor/kl_loss", "actor/ppo_kl"),
    "clip share": ("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac"),
    "truncated share": ("completions/clipped_ratio", "response_length/clip_ratio"),
    "gradient norm": ("grad_norm", "actor/grad_norm"),
    "loss": ("loss", "actor/pg_loss"),
    "seconds": ("seconds", "timing_s/step", "step_time"),
    "credit seconds": ("credit/seconds",),
}
"""What TRL and verl call each metric; the first name that a step has counts."""

BENCHMARK = re.compile(
    r"val-core/(?P<verl>.+)/(?:acc|reward|score)/mean@\d+"
    r"|eval_rewards/(?P<trl>.+)/mean"
)
"""Metrics of held-out problems. Of verl's, `mean@k` alone is an accuracy."""
LARGEST = 1e15
"""Larger metrics are left out, and infinite ones: they are no measurements."""


def common_names(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The known metrics of a training step, under their names in `NAMES`; those of held-out
    problems as `held-out accuracy, BENCHMARK`."""
    values = [(k, v) for k, v in metrics.items() if isinstance(v, int | float)]
    numbers = {k: float(v) for k, v in values if abs(v) < LARGEST}  # false for NaN, too
    named = {
        name: numbers[key] for name, keys in NAMES.items() for key in keys[::-1] if key in numbers
    }
    for key, value in numbers.items():
        if match := BENCHMARK.fullmatch(key):
            named[f"{HELD_OUT}, {match[match.lastgroup or 0]}"] = value
    return named


def metrics_files(run: Path) -> list[Path]:
    """A run folder's files of metrics, in their order: each start of a run through verl has its
    own, and those from before a resumption are `metrics-1.jsonl` and so on."""
    earlier = sorted(run.glob("metrics-*.jsonl"), key=lambda path: (len(path.name), path.name))
    return [*earlier, *run.glob("metrics.jsonl")]


def metrics_by_step(files: Iterable[Path]) -> dict[int, dict[str, Any]]:
    """The metrics of each training step, of files in ktae's or verl's form. Of a step that was run
    again the last line counts.

    Raises:
        InputError: a line is damaged.
    """
    return {
        line["step"]: line["data"] if isinstance(line.get("data"), dict) else line
        for path in files
        for line in json_lines(path)
        if type(line.get("step")) is int
    }


def trainer_state(file: Path) -> dict[int, dict[str, Any]]:
    """The metrics of each training step in transformers' `trainer_state.json`, where a step may
    have an entry of its training and one of an evaluation."""
    steps: dict[int, dict[str, Any]] = defaultdict(dict)
    for entry in json_object(read_input(file), str(file)).get("log_history") or []:
        if isinstance(entry, dict) and type(entry.get("step")) is int:
            steps[entry["step"]].update(entry)
    return steps


def json_lines(path: Path) -> list[dict[str, Any]]:
    """One object a line; what follows the last line's end was cut short, and is left out."""
    lines = read_input(path).split(b"\n")[:-1]
    return [json_object(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1)]


def json_object(content: bytes, where: str) -> dict[str, Any]:
    """The JSON object that a file or a line holds.

    Raises:
        InputError: it is broken, or another value; `where` begins the message.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: broken JSON: {one_line(error)}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: a {type(value).__name__}; expected a JSON object")
    return value
