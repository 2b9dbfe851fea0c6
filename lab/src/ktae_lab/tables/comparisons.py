"""What studies compared: paired differences in pages, several studies pooled, and every one of them
as a row of `results/comparisons.csv`, the announced ones as one family."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.inference import LEVEL, holm, mean_interval, sign_flip_p_value
from ktae_lab.study.contrasts import Compared
from ktae_lab.tables import studies
from ktae_lab.tables.page import Number, Table, digits_of, markdown, mean_with_bounds, with_bounds

OUTCOMES = {
    "sampled_accuracy": "sampled accuracy",
    "greedy_accuracy": "greedy accuracy",
    "mean_accuracy": "mean accuracy over the run",
    "length": "length",
    "entropy": "entropy",
}


class Side(NamedTuple):
    """A difference in one study."""

    study: str
    treatment: str
    baseline: str


POOLED = (
    "sampled_accuracy",
    (Side("successor", "grpo-calibrated", "grpo"), Side("controls", "calibrated", "grpo")),
)
"""A test over the pairs of two studies, announced as such, with one of each task as its family."""


def comparison(study: str, treatment: str, baseline: str, outcome: str, task: str) -> Compared:
    """One difference of a study."""
    wanted = (treatment, baseline, outcome, task)
    return next(
        one
        for one in studies.compared_of(study)
        if (one.treatment, one.baseline, one.outcome, one.task) == wanted
    )


def tasks_of(study: str) -> list[str]:
    """In the order of its comparisons."""
    return list(dict.fromkeys(one.task for one in studies.compared_of(study)))


def by_task(study: str, baseline: str, *outcomes: str) -> str:
    """Differences from one baseline, a row a method and task, a column an outcome."""
    labels, rows = _labels(study), []
    found = [one for one in studies.compared_of(study) if one.baseline == baseline]
    for treatment, task in dict.fromkeys((one.treatment, one.task) for one in found):
        cells = [
            with_interval(comparison(study, treatment, baseline, outcome, task))
            for outcome in outcomes
        ]
        rows.append([f"`{treatment}`", task, *cells])
    return markdown([f"minus `{baseline}`", "task", *(labels[name] for name in outcomes)], rows)


def difference(study: str, treatment: str, baseline: str, outcome: str, task: str) -> str:
    """One of them, in a sentence."""
    one = comparison(study, treatment, baseline, outcome, task)
    if one.interval is None:
        return "not known"
    kind = ", exploratory" if one.kind == "exploratory" else ""
    return f"{with_interval(one).removesuffix(')')}; {_shown(one)}{kind})"


def with_interval(one: Compared) -> str:
    """A comparison's mean and interval, or how many pairs there are of too few."""
    if one.interval is None:
        return f"{len(one.seeds)} of {one.planned} pairs"
    return with_bounds(*one.interval, digits_of(one.outcome))


def marked(one: Compared, text: str) -> str:
    """In bold where the comparison was announced and is shown."""
    return f"**{text}**" if one.kind == "confirmatory" and one.shown else text


def pooled(outcome: str, *sides: str) -> str:
    """One difference with the pairs of several studies, each STUDY:TREATMENT:BASELINE."""
    named = [Side(*one.split(":")) for one in sides]
    rows = []
    for task in tasks_of(named[0].study):
        differences = _differences(outcome, named, task)
        everything, digits = np.concatenate(differences), digits_of(outcome)
        rows.append([
            task, str(len(everything)), mean_with_bounds(everything, digits),
            " / ".join(f"{mine.mean():+.{digits}f}" for mine in differences),
            f"{sign_flip_p_value(everything):.2g}",
        ])  # fmt: skip
    each = " / ".join(f"in `{side.study}`" for side in named)
    return markdown(["task", "pairs", "mean (95 %)", each, "p"], rows)


def every() -> list[dict[str, Any]]:
    """All comparisons of all studies, and the announced test over several: the rows of the CSV.

    Holm's correction is inside a study and kind; of the announced ones it is over all studies, too.
    What cannot be tested yet counts there as if its p were 1, and so do studies under way.
    """
    tests = [_Test(study, one) for study in studies.names() for one in studies.compared_of(study)]
    tests += _pooled_tests(*POOLED)
    family = [test for test in tests if test.one.kind == "confirmatory"]
    p_values = [1.0 if test.one.p_value is None else test.one.p_value for test in family]
    corrected = holm(p_values + [1.0] * _waiting())[: len(family)]
    over_all = dict(zip(map(id, family), corrected, strict=True))
    return [_row(test, over_all.get(id(test))) for test in tests]


