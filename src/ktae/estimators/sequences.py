"""Credit that follows the order of tokens: TEMPO and conflict tokens."""

from __future__ import annotations

import dataclasses

import numpy as np
from typing_extensions import override

from ktae.arrays import MAX_TOKEN_ID, Array
from ktae.batch import Batch, differ
from ktae.estimators.base import AdvantageEstimator, FromZero, GradedEstimator
from ktae.rollout_advantages import EPSILON


def sequences_of(batch: Batch) -> tuple[np.ndarray, ...]:
    """(n,) rows of the rollouts that take part, (n,) where their tokens begin, (n,) how many they
    are, (B, T) where they stand, and (N,) their ids, rollout by rollout."""
    batch.check_token_ids()
    takes_part_b = differ(*batch.score_bounds()) & (batch.look_up_unknown | batch.known())
    inside_bt = batch.counted() & takes_part_b[:, None]
    length_b = inside_bt.sum(axis=1)
    rows, begin_b = np.flatnonzero(length_b), np.cumsum(length_b) - length_b
    ids = batch.token_ids[inside_bt].astype(np.int64)
    return rows, begin_b[rows], length_b[rows], inside_bt, ids


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Tempo(GradedEstimator, AdvantageEstimator):
    """Credit (V(s_{t+1}) - V(s_t)) / (std(r) + 1e-6), s_t the t tokens before.

    V(s) is the mean reward of the group's rollouts that begin with s, and V of nothing is the
    group's mean: a temporal difference in the tree of prefixes. Where all rollouts of a prefix go
    on with the same token, credit is 0; and so it is from where a rollout is alone. V is linear in
    the rewards, so the mean credit under permuted labels is exactly 0.

    Source: Tran, Yao and Yu 2025, "Exploiting Tree Structure for Credit Assignment in RL Training
    of LLMs", arXiv:2509.18314; its authors' code (github.com/fatebreaker/tempo,
    `compute_tempo_outcome_advantage`); its reviews (openreview.net/forum?id=GRbI7kqA6S).
    """

    # As in the code, 1e-6 is added to the deviation of all the group's rollouts, and V changes only
    # where rollouts part. Here the prefix goes on after a hole in the mask, which ends it there.

    @override
    def credit(self, batch: Batch) -> Array:
        rows, begin, length, inside_bt, ids = sequences_of(batch)
        credit_bt = np.zeros(inside_bt.shape, dtype=np.float32)
        credit, known = np.zeros(len(ids)), batch.known()[rows]
        reward = np.where(known, batch.evidence[rows], 0.0)
        # The rollouts that are still in the tree, the node that each has come to, and its V.
        alive, node = np.arange(len(rows)), batch.group_b[rows]
        n_known = np.bincount(node, known)[node]
        value = np.bincount(node, reward)[node] / n_known.clip(1)
        std = np.ones(len(rows))
        if self.scale_by_std:
            squares = np.bincount(node, known * (reward - value) ** 2)[node]
            std = np.sqrt(squares / (n_known - 1).clip(1)) + EPSILON
        for depth in range(length.max(initial=0)):
            alive = alive[length[alive] > depth]
            if not len(alive):
                break
            place = begin[alive] + depth
            # A child is a node with one more token.
            edge = node[alive] * (MAX_TOKEN_ID + 1) + ids[place]
            child = np.unique(edge, return_inverse=True)[1]
            n_known = np.bincount(child, known[alive])[child]
            after = np.bincount(child, reward[alive])[child] / n_known.clip(1)
            # A held-out rollout that has left the tree gets nothing, there or later.
            change = (after - value[alive]) / std[alive]
            credit[place] = np.where(n_known > 0, change, 0.0)
            value[alive], node[alive] = after, child
            # From where one known rollout is left, V does not change any more.
            alive = alive[n_known > 1]
        credit_bt[inside_bt] = credit
        return credit_bt


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ConflictTokens(GradedEstimator, AdvantageEstimator):
    """Credit (λ - 1) A where A > 0 and -A where A < 0, at conflict tokens; 0 elsewhere.

    A = (r - mean(r)) / (std(r) + 1e-6) is the rollout's advantage. With it the credit makes λ A of
    a positive advantage (`amplify`) and 0 of a negative one. A token is in conflict if a rollout of
    positive and one of negative advantage have it at the same place, counted from the start or from
    the end, and all tokens before it (or after it) are in conflict, too.

    With λ from 1 on the credit is nowhere negative: it tells no token that speaks for correctness
    from one that speaks against it, and its mean under permuted labels is above 0.

    Source: Simoni, Fontana, Rossolini, Saracino and Mori 2025, "GTPO: Stabilizing Group Relative
    Policy Optimization via Gradient and Entropy Control", arXiv:2508.03772; its authors' code
    (github.com/winstonsmith1897/GTPO, `build_conflict_mask`); their proposal to TRL
    (huggingface/trl, issue 5226). GTPO's other half drops rollouts, which is no credit.
    """

    amplify: FromZero = 2.0
    """λ: what positive advantages are multiplied by; at 1 negative ones are skipped alone."""

    # As in the code, only the unbroken runs at both ends are in conflict. Here a token in both runs
    # has λ once (λ² there), and a rollout's loss is not divided by its number of conflict tokens.

    @override
    def credit(self, batch: Batch) -> Array:
        rows, begin, length, inside_bt, ids = sequences_of(batch)
        credit_bt = np.zeros(inside_bt.shape, dtype=np.float32)
        group, held_out = batch.group_b[rows], ~batch.known()[rows]
        advantage = self.advantages(batch)[rows]
        in_conflict = np.where(advantage > 0, (self.amplify - 1) * advantage, -advantage)
        credit = np.zeros(len(ids))
        for from_end in (False, True):
            goes_on = held_out | (advantage != 0)  # a rollout's run of conflict tokens
            active = np.arange(len(rows))
            for place in range(length.max(initial=0)):
                # A rollout whose run has ended still bears witness, if another one's in its group
                # goes on; and that ends with its own last token.
                goes_on[active] &= length[active] > place
                needed = np.bincount(group, goes_on) > 0
                active = active[(length[active] > place) & needed[group[active]]]
                if not len(active):
                    break
                at = begin[active] + (length[active] - 1 - place if from_end else place)
                key = group[active] * (MAX_TOKEN_ID + 1) + ids[at]
                token = np.unique(key, return_inverse=True)[1]
                n_positive = np.bincount(token, advantage[active] > 0)
                n_negative = np.bincount(token, advantage[active] < 0)
                hit = goes_on[active] & ((n_positive > 0) & (n_negative > 0))[token]
                # A held-out rollout's token gets what equal ones have on average.
                total = np.bincount(token, in_conflict[active])
                mean = (total / (n_positive + n_negative).clip(1))[token]
                value = np.where(held_out[active], mean, in_conflict[active])
                credit[at[hit]] = value[hit]
                goes_on[active[~hit]] = False
        credit_bt[inside_bt] = credit
        return credit_bt
