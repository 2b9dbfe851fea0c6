"""The truth in a world: values, advantages and the policy gradient by dynamic programming."""

from __future__ import annotations

import dataclasses

import numpy as np

from ktae.bench.worlds import World
from ktae.errors import InputError
from ktae.turns import find_turns


@dataclasses.dataclass(frozen=True)
class Truth:
    """What each state and token of a world is worth, exactly."""

    value: np.ndarray
    """(T + 1, S) float64, V: the expected return from each state, the probability of success and
    what the environment will pay."""
    advantage: np.ndarray
    """(T, S, V) float64, A = Q - V of each token; 0 where the policy does not write."""
    visits: np.ndarray
    """(T, S) float64, the probability of being in each state before the token."""
    gradient: np.ndarray
    """(T, S, V) float64, the derivative of the expected reward by each logit of a policy with one
    logit for each place, state and token."""


def solve(world: World) -> Truth:
    """V, A, state probabilities and the exact policy gradient of a world.

    Raises:
        InputError: a row of the policy is no distribution.
    """
    if world.policy.min() < 0 or np.abs(world.policy.sum(axis=-1) - 1).max() > 1e-9:
        raise InputError("world.policy has a row that is no distribution: it does not add up to 1")
    length, n_states, _ = world.shape
    value = np.zeros((length + 1, n_states))
    value[length] = world.success
    reward = np.broadcast_to(world.reward, world.shape)
    advantage = np.zeros(world.shape)
    for t in reversed(range(length)):
        q = reward[t] + value[t + 1][world.next_state[t]]
        value[t] = (world.policy[t] * q).sum(axis=-1)
        advantage[t] = q - value[t][:, None]
    visits = np.zeros((length + 1, n_states))
    visits[0, 0] = 1.0
    for t in range(length):
        np.add.at(visits[t + 1], world.next_state[t], visits[t][:, None] * world.policy[t])
    writes = ~world.environment[:, None] & ~world.finished[None]
    advantage *= writes[..., None]
    visits = visits[:length]
    return Truth(value, advantage, visits, visits[..., None] * world.policy * advantage)


@dataclasses.dataclass(frozen=True)
class Responses:
    """Responses that a world's policy has written."""

    tokens: np.ndarray
    """(B, T) int64."""
    mask: np.ndarray
    """(B, T) bool: which tokens the policy has written."""
    states: np.ndarray
    """(B, T) int64, the state before each token."""
    correct: np.ndarray
    """(B,) float64, 1 or 0."""
    rewards: np.ndarray
    """(B, T) float64, what the environment paid for each token."""

    def turn_rewards(self) -> np.ndarray:
        """(B, K) float64 rewards of each response's turns, NaN beyond its last."""
        turns = find_turns(self.mask)
        paid_bk = np.full((len(self.mask), turns.number.max(initial=0) + 1), np.nan)
        owner = turns.per_token(np.arange(len(turns.row)))
        paid_n = np.bincount(owner, self.rewards[self.mask], len(turns.row))
        paid_bk[turns.row, turns.number] = paid_n
        return paid_bk

    def at(self, table: np.ndarray) -> np.ndarray:
        """(B, T), the entries of a (T, S, V) table at the tokens written; 0 where masked."""
        places = np.arange(self.tokens.shape[1])
        return np.where(self.mask, table[places, self.states, self.tokens], 0.0)

    def gradient(self, world: World, advantages: np.ndarray) -> np.ndarray:
        """(T, S, V), the policy-gradient estimate of all responses: mean of Σ A ∇ log π.

        Args:
            world: whose policy wrote the responses.
            advantages: (B, T) float64 token advantages; those of masked tokens do not count.
        """
        weights = np.where(self.mask, advantages, 0.0)
        length, n_states, n_tokens = world.shape
        row = np.arange(length) * n_states + self.states
        chosen = np.bincount(
            (row * n_tokens + self.tokens).ravel(), weights.ravel(), world.policy.size
        ).reshape(world.shape)
        by_state = np.bincount(row.ravel(), weights.ravel(), length * n_states)
        expected = by_state.reshape(length, n_states, 1) * world.policy
        gradient: np.ndarray = (chosen - expected) / len(self.tokens)
        return gradient


def sample(world: World, n: int, rng: np.random.Generator) -> Responses:
    """n responses of the world's policy, and whether each is correct."""
    length, _, n_tokens = world.shape
    state = np.zeros(n, dtype=np.int64)
    states, tokens = np.zeros((2, n, length), dtype=np.int64)
    rewards, reward = np.zeros((n, length)), np.broadcast_to(world.reward, world.shape)
    for t in range(length):
        states[:, t] = state
        above = rng.random((n, 1)) > world.policy[t].cumsum(axis=-1)[state]
        tokens[:, t] = above.sum(axis=-1).clip(0, n_tokens - 1)
        rewards[:, t] = reward[t, state, tokens[:, t]]
        state = world.next_state[t, state, tokens[:, t]]
    mask = ~world.environment & ~world.finished[states]
    correct = (rng.random(n) < world.success[state]).astype(float)
    return Responses(tokens, mask, states, correct, rewards)
