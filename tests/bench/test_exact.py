"""Truth in worlds: against torch's autograd, against sampling, and by hand."""

import numpy as np
import pytest

from ktae.bench.exact import sample, solve
from ktae.bench.worlds import CORRECT, INCORRECT, WORLDS, filler

ALL = pytest.mark.parametrize("name", WORLDS)


@ALL
def test_the_gradient_is_autograd_s_of_the_expected_reward(name: str) -> None:
    torch = pytest.importorskip("torch")
    world = WORLDS[name]()
    length, n_states, _ = world.shape
    logits = torch.tensor(np.log(np.maximum(world.policy, 1e-300)), requires_grad=True)
    policy = logits.softmax(-1)
    states = torch.zeros(n_states, dtype=torch.float64)
    states[0] = 1.0
    reward = torch.tensor(np.broadcast_to(world.reward, world.shape).copy())
    total = torch.zeros((), dtype=torch.float64)
    for t in range(length):
        total = total + (states[:, None] * policy[t] * reward[t]).sum()
        reached = (states[:, None] * policy[t]).ravel()
        target = torch.tensor(world.next_state[t].ravel())
        states = torch.zeros(n_states, dtype=torch.float64).index_add(0, target, reached)
    (total + states @ torch.tensor(world.success)).backward()
    writes = ~world.environment[:, None] & ~world.finished[None]
    expected = logits.grad.numpy() * writes[..., None]
    np.testing.assert_allclose(solve(world).gradient, expected, atol=1e-10)


@ALL
def test_sampled_responses_agree_with_the_exact_values(name: str) -> None:
    world = WORLDS[name]()
    truth = solve(world)
    n = 20_000
    responses = sample(world, n, np.random.default_rng(7))
    left = responses.rewards[:, ::-1].cumsum(axis=1)[:, ::-1] + responses.correct[:, None]
    p = truth.value[0, 0]
    assert abs(left[:, 0].mean() - p) < 3 * left[:, 0].std() / n**0.5
    # A score-function estimate has the exact gradient as its mean; compare projections on it.
    expected = (world.policy * truth.gradient).sum(axis=-1)
    scores = responses.at(truth.gradient) - expected[np.arange(world.shape[0]), responses.states]
    advantages = np.where(responses.mask, left - p, 0.0)
    estimates = (advantages * scores).sum(axis=1)
    gradient = responses.gradient(world, advantages)
    assert estimates.mean() == pytest.approx((gradient * truth.gradient).sum())
    error = estimates.std() / n**0.5 + 1e-12
    assert abs(estimates.mean() - (truth.gradient**2).sum()) < 3 * error
    # A at the tokens written, by the outcomes of the responses that wrote them.
    values = np.where(responses.mask, truth.value[np.arange(world.shape[0]), responses.states], 0)
    advantages = responses.at(truth.advantage)
    returns = np.where(responses.mask, left - values, 0)
    differences = (advantages * (returns - advantages)).sum(axis=1)
    assert abs(differences.mean()) < 3 * differences.std() / n**0.5 + 1e-12


def test_advantages_by_hand() -> None:
    world = filler(2, [1.0, 0.0], tokens=2, first=2)
    world.choose(0, CORRECT, {0: (0.75, CORRECT), 1: (0.25, INCORRECT)})
    truth = solve(world)
    assert truth.value[0].tolist() == [0.75, 0.0]
    np.testing.assert_allclose(truth.advantage[0, CORRECT, :2], [0.25, -0.75])
    assert not truth.advantage[1].any(), "filler is worth nothing"
    # d/dlogit = p A
    np.testing.assert_allclose(truth.gradient[0, CORRECT, :2], [0.1875, -0.1875])


def test_the_rewards_of_turns_by_hand() -> None:
    """The value of the first state is the sum over turns; a look-up that helps is paid once."""
    world = WORLDS["look-ups"](0.5)
    paid = 0.25 * 0.6 * (1 + 1 / 2 + 1 / 4 + 1 / 8)
    assert solve(world).value[0, 0] == pytest.approx(0.6 * 0.6 + 0.4 * 0.3 + paid)
    responses = sample(world, 2000, np.random.default_rng(0))
    rewards = responses.turn_rewards()
    n_turns = (~np.isnan(rewards)).sum(axis=1)
    assert set(n_turns) == {1, 2, 3, 4} and set(rewards[~np.isnan(rewards)]) == {0, 0.25}
    last = rewards[np.arange(len(rewards)), n_turns - 1] > 0
    helped, not_helped = (responses.correct[rows].mean() for rows in (last, ~last))
    assert helped == pytest.approx(0.6, abs=0.05) and not_helped == pytest.approx(0.3, abs=0.05)
    assert np.nansum(rewards) == responses.rewards.sum()


def test_a_dial_moves_what_it_names() -> None:
    for share in (1 / 2, 1 / 20, 1 / 200):
        truth = solve(WORLDS["few-decisions"](share))
        decides = np.abs(truth.advantage).max(axis=(1, 2)) > 1e-9
        assert decides.mean() == pytest.approx(share)
    for rate in (1 / 16, 1 / 4):
        assert solve(WORLDS["rare-success"](rate)).value[0, 0] == pytest.approx(rate)
        assert solve(WORLDS["rare-failure"](rate)).value[0, 0] == pytest.approx(1 - rate)
