"""The tables of what studies compared: paired differences, the goal clause by clause, several
studies pooled, and all their announced comparisons as one family."""

from typing import Any, Literal, NamedTuple

import numpy as np
from page import STUDIES, digits_of, markdown, mean_with_bounds, read_json, with_bounds

from ktae.evaluation.comparison import holm
from ktae.study.statistics import LEVEL, least_p_value, sign_flip_p_value

OUTCOMES = {
    "sampled_accuracy": "sampled accuracy",
    "greedy_accuracy": "greedy accuracy",
    "mean_accuracy": "mean accuracy over the run",
    "length": "length",
    "entropy": "entropy",
}


def comparisons(study: str, kind: str) -> str:
    """Paired differences of one kind, those with enough pairs."""
    labels = _labels(study)
    rows = []
    for one in _comparisons(study):
        if one["kind"] != kind or one["interval"] is None:
            continue
        digits = digits_of(one["outcome"])
        rows.append([
            f"`{one['treatment']}` - `{one['baseline']}`", one["task"], labels[one["outcome"]],
            str(len(one["seeds"])), _with_interval(one),
            " / ".join(f"{base['difference']:+.{digits}f}" for base in one["by_base_model"]),
            f"{one['p_value']:.2g}", f"{one['corrected']:.2g}",
            "yes" if one["shown"] else "no, too few pairs" if _too_few(one) else "no",
        ])  # fmt: skip
    each = "on each base model"
    head = ["difference", "task", "outcome", "pairs", "mean (95 %)", each, "p", "Holm", "shown"]
    return markdown(head, rows)


def by_task(study: str, baseline: str, *outcomes: str) -> str:
    """Differences from one baseline, a row a method and task, a column an outcome."""
    labels, rows = _labels(study), []
    found = [one for one in _comparisons(study) if one["baseline"] == baseline]
    for treatment, task in dict.fromkeys((one["treatment"], one["task"]) for one in found):
        cells = [
            _with_interval(comparison(study, treatment, baseline, outcome, task))
            for outcome in outcomes
        ]
        rows.append([f"`{treatment}`", task, *cells])
    return markdown([f"minus `{baseline}`", "task", *(labels[name] for name in outcomes)], rows)


def difference(study: str, treatment: str, baseline: str, outcome: str, task: str) -> str:
    """One of them, in a sentence."""
    one = comparison(study, treatment, baseline, outcome, task)
    if one["interval"] is None:
        return "not known"
    too_few = "too few pairs to show" if _too_few(one) else "not shown"
    shown = "shown" if one["shown"] else too_few
    kind = ", exploratory" if one["kind"] == "exploratory" else ""
    return f"{_with_interval(one).removesuffix(')')}; {shown}{kind})"


class Clause(NamedTuple):
    """One of the goal's, and the comparison that tells."""

    says: str
    treatment: str
    baseline: str
    outcome: str = "sampled_accuracy"
    wanted: Literal["above", "at least", "no effect"] = "above"
    margin: float | None = None
    """Differences up to it count as none, where at least the baseline or no effect is wanted; None:
    none was announced."""


class Margins(NamedTuple):
    """See `Clause.margin`."""

    accuracy: float | None = None
    length: float | None = None
    entropy: float | None = None


NO_MARGINS = Margins()


def _clauses(
    name: str, says: str, own: Clause, margins: Margins = NO_MARGINS
) -> tuple[Clause, ...]:
    """What is wanted of an estimator, by its name in the methods; `own` is of its study alone."""
    permuted = f"{name}-permuted"
    return (
        Clause(f"{says} above GRPO", f"grpo-{name}", "grpo"),
        Clause(f"GRPO with {says} above DAPO", f"grpo-{name}", "dapo"),
        Clause(f"DAPO with {says} above DAPO", f"dapo-{name}", "dapo"),
        Clause(f"DAPO with {says} above GRPO", f"dapo-{name}", "grpo"),
        Clause(
            "at least `paper`, on GRPO",
            f"grpo-{name}",
            "grpo-ktae",
            wanted="at least",
            margin=margins.accuracy,
        ),
        own,
        *(
            Clause(f"permuted labels: {outcome}", permuted, "grpo", outcome, "no effect", margin)
            for outcome, margin in (("length", margins.length), ("entropy", margins.entropy))
        ),
    )


GOALS = {
    "main": _clauses(
        "calibrated",
        "`calibrated`",
        Clause("at least `paper`, on DAPO", "dapo-calibrated", "dapo-ktae", wanted="at least"),
    ),
    "successor": _clauses(
        "trigrams",
        "trigrams",
        Clause(
            "at least `calibrated`, on GRPO",
            "grpo-trigrams",
            "grpo-calibrated",
            wanted="at least",
        ),
    ),
    "rates": (
        Clause("trigrams above GRPO, sampled", "trigrams", "grpo"),
        Clause("trigrams above GRPO, greedy", "trigrams", "grpo", "greedy_accuracy"),
        Clause("`calibrated` above GRPO, sampled", "calibrated", "grpo"),
        Clause("`calibrated` above GRPO, greedy", "calibrated", "grpo", "greedy_accuracy"),
        Clause(
            "GRPO above itself at twice the rate, greedy",
            "grpo",
            "grpo-usual-rate",
            "greedy_accuracy",
        ),
    ),
    "goal": (
        *_clauses(
            "trigrams",
            "trigrams",
            Clause("trigrams above GRPO, greedy", "grpo-trigrams", "grpo", "greedy_accuracy"),
            Margins(accuracy=0.01, length=0.5, entropy=0.02),
        ),
        Clause("DAPO with trigrams above DAPO, greedy", "dapo-trigrams", "dapo", "greedy_accuracy"),
    ),
}
"""By study: what its estimator should do."""


