"""Weights by what the policy itself said of a token: its probability, or its entropy there.

They look at no other rollout's tokens, only at the group's verdicts, and need arrays that a dump
does not hold, and that TRL and verl have at hand: `token_credit(..., policy={"log_probs": ...})`.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Literal

import numpy as np
from typing_extensions import override

from ktae.arrays import Array
from ktae.batch import Batch, differ
from ktae.errors import InputError
from ktae.estimators.base import (
    AdvantageEstimator,
    GradedAdvantageEstimator,
    require_number,
)
from ktae.rollout_advantages import EPSILON, rollout_advantages

SMALL = 1e-8
"""Added to entropies, as the paper's remark 2.1 has it, so that none is 0."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AdvantageReweighting(GradedAdvantageEstimator):
    """Credit -α (1 - π) A: a token of probability π has (1 - α + α π) A, A its rollout's advantage.

    Improbable tokens have large gradients and dominate the update; this makes theirs smaller. It
    looks at no verdict of a token, and its mean under permuted labels is exactly 0.

    Source: Yang et al. 2025, "Do Not Let Low-Probability Tokens Over-Dominate in RL for LLMs",
    arXiv:2505.12929, and its code (github.com/zhyang2226/AR-Lopti, `both_linear`).
    """

    alpha: float = 0.2
    """α, from 0 (nothing) to 1 (the advantage times π)."""

    # - The code's script for reweighting alone has α = 0.2; with Lopti, which is another schedule
    #   of updates and no credit, it has 0.3.
    # - π is that of the policy that sampled, as the code computes it once before the updates.

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", require_number("alpha", self.alpha, 0, 1))

    @property
    @override
    def needs_policy(self) -> frozenset[str]:
        return frozenset({"log_probs"})

    @override
    def credit(self, batch: Batch) -> Array:
        known_bt = _known_tokens(batch)
        out = np.zeros(known_bt.shape, dtype=np.float32)
        advantage_b = _advantages(batch, known_bt, self.scale_by_std)
        log_probs_n = _of_policy(batch, "log_probs", known_bt)
        advantage_n = np.repeat(advantage_b, known_bt.sum(axis=1))  # row by row, as the others
        out[known_bt] = self.alpha * (np.exp(log_probs_n) - 1) * advantage_n
        return out


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class EntropyWeights(AdvantageEstimator):
    """Credit Ã - A: the advantage Ã of rewards weighted by entropy, less the rollout's own A.

    At place t, d of the correct rollouts are that long, and h of the incorrect ones. A token of a
    correct rollout has the reward α₁ + α₂ d H / Σ H over these d; one of an incorrect rollout has
    -α₁ - α₂ h (1/H) / Σ (1/H) over those h. So uncertain tokens of correct rollouts gain, and
    certain tokens of incorrect ones lose. With `level="rollout"` H is a rollout's mean entropy, and
    d and h count all rollouts of the class.

    Source: Tan et al. 2025, "GTPO and GRPO-S: Token and Sequence-Level Reward Shaping with Policy
    Entropy", arXiv:2508.04349: `token` is its GTPO and `rollout` its GRPO-S.
    """

    level: Literal["token", "rollout"] = "token"
    """What has an entropy weight: each token (GTPO) or each rollout (GRPO-S)."""

    alpha1: float = 1.0
    """α₁ (β₁ for rollouts), the weight of the verdict; above 0."""

    alpha2: float = 0.1
    """α₂ (β₂ for rollouts), the weight of the entropy; from 0."""

    normalize: Literal["group", "class"] = "group"
    """Over what rewards are centred and scaled: all tokens (rollouts) of the group, or those of
    correct and of incorrect rollouts apart."""

    # The paper's text was at hand in parts only (abstract, and two replications' notes of it):
    # - Its versions differ in what rewards are normalised over. Apart by class, as the notes on
    #   the later ones have it, no advantage is left between correct and incorrect rollouts;
    #   `normalize` is that choice, and the default is the one under which α₂ = 0 gives GRPO's sign.
    # - Incorrect rollouts have reward -1 there (0 in the first version), which matters beside α₂.
    # - The deviation is the sample's, plus 1e-6, as GRPO's is here.
    # - A replication clips entropies to [0.2, 0.28]; others read these numbers as the ratio's clip
    #   range (DAPO's). Entropies are not clipped here.
    # - GRPO-S takes the mean of a rollout's probability ratios in its loss; that is no credit.

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, low in (("alpha1", SMALL), ("alpha2", 0)):
            object.__setattr__(self, name, require_number(name, getattr(self, name), low))
        if self.level not in ("token", "rollout"):
            raise InputError(f"level is {self.level!r}; expected 'token' or 'rollout'")
        if self.normalize not in ("group", "class"):
            raise InputError(f"normalize is {self.normalize!r}; expected 'group' or 'class'")

    @property
    @override
    def needs_policy(self) -> frozenset[str]:
        return frozenset({"entropies"})

    @override
    def credit(self, batch: Batch) -> Array:
        known_bt = _known_tokens(batch)
        out = np.zeros(known_bt.shape, dtype=np.float32)
        advantage_b = _advantages(batch, known_bt, self.scale_by_std)
        entropy_n = _of_policy(batch, "entropies", known_bt)
        ends_b = np.cumsum(known_bt.sum(axis=1))
        rows_of_groups, starts = batch.by_group()
        for start, stop in itertools.pairwise(starts):
            rows = rows_of_groups[start:stop]
            rows = rows[known_bt[rows].any(axis=1)]
            right_n = batch.evidence[rows] == 1
            if not right_n.any() or right_n.all():  # there is nothing to compare
                continue
            lengths_n = known_bt[rows].sum(axis=1)
            inside = np.arange(lengths_n.max()) < lengths_n[:, None]
            packed = np.zeros(inside.shape)
            packed[inside] = np.concatenate(
                [
                    entropy_n[ends_b[row] - n : ends_b[row]]
                    for row, n in zip(rows, lengths_n, strict=True)
                ]
            )
            shaped = self._of_group(packed, inside, right_n) - advantage_b[rows, None]
            for row, credit in zip(rows, shaped, strict=True):
                out[row, known_bt[row]] = credit[: known_bt[row].sum()]
        return out

    def _of_group(self, packed: np.ndarray, inside: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(n, T) the advantages of one group's rollouts, of entropies from the left on."""
        width = packed.shape[1]
        if self.level == "rollout":
            packed = packed.sum(axis=1, keepdims=True) / inside.sum(axis=1, keepdims=True)
            inside = np.ones_like(packed, dtype=bool)
        packed = packed + SMALL
        shaped = np.zeros(packed.shape)
        for of_class, sign in ((right, 1.0), (~right, -1.0)):
            share = np.where(inside[of_class], packed[of_class] ** sign, 0.0)
            there, total = inside[of_class].sum(axis=0), share.sum(axis=0)
            bonus = there * share / np.where(there > 0, total, 1.0)
            shaped[of_class] = sign * (self.alpha1 + self.alpha2 * bonus)
        parts = [right, ~right] if self.normalize == "class" else [np.ones_like(right)]
        for part in parts:
            values = shaped[part][inside[part]]
            spread = values.std(ddof=1) if len(values) > 1 else 0.0
            scale = spread + EPSILON if self.scale_by_std else 1.0
            shaped[part] = (shaped[part] - values.mean()) / scale
        return np.broadcast_to(shaped, (len(shaped), width))


def _known_tokens(batch: Batch) -> np.ndarray:
    """(B, T) bool: the tokens that get credit."""
    if batch.look_up_unknown:
        raise InputError("weights by the policy tell nothing of held-out rollouts' verdicts")
    batch.check_token_ids()
    known_bt: np.ndarray = batch.counted() & batch.known()[:, None]
    return known_bt


def _of_policy(batch: Batch, name: str, known_bt: np.ndarray) -> np.ndarray:
    """(n,) float64 of the tokens that get credit, row by row."""
    values_bt = getattr(batch, name)
    if values_bt is None:
        raise InputError(f"this estimator needs {name}, and there is none")
    values_n: np.ndarray = values_bt[known_bt].astype(np.float64)
    good_n = values_n <= 0  # the logarithm of a probability of 0 is -inf
    if name == "entropies":
        good_n = (values_n >= 0) & np.isfinite(values_n)
    # A probability of 1 may come out a little above it, and an entropy of 0 a little below.
    bad = np.flatnonzero(~(good_n | (np.abs(values_n) < 1e-3)))
    if len(bad):
        row, column = np.argwhere(known_bt)[bad[0]]
        expected = "a log-probability, up to 0"
        if name == "entropies":
            expected = "a finite entropy, from 0"
        raise InputError(f"{name}[{row}, {column}] is {values_n[bad[0]]}; expected {expected}")
    return values_n.clip(max=0) if name == "log_probs" else values_n.clip(0)


def _advantages(batch: Batch, known_bt: np.ndarray, scale_by_std: bool) -> np.ndarray:
    """(B,) float64 rollout advantages of the verdicts; 0 for unknown ones, and without contrast."""
    known_b = np.asarray(known_bt.any(axis=1))
    reward_b = np.where(known_b, batch.evidence, 0.0)
    base = "grpo" if scale_by_std else "dr_grpo"
    advantage_b = rollout_advantages(base, reward_b, known_b, batch.group_b)
    return np.where(differ(*batch.score_bounds()), advantage_b, 0.0)
