"""Does credit point along the true policy gradient, and to the tokens that decide?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ktae.bench.exact import Responses, sample, solve
from ktae.bench.worlds import World
from ktae.credit import token_credit
from ktae.errors import InputError
from ktae.estimators import DEFAULT, Estimator, RandomPlaces, preset
from ktae.estimators.base import TurnEstimator
from ktae.estimators.transforms import innermost, layers
from ktae.estimators.units import OF_TURNS
from ktae.inference import Interval, percentile_bounds
from ktae.rollout_advantages import rollout_advantages

GROUP_SIZE, GROUPS, BATCHES = 16, 8, 50
BATCH = {"group_size": GROUP_SIZE, "groups": GROUPS, "batches": BATCHES}
"""A gradient is estimated from 8 groups of 16 responses, 50 times."""
KEY = 0.02
"""Key tokens: their exact advantage is at least this far from 0."""
WEIGHTS = 2.0 ** np.arange(-3, 9)
"""Weights of the credit beside the rollout advantage, for the best one."""
RESAMPLES = 2000
GRPO, EXACT, RANDOM, PERMUTED = CONTROLS = ("GRPO", "exact", "random", "permuted")
"""The rows that are always there: the last two are of `CONTROL`'s credit."""
CONTROL = preset(DEFAULT)


@dataclasses.dataclass(frozen=True)
class Result:
    """What one estimator does in one world; intervals are 95 %, over batches."""

    world: str
    estimator: str
    cosine: Interval
    """Between the gradient of one batch and the exact one, with rollout advantage plus credit."""
    share_of_ceiling: Interval | None
    """How much of the cosine that exact advantages add to GRPO's is reached; None where they add
    nothing. A larger weight than 1 can pass 1."""
    best_weight: float
    """The credit's weight with the largest mean cosine."""
    best_share: float | None
    """The share of the ceiling at that weight."""
    average_precision: float
    """That of |credit| as a detector of key tokens."""
    base_rate: float
    """The share of tokens that are key tokens: the average precision of chance."""
    sign: float
    """The share of key tokens with credit of the right sign; no credit counts as wrong."""
    bias: float
    """1 - the cosine of the expected gradient: the mean over all batches, less its own variance."""
    variance: float
    """The gradients' mean squared distance from their mean, over the mean's squared length."""
    permuted_share: float | None
    """The share of the ceiling that the estimator reaches with permuted labels."""


@dataclasses.dataclass(frozen=True)
class Left:
    """An estimator that was not measured in a world."""

    world: str
    estimator: str
    reason: str
    is_error: bool
    """Whether it failed; otherwise the world lacks what the estimator needs."""


