"""Arms on a real model: what each gains, and what alignment and held-out pairs say of it."""

import statistics

from ktae.errors import InputError
from ktae_lab.align import stored
from ktae_lab.align.campaign import REAL_STEPS
from ktae_lab.align.products import BASE
from ktae_lab.align.summary import rows
from ktae_lab.csv_files import read_csv
from ktae_lab.study.contrasts import Compared
from ktae_lab.tables import comparisons, page, studies
from ktae_lab.tables.page import Number, Table, markdown, with_bounds

STUDY = "real-model"
BASELINE = "grpo"
ALIGNMENT = "real-alignment"
"""The folder of `ktae_lab.align.campaign`'s tables."""
METRIC, MIXTURE = "adam", "as trained"
ACCURACY = "outcome.validated_accuracy"
COLUMNS = {
    "validated_accuracy": "accuracy, best temperature",
    "accuracy_at_1": "accuracy, temperature 1",
    "end_entropy": "entropy at the end, nats a token",
}


def differences() -> str:
    """Pairs of arms, with 95 % intervals over seeds, and Holm's p of announced ones. Bold: shown.

    Raises:
        InputError: an outcome of a run is missing.
    """
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for one in studies.compared_of(STUDY):
        text = comparisons.marked(one, _gain(one))
        if one.kind == "confirmatory":
            text += f", p {one.corrected:.2g}"
        pairs.setdefault((one.treatment, one.baseline), {})[one.outcome] = text
    rows = [
        [f"`{treatment}` - `{baseline}`", *(cells.get(outcome, "") for outcome in COLUMNS)]
        for (treatment, baseline), cells in pairs.items()
    ]
    return markdown(["", *COLUMNS.values()], rows)


def _gain(one: Compared) -> str:
    if len(one.seeds) != one.planned:
        raise InputError(
            f"results/{STUDY}: {one.treatment} against {one.baseline} in {one.outcome} has "
            f"{len(one.seeds)} pairs of runs; expected {one.planned}. Are all models measured, and "
            "was the study run with --results-only after that?"
        )
    return comparisons.with_interval(one)


def mean(arm: str, column: str) -> str:
    """An arm's mean of a column of runs.csv, in a sentence."""
    values = [float(row[column]) for row in studies.finished(STUDY) if row["method"] == arm]
    return f"{statistics.fmean(values):.3f}"


def difference(treatment: str, baseline: str) -> str:
    """Of accuracy at the best temperature, with its interval, in a sentence."""
    (task,) = comparisons.tasks_of(STUDY)
    return _gain(comparisons.comparison(STUDY, treatment, baseline, "validated_accuracy", task))


def cold() -> str:
    """How many finished models do best at temperature 0 or .25, of all."""
    temperatures = [float(row["validated.temperature"]) for row in studies.finished(STUDY)]
    return f"{sum(t <= 0.25 for t in temperatures)} of {len(temperatures)}"


def predictions() -> str:
    """An arm's gain, and beside it how much nearer it points to the true gradient than GRPO.

    Below them what these differences are of: GRPO's own cosine, and that of the reference's halves.
    """
    measured = stored.read(page.RESULTS / ALIGNMENT)
    arms = [name for name in studies.matrix_of(STUDY).methods if name != BASELINE]
    alignments = [measured[f"smollm2-step{step}"].alignment for step in REAL_STEPS]
    found: dict[str, list[str]] = {}
    for alignment in alignments:
        for row in rows(alignment, weights=()):
            if row.metric != METRIC:
                continue
            if row.estimator == BASE:
                own = f"{row.cosine:.3f} ({row.low:.3f} to {row.high:.3f})"
                found.setdefault(BASE, []).append(own)
            elif row.mixture == MIXTURE:
                bounds = (row.difference, row.difference_low, row.difference_high)
                found.setdefault(row.estimator, []).append(with_bounds(*bounds))
    lines = [[f"`{arm}` - `{BASELINE}`", difference(arm, BASELINE), *found[arm]] for arm in arms]
    lines.append([f"`{BASELINE}` itself", mean(BASELINE, ACCURACY), *found[BASE]])
    halves = [f"{one.reliability[METRIC]:.3f}" for one in alignments]
    lines.append(["the reference's halves", "", *halves])
    steps = (f"alignment after {step} steps" for step in REAL_STEPS)
    return markdown(["", "accuracy, best temperature", *steps], lines)


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
NUMBERS: dict[str, Number] = {
    "real-model-difference": difference,
    "real-model-mean": mean,
    "real-model-cold": cold,
}
