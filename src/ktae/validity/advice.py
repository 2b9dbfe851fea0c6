"""What held-out pairs mean for the rollouts at hand: which estimator to take, if any."""

from __future__ import annotations

import itertools
from typing import Any, Literal, NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.inference import LEVEL, holm, least_p_value, sign_flip_p_value
from ktae.validity.scores import HeldOut, Score

Verdict = Literal["take", "no more than a baseline", "nothing shown", "too few groups"]
"""What held-out pairs say, in a word."""


class Advice(NamedTuple):
    """What to do, and the tests that say so."""

    verdict: Verdict
    """`take`: an estimator is shown to be above chance and above the baselines. `no more than a
    baseline`: one is above chance, and a baseline is not shown to be worse. `nothing shown`: none
    is above chance. `too few groups`: no numbers of so few groups could be significant."""
    take: str | None
    """The estimator with the highest mean among those shown above chance, where the verdict is
    `take`."""
    above_chance: dict[str, float]
    """Each estimator's p-value against .5, corrected over the estimators (Holm)."""
    below_best: dict[str, float]
    """Each other estimator's and baseline's p-value against the best one of those shown. The
    correction (Holm) is over all pairs of estimators and baselines, since any estimator could have
    been the best."""
    lines: list[str]
    """The same in words; the first one is `VERDICT: ...`."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()

    def __repr__(self) -> str:
        """The same in words."""
        return "\n".join(self.lines)


def advice(held_out: HeldOut) -> Advice:
    """Test every estimator against chance, and the best of them against all others.

    Tests are exact or random sign flips of the groups' differences (`sign_flip_p_value`).
    """
    ranked = held_out.ranked()
    n = len(ranked)
    # Against chance every estimator was tried, so the correction is over all of them.
    above = _corrected(ranked, [score.auc_g - 0.5 for score in ranked], n)
    # Sign flips are two-sided: one that is reliably below chance is significant, too.
    shown = [score for score in ranked if above[score.name] < LEVEL and score.auc.value > 0.5]
    if not shown:
        verdict, lines = _none_helps(held_out, ranked[0])
        return Advice(verdict, None, above, {}, lines)
    best = shown[0]
    # "The best" was chosen by the same numbers. The family of tests is all pairs that the choice
    # could have led to; otherwise the best of ten equal ones would often look better than another.
    others = [score for score in (*ranked, *held_out.baselines) if score is not best]
    below = _corrected(others, [best.auc_g - score.auc_g for score in others], _pairs(held_out))
    rivals = [
        score
        for score in held_out.baselines
        if score.auc.value >= best.auc.value or below[score.name] >= LEVEL
    ]
    verdict, lines = _beside_baselines(held_out, best, rivals, below)
    lines += _beside_estimators(held_out, best, below)
    lines.append("Whether training gains by it is another question.")
    return Advice(verdict, best.name if verdict == "take" else None, above, below, lines)


def _pairs(held_out: HeldOut) -> int:
    """How many an estimator makes with another one or a baseline: any could have been tested."""
    n = len(held_out.estimators)
    return n * (n - 1) // 2 + n * len(held_out.baselines)


def _corrected(scores: list[Score], differences: list[np.ndarray], tests: int) -> dict[str, float]:
    """Holm's p-values in a family of `tests`; those not made count as if p were 1."""
    # Differences by group, for the groups are what is drawn independently; pairs within are not.
    p_values = [sign_flip_p_value(values) for values in differences]
    corrected = holm(p_values + [1.0] * (tests - len(p_values)))
    return {score.name: p for score, p in zip(scores, corrected, strict=False)}


def _none_helps(held_out: HeldOut, best: Score) -> tuple[Verdict, list[str]]:
    n = len(held_out.estimators)
    # Where even groups of one sign could not be significant, "nothing shown" would mislead.
    if (needed := _needed(n)) > held_out.groups:
        return "too few groups", [
            "VERDICT: too few groups to tell anything.",
            f"{counted(held_out.groups, 'group')} with two right and two wrong rollouts; for "
            f"{counted(n, 'estimator')} at least {needed} are needed.",
        ]
    return "nothing shown", [
        "VERDICT: no estimator is shown to tell right rollouts from wrong ones here.",
        f"The best of them, {best.name}, scored the right rollout of a held-out pair higher in "
        f"{_interval(best)} of {held_out.pairs:,} pairs; chance is .50.",
    ]


def _needed(tests: int) -> int:
    """The fewest groups of which one test can be significant, corrected for all."""
    return next(k for k in itertools.count(1) if least_p_value(k) * tests < LEVEL)


def _beside_estimators(held_out: HeldOut, best: Score, below: dict[str, float]) -> list[str]:
    """What choosing the best one means, and which others may be as good."""
    if len(held_out.estimators) < 2:
        return []
    lines = ["It was chosen as the best here: on new rollouts expect a little less."]
    alike = [x.name for x in held_out.ranked() if x is not best and below[x.name] >= LEVEL]
    if _needed(_pairs(held_out)) > held_out.groups:
        few = counted(held_out.groups, "group")
        lines.append(f"{few}: too few to tell the estimators apart.")
    elif alike:
        lines.append(f"Not shown to be worse: {', '.join(alike)}.")
    return lines


def _beside_baselines(
    held_out: HeldOut, best: Score, rivals: list[Score], below: dict[str, float]
) -> tuple[Verdict, list[str]]:
    """Whether it knows more than the baselines do, of which `rivals` may be as good."""
    n = len(held_out.estimators)
    named = f"{best.name}, the best of {n} tried here" if n > 1 else best.name
    scores = (
        f"scores the right rollout of a held-out pair higher in {_interval(best)} of pairs; "
        "chance is .50."
    )
    if not rivals:
        return "take", [f"VERDICT: take {named}.", f"It {scores}"]
    last = f"{named}{',' if n > 1 else ''} {scores}"
    outdone = any(score.auc.value >= best.auc.value for score in rivals)
    if (needed := _needed(_pairs(held_out))) > held_out.groups and not outdone:
        return "too few groups", [
            "VERDICT: too few groups to tell whether credit knows more than the length or a vote.",
            f"{counted(held_out.groups, 'group')}; for {counted(n, 'estimator')} at least {needed} "
            "are needed.",
            last,
        ]
    told = []
    for score in rivals:
        verb = "is better" if below[score.name] < LEVEL else "does as well"
        if score.auc.value < best.auc.value:
            verb = "is not shown to be worse"
        name = _BASELINES[score.name]
        told.append(f"{name[0].upper()}{name[1:]} {verb}: {_interval(score)}.")
    return "no more than a baseline", [
        f"VERDICT: credit {'tells' if outdone else 'may tell'} no more than "
        f"{' or '.join(_BASELINES[score.name] for score in rivals)} does: read nothing into single "
        "colours.",
        *told,
        last,
    ]


_BASELINES = {
    "shorter": "calling the shorter rollout right",
    "majority": "calling the more frequent answer right",
}


def _interval(score: Score) -> str:
    mean, low, high = (f"{x:.2f}".removeprefix("0") for x in score.auc)
    return f"{mean} ({low} to {high})"
