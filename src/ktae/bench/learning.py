"""What credit gains in training, where the success rate and every advantage are known exactly.

Many prompts, a policy with a shared trunk, Adam. Each arm trains at its own best learning rate,
chosen on seeds of its own; then every arm runs on fresh seeds. The ceiling is what exact token
advantages gain over GRPO in the groups in which GRPO learns at all, those with correct and
incorrect responses. "exact everywhere" has them in the other groups, too, which no comparison
within a group can reach.
"""

from __future__ import annotations

import csv
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ktae.credit import token_credit
from ktae.errors import InputError
from ktae.estimators import RandomPlaces, as_estimator
from ktae.inference import holm, sign_flip_p_value, t_interval
from ktae.rollout_advantages import rollout_advantages

STEPS = 100
RATES = tuple(0.0025 * 2**k for k in range(9))
START_RATES = RATES[2:7]
"""The search begins with these and goes on to either side until the best rate has neighbours."""
RATE_SEEDS, SEEDS = range(4), range(100, 120)
CLIP = 0.2
ENTROPY_PENALTY = 0.03


@dataclasses.dataclass(frozen=True)
class Setting:
    """One place of the map. Defaults: 2 decisions among 100 tokens, 4 prompts × 8 responses."""

    length: int = 100
    decisions: int = 2
    choices: int = 4
    prompts: int = 4
    responses: int = 8
    minibatches: int = 1
    """Optimizer steps that a batch is split over; with more than one a group is not whole."""
    uses: int = 1
    """How often each response is trained on, with PPO's clipping."""
    own_names: bool = True
    """Whether the tokens that decide stand nowhere else."""


SETTINGS: dict[str, Setting] = {
    "base": Setting(),
    "short": Setting(length=20),
    "long": Setting(length=400),
    "ten decisions": Setting(decisions=10, choices=2),
    "16 x 16": Setting(prompts=16, responses=16),
    "split groups": Setting(minibatches=4),
    "four uses": Setting(uses=4),
    "split, four uses": Setting(minibatches=4, uses=4),
    "shared names": Setting(own_names=False),
}
"""The map: mostly one factor changed at a time."""

CEILING = "exact"
CREDITS: dict[str, tuple[str, float]] = {
    "paper": ("paper", 1.0),
    "paper x2": ("paper", 2.0),
    "paper x4": ("paper", 4.0),
    "backoff": ("backoff", 1.0),
    "trigrams": ("trigrams", 1.0),
    "conflict-tokens": ("conflict-tokens", 1.0),
}
ARMS = ("grpo", CEILING, "exact added", *CREDITS, "random places", "entropy penalty")
"""Fixed before the first run; Holm corrects over their comparisons with GRPO in all settings."""
ADDED = ("exact everywhere",)
"""Arms that were added after the first runs: not announced, and not corrected for."""


