"""An estimator that changes the rollout advantage goes with advantages of its own scale alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from ktae import InputError, token_advantages
from ktae.estimators import ConflictTokens, Scaled, Tempo, preset

IDS = np.array([[1, 2], [1, 3], [1, 4], [1, 5]])
ARGUMENTS = ([1.0, 0, 0, 0], IDS, np.ones_like(IDS), np.zeros(4, dtype=int))


@pytest.mark.parametrize(
    ("base", "estimator", "fits"),
    [
        ("dr_grpo", ConflictTokens(), False),
        ("dr_grpo", Scaled(Tempo(), 0.5), False),
        ("grpo", Tempo(scale_by_std=False), False),
        ("rloo", ConflictTokens(scale_by_std=False), False),
        ("grpo", ConflictTokens(), True),
        ("dr_grpo", ConflictTokens(scale_by_std=False), True),
        ("rloo", preset("trigrams"), True),
    ],
)
def test_another_scale_is_refused(base, estimator, fits):
    if fits:
        token_advantages(*ARGUMENTS, base=base, credit=estimator)
        return
    with pytest.raises(InputError, match=f"base.*{base}"):
        token_advantages(*ARGUMENTS, base=base, credit=estimator)
    token_advantages(*ARGUMENTS, base=[0.5, 0, 0, 0], credit=estimator)  # numbers of your own


def check_advantages(estimator, weights=(1.0,), **settings):
    """TRL's trainer with these weights of its rewards, of which the last is the verdict."""
    import torch

    from ktae.trainers.trl import checks

    stock = {"scale_rewards": "group", "multi_objective_aggregation": "sum_then_normalize"}
    trainer = SimpleNamespace(
        args=SimpleNamespace(**stock | {"reward_weights": list(weights)} | settings),
        reward_func_names=["length", "verdict"][-len(weights) :],
        reward_weights=torch.tensor(weights),
    )
    checks.check_advantages(trainer, estimator, [len(weights) - 1])


@pytest.mark.parametrize(
    ("settings", "scaled"),
    [
        ({}, True),
        ({"scale_rewards": "none", "weights": (0.2, 1.0)}, False),
        ({"scale_rewards": "none", "weights": (0.5,)}, None),
        ({"scale_rewards": "batch"}, None),
        ({"multi_objective_aggregation": "normalize_then_sum"}, None),
    ],
    ids=str,
)
def test_trl_s_scaling_is_looked_at(settings, scaled):
    name = next(iter(settings), "scale_rewards")
    for by_std in (True, False):
        if by_std is scaled:
            check_advantages(Tempo(scale_by_std=by_std), **settings)
            continue
        with pytest.raises(InputError, match=name):
            check_advantages(Tempo(scale_by_std=by_std), **settings)


def test_trl_s_further_rewards_are_warned_of(logged):
    check_advantages(preset("paper"), (1.0, 1.0))
    check_advantages(Tempo(), (0.0, 1.0))
    assert not logged
    check_advantages(Tempo(), (1.0, 1.0))
    [record] = logged
    assert "(length)" in record.getMessage()
