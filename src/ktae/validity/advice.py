"""What held-out pairs mean for the rollouts at hand: which estimator to take, if any."""

from __future__ import annotations

import html
import itertools
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import counted
from ktae.inference import LEVEL, holm, least_p_value, sign_flip_p_value
from ktae.validity.scores import HeldOut, Score


class Advice(NamedTuple):
    """What to do, and the tests that say so."""

    take: str | None
    """The estimator with the highest mean among those shown above chance. None: none is shown, or a
    baseline is not shown to be worse."""
    above_chance: dict[str, float]
    """Each estimator's p-value against .5, corrected over the estimators (Holm)."""
    below_best: dict[str, float]
    """Each other estimator's and baseline's p-value against the best one of those shown. The
    correction (Holm) is over all pairs of estimators and baselines, since any estimator could have
    been the best."""
    lines: list[str]
    """The same in words."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()

    def _repr_html_(self) -> str:
        """The same in words, for a notebook."""
        return "<p>" + "<br>".join(map(html.escape, self.lines)) + "</p>"


def advice(held_out: HeldOut) -> Advice:
    """Test every estimator against chance, and the best of them against all others.

    Tests are exact or random sign flips of the groups' differences (`sign_flip_p_value`).
    """
    ranked = held_out.ranked()
    n = len(ranked)
    above = _corrected(ranked, [score.auc_g - 0.5 for score in ranked], n)
    shown = [score for score in ranked if above[score.name] < LEVEL and score.auc.value > 0.5]
    if not shown:
        return Advice(None, above, {}, _none_helps(held_out, ranked[0]))
    best = shown[0]
    others = [score for score in (*ranked, *held_out.baselines) if score is not best]
    below = _corrected(others, [best.auc_g - score.auc_g for score in others], _pairs(held_out))
    rivals = [score for score in held_out.baselines if not _is_worse(score, best, below)]
    take = None if rivals else best.name
    return Advice(take, above, below, _in_words(held_out, best, rivals, below))


def _is_worse(baseline: Score, best: Score, below: dict[str, float]) -> bool:
    return baseline.auc.value < best.auc.value and below[baseline.name] < LEVEL


def _pairs(held_out: HeldOut) -> int:
    """How many an estimator makes with another one or a baseline: any could have been tested."""
    n = len(held_out.estimators)
    return n * (n - 1) // 2 + n * len(held_out.baselines)


def _corrected(scores: list[Score], differences: list[np.ndarray], tests: int) -> dict[str, float]:
    """Holm's p-values in a family of `tests`; those not made count as if p were 1."""
    p_values = [sign_flip_p_value(values) for values in differences]
    corrected = holm(p_values + [1.0] * (tests - len(p_values)))
    return {score.name: p for score, p in zip(scores, corrected, strict=False)}


def _none_helps(held_out: HeldOut, best: Score) -> list[str]:
    n = len(held_out.estimators)
    if (needed := _needed(n)) > held_out.groups:
        return [
            f"{counted(held_out.groups, 'group')} with two correct and two incorrect rollouts: too "
            "few to tell anything.",
            f"For {counted(n, 'estimator')} at least {needed} such groups are needed.",
        ]
    return [
        "No estimator is shown to tell correct rollouts from incorrect ones here.",
        f"The best mean is {_interval(best)}, of {best.name}; chance is .50.",
        "Expect nothing of token credit on these rollouts.",
    ]


def _needed(tests: int) -> int:
    """The fewest groups of which one test can be significant, corrected for all."""
    return next(k for k in itertools.count(1) if least_p_value(k) * tests < LEVEL)


def _in_words(
    held_out: HeldOut, best: Score, rivals: list[Score], below: dict[str, float]
) -> list[str]:
    """For an estimator that is shown to be above chance. Baselines in `rivals` may be as good."""
    ranked, others = held_out.ranked(), []
    if len(ranked) > 1:
        others.append("It was chosen as the best here: on new rollouts expect a little less.")
        alike = [x.name for x in ranked if x is not best and below[x.name] >= LEVEL]
        if _needed(_pairs(held_out)) > held_out.groups:
            n = counted(held_out.groups, "group")
            others.append(f"{n}: too few to tell the estimators apart.")
        elif alike:
            others.append(f"Not shown to be worse: {', '.join(alike)}.")
    last = "Whether training gains by it is another question."
    return [*_beside_baselines(held_out, best, rivals, below), *others, last]


def _beside_baselines(
    held_out: HeldOut, best: Score, rivals: list[Score], below: dict[str, float]
) -> list[str]:
    """Whether it knows more than they do; that comes first."""
    n = len(held_out.estimators)
    named = f"{best.name}, the best of {n} tried here" if n > 1 else best.name
    scores = (
        f"scores the correct rollout of a held-out pair higher in {_interval(best)} of pairs; "
        "chance is .50."
    )
    if not rivals:
        return [f"Take {named}.", f"It {scores}"]
    last = f"{named}{',' if n > 1 else ''} {scores}"
    outdone = any(score.auc.value >= best.auc.value for score in rivals)
    if (needed := _needed(_pairs(held_out))) > held_out.groups and not outdone:
        return [
            f"{counted(held_out.groups, 'group')}: too few to tell whether credit knows more than "
            "the length or a vote does. "
            f"For {counted(n, 'estimator')} at least {needed} are needed.",
            last,
        ]
    return [
        *(f"{_told(score, best, below)}." for score in rivals),
        f"Credit {'tells' if outdone else 'may tell'} no more than that here: read nothing into "
        "the colours of single tokens.",
        last,
    ]


def _told(baseline: Score, best: Score, below: dict[str, float]) -> str:
    """A baseline beside the best estimator."""
    if baseline.auc.value < best.auc.value:
        verb = "is not shown to be worse"
    else:
        verb = "is better" if below[baseline.name] < LEVEL else "does as well"
    return f"{_BASELINES[baseline.name]} {verb}: {_interval(baseline)}"


_BASELINES = {
    "shorter": "Taking the shorter rollout",
    "majority": "Taking the more frequent answer",
}


def _interval(score: Score) -> str:
    mean, low, high = (f"{x:.2f}".removeprefix("0") for x in score.auc)
    return f"{mean} ({low} to {high})"
