"""The goal, clause by clause: what a study says of its estimator."""

from typing import Literal, NamedTuple

from ktae.inference import LEVEL
from ktae_lab.study.contrasts import Compared
from ktae_lab.tables import comparisons as compared
from ktae_lab.tables.page import Table, markdown


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
    "models": (
        Clause("trigrams above GRPO", "trigrams", "grpo"),
        Clause("`calibrated` above GRPO", "calibrated", "grpo"),
        Clause("trigrams' rollouts' part above GRPO", "trigrams-rollout-mean", "grpo"),
        Clause("trigrams above their rollouts' part", "trigrams", "trigrams-rollout-mean"),
    ),
    "models-dapo": (
        Clause("DAPO with trigrams above DAPO", "dapo-trigrams", "dapo"),
        Clause("DAPO with trigrams above GRPO", "dapo-trigrams", "grpo"),
    ),
}
"""By study: what its estimator should do."""


def goal(study: str) -> str:
    """The goal, clause by clause: what the interval and the test say of it."""
    tasks = compared.tasks_of(study)
    rows = []
    for clause in GOALS[study]:
        wanted = (clause.treatment, clause.baseline, clause.outcome)
        found = [compared.comparison(study, *wanted, task) for task in tasks]
        rows.append([clause.says, *(_says(clause, one) for one in found)])
    return markdown(["", *tasks], rows)


def _says(clause: Clause, one: Compared) -> str:
    if one.interval is None:
        return "not known"
    numbers = f"{compared.with_interval(one)}, p {one.p_value:.2g}, Holm {one.corrected:.2g}"
    kind = " (exploratory)" if one.kind == "exploratory" else ""
    return f"{numbers}: {_verdict(clause, one)}{kind}"


def _verdict(clause: Clause, one: Compared) -> str:
    """Interval and test have to agree; of a margin the interval alone tells."""
    assert one.interval is not None and one.p_value is not None
    _, low, high = one.interval
    is_other = one.p_value < LEVEL and one.leaves_out_zero
    if clause.wanted == "no effect":
        return _no_effect(clause.margin, low, high, is_other=is_other)
    if clause.wanted == "at least" and clause.margin is not None:
        if low > 0 and one.shown:
            return "yes, more"
        if low > -clause.margin:
            return f"yes, not less by {clause.margin:g}"
        return "no" if high <= -clause.margin else "open"
    if not is_other:
        return "open"
    if high < 0:
        return "no"
    return "yes" if one.shown else "yes, not after correction"


def _no_effect(margin: float | None, low: float, high: float, *, is_other: bool) -> str:
    if margin is None:
        return "an effect" if is_other else "not refuted"
    if -margin < low and high < margin:
        return f"yes, none beyond {margin:g}"
    if not is_other:
        return "not refuted"
    is_beyond = low >= margin or high <= -margin
    return f"an effect{'' if is_beyond else ', not shown to be'} beyond {margin:g}"


TABLES: dict[str, Table] = {
    "goal": goal,
}
