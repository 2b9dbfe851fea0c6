"""Token credit in SkyRL's own trainer and batch; they need Python 3.12."""

import types

import pytest
from engine_objects import rollouts, skyrl_batch
from placement import UNIT, by_id

pytest.importorskip("skyrl.train.trainer", reason="needs skyrl, on Python 3.12")

import torch
from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch
from skyrl.train.trainer import RayPPOTrainer

from ktae.trainers.skyrl import use_credit


@pytest.mark.parametrize("estimator", ["grpo", "rloo"])
def test_the_credit_of_a_token_is_at_that_token(estimator):
    trainer = RayPPOTrainer.__new__(RayPPOTrainer)
    space = types.SimpleNamespace
    algorithm = space(
        advantage_estimator=estimator,
        policy_loss_type="regular",
        grpo_norm_by_std=True,
        advantage_batch_normalize=False,
        gamma=1.0,
        lambd=1.0,
    )
    generator = space(step_wise_trajectories=False)
    trainer.cfg = space(trainer=space(algorithm=algorithm), generator=generator)
    trainer.all_metrics, trainer.global_step = {}, 1

    def batch():
        made = skyrl_batch(rollouts())
        data = TrainingInputBatch({**made, "values": None})
        data.metadata = made.metadata | {"avg_response_length": 3.0}
        return data

    plain = trainer.compute_advantages_and_returns(batch())["advantages"].clone()
    use_credit(trainer, credit=by_id)
    data = trainer.compute_advantages_and_returns(batch())
    ids = data["sequences"][:, -plain.shape[1] :]
    expected = plain + UNIT * ids * data["loss_mask"]
    torch.testing.assert_close(data["advantages"], expected, rtol=0, atol=1e-5)
    assert trainer.all_metrics["credit/correct"] == 0.5
