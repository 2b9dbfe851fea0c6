"""Conflict tokens: what correct and incorrect rollouts share at their ends is not held against it.

Source: Simoni, Fontana, Rossolini, Saracino and Mori 2025, "GTPO: Stabilizing Group Relative Policy
Optimization via Gradient and Entropy Control", arXiv:2508.03772 (versions 1 and 2 have another
title); the code that its authors released (github.com/winstonsmith1897/GTPO,
`build_conflict_mask`); and their proposal to TRL (huggingface/trl, issue 5226), which speaks of
"shared contiguous prefix/suffix tokens". Nothing of the code was taken over. GTPO's other half
drops rollouts of high entropy; that is no credit, and so it is not here.
"""

from __future__ import annotations

import dataclasses

from ktae.arrays import Array
from ktae.backends import sequences
from ktae.batch import Batch
from ktae.estimators.base import GradedAdvantageEstimator, require_bool, require_number


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ConflictTokens(GradedAdvantageEstimator):
    """Credit (λ - 1) A where A > 0 and -A where A < 0, at conflict tokens; 0 elsewhere.

    A = (r - mean(r)) / (std(r) + 1e-6) is the rollout's advantage. With it the credit makes λ A of
    a positive advantage (`amplify`) and 0 of a negative one. A token is in conflict if a rollout of
    positive and one of negative advantage have it at the same place, counted from the start or from
    the end; and with it all tokens before it, or after it, are.

    With λ from 1 on the credit is nowhere negative: it is an offset, and tells no token that speaks
    for correctness from one that speaks against it. Its mean under permuted labels is above 0.
    """

    amplify: float = 2.0
    """λ: what positive advantages are multiplied by; from 0. At 1 negative ones are skipped, and
    nothing else."""

    runs: bool = True
    """Only the run of such tokens with which a rollout begins, and the one with which it ends.
    False: every such token, wherever it is."""

    # Where paper and code leave something open:
    # - The abstract says "tokens appearing in the same position across completions with opposite
    #   rewards"; the code takes the unbroken runs at both ends alone, and so does the proposal to
    #   TRL. `runs` is that choice.
    # - λ is 2 in the code (`w_raw`). It multiplies the weights of both runs, so a token in both
    #   gets 4. That happens where all of a rollout is in conflict; here it gets λ once, as the
    #   formula of the repository's README has one λ a token.
    # - The code divides a rollout's loss by the number of its conflict tokens. No formula does, and
    #   it would be a weight of rollouts and no credit of tokens: left out.
    # - A comes before the entropy term in the code: its sign is the reward's. Ours is of the
    #   verdicts. Where the trainer's rewards hold penalties, or its epsilon differs (TRL's is
    #   1e-4), the negative update is not skipped to the last digit.
    # - Rollouts whose advantage is 0 are of neither class, as in the code.
    # - Places count the policy's own tokens that are not ignored, from 0 at either end.

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "amplify", require_number("amplify", self.amplify, 0))
        require_bool("runs", self.runs)

    # Not of tensors: it is `on_host`.
    def credit(self, batch: Batch, weight: float = 1.0) -> Array:  # type: ignore[override]
        """See `Estimator.credit`."""
        return sequences.conflict_tokens(
            batch, weight,
            scale_by_std=self.scale_by_std, amplify=self.amplify, runs=self.runs,
        )  # fmt: skip
