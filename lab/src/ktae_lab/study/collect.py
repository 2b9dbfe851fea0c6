"""What the runs of a study left, as rows: one a run, and one for each of its training steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae_lab.study.cells import KEYS, Cell, Place
from ktae_lab.study.folder import State, StudyFolder, failures_before
from ktae_lab.study.matrix import Outcome

CURVES = {
    "accuracy": ("rewards/correct/mean", "credit/correct"),
    "length": ("completions/mean_length",),
    "entropy": ("entropy",),
    "reward": ("reward",),
    "credit_abs": ("credit/mean_abs",),
    "sign_flips": ("credit/sign_flips",),
    "clipped": ("clip_ratio/region_mean",),
    "equal_groups": ("dynamic_sampling/equal_groups",),
    "seconds": ("seconds",),
}
"""Short names of curves, and the keys of `metrics.jsonl` that may hold them, the first one first.

`accuracy` is the share of correct rollouts of the step, those that dynamic sampling replaced
included: it is that of the policy, where `reward` may hold a penalty as well."""

KEPT = ("accuracy", "length", "entropy", "credit_abs")
"""Those of `curves.csv.gz`, beside what the matrix's outcomes are made of."""


class Run(NamedTuple):
    """One run of the matrix, whatever became of it."""

    cell: Place
    state: State
    record: dict[str, Any]
    """Of its processes; see `StudyFolder.record`."""
    summary: dict[str, Any]
    """Dotted keys; empty unless it has finished."""
    lines: list[dict[str, Any]]
    """Of `metrics.jsonl`; empty unless it has finished."""
    outcomes: dict[str, float | None]
    """By name; None where the run does not have it."""
    digest: str
    """Of its recipe."""

    @property
    def failures_before(self) -> int | None:
        """How often it had failed when its last attempt began; None: that was not recorded."""
        return failures_before(self.record)

    @property
    def was_interrupted(self) -> bool:
        """Whether it was resumed or begun again without having failed."""
        again: int = (self.record.get("attempts") or 1) - 1
        return self.failures_before is not None and again > self.failures_before

    @property
    def why_missing(self) -> str:
        """In a few words, for a run that has not finished."""
        if self.state is State.FAILED:
            return f"failed ({last_line(self.record)})"
        return str(self.state.value)


def collect(
    cells: Sequence[Cell], folder: StudyFolder, outcomes: Mapping[str, Outcome]
) -> list[Run]:
    """All cells in their order.

    Raises:
        InputError: a run's summary or metrics cannot be read.
    """
    validated = folder.validated()
    return [_collect(cell, folder, outcomes, validated.get(cell.key, {})) for cell in cells]


def last_line(record: Mapping[str, Any]) -> str:
    """The last line of a failed run's error: Python's exception, most of the time."""
    lines = [line for line in str(record.get("error") or "").splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""


def curve(lines: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """(steps,) a curve by its short name or key; NaN at steps without it."""
    keys = CURVES.get(name, (name,))
    values = [
        next((line[key] for key in keys if line.get(key) is not None), None) for line in lines
    ]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def measure(
    outcome: Outcome, summary: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> float | None:
    """An outcome of a finished run; None where the run does not have it, or not all of it."""
    if outcome.summary is not None:
        value = summary.get(outcome.summary)
        return float(value) if isinstance(value, int | float) else None
    assert outcome.curve is not None
    values = curve(lines, outcome.curve)
    values = values[-outcome.last :] if outcome.last else values
    known = values[~np.isnan(values)]
    too_short = outcome.last is not None and len(values) < outcome.last
    return None if not known.size or too_short else float(known.mean())


def run_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One wide row a cell, with the same columns; empty where there is nothing."""
    summary_keys = list(dict.fromkeys(key for run in runs for key in run.summary))
    left_out = {"recipe", "seed"}
    rows = []
    for run in runs:
        row: dict[str, Any] = {
            **dict(zip(KEYS, run.cell.key, strict=True)),
            "state": run.state.value,
            "error": last_line(run.record),
            **{f"outcome.{name}": value for name, value in run.outcomes.items()},
            **{key: run.summary.get(key) for key in summary_keys if key not in left_out},
            "attempts": run.record.get("attempts"),
            "failures_before": run.failures_before,
            "process_seconds": run.record.get("seconds"),
            "commit": run.record.get("commit"),
            "recipe_digest": run.digest,
        }
        rows.append(row)
    return rows


def curve_rows(runs: Sequence[Run], outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """One row for each training step of each finished run, with those curves that any run has, of
    `KEPT` and of the known curves that outcomes are made of."""
    asked = {outcome.curve for outcome in outcomes.values()}
    found = {
        name: [curve(run.lines, name) for run in runs]
        for name in CURVES
        if name in KEPT or name in asked
    }  # fmt: skip
    names = [n for n, curves in found.items() if any(not np.isnan(c).all() for c in curves)]
    rows = []
    for i, run in enumerate(runs):
        for t, line in enumerate(run.lines):
            row = dict(zip((*KEYS, "step"), (*run.cell.key, line["step"]), strict=True))
            values = {name: float(found[name][i][t]) for name in names}
            rows.append(row | {name: None if np.isnan(v) else v for name, v in values.items()})
    return rows


def _collect(
    cell: Cell,
    folder: StudyFolder,
    outcomes: Mapping[str, Outcome],
    validated: Mapping[str, float],
) -> Run:
    state, run = folder.state(cell), folder.run_folder(cell)
    record = folder.record(cell)
    if state is not State.FINISHED:
        return Run(cell, state, record, {}, [], dict.fromkeys(outcomes), cell.digest)
    try:
        summary = recipes.dotted(json.loads(run.summary.read_text(encoding="utf-8")))
        summary |= {f"validated.{name}": value for name, value in validated.items()}
        lines = run.read_metrics()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the run in {run.path}: {error}") from None
    values = {name: measure(outcome, summary, lines) for name, outcome in outcomes.items()}
    return Run(cell, state, record, summary, lines, values, cell.digest)
