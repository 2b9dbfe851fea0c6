"""SALT: steps that trajectories of a group have in common share their advantages."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
from typing_extensions import override

from ktae.batch import Batch
from ktae.estimators.base import AdvantageEstimator, Between, GradedEstimator, TurnEstimator
from ktae.turns import ODD, Turns, turn_hashes


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Salt(GradedEstimator, AdvantageEstimator, TurnEstimator):
    """Credit Ā - A at all tokens of a turn: with it the turn has Ā, the mean of A over its edge.

    A = (r - mean(r)) / (std(r) + 1e-6) is the advantage of the turn's response. A step is a turn
    and the environment's answer to it, and a state the last `history` steps. The states that a
    group's responses pass through are the nodes of a graph, and their steps its edges: the same
    step in the same state is one edge. So what correct and incorrect responses do alike has a small
    advantage, and a step of one response alone keeps A: its credit is 0.

    Over an edge the credits add up to 0, and the mean credit under permuted labels is exactly 0. A
    response of unknown correctness takes no part and gets 0, so held-out pairs say nothing.

    Source: Li et al. 2025, "SALT: Step-level Advantage Assignment for Long-horizon Agents via
    Trajectory Graph", arXiv:2510.20022, of which the abstract was at hand; the rest follows a
    reimplementation's description of the paper's Algorithm 1
    (github.com/lcp2021211/cp-longhorizon-grpo, `docs/salt_progpo_lata_tau2.md`).
    """

    history: Annotated[int, Between(0, 1000)] = 3
    """How many steps before this one make up the state."""

    # Steps are the same where the environment's answers are (of last turns: what was written):
    # agents that think write nothing twice. The paper compares actions, free text by embeddings.

    @override
    def turn_credit(self, batch: Batch, turns: Turns) -> np.ndarray:
        takes_part_n = batch.is_evidence()[turns.row]
        advantage_n = self.advantages(batch)[turns.row]
        edge_n = np.unique(self.edges(batch, turns), return_inverse=True)[1]
        n_edge = np.bincount(edge_n, takes_part_n).clip(1)
        mean_n: np.ndarray = (np.bincount(edge_n, advantage_n) / n_edge)[edge_n]
        return np.where(takes_part_n, mean_n - advantage_n, 0.0)

    def edges(self, batch: Batch, turns: Turns) -> np.ndarray:
        """(N,) uint64, equal for turns that are one edge of their group's graph."""
        is_last_n, nothing = turns.left == 0, np.uint64(0)
        step_n = np.where(is_last_n, nothing, np.roll(self.states(batch, turns), -1))
        written_n = turn_hashes(turns, batch.token_ids, batch.counted())
        step_n += np.where(is_last_n, written_n * ODD, nothing)
        edge_n: np.ndarray = batch.group_b[turns.row].astype(np.uint64) * ODD + step_n
        for back in range(1, min(self.history, int(turns.number.max(initial=0))) + 1):
            before_n = np.where(turns.number >= back, np.roll(step_n, back), nothing)
            edge_n = edge_n * ODD + before_n
        return edge_n