def announced(which: str) -> str:
    """How many comparisons were announced (`all`), are shown by their study's own correction
    (`in-study`), or have p below .05 when corrected over all studies (`over-all`)."""
    family = [row for row in every() if row["announced"] == "yes"]
    counts = {
        "all": len(family),
        "in-study": sum(row["shown"] == "yes" for row in family),
        "over-all": sum(float(row["holm_over_all_studies"]) < LEVEL for row in family),
    }
    return str(counts[which])


def family() -> int:
    """How many tests were announced, those of studies under way too."""
    return int(announced("all")) + _waiting()


def _waiting() -> int:
    """The announced tests of studies under way, one for each task of theirs.

    Matrices that have not begun count for nothing.
    """
    begun = studies.under_way()
    tasks = (len(one.matrix.tasks) if one.matrix is not None else 1 for one in begun)
    return sum(len(one.confirmatory) * max(n, 1) for one, n in zip(begun, tasks, strict=True))


class _Test(NamedTuple):
    study: str
    one: Compared


def _pooled_tests(outcome: str, sides: Sequence[Side]) -> Iterator[_Test]:
    tasks = tasks_of(sides[0].study)
    everything = [np.concatenate(_differences(outcome, sides, task)) for task in tasks]
    p_values = [sign_flip_p_value(differences) for differences in everything]
    corrected = holm(p_values)
    for i, task in enumerate(tasks):
        first = comparison(*sides[0], outcome, task)
        yield _Test(
            "+".join(side.study for side in sides),
            first._replace(
                kind="confirmatory",
                seeds=tuple(range(len(everything[i]))),
                planned=len(everything[i]),
                differences=tuple(everything[i].tolist()),
                by_base_model=(),
                interval=mean_interval(everything[i]),
                p_value=p_values[i],
                corrected=corrected[i],
                family=len(tasks),
                too_few=False,
            ),
        )


def _row(test: _Test, over_all: float | None) -> dict[str, str]:
    one = test.one
    digits = digits_of(one.outcome) + 1
    numbers = dict.fromkeys(("mean", "low", "high", "p", "holm", "shown"), "")
    if one.difference is not None:
        numbers["mean"] = _signed(one.difference, digits)
    if one.interval is not None:
        bounds = {"low": one.interval.low, "high": one.interval.high}
        numbers |= {name: _signed(value, digits) for name, value in bounds.items()}
        numbers |= {"p": f"{one.p_value:.3g}", "holm": f"{one.corrected:.3g}"}
        numbers["shown"] = "yes" if one.shown else "no"
    bases = (
        f"{base.base_model}={_signed(base.difference, digits)}"
        for base in one.by_base_model
        if base.base_model
    )
    return {
        "study": test.study,
        "announced": "yes" if one.kind == "confirmatory" else "no",
        "treatment": one.treatment,
        "baseline": one.baseline,
        "task": one.task,
        "outcome": one.outcome,
        "pairs": str(len(one.seeds)),
        "planned": str(one.planned),
        **numbers,
        "too_few_pairs": "yes" if one.too_few else "no",
        "holm_over_all_studies": "" if over_all is None else f"{over_all:.3g}",
        "by_base_model": " ".join(bases),
    }


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # 0 has no minus sign


def _differences(outcome: str, sides: Sequence[Side], task: str) -> list[np.ndarray]:
    """Of each study, treatment and baseline, (pairs,) each."""
    return [np.array(comparison(*side, outcome, task).differences) for side in sides]


def _labels(study: str) -> dict[str, str]:
    own = studies.matrix_of(study).outcomes
    return {name: one.label or name for name, one in own.items()} | OUTCOMES


def _shown(one: Compared) -> str:
    """`shown`, `not shown`, or that what is seen could not be shown."""
    if one.shown:
        return "shown"
    return "not shown, too few pairs" if one.too_few and one.leaves_out_zero else "not shown"


TABLES: dict[str, Table] = {
    "by-task": by_task,
    "pooled": pooled,
}
NUMBERS: dict[str, Number] = {"announced": announced, "difference": difference}
