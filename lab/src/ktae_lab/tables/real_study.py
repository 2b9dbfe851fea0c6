"""Arms on a real model: what each gains, and what alignment and held-out pairs say of it."""

import statistics

from ktae_lab.align import stored
from ktae_lab.align.campaign import REAL_STEPS
from ktae_lab.align.summary import rows
from ktae_lab.csv_files import read_csv
from ktae_lab.tables import comparisons, page, studies
from ktae_lab.tables.page import Number, Table, markdown, with_bounds

STUDY = "real-model"
BASELINE = "grpo"
ALIGNMENT = "real-alignment"
"""The folder of `ktae_lab.align.campaign`'s tables."""
METRIC, MIXTURE = "adam", "as trained"
COLUMNS = {
    "validated_accuracy": "accuracy, best temperature",
    "accuracy_at_1": "accuracy, temperature 1",
    "end_entropy": "entropy at the end, nats a token",
}


def differences() -> str:
    """Pairs of arms, with 95 % intervals over seeds. Bold: announced, and shown."""
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for one in studies.compared_of(STUDY):
        text = comparisons.marked(one, comparisons.with_interval(one))
        pairs.setdefault((one.treatment, one.baseline), {})[one.outcome] = text
    rows = [
        [f"`{treatment}` - `{baseline}`", *(cells.get(outcome, "") for outcome in COLUMNS)]
        for (treatment, baseline), cells in pairs.items()
    ]
    return markdown(["", *COLUMNS.values()], rows)


def mean(arm: str, column: str) -> str:
    """An arm's mean of a column of runs.csv, in a sentence."""
    values = [float(row[column]) for row in studies.finished(STUDY) if row["method"] == arm]
    return f"{statistics.fmean(values):.3f}"


def predictions() -> str:
    """An arm's gain, and beside it how much nearer it points to the true gradient than GRPO."""
    measured = stored.read(page.RESULTS / ALIGNMENT)
    arms = [name for name in studies.matrix_of(STUDY).methods if name != BASELINE]
    found = {
        (step, row.estimator): with_bounds(row.difference, row.difference_low, row.difference_high)
        for step in REAL_STEPS
        for row in rows(measured[f"smollm2-step{step}"].alignment, weights=())
        if (row.metric, row.mixture) == (METRIC, MIXTURE)
    }
    (task,) = comparisons.tasks_of(STUDY)
    lines = []
    for arm in arms:
        gain = comparisons.comparison(STUDY, arm, BASELINE, "validated_accuracy", task)
        cells = [found[step, arm] for step in REAL_STEPS]
        lines.append([f"`{arm}`", comparisons.with_interval(gain), *cells])
    steps = (f"alignment after {step} steps" for step in REAL_STEPS)
    return markdown(["minus `grpo`", "accuracy", *steps], lines)


def held_out(*estimators: str) -> str:
    """Held-out pairs of GRPO's own rollouts, a column for every ten steps."""
    found = read_csv(page.RESULTS / STUDY / "held_out.csv", ("steps", "estimator"))
    by_key = {(row["steps"], row["estimator"]): row for row in found}
    steps = list(dict.fromkeys(row["steps"] for row in found))
    lines = [
        [
            f"`{name}`",
            *(f"{float(row['auc']):.2f} ({float(row['low']):.2f} to {float(row['high']):.2f})"
            for row in (by_key[s, name] for s in steps)),
        ]
        for name in estimators
    ]  # fmt: skip
    groups = [by_key[s, estimators[0]]["groups"] for s in steps]
    heads = (f"steps {s}, {n} groups" for s, n in zip(steps, groups, strict=True))
    return markdown(["", *heads], lines)


TABLES: dict[str, Table] = {
    "real-model-differences": differences,
    "real-model-predictions": predictions,
    "real-model-held-out": held_out,
}
NUMBERS: dict[str, Number] = {"real-model-mean": mean}
