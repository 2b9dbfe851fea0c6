"""Training with known advantages: the gradient, the resumable runs, the comparison."""

import dataclasses

import numpy as np
import pytest

from ktae.bench import learning
from ktae.bench.learning import SETTINGS, Runs, Setting, Task, learn, train

TINY = Setting(length=8, decisions=2, choices=2, prompts=2, responses=4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "STEPS", 3)
    monkeypatch.setattr(learning, "SEEDS", range(100, 103))
    monkeypatch.setattr(learning, "RATE_SEEDS", range(1))
    monkeypatch.setattr(learning, "SETTINGS", {"tiny": TINY})


@pytest.mark.parametrize("setting", ["base", "shared names", "ten decisions"])
def test_success_is_the_product_of_the_decisions(setting: str) -> None:
    task = Task(SETTINGS[setting], 0)
    prompts = np.arange(task.n_prompts)
    _, policy = task.policy(prompts)
    assert task.success() == pytest.approx(task.p_correct(policy, prompts).prod(axis=1).mean())
    k = SETTINGS[setting].decisions
    assert task.success() == pytest.approx(SETTINGS[setting].choices ** -float(k)), "untrained"


def test_the_update_follows_autograd() -> None:
    torch = pytest.importorskip("torch")
    task, rng = Task(TINY, 0), np.random.default_rng(0)
    task.head += rng.normal(size=task.head.shape)
    prompts, group = np.array([3, 7]), np.repeat([0, 1], 4)
    _, old = task.policy(prompts)
    tokens = learning._sample(old, group, rng)
    advantages = rng.normal(size=tokens.shape)
    task.head += 0.1 * rng.normal(size=task.head.shape)  # so that ratios are not 1, some clipped
    by_trunk, by_head = learning._gradients(
        task, old, prompts, group, tokens, advantages, penalty=False
    )
    trunk = torch.tensor(task.trunk, requires_grad=True)
    head = torch.tensor(task.head, requires_grad=True)
    features = torch.tensor(task.features[prompts])
    policy = (torch.tensor(task.base) + torch.tanh(features @ trunk) @ head).softmax(-1)
    at = (group[:, None], np.arange(TINY.length), tokens)
    ratio, a = policy[at] / torch.tensor(old[at]), torch.tensor(advantages)
    clipped = ratio.clamp(1 - learning.CLIP, 1 + learning.CLIP)
    (torch.minimum(ratio * a, clipped * a).sum() / len(tokens)).backward()
    np.testing.assert_allclose(by_trunk, trunk.grad, atol=1e-10)
    np.testing.assert_allclose(by_head, head.grad, atol=1e-10)


def test_exact_advantages_learn_faster_than_grpo() -> None:
    setting = dataclasses.replace(SETTINGS["base"], length=60)
    by_arm = {
        arm: np.mean([train(setting, arm, 0.04, seed).mean() for seed in range(3)])
        for arm in ("grpo", "exact")
    }
    assert by_arm["exact"] > by_arm["grpo"]


@pytest.mark.parametrize("arm", learning.ARMS)
@pytest.mark.parametrize("uses", [1, 2])
def test_every_arm_trains_on_split_groups_and_repeated_batches(arm: str, uses: int, small) -> None:
    curve = train(dataclasses.replace(TINY, minibatches=2, uses=uses), arm, 0.01, 0)
    assert curve.shape == (4,)
    assert np.isfinite(curve).all()


def test_runs_are_resumed_and_never_repeated(small, tmp_path, monkeypatch) -> None:
    path = tmp_path / "runs.csv"
    first = learn(path)
    lines = path.read_text().splitlines()
    assert len(first) == len(learning.ARMS)
    path.write_text("\n".join(lines[:-1])[:-3])  # stopped in the middle of a line
    assert learn(path) == first, "what was lost is run again"
    assert sorted(path.read_text().splitlines()) == sorted(lines)

    def fail(*_: object) -> None:
        raise AssertionError("nothing was left to train")

    monkeypatch.setattr(learning, "train", fail)
    assert learn(path) == first


def test_the_best_rate_has_neighbours(small, tmp_path, monkeypatch) -> None:
    peak = learning.RATES[1]
    monkeypatch.setattr(
        learning, "train", lambda setting, arm, rate, seed: np.array([-abs(rate - peak)])
    )
    assert Runs(tmp_path / "runs.csv").best_rate("tiny", "grpo") == peak
