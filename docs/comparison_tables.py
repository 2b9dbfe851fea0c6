"""The tables of what studies compared: paired differences, several studies pooled, and all their
announced comparisons as one family."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from page import STUDIES, digits_of, markdown, mean_with_bounds, read_json, with_bounds

from ktae.evaluation.comparison import holm
from ktae.study.statistics import LEVEL, mean_interval, sign_flip_p_value

OUTCOMES = {
    "sampled_accuracy": "sampled accuracy",
    "greedy_accuracy": "greedy accuracy",
    "mean_accuracy": "mean accuracy over the run",
    "length": "length",
    "entropy": "entropy",
}


def results_of(study: str) -> dict[str, Any]:
    """What `ktae study` wrote."""
    return read_json(STUDIES / study / "results.json")


def comparison(study: str, *wanted: str) -> dict[str, Any]:
    """Of a treatment, baseline, outcome and task."""
    keys = ("treatment", "baseline", "outcome", "task")
    return next(one for one in comparisons_of(study) if tuple(one[key] for key in keys) == wanted)


def comparisons(study: str, kind: str) -> str:
    """Paired differences of one kind, those with enough pairs."""
    labels = _labels(study)
    rows = []
    for one in comparisons_of(study):
        if one["kind"] != kind or one["interval"] is None:
            continue
        digits = digits_of(one["outcome"])
        rows.append([
            _name(one), one["task"], labels[one["outcome"]],
            str(len(one["seeds"])), with_interval(one),
            " / ".join(f"{base['difference']:+.{digits}f}" for base in one["by_base_model"]),
            f"{one['p_value']:.2g}", f"{one['corrected']:.2g}",
            _shown(one).replace("not shown", "no").replace("shown", "yes"),
        ])  # fmt: skip
    each = "on each base model"
    head = ["difference", "task", "outcome", "pairs", "mean (95 %)", each, "p", "Holm", "shown"]
    return markdown(head, rows)


def by_task(study: str, baseline: str, *outcomes: str) -> str:
    """Differences from one baseline, a row a method and task, a column an outcome."""
    labels, rows = _labels(study), []
    found = [one for one in comparisons_of(study) if one["baseline"] == baseline]
    for treatment, task in dict.fromkeys((one["treatment"], one["task"]) for one in found):
        cells = [
            with_interval(comparison(study, treatment, baseline, outcome, task))
            for outcome in outcomes
        ]
        rows.append([f"`{treatment}`", task, *cells])
    return markdown([f"minus `{baseline}`", "task", *(labels[name] for name in outcomes)], rows)


def difference(study: str, treatment: str, baseline: str, outcome: str, task: str) -> str:
    """One of them, in a sentence."""
    one = comparison(study, treatment, baseline, outcome, task)
    if one["interval"] is None:
        return "not known"
    kind = ", exploratory" if one["kind"] == "exploratory" else ""
    return f"{with_interval(one).removesuffix(')')}; {_shown(one)}{kind})"


def pooled(outcome: str, *studies: str) -> str:
    """One difference with the pairs of several studies, each STUDY:TREATMENT:BASELINE."""
    named = [one.split(":") for one in studies]
    rows = []
    for task in tasks_of(named[0][0]):
        differences = _differences(outcome, named, task)
        everything, digits = np.concatenate(differences), digits_of(outcome)
        rows.append([
            task, str(len(everything)), mean_with_bounds(everything, digits),
            " / ".join(f"{mine.mean():+.{digits}f}" for mine in differences),
            f"{sign_flip_p_value(everything):.2g}",
        ])  # fmt: skip
    each = " / ".join(f"in `{study}`" for study, *_ in named)
    return markdown(["task", "pairs", "mean (95 %)", each, "p"], rows)


def _differences(outcome: str, named: Sequence[Sequence[str]], task: str) -> list[np.ndarray]:
    """Of each study, treatment and baseline, (pairs,) each."""
    found = [comparison(study, *pair, outcome, task) for study, *pair in named]
    return [np.array(one["differences"]) for one in found]


class Announced(NamedTuple):
    """A test that was announced: one row of `announced`."""

    says: list[str]
    """Study, difference, task, outcome and mean."""
    p: float
    corrected: float | None
    """In its own study."""
    shown: bool
    """There."""


def announced(*pooled_too: str) -> str:
    """What is shown in its own study, and whether it is after Holm's correction over all that was
    announced; what cannot be tested yet in a study with results counts as if its p were 1.

    Args:
        pooled_too: a test over several studies each, announced as such, with one of each task as
            its family: OUTCOME=STUDY:TREATMENT:BASELINE,STUDY:TREATMENT:BASELINE.
    """
    studies = [folder.name for folder in sorted(STUDIES.iterdir())]
    family = [one for study in studies for one in _announced(study)]
    family += [one for test in pooled_too for one in _announced_pooled(test)]
    over_all = holm([one.p for one in family])
    rows = [
        [*one.says, f"{one.corrected:.2g}", f"{p:.3g}", "yes" if p < LEVEL else "no"]
        for p, one in sorted(zip(over_all, family, strict=True), key=lambda pair: pair[1].p)
        if one.shown
    ]
    head = ["study", "difference", "task", "outcome", "mean (95 %)", "Holm in the study"]
    return markdown([*head, f"Holm over all {len(family)}", "shown over all"], rows)


def _announced(study: str) -> Iterator[Announced]:
    for one in comparisons_of(study):
        if one["kind"] == "confirmatory":
            outcome = _labels(study)[one["outcome"]]
            yield Announced(
                [study, _name(one), one["task"], outcome, with_interval(one)],
                1.0 if one["p_value"] is None else one["p_value"],
                one["corrected"],
                one["shown"],
            )


def _announced_pooled(test: str) -> Iterator[Announced]:
    outcome, pairs = test.split("=")
    named = [one.split(":") for one in pairs.split(",")]
    tasks = tasks_of(named[0][0])
    everything = [np.concatenate(_differences(outcome, named, task)) for task in tasks]
    p_values = [sign_flip_p_value(differences) for differences in everything]
    for task, differences, p, corrected in zip(
        tasks, everything, p_values, holm(p_values), strict=True
    ):
        mean, low, high = mean_interval(differences)
        means = with_bounds(mean, low, high, digits_of(outcome))
        studies = " and ".join(study for study, *_ in named)
        difference = _name(comparison(*named[0], outcome, task))
        yield Announced(
            [studies, difference, task, OUTCOMES[outcome], means],
            p, corrected, corrected < LEVEL and not low <= 0 <= high,
        )  # fmt: skip


def comparisons_of(study: str) -> list[dict[str, Any]]:
    """All of its differences."""
    found: list[dict[str, Any]] = results_of(study)["comparisons"]
    return found


def tasks_of(study: str) -> list[str]:
    """In the order of its comparisons."""
    return list(dict.fromkeys(one["task"] for one in comparisons_of(study)))


def _labels(study: str) -> dict[str, str]:
    own = results_of(study)["matrix"]["outcomes"]
    return {name: one["label"] for name, one in own.items()} | OUTCOMES


def _name(one: dict[str, Any]) -> str:
    return f"`{one['treatment']}` - `{one['baseline']}`"


def _shown(one: dict[str, Any]) -> str:
    """`shown`, `not shown`, or that what is seen could not be shown."""
    low, high = one["interval"]
    if one["shown"]:
        return "shown"
    return "not shown, too few pairs" if one["too_few"] and not low <= 0 <= high else "not shown"


def with_interval(one: dict[str, Any]) -> str:
    """A comparison's mean and interval, or how many pairs there are of too few."""
    if one["interval"] is None:
        return f"{len(one['seeds'])} of {one['planned']} pairs"
    low, high = one["interval"]
    return with_bounds(one["difference"], low, high, digits_of(one["outcome"]))