class Task:
    """32 prompts. At each decision the choice that is correct depends on the prompt's features."""

    n_prompts, n_features, n_filler, width = 32, 16, 24, 16

    def __init__(self, setting: Setting, seed: int) -> None:
        rng = np.random.default_rng(seed)
        k, m, length = setting.decisions, setting.choices, setting.length
        self.setting = setting
        self.at = np.linspace(1, length - 2, k).round().astype(int)
        shape = (self.n_prompts, length, self.n_features)
        self.features = rng.normal(size=shape) / self.n_features**0.5
        teacher = rng.normal(size=(k, self.n_features, m))
        scores = np.einsum("xkd,kdm->xkm", self.features[:, self.at], teacher)
        names = np.arange(k)[:, None] * (m if setting.own_names else 0) + np.arange(m)
        self.correct = np.take_along_axis(names[None], scores.argmax(-1)[..., None], -1)[..., 0]
        first = names.max() + 1 if setting.own_names else 0
        self.n_tokens = int(names.max() + 1 + self.n_filler) if first else self.n_filler
        self.base = np.full((length, self.n_tokens), -30.0)
        self.base[:, first:] = rng.normal(size=(length, self.n_tokens - first))
        for t, names_t in zip(self.at, names, strict=True):
            self.base[t] = -30.0
            self.base[t, names_t] = 0.0
        self.trunk = rng.normal(size=(self.n_features, self.width)) * 2 / self.n_features**0.5
        self.head = np.zeros((self.width, self.n_tokens))

    def policy(self, prompts: np.ndarray, at: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """(P, T, H) activations of the trunk and (P, T, V) probabilities, for P prompts.

        `at`: the T places, if not all.
        """
        hidden = np.tanh(self.features[prompts][:, at] @ self.trunk)
        logits = self.base[at] + hidden @ self.head
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return hidden, weights / weights.sum(axis=-1, keepdims=True)

    def p_correct(self, probabilities: np.ndarray, prompts: np.ndarray) -> np.ndarray:
        """(P, K) the probability of each correct decision."""
        chosen = self.correct[prompts][..., None]
        return np.take_along_axis(probabilities[:, self.at], chosen, -1)[..., 0]

    def success(self) -> float:
        """The exact success rate over all prompts."""
        _, policy = self.policy(np.arange(self.n_prompts), self.at)
        p = np.take_along_axis(policy, self.correct[..., None], -1)[..., 0]
        return float(p.prod(axis=1).mean())


class Adam:
    """Adam of a list of arrays, gradients pointing uphill."""

    def __init__(self, arrays: list[np.ndarray], rate: float) -> None:
        self.arrays, self.rate, self.step = arrays, rate, 0
        self.mean, self.square = ([np.zeros_like(x) for x in arrays] for _ in range(2))

    def update(self, gradients: list[np.ndarray]) -> None:
        """One step."""
        self.step += 1
        for x, g, m, v in zip(self.arrays, gradients, self.mean, self.square, strict=True):
            m += 0.1 * (g - m)
            v += 0.01 * (g * g - v)
            m_hat, v_hat = m / (1 - 0.9**self.step), v / (1 - 0.99**self.step)
            x += self.rate * m_hat / (np.sqrt(v_hat) + 1e-8)


def train(setting: Setting, arm: str, rate: float, seed: int) -> np.ndarray:
    """(STEPS + 1,) the exact success rate before each step and at the end."""
    task, rng = Task(setting, seed), np.random.default_rng([seed, 1])
    optimizer = Adam([task.trunk, task.head], rate)
    curve = [task.success()]
    for _ in range(STEPS):
        prompts = rng.choice(task.n_prompts, setting.prompts, replace=False)
        _, old = task.policy(prompts)
        group = np.repeat(np.arange(setting.prompts), setting.responses)
        tokens = _sample(old, group, rng)
        hit = tokens[:, task.at] == task.correct[prompts][group]
        advantages = _advantages(arm, task, old, prompts, tokens, hit)
        for _ in range(setting.uses):
            order = rng.permutation(len(group))
            for rows in np.array_split(order, setting.minibatches):
                batch = (prompts, group[rows], tokens[rows], advantages[rows])
                optimizer.update(_gradients(task, old, *batch, penalty=arm == "entropy penalty"))
        curve.append(task.success())
    return np.array(curve)


def _sample(policy: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(B, T) tokens of (P, T, V) policies; (B,) says whose each response is."""
    n_prompts, length, n_tokens = policy.shape
    # One sorted array of all cumulative probabilities, each distribution one higher than the last.
    number = np.arange(n_prompts * length)
    steps = (policy.cumsum(axis=-1).reshape(len(number), -1) + number[:, None]).ravel()
    row = number.reshape(n_prompts, length)[group]
    tokens: np.ndarray = np.searchsorted(steps, row + rng.random(row.shape)) - row * n_tokens
    return tokens.clip(0, n_tokens - 1)


def _advantages(
    arm: str,
    task: Task,
    policy: np.ndarray,
    prompts: np.ndarray,
    tokens: np.ndarray,
    hit: np.ndarray,
) -> np.ndarray:
    """(B, T) the arm's token advantages."""
    group = np.repeat(np.arange(len(prompts)), task.setting.responses)
    correct, everywhere = hit.all(axis=1), np.ones(tokens.shape, dtype=bool)
    outcome = rollout_advantages("grpo", correct.astype(float), everywhere[:, 0], group)
    base: np.ndarray = outcome[:, None]
    if arm in (CEILING, "exact added", *ADDED):
        std = correct.reshape(len(prompts), -1).std(axis=1, ddof=1)[group]
        p = task.p_correct(policy, prompts)[group]
        rest = np.cumprod(p[:, ::-1], axis=1)[:, ::-1] / p
        still_correct = np.cumprod(np.hstack([np.ones((len(hit), 1)), hit[:, :-1]]), axis=1)
        exact = np.zeros(tokens.shape)
        exact[:, task.at] = still_correct * (hit - p) * rest
        if arm in ADDED:  # with the policy's own deviation, which no group has to be mixed for
            success = p.prod(axis=1)
            exact /= np.sqrt(success * (1 - success) + 1e-12)[:, None]
            return exact
        # In GRPO's units, and only where GRPO has a signal: mixed groups.
        exact /= (std + 1e-6)[:, None]
        exact[std == 0] = 0.0
        return exact if arm == CEILING else base + exact
    credit = np.zeros(tokens.shape)
    if arm in CREDITS:
        name, weight = CREDITS[arm]
        credit = weight * np.asarray(token_credit(tokens, everywhere, correct, group, name))
    if arm == "random places":
        shuffled = RandomPlaces(as_estimator("backoff"))
        credit = np.asarray(token_credit(tokens, everywhere, correct, group, shuffled))
    advantages: np.ndarray = base + credit
    return advantages


def _gradients(
    task: Task,
    old: np.ndarray,
    prompts: np.ndarray,
    group: np.ndarray,
    tokens: np.ndarray,
    advantages: np.ndarray,
    penalty: bool,
) -> list[np.ndarray]:
    """Gradients of the clipped objective by trunk and head, a mean over responses."""
    hidden, policy = task.policy(prompts)
    places = np.arange(tokens.shape[1])
    at = (group[:, None], places, tokens)
    ratio = policy[at] / old[at]
    is_clipped = np.where(advantages > 0, ratio > 1 + CLIP, ratio < 1 - CLIP)
    weights = np.where(is_clipped, 0.0, advantages * ratio)
    flat = np.ravel_multi_index(np.broadcast_arrays(*at), policy.shape)
    by_logit: np.ndarray = np.bincount(flat.ravel(), weights.ravel(), policy.size).reshape(
        policy.shape
    )
    by_logit -= by_logit.sum(axis=-1, keepdims=True) * policy
    if penalty:  # the derivative of -entropy, for as many responses as each prompt has
        log_policy = np.log(policy + 1e-30)
        entropy = -(policy * log_policy).sum(axis=-1, keepdims=True)
        n = np.bincount(group, minlength=len(prompts))[:, None, None]
        by_logit += ENTROPY_PENALTY * n * policy * (log_policy + entropy)
    by_logit = by_logit / len(tokens)
    by_hidden = (by_logit @ task.head.T) * (1 - hidden**2)
    by_trunk = np.tensordot(task.features[prompts], by_hidden, axes=([0, 1], [0, 1]))
    return [by_trunk, np.tensordot(hidden, by_logit, axes=([0, 1], [0, 1]))]


class Runs:
    """The runs of a CSV file: each is appended when it is done, and not run again."""

    columns = ("setting", "arm", "rate", "seed", "area", "final")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.areas_done: dict[tuple[str, str, float, int], float] = {}
        if path.exists():
            content = path.read_bytes()
            if not content.endswith(b"\n"):  # a last line that an interrupted run has not finished
                path.write_bytes(content[: content.rfind(b"\n") + 1])
            with path.open(newline="") as file:
                rows = csv.DictReader(file)
                if tuple(rows.fieldnames or ()) != self.columns:
                    expected = list(self.columns)
                    raise InputError(
                        f"{path} has the columns {rows.fieldnames}; expected {expected}"
                    )
                for row in rows:
                    key = row["setting"], row["arm"], float(row["rate"]), int(row["seed"])
                    self.areas_done[key] = float(row["area"])

    def area(self, setting: str, arm: str, rate: float, seed: int) -> float:
        """The mean exact success rate over a run, which is trained now if it is not in the file."""
        key = setting, arm, rate, seed
        if key not in self.areas_done:
            curve = train(SETTINGS[setting], arm, rate, seed)
            area = round(float(curve.mean()), 6)
            is_new = not self.path.exists()
            with self.path.open("a", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if is_new:
                    writer.writerow(self.columns)
                writer.writerow([*key, area, round(float(curve[-1]), 6)])
                file.flush()
                os.fsync(file.fileno())
            self.areas_done[key] = area
        return self.areas_done[key]

    def best_rate(self, setting: str, arm: str) -> float:
        """The rate with the largest mean area on the rate's seeds, inside of the rates tried."""
        tried = {rate: self._mean(setting, arm, rate) for rate in START_RATES}
        while True:
            best: float = max(tried, key=lambda rate: tried[rate])
            i = RATES.index(best)
            missing = [r for r in RATES[max(i - 1, 0) : i + 2] if r not in tried]
            if not missing:
                return best
            tried |= {rate: self._mean(setting, arm, rate) for rate in missing}

    def _mean(self, setting: str, arm: str, rate: float) -> float:
        return float(np.mean([self.area(setting, arm, rate, seed) for seed in RATE_SEEDS]))

    def areas(self, setting: str, arm: str, rate: float) -> np.ndarray:
        """(20,) areas on the fresh seeds."""
        return np.array([self.area(setting, arm, rate, seed) for seed in SEEDS])


@dataclasses.dataclass(frozen=True)
class Gain:
    """An arm beside GRPO in one setting, paired by seed."""

    setting: str
    arm: str
    rate: float
    """The arm's own best learning rate."""
    area: float
    gain: float
    low: float
    high: float
    p: float
    """Holm's, over all announced comparisons; without correction for an arm that was added."""
    share_of_ceiling: float | None
    """The gain as a share of the ceiling's; None where the ceiling is not above zero."""


def learn(
    path: Path,
    progress: Callable[[str, str], None] = lambda setting, arm: None,
) -> list[Gain]:
    """Train every arm in every setting, go on where the file ends, and compare with GRPO.

    Args:
        path: CSV of runs, made or continued.
        progress: called before each arm.
    """
    runs, gains, p_values = Runs(path), [], []
    for setting in SETTINGS:
        areas: dict[str, np.ndarray] = {}
        rates: dict[str, float] = {}
        for arm in (*ARMS, *ADDED):
            progress(setting, arm)
            rates[arm] = runs.best_rate(setting, arm)
            areas[arm] = runs.areas(setting, arm, rates[arm])
        ceiling = t_interval(areas[CEILING] - areas["grpo"])
        for arm in (*ARMS[1:], *ADDED):
            difference = areas[arm] - areas["grpo"]
            share = difference.mean() / ceiling.value if ceiling.low > 0 else None
            p_values.append(sign_flip_p_value(difference))
            numbers = rates[arm], areas[arm].mean(), *t_interval(difference)
            gains.append(Gain(setting, arm, *numbers, 1.0, share))
    corrected = iter(holm([p for gain, p in zip(gains, p_values, strict=True) if gain.arm in ARMS]))
    return [
        dataclasses.replace(gain, p=next(corrected) if gain.arm in ARMS else p)
        for gain, p in zip(gains, p_values, strict=True)
    ]
