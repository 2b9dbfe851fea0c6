"""The announced comparisons: methods paired by seed, and what may be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ktae.inference import (
    FEWEST_PAIRS,
    LEVEL,
    Interval,
    holm,
    least_p_value,
    mean_interval,
    sign_flip_p_value,
)
from ktae_lab.study.announced import Announced, Comparison
from ktae_lab.study.cells import planned_units
from ktae_lab.study.collect import Run
from ktae_lab.study.folder import State
from ktae_lab.study.matrix import Matrix

Kind = Literal["confirmatory", "exploratory"]


class Missing(NamedTuple):
    """A seed that is not in a comparison."""

    seed: int
    why: str


class OfBaseModel(NamedTuple):
    """A difference on the seeds of one base model."""

    base_model: str
    seeds: int
    difference: float
    """Its mean."""


class Compared(NamedTuple):
    """Treatment minus baseline in one outcome on one task."""

    task: str
    treatment: str
    baseline: str
    outcome: str
    kind: Kind
    note: str
    """Why the kind is not the one in the matrix; empty: it is."""
    planned: int
    """Seeds of the matrix."""
    seeds: tuple[int, ...]
    """Those that are paired."""
    missing: tuple[Missing, ...]
    differences: tuple[float, ...]
    """One a seed; over several base models, their mean."""
    by_base_model: tuple[OfBaseModel, ...]
    treatment_mean: float | None
    baseline_mean: float | None
    interval: Interval | None
    """None: too few pairs."""
    p_value: float | None
    corrected: float | None = None
    """`p_value` after Holm's correction for all comparisons of this kind."""
    family: int = 0
    """How many those are."""
    too_few: bool = False
    """Whether so many pairs could not show a difference beside the others of the family, even if it
    had the same sign in all of them."""

    @property
    def difference(self) -> float | None:
        """Its mean."""
        return float(np.mean(self.differences)) if self.differences else None

    @property
    def shown(self) -> bool:
        """Whether a difference is shown at the 5 % level: by the corrected p and the interval."""
        return self.corrected is not None and self.corrected < LEVEL and self.leaves_out_zero

    @property
    def leaves_out_zero(self) -> bool:
        """Whether the interval does."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


def compare(
    matrix: Matrix,
    runs: Sequence[Run],
    announced: Announced,
    recipes: Mapping[str, str] | None,
) -> list[Compared]:
    """All contrasts of the matrix on all of its tasks.

    What was not announced as confirmatory before the first run, or has changed since, is
    exploratory, whatever the matrix says now. Comparisons without enough pairs, and announced ones
    that the matrix does not have any more, count in Holm's correction all the same, as if their p
    were 1: they were announced.

    Args:
        matrix: as it is now.
        runs: of all of its cells.
        announced: before the first run.
        recipes: `recipe_digests` of the cells; None: see `Announced.why_exploratory`.
    """
    by_place = {(r.cell.task, r.cell.method, r.cell.seed, r.cell.base): r for r in runs}
    found = []
    for contrast in matrix.contrasts:
        for outcome in contrast.outcomes:
            for task in matrix.tasks or [""]:
                one = Comparison(contrast.treatment, contrast.baseline, outcome, task)
                asked = contrast.kind == "confirmatory"
                note = announced.why_exploratory(matrix, recipes, one) if asked else ""
                kind: Kind = "exploratory" if note else contrast.kind
                sides = [
                    {key[2:]: run for key, run in by_place.items() if key[:2] == (task, method)}
                    for method in one[:2]
                ]
                found.append(_compare(matrix, one, kind, note, sides))
    kept = {(c.treatment, c.baseline, c.outcome, c.task) for c in found if c.kind == "confirmatory"}
    gone = [one for one in announced.comparisons(matrix) if one not in kept]
    return _corrected(found + [_not_as_announced(one) for one in gone])


def in_words(compared: Compared) -> str:
    """What may be said, in one sentence."""
    on_task = f" on {compared.task}" if compared.task else ""
    name = f"{compared.treatment} against {compared.baseline}{on_task}, {compared.outcome}"
    if not compared.planned:
        return f"{name}: {compared.note}"
    if compared.interval is None:
        return (
            f"{name}: not enough, {len(compared.seeds)} of {compared.planned} pairs; "
            f"{FEWEST_PAIRS} are needed to say anything"
        )
    mean, low, high = compared.interval
    numbers = (
        f"{mean:+.3g} (95 % interval {low:+.3g} to {high:+.3g}, {len(compared.seeds)} of "
        f"{compared.planned} pairs, corrected p = {compared.corrected:.2g})"
    )
    if compared.shown:
        verdict = "a difference is shown"
    elif compared.too_few and compared.leaves_out_zero:
        verdict = f"too few pairs to show a difference among {compared.family} comparisons"
    else:
        verdict = "no difference can be shown"
    return f"{name}: {verdict}, {numbers}"


def as_json(compared: Compared) -> dict[str, Any]:
    """Everything, for programs."""
    interval = compared.interval
    return compared._asdict() | {
        "missing": [missing._asdict() for missing in compared.missing],
        "by_base_model": [one._asdict() for one in compared.by_base_model],
        "difference": compared.difference,
        "interval": None if interval is None else [interval.low, interval.high],
        "shown": compared.shown,
        "in_words": in_words(compared),
    }


def _compare(
    matrix: Matrix,
    one: Comparison,
    kind: Kind,
    note: str,
    sides: Sequence[Mapping[tuple[int, str], Run]],
) -> Compared:
    seeds, values, missing = [], [], []
    by_base: dict[str, list[float]] = {}
    for seed, bases in planned_units(matrix).items():
        pairs = [[side[seed, base] for side in sides] for base in bases]
        why = [_why(run, one.outcome) for pair in pairs for run in pair]
        if any(why):
            missing.append(Missing(seed, "; ".join(reason for reason in why if reason)))
            continue
        seeds.append(seed)
        # (bases, 2)
        value = np.array([[run.outcomes[one.outcome] for run in pair] for pair in pairs], float)
        values.append(value.mean(axis=0))
        for base, (treated, untreated) in zip(bases, value, strict=True):
            by_base.setdefault(base, []).append(treated - untreated)
    # (seeds, 2): base models of a seed share its prompts, so they are not independent
    means = np.array(values).reshape(-1, 2)
    differences = means[:, 0] - means[:, 1]
    enough = len(seeds) >= FEWEST_PAIRS
    return Compared(
        one.task, one.treatment, one.baseline, one.outcome, kind, note,
        planned=len(matrix.seeds),
        seeds=tuple(seeds),
        missing=tuple(missing),
        differences=tuple(differences.tolist()),
        by_base_model=tuple(
            OfBaseModel(base, len(found), float(np.mean(found))) for base, found in by_base.items()
        ),
        treatment_mean=float(means[:, 0].mean()) if seeds else None,
        baseline_mean=float(means[:, 1].mean()) if seeds else None,
        interval=mean_interval(differences) if enough else None,
        p_value=sign_flip_p_value(differences) if enough else None,
    )  # fmt: skip


def _not_as_announced(one: Comparison) -> Compared:
    """The place in Holm's correction of a comparison that cannot be made any more."""
    return Compared(
        one.task, one.treatment, one.baseline, one.outcome, "confirmatory",
        "announced, and not in the matrix as it was announced",
        planned=0, seeds=(), missing=(), differences=(), by_base_model=(),
        treatment_mean=None, baseline_mean=None, interval=None, p_value=None,
    )  # fmt: skip


def _why(run: Run, outcome: str) -> str:
    """Why a run has no such outcome; empty: it has."""
    if run.outcomes[outcome] is not None:
        return ""
    where = " ".join(x for x in (run.cell.method, run.cell.base) if x)
    has_ended = run.state is State.FINISHED
    return f"{where}: {f'its run has no {outcome}' if has_ended else run.why_missing}"


def _corrected(found: Sequence[Compared]) -> list[Compared]:
    done = list(found)
    for kind in ("confirmatory", "exploratory"):
        family = [i for i, compared in enumerate(found) if compared.kind == kind]
        p_values = [1.0 if p is None else p for p in (found[i].p_value for i in family)]
        for place, (i, p) in enumerate(zip(family, holm(p_values), strict=True)):
            at_best = p_values.copy()
            at_best[place] = least_p_value(len(found[i].seeds))
            done[i] = found[i]._replace(
                corrected=None if found[i].p_value is None else p,
                family=len(family),
                too_few=holm(at_best)[place] >= LEVEL,
            )
    return done