class Course:
    """One world, its truth, and the batches of responses that all estimators get."""

    def __init__(self, name: str, world: World, seed: int = 0) -> None:
        self.name, self.world, self.truth = name, world, solve(world)
        n = GROUP_SIZE * GROUPS * BATCHES
        self.responses = sample(world, n, np.random.default_rng([seed, 1]))
        self.groups = np.arange(n) // GROUP_SIZE
        correct = self.responses.correct.reshape(-1, GROUP_SIZE)
        self.permuted = np.random.default_rng([seed, 2]).permuted(correct, axis=1).ravel()
        everyone = np.ones(n, dtype=bool)
        self.base = rollout_advantages("grpo", self.responses.correct, everyone, self.groups)
        self.exact = self.responses.at(self.truth.advantage)
        self._base_gradients = self.gradients(np.repeat(self.base[:, None], world.shape[0], axis=1))
        self.grpo = self.cosines_of(self._base_gradients)
        self.ceiling = self.cosines(self.exact)
        log_policy = np.log(np.maximum(world.policy, 1e-30))
        entropy = -(world.policy * log_policy).sum(axis=-1, keepdims=True)
        self.policy = {
            "log_probs": self.responses.at(log_policy),
            "entropies": self.responses.at(np.broadcast_to(entropy, world.shape)),
        }

    def gradients(self, advantages: np.ndarray) -> np.ndarray:
        """(BATCHES, T * S * V), the gradient of each batch."""
        gradients, size = [], GROUP_SIZE * GROUPS
        for start in range(0, len(advantages), size):
            part = slice(start, start + size)
            responses = Responses(*(x[part] for x in vars(self.responses).values()))
            gradients.append(responses.gradient(self.world, advantages[part]).ravel())
        return np.stack(gradients)

    def cosines(self, credit: np.ndarray) -> np.ndarray:
        """(BATCHES,) cosines of the gradients of GRPO's advantages plus credit with the truth."""
        return self.cosines_of(self._base_gradients + self.gradients(credit))

    def cosines_of(self, gradients: np.ndarray) -> np.ndarray:
        """(BATCHES,) cosines with the exact gradient."""
        exact = self.truth.gradient.ravel()
        norms = np.linalg.norm(gradients, axis=1) * np.linalg.norm(exact)
        cosines: np.ndarray = gradients @ exact / np.maximum(norms, 1e-30)
        return cosines

    def share(self, cosines: np.ndarray) -> Interval | None:
        """The share of the ceiling, with a bootstrap interval over batches."""
        draws = np.random.default_rng(0).integers(0, BATCHES, (RESAMPLES, BATCHES))
        ceiling = self.ceiling - self.grpo
        bounds = percentile_bounds(ceiling[draws].mean(axis=1))
        if bounds[0] <= 0:
            return None
        gain = cosines - self.grpo
        shares = gain[draws].mean(axis=1) / ceiling[draws].mean(axis=1)
        return Interval(float(gain.mean() / ceiling.mean()), *percentile_bounds(shares))

    def credit(self, estimator: Estimator, *, permuted: bool = False) -> np.ndarray:
        """(B, T) float64 credit of the estimator, perhaps with labels permuted in each group."""
        r = self.responses
        credit = token_credit(
            r.tokens,
            r.mask,
            self.permuted if permuted else r.correct,
            self.groups,
            estimator,
            policy=self.policy,
            turn_rewards=r.turn_rewards() if estimator.needs_turn_rewards else None,
        )
        credit = np.asarray(credit, dtype=np.float64)
        if credit.shape != r.mask.shape or not np.isfinite(credit).all():
            raise InputError(
                f"{estimator} gave credit of shape {credit.shape} in world {self.name}; expected "
                f"finite numbers of shape {r.mask.shape}"
            )
        return credit

    def result(self, name: str, credit: np.ndarray, permuted: np.ndarray | None) -> Result:
        """What credit of that name does here."""
        gradients = self.gradients(credit)
        by_weight = [self.cosines_of(self._base_gradients + w * gradients) for w in WEIGHTS]
        best = int(np.argmax([cosines.mean() for cosines in by_weight]))
        total = self._base_gradients + gradients
        cosines, mean = self.cosines_of(total), total.mean(axis=0)
        half = 1.96 * cosines.std(ddof=1) / BATCHES**0.5
        exact = self.truth.gradient.ravel()
        variance = ((total - mean) ** 2).sum() / (BATCHES - 1)
        length = max(mean @ mean - variance / BATCHES, 1e-30) ** 0.5
        share, best_share = self.share(cosines), self.share(by_weight[best])
        permuted_share = None if permuted is None else self.share(self.cosines(permuted))
        return Result(
            world=self.name,
            estimator=name,
            cosine=Interval(cosines.mean(), cosines.mean() - half, cosines.mean() + half),
            share_of_ceiling=share,
            best_weight=float(WEIGHTS[best]) if credit.any() else 0.0,
            best_share=best_share and best_share.value,
            bias=float(1 - mean @ exact / (length * np.linalg.norm(exact))),
            variance=float(variance / length**2),
            permuted_share=permuted_share and permuted_share.value,
            **self._pointing(credit),
        )

    def _pointing(self, credit: np.ndarray) -> dict[str, float]:
        """Average precision and sign at the key tokens of mixed groups."""
        correct = self.responses.correct.reshape(-1, GROUP_SIZE).mean(axis=1)
        is_mixed = np.repeat((correct > 0) & (correct < 1), GROUP_SIZE)
        inside = self.responses.mask & is_mixed[:, None]
        credit_n, exact_n = credit[inside], self.exact[inside]
        is_key = np.abs(exact_n) >= KEY
        # Ties are ranked at random: what has no credit is not detected.
        noise = np.random.default_rng(0).random(len(credit_n))
        hits = is_key[np.lexsort([noise, -np.abs(credit_n)])]
        precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        if not is_key.any():
            raise InputError(f"world {self.name} has no token with |advantage| of {KEY} or more")
        return {
            "average_precision": float(precision[hits].mean()),
            "base_rate": float(is_key.mean()),
            "sign": float((np.sign(credit_n) == np.sign(exact_n))[is_key].mean()),
        }