def goal(study: str) -> str:
    """The goal, clause by clause: what the interval and the test say of it."""
    tasks = list(dict.fromkeys(one["task"] for one in _comparisons(study)))
    rows = []
    for clause in GOALS[study]:
        wanted = (clause.treatment, clause.baseline, clause.outcome)
        found = [comparison(study, *wanted, task) for task in tasks]
        rows.append([clause.says, *(_judged(clause, one) for one in found)])
    return markdown(["", *tasks], rows)


def announced(*_: str) -> str:
    """What is shown in its own study, and whether it is after Holm's correction over the announced
    comparisons of all studies; those that cannot be tested yet count as if their p were 1."""
    family = [
        (folder.name, one)
        for folder in sorted(STUDIES.iterdir())
        for one in _comparisons(folder.name)
        if one["kind"] == "confirmatory"
    ]
    p_values = [1.0 if one["p_value"] is None else one["p_value"] for _, one in family]
    corrected = sorted(zip(holm(p_values), range(len(family)), strict=True))
    rows = []
    for over_all, i in corrected:
        study, one = family[i]
        if one["shown"]:
            rows.append([
                study, f"`{one['treatment']}` - `{one['baseline']}`", one["task"],
                _labels(study)[one["outcome"]], _with_interval(one), f"{one['corrected']:.2g}",
                f"{over_all:.3g}", "yes" if over_all < LEVEL else "no",
            ])  # fmt: skip
    head = ["study", "difference", "task", "outcome", "mean (95 %)", "Holm in the study"]
    return markdown([*head, f"Holm over all {len(family)}", "shown over all"], rows)


def _judged(clause: Clause, one: dict[str, Any]) -> str:
    if one["interval"] is None:
        return "not known"
    numbers = f"{_with_interval(one)}, p {one['p_value']:.2g}, Holm {one['corrected']:.2g}"
    kind = " (exploratory)" if one["kind"] == "exploratory" else ""
    return f"{numbers}: {_verdict(clause, one)}{kind}"


def _verdict(clause: Clause, one: dict[str, Any]) -> str:
    """Interval and test have to agree; a margin is judged by the interval alone."""
    low, high = one["interval"]
    margin = clause.margin
    is_other = one["p_value"] < LEVEL and not low <= 0 <= high
    if clause.wanted == "no effect":
        if margin is not None and -margin < low and high < margin:
            return f"yes, none beyond {margin:g}"
        return "an effect" if is_other else "not refuted"
    if clause.wanted == "at least" and margin is not None and -margin < low:
        return "yes, more" if one["shown"] else f"yes, not less by {margin:g}"
    if not is_other:
        return "open"
    if high < 0:
        return "no"
    return "yes" if one["shown"] else "yes, not after correction"


def _too_few(one: dict[str, Any]) -> bool:
    """Whether so many pairs cannot show a difference after Holm's correction in their study."""
    return bool(one["family"] * least_p_value(len(one["seeds"])) >= LEVEL)


def _comparisons(study: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = results_of(study)["comparisons"]
    return found


def comparison(study: str, *wanted: str) -> dict[str, Any]:
    """Of a treatment, baseline, outcome and task."""
    keys = ("treatment", "baseline", "outcome", "task")
    return next(one for one in _comparisons(study) if tuple(one[key] for key in keys) == wanted)


def _labels(study: str) -> dict[str, str]:
    own = results_of(study)["matrix"]["outcomes"]
    return {name: one["label"] for name, one in own.items()} | OUTCOMES


def _with_interval(one: dict[str, Any]) -> str:
    if one["interval"] is None:
        return f"{len(one['seeds'])} of {one['planned']} pairs"
    low, high = one["interval"]
    return with_bounds(one["difference"], low, high, digits_of(one["outcome"]))


def pooled(outcome: str, *studies: str) -> str:
    """One difference with the pairs of several studies, each STUDY:TREATMENT:BASELINE."""
    named = [tuple(one.split(":")) for one in studies]
    tasks = dict.fromkeys(one["task"] for one in _comparisons(named[0][0]))
    rows = []
    for task in tasks:
        of_study = [comparison(study, *pair, outcome, task) for study, *pair in named]
        differences = [np.array(one["differences"]) for one in of_study]
        everything, digits = np.concatenate(differences), digits_of(outcome)
        rows.append([
            task, str(len(everything)), mean_with_bounds(everything, digits),
            " / ".join(f"{mine.mean():+.{digits}f}" for mine in differences),
            f"{sign_flip_p_value(everything):.2g}",
        ])  # fmt: skip
    each = " / ".join(f"in `{study}`" for study, *_ in named)
    return markdown(["task", "pairs", "mean (95 %)", each, "p"], rows)


def results_of(study: str) -> dict[str, Any]:
    """What `ktae study` wrote."""
    return read_json(STUDIES / study / "results.json")
