"""TEMPO: a temporal difference where the rollouts of a group part, from the tree of their prefixes.

Source: Tran, Yao and Yu 2025, "Exploiting Tree Structure for Credit Assignment in RL Training of
LLMs", arXiv:2509.18314; the code that its authors released (github.com/fatebreaker/tempo,
`compute_tempo_outcome_advantage`); and its reviews (openreview.net/forum?id=GRbI7kqA6S), which
quote the division by std(r). Nothing of the code was taken over.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from typing_extensions import override

from ktae.arrays import MAX_TOKEN_ID, Array
from ktae.batch import Batch
from ktae.estimators.base import GradedAdvantageEstimator
from ktae.estimators.sequences import moments, parts_of


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Tempo(GradedAdvantageEstimator):
    """Credit (V(s_{t+1}) - V(s_t)) / (std(r) + 1e-6), s_t the t tokens before.

    V(s) is the mean reward of the group's rollouts that begin with s, and V of nothing is the
    group's mean. Where all rollouts of a prefix go on with the same token, credit is 0; and so it
    is from where a rollout is alone. A rollout's credit adds up to (V(s) - mean) / std at the last
    prefix s that it shares, or to its GRPO advantage where it parts from the others before its end.
    V is linear in the rewards, so the mean credit under permuted labels is exactly 0.
    """

    # Where paper and code leave something open:
    # - The paper's advantage is (r_i - mean(r) + V(s_{t+1}) - V(s_t)) / std(r): GRPO's, which the
    #   trainer adds, and the difference over the same deviation. The code adds 1e-6 to it, and
    #   takes the sample's (n - 1), of all rollouts of the group and not of the node.
    # - "Branching" is no condition in the code: V changes where rollouts part, and nowhere else.
    # - A rollout that ends inside another one's path is in V(s_t) and not in V(s_{t+1}), as in the
    #   code. There its padding is compared like tokens, which matters only if a rollout goes on
    #   with the padding's id; here what is masked is no token.
    # - A hole in the mask (a tool's tokens) ends the code's loop, and the rest has GRPO's
    #   advantage. Here the prefix is of the policy's own tokens, and the tree goes on after it.
    # - A group of one has mean 0 and std 1 in the code; here, as everywhere, its credit is 0.

    @override
    def credit(self, batch: Batch) -> Array:
        batch.check_token_ids()
        credit_bt = np.zeros(batch.token_ids.shape, dtype=np.float32)
        mean_b, scale_b = moments(batch, self.scale_by_std)
        for part in parts_of(batch, mean_b):
            # The rollouts that are still in the tree, the node that each has come to, and its V.
            rows, alive = part.rows, np.arange(len(part.rows))
            node, value = part.group.copy(), mean_b[rows]
            for depth in range(part.length.max(initial=0)):
                alive = alive[part.length[alive] > depth]
                if not len(alive):
                    break
                ids, columns = part.at(depth, alive)
                # A child is a node with one more token.
                edge = node[alive] * (MAX_TOKEN_ID + 1) + ids
                child = np.unique(edge, return_inverse=True)[1]
                reward = batch.evidence[rows[alive]]
                known = ~np.isnan(reward)
                n_known = np.bincount(child, known)[child]
                total = np.bincount(child, np.where(known, reward, 0.0))[child]
                after = total / n_known.clip(1)
                change = (after - value[alive]) / scale_b[rows[alive]]
                # A held-out rollout that has left the tree gets nothing, there or later.
                inside = n_known > 0
                credit_bt[rows[alive[inside]], columns[inside]] = change[inside]
                value[alive], node[alive] = after, child
                # From where one known rollout is left, V does not change any more.
                alive = alive[n_known > 1]
        return credit_bt
