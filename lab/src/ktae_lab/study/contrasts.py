"""The announced comparisons: methods paired by seed, and what may be said of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pydantic

from ktae.inference import (
    LEVEL,
    Interval,
    holm,
    sign_flip_p_value,
)
from ktae_lab.intervals import FEWEST_PAIRS, mean_interval
from ktae_lab.study.cells import Cell, recipe_digests
from ktae_lab.study.matrix import OUTCOMES, Matrix


class Comparison(NamedTuple):
    """One difference on one task."""

    treatment: str
    baseline: str
    outcome: str
    task: str


class Announced(pydantic.BaseModel):
    """What a study announced before its first run."""

    date: str
    confirmatory: list[tuple[str, str, str]]
    """Treatment, baseline, outcome."""
    matrix: dict[str, Any]
    """The matrix as it was then."""
    recipes: dict[str, str]
    """`recipe_digests` of its cells then: the matrix has but the recipes' paths."""

    @classmethod
    def of(cls, matrix: Matrix, cells: Iterable[Cell]) -> Announced:
        """What the matrix announces, now; `cells` are all of it."""
        return cls(
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            confirmatory=[
                (contrast.treatment, contrast.baseline, outcome)
                for contrast in matrix.contrasts
                if contrast.kind == "confirmatory"
                for outcome in contrast.outcomes
            ],
            matrix=matrix.model_dump(mode="json"),
            recipes=recipe_digests(cells),
        )

    def why_exploratory(
        self, matrix: Matrix, recipes: Mapping[str, str] | None, comparison: Comparison
    ) -> str:
        """Why a comparison is not confirmatory, whatever the matrix says now; empty: it is.

        Seeds, base models, the outcome's definition and the two methods' recipes with all overrides
        have to be as they were announced. Not covered is what recipes only name, and the code.
        `recipes` are `recipe_digests` now. With None what the methods train is not looked at, since
        results are read for longer than a version's recipes have the same keys.
        """
        treatment, baseline, outcome, task = comparison
        if comparison[:3] not in self.confirmatory:
            return "not announced as confirmatory before the first run"
        if task not in self.tasks:
            return "announced without this task"
        now = matrix.model_dump(mode="json")
        changed = [] if self.matrix["seeds"] == now["seeds"] else ["seeds"]
        if _demo_seeds(self.matrix) != _demo_seeds(now):
            changed.append("demo_seeds")
        if _definition(self.matrix, outcome) != _definition(now, outcome):
            changed.append(f"outcomes.{outcome}")
        if recipes is not None:
            places = [str(PurePosixPath(task) / name) for name in (treatment, baseline)]
            differ = [place for place in places if self.recipes.get(place) != recipes.get(place)]
            changed += [f"the recipe of {place}" for place in differ]
        return f"changed since the announcement: {', '.join(changed)}" if changed else ""

    @property
    def tasks(self) -> list[str]:
        """Their names; one empty name where the matrix had none."""
        return list(self.matrix["tasks"]) or [""]


def _demo_seeds(matrix: Mapping[str, Any]) -> Any:
    """Of the first announcements as well, where they lie deeper."""
    return matrix.get("demo_seeds", (matrix.get("base_models") or {}).get("demo_seeds", []))


def _definition(matrix: Mapping[str, Any], asked: str) -> dict[str, Any]:
    """What an outcome is measured by; the first announcements have a label as well."""
    known = {name: outcome.model_dump(mode="json") for name, outcome in OUTCOMES.items()}
    definition = (known | matrix["outcomes"]).get(asked, {})
    return {key: value for key, value in definition.items() if key != "label"}


class Compared(NamedTuple):
    """Treatment minus baseline in one outcome on one task."""

    comparison: Comparison
    announced: bool
    note: str
    """Why it is exploratory, where the matrix says that it is confirmatory."""
    planned: int
    """Seeds of the matrix; 0: it was announced and is not in the matrix any more."""
    differences: pd.Series[float]
    """One a pair, in the order of the seeds, by seed and base model."""
    interval: Interval | None = None
    """None: too few pairs."""
    p_value: float | None = None
    corrected: float | None = None
    """`p_value` after Holm's correction for all comparisons of this kind."""

    @property
    def shown(self) -> bool:
        """Whether a difference is shown at the 5 % level: by the corrected p and the interval."""
        if self.interval is None or self.corrected is None:
            return False
        return self.corrected < LEVEL and not self.interval.low <= 0 <= self.interval.high


def compare(
    matrix: Matrix,
    runs: pd.DataFrame,
    announced: Announced,
    recipes: Mapping[str, str] | None,
) -> list[Compared]:
    """All contrasts of the matrix on all of its tasks.

    What was not announced as confirmatory before the first run, or has changed since, is
    exploratory, whatever the matrix says now. Comparisons without enough pairs, and announced ones
    that the matrix does not have any more, count in Holm's correction all the same, as if their p
    were 1: they were announced. `runs` are as in `runs.csv`, `recipes` as for `why_exploratory`.
    """
    every = []
    for contrast in matrix.contrasts:
        for outcome in contrast.outcomes:
            for task in matrix.tasks or [""]:
                asked = Comparison(contrast.treatment, contrast.baseline, outcome, task)
                note, is_confirmatory = "", contrast.kind == "confirmatory"
                if is_confirmatory:
                    note = announced.why_exploratory(matrix, recipes, asked)
                    is_confirmatory = not note
                differences = paired(runs, *asked)
                interval = p_value = None
                if len(differences) >= FEWEST_PAIRS:
                    values = differences.to_numpy(dtype=np.float64)
                    interval, p_value = mean_interval(values), sign_flip_p_value(values)
                facts = (asked, is_confirmatory, note, len(matrix.seeds), differences)
                every.append(Compared(*facts, interval, p_value))
    kept = {compared.comparison for compared in every if compared.announced}
    for triple in announced.confirmatory:
        for task in announced.tasks:
            if (gone := Comparison(*triple, task)) not in kept:
                note = "announced, and not in the matrix as it was announced"
                every.append(Compared(gone, True, note, 0, pd.Series(dtype=float)))
    for kind in (True, False):
        family = [i for i, compared in enumerate(every) if compared.announced is kind]
        p_values = [every[i].p_value for i in family]
        corrected = holm([1.0 if p is None else p for p in p_values])
        for i, p, of_family in zip(family, p_values, corrected, strict=True):
            every[i] = every[i]._replace(corrected=None if p is None else of_family)
    return every


def paired(
    runs: pd.DataFrame, treatment: str, baseline: str, outcome: str, task: str
) -> pd.Series[float]:
    """Differences of an outcome by seed and base model, where both runs have it."""
    column = f"outcome.{outcome}"
    if column not in runs:
        return pd.Series(dtype=float)
    of_task = runs[(runs["task"] == task) & runs["method"].isin([treatment, baseline])]
    by_method = of_task.pivot(index=["seed", "base_model"], columns="method", values=column)
    by_method = by_method.reindex(columns=[treatment, baseline]).dropna()
    return by_method[treatment] - by_method[baseline]
