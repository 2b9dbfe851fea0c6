"""What held-out pairs mean for the rollouts at hand: which estimator to take, if any."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ktae.estimators import DEFAULT
from ktae.files.text import counted
from ktae.inference import ALPHA, holm, least_size, sign_flip_p_value
from ktae.validity.scores import HeldOut, Score

RECOMMENDED = DEFAULT
"""The preset to read rollouts with, where nothing better is shown on the rollouts at hand."""

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
    """The same in words; the first one says what to do."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()

    def __repr__(self) -> str:
        """The same in words."""
        return "\n".join(self.lines)


_BASELINES = {
    "shorter": "calling the shorter response correct",
    "majority": "calling the more frequent answer correct",
}


def advice(held_out: HeldOut) -> Advice:
    """Test every estimator against chance, and the best of them against all others.

    Tests are exact or random sign flips of the groups' differences (`sign_flip_p_value`).
    """
    ranked, baselines, n = held_out.ranked(), held_out.baselines, len(held_out.estimators)
    groups = counted(held_out.groups, "group")
    has = f"{groups} with two correct and two incorrect responses"
    needs = f"for {counted(n, 'estimator')} at least"
    # Against chance every estimator was tried, so the correction is over all of them.
    above = _corrected(ranked, [score.auc_g - 0.5 for score in ranked], n)
    # Sign flips are two-sided: one that is reliably below chance is significant, too.
    shown = [score for score in ranked if above[score.name] < ALPHA and score.auc.value > 0.5]
    best = (shown or ranked)[0]
    does = f"scores the correct response of a held-out pair higher in {best.in_words()} of pairs"
    if not shown:
        # Where even groups of one sign could not be significant, "nothing shown" would mislead.
        if (needed := least_size(n)) > held_out.groups:
            lines = ["Too few groups to tell anything.", f"{has}; {needs} {needed} are needed."]
            return Advice("too few groups", None, above, {}, lines)
        first = "No estimator is shown to tell correct responses from incorrect ones here."
        lines = [first, f"The best of them, {best.name}, {does}; chance is .50."]
        return Advice("nothing shown", None, above, {}, lines)
    # "The best" was chosen by the same numbers. The family of tests is all pairs that the choice
    # could have led to; otherwise the best of ten equal ones would often look better than another.
    n_pairs = n * (n - 1) // 2 + n * len(baselines)
    others = [score for score in (*ranked, *baselines) if score is not best]
    below = _corrected(others, [best.auc_g - score.auc_g for score in others], n_pairs)
    outdone = [score for score in baselines if score.auc.value >= best.auc.value]
    rivals = [x for x in baselines if x in outdone or below[x.name] >= ALPHA]
    needed = least_size(n_pairs)
    is_few = needed > held_out.groups
    named = f"{best.name}, the best of {n} tried here" if n > 1 else best.name
    alike = [x.name for x in ranked if x is not best and below[x.name] >= ALPHA]
    verdict: Verdict
    if not rivals:
        tie = f"A tie: {best.name} is not shown to be better than {' or '.join(alike)}."
        first = tie if alike else f"Take {named}."
        verdict, lines = "take", [first, f"{best.name} {does}; chance is .50."]
    elif is_few and not outdone:
        first = "Too few groups to tell whether credit knows more than the length or a vote."
        verdict, lines = "too few groups", [first, f"{has}; {needs} {needed} are needed."]
    else:
        names = " or ".join(_BASELINES[score.name] for score in rivals)
        tells = "tells" if outdone else "may tell"
        first = f"Credit {tells} no more than {names} does: read nothing into single colours."
        verdict = "no more than a baseline"
        lines = [first, *(_beside(x, x in outdone, below[x.name]) for x in rivals)]
    if rivals:
        lines.append(f"{named}{',' if n > 1 else ''} {does}; chance is .50.")
    if n > 1:
        lines.append("It was chosen as the best here: on new rollouts expect a little less.")
        if is_few:
            lines.append(f"{groups}: too few to tell the estimators apart.")
        elif alike and rivals:
            lines.append(f"Not shown to be worse: {', '.join(alike)}.")
    lines.append("Whether training gains by it is another question.")
    return Advice(verdict, best.name if verdict == "take" else None, above, below, lines)


def _corrected(scores: list[Score], differences: list[np.ndarray], tests: int) -> dict[str, float]:
    """Holm's p-values in a family of `tests`; those not made count as if p were 1."""
    # Differences by group, for the groups are what is drawn independently; pairs within are not.
    p_values = [sign_flip_p_value(values) for values in differences]
    corrected = holm(p_values + [1.0] * (tests - len(p_values)))
    return {score.name: p for score, p in zip(scores, corrected, strict=False)}


def _beside(baseline: Score, is_higher: bool, p_value: float) -> str:
    """How a baseline that is not shown to be worse does."""
    verb = "is not shown to be worse"
    if is_higher:
        verb = "is better" if p_value < ALPHA else "does as well"
    name = _BASELINES[baseline.name]
    return f"{name[0].upper()}{name[1:]} {verb}: {baseline.in_words()}."