def lacks(estimator: Estimator, world: World) -> str | None:
    """What the estimator needs and the world has not; None: nothing."""
    if estimator.needs_vocabulary:
        return "needs the tokens' texts"
    units = {unit for layer in layers(estimator) for unit in getattr(layer, "units", ())}
    needs_turns = isinstance(innermost(estimator), TurnEstimator) or not units.isdisjoint(OF_TURNS)
    if needs_turns and not world.environment.any():
        return "needs several turns"
    if estimator.needs_turn_rewards and not world.reward.any():
        return "needs rewards by turn"
    return None


def measure(
    worlds: Mapping[str, World],
    estimators: Mapping[str, Estimator],
    progress: Callable[[str], None] = lambda name: None,
    seed: int = 0,
) -> tuple[list[Result], list[Left]]:
    """Every estimator in every world, and the four rows that are always there.

    Those are GRPO, exact advantages as credit, and the default estimator's credit at random places
    and with permuted labels.

    Args:
        worlds: by the names that the results get.
        estimators: at least one, by name.
        progress: called before each estimator in each world, with its name.
        seed: of the responses that are sampled.

    Returns:
        Results, and what was left out: estimators that need what a world has not, and those that
        failed. A failure of one leaves the others.
    """
    results: list[Result] = []
    left: list[Left] = []
    for world_name, world in worlds.items():
        course = Course(world_name, world, seed)
        results.append(course.result(GRPO, np.zeros(course.exact.shape), None))
        results.append(course.result(EXACT, course.exact, None))
        for name, estimator in estimators.items():
            progress(f"{name}, {world_name}")
            if reason := lacks(estimator, world):
                left.append(Left(world_name, name, reason, is_error=False))
                continue
            try:
                credit = course.credit(estimator)
                # It has no effect on estimators that look at rewards of turns and at no label.
                has_labels = not estimator.needs_turn_rewards
                permuted = course.credit(estimator, permuted=True) if has_labels else None
            except Exception as error:  # someone's own code may raise anything
                reason = f"{type(error).__name__}: {error}"
                left.append(Left(world_name, name, reason, is_error=True))
                continue
            results.append(course.result(name, credit, permuted))
        results.append(course.result(RANDOM, course.credit(RandomPlaces(CONTROL)), None))
        results.append(course.result(PERMUTED, course.credit(CONTROL, permuted=True), None))
    return results, left


def mean_share(results: Sequence[Result], estimator: str) -> tuple[float, float]:
    """Mean and lowest share of the ceiling over the worlds that have one."""
    shares = [
        r.share_of_ceiling.value
        for r in results
        if r.estimator == estimator and r.share_of_ceiling is not None
    ]
    return (float(np.mean(shares)), min(shares)) if shares else (float("nan"), float("nan"))


def picture(results: Sequence[Result], estimators: Sequence[str], worlds: Sequence[str]) -> Any:
    """A matplotlib figure of worlds × estimators, each field the share of the ceiling."""
    from matplotlib.figure import Figure

    share = {(r.world, r.estimator): r.share_of_ceiling for r in results}
    intervals = [[share.get((world, name)) for name in estimators] for world in worlds]
    values = [[np.nan if x is None else x.value for x in row] for row in intervals]
    figure = Figure(
        figsize=(2.2 + 0.75 * len(estimators), 1.6 + 0.3 * len(worlds)), layout="constrained"
    )
    axes = figure.add_subplot()
    image = axes.imshow(
        np.array(values, dtype=float), cmap="PuOr", vmin=-1.5, vmax=1.5, aspect="auto"
    )
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = "" if np.isnan(value) else f"{value:.2f}"
            colour = "white" if abs(value) > 0.8 else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(estimators)), estimators, rotation=35, ha="right", fontsize=9)
    axes.set_yticks(range(len(worlds)), worlds, fontsize=9)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("Share of what exact advantages add to GRPO's gradient", fontsize=10, loc="left")
    figure.colorbar(image, ax=axes, shrink=0.6, extend="both")
    return figure
