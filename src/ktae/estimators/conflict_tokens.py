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

import numpy as np
from typing_extensions import override

from ktae.arrays import MAX_TOKEN_ID, Array
from ktae.batch import Batch
from ktae.estimators.base import GradedAdvantageEstimator, require_bool, require_number
from ktae.estimators.sequences import Rollouts, moments, parts_of


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

    @override
    def credit(self, batch: Batch) -> Array:
        batch.check_token_ids()
        credit_bt = np.zeros(batch.token_ids.shape, dtype=np.float32)
        mean_b, scale_b = moments(batch, self.scale_by_std)
        advantage_b = (batch.evidence - mean_b) / scale_b
        for part in parts_of(batch, mean_b):
            for from_end in (False, True):
                self._from_one_end(part, advantage_b[part.rows], from_end, credit_bt)
        return credit_bt

    def _from_one_end(
        self, part: Rollouts, advantage: np.ndarray, from_end: bool, credit_bt: np.ndarray
    ) -> None:
        """Write the credit of conflict tokens, place by place from the start or from the end."""
        rows, group, length = part.rows, part.group, part.length
        # NaN for held-out rollouts, which only look up. Advantages of 0 are of neither class.
        credit = np.where(advantage > 0, (self.amplify - 1) * advantage, -advantage)
        is_held_out, sign = np.isnan(advantage), np.sign(np.nan_to_num(advantage))
        within = is_held_out | (sign != 0)  # their run of conflict tokens goes on
        there = np.arange(len(rows))
        for place in range(length.max(initial=0)):
            # A rollout whose run has ended still bears witness, if another one's in its group goes
            # on; and that ends with its own last token.
            within[there] &= length[there] > place
            goes_on = np.bincount(group, within) > 0
            there = there[(length[there] > place) & goes_on[group[there]]]
            if not len(there):
                break
            ids, columns = part.at(place, there, from_end=from_end)
            key = group[there] * (MAX_TOKEN_ID + 1) + ids
            number = np.unique(key, return_inverse=True)[1]
            n_positive = np.bincount(number, sign[there] > 0)
            n_negative = np.bincount(number, sign[there] < 0)
            conflict = (n_positive > 0) & (n_negative > 0)
            hit = within[there] & conflict[number]
            # A held-out rollout's token gets what equal ones have on average.
            total = np.bincount(number, np.where(sign[there] != 0, credit[there], 0.0))
            mean = (total / (n_positive + n_negative).clip(1))[number]
            written = np.where(is_held_out[there], mean, credit[there])
            credit_bt[rows[there[hit]], columns[hit]] = written[hit]
            if self.runs:
                within[there[~hit]] = False
