"""How fast a method learns beside GRPO: the steps that GRPO takes from one accuracy to the next,
over those that the method takes.

Accuracies are compared and not steps, so that being ahead does not make a method slow. Curves are
means over runs; each is made monotone, since noise brings both back to an accuracy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from ktae.inference import percentile_bounds
from ktae_lab.tables import run_curves

PHASES = ((0, 20), (20, 40), (40, 54))
"""Steps of GRPO, at whose first ones `ktae_lab.align.campaign` measures."""
REACH = 5
"""Accuracy after a step is the mean of the rollouts of this many steps on both sides."""
FEWEST_STEPS = 5
"""Of the method, between two accuracies: over fewer its speed is not told."""
RESAMPLES = 1000
DRAWS = 500


class Estimate(NamedTuple):
    """With its 95 % interval, for these base models; NaN where nothing can be told."""

    value: float
    low: float
    high: float


class Pairs(NamedTuple):
    """Runs of a method beside GRPO's of the same study, seed and base model."""

    mine: np.ndarray
    """(pairs, steps) accuracies of the rollouts of each step."""
    base: np.ndarray
    """(pairs, steps) GRPO's."""
    base_model: np.ndarray
    """(pairs,) names."""

    def by_base_model(self) -> dict[str, np.ndarray]:
        """Indices of the pairs of each."""
        names = sorted(set(self.base_model.tolist()))
        return {name: np.flatnonzero(self.base_model == name) for name in names}


def pairs_of_runs(task: str, runs: Sequence[str]) -> Pairs:
    """Of several studies, each STUDY:METHOD."""
    accuracies, base_models = [], []
    for study, method in (run.split(":") for run in runs):
        pairs = run_curves.pairs_by_run(study, "grpo", method, task)
        accuracies += [[curves["accuracy"] for curves in pair] for pair in pairs.values()]
        base_models += [base_model for _, base_model in pairs]
    mine, base = np.stack(accuracies, axis=1)
    return Pairs(mine, base, np.array(base_models))


def gains(pairs: Pairs) -> dict[str, np.ndarray]:
    """(phases,) by base model: what GRPO gains in accuracy."""
    found = {}
    for name, runs in pairs.by_base_model().items():
        of_base = pairs.base[runs].mean(axis=0)
        curve = smoothed(of_base)
        at = [of_base[0], *(curve[end - REACH] for _, end in PHASES)]
        found[name] = np.diff(at)
    return found


def speeds(pairs: Pairs) -> list[Estimate]:
    """In each phase, with the bootstrap over pairs."""
    rng = np.random.default_rng(0)
    strata = pairs.by_base_model().values()
    drawn = [
        np.concatenate([rng.choice(stratum, len(stratum)) for stratum in strata])
        for _ in range(RESAMPLES)
    ]
    resampled = np.array([
        phase_speeds(pairs.mine[of].mean(axis=0), pairs.base[of].mean(axis=0)) for of in drawn
    ])  # fmt: skip
    whole = phase_speeds(pairs.mine.mean(axis=0), pairs.base.mean(axis=0))
    found = []
    for value, draws in zip(whole, resampled.T, strict=True):
        known = draws[~np.isnan(draws)]
        if np.isnan(value) or known.size < RESAMPLES / 2:
            found.append(Estimate(np.nan, np.nan, np.nan))
        else:
            found.append(Estimate(float(value), *percentile_bounds(known)))
    return found


def speeds_beside_itself(pairs: Pairs, n: int) -> np.ndarray:
    """(draws, phases): of n of GRPO's runs a base model beside n others, where nothing differs."""
    rng = np.random.default_rng(0)
    strata = pairs.by_base_model().values()
    found = []
    for _ in range(DRAWS):
        drawn = np.array([rng.choice(stratum, 2 * n, replace=False) for stratum in strata])
        one, other = (pairs.base[half.ravel()].mean(axis=0) for half in np.split(drawn, 2, axis=1))
        found.append(phase_speeds(one, other))
    return np.array(found)


def phase_speeds(mine: np.ndarray, base: np.ndarray) -> np.ndarray:
    """(phases,) of two curves of (steps,) accuracies: GRPO's steps over the method's own.

    A phase ends where GRPO's does or, for a method that never gets there, at the best accuracy of
    both, so that no speed is 0 without enough steps.
    """
    mine, base = monotone(smoothed(mine)), monotone(smoothed(base))
    found = []
    for start, end in PHASES:
        low = base[start - REACH] if start else -np.inf
        high = min(base[end - REACH], mine[-1])
        own, theirs = (first_at(curve, high) - first_at(curve, low) for curve in (mine, base))
        is_known = high > low and own >= FEWEST_STEPS
        found.append(theirs / own if is_known else np.nan)
    return np.array(found)


def monotone(curve: np.ndarray) -> np.ndarray:
    """The nearest curve that never falls, in least squares."""
    return np.asarray(isotonic_regression(curve).x)


def smoothed(accuracies: np.ndarray) -> np.ndarray:
    """(steps - 2 · REACH,) of (steps,): entry t is the policy's after REACH + t steps.

    The rollouts of a step are those of the policy before it.
    """
    return run_curves.smoothed(accuracies, 2 * REACH + 1)


def first_at(curve: np.ndarray, target: float) -> float:
    """The step at which a smoothed curve first is at an accuracy, interpolated; every curve is at
    -inf before the first."""
    if target == -np.inf:
        return 0.0
    t = int(np.argmax(curve >= target))
    if t == 0:
        return float(REACH)
    return REACH + t - 1 + float((target - curve[t - 1]) / (curve[t] - curve[t - 1]))
