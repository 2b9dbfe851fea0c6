"""What TRL offers keeps working, with each token's credit at its token."""

import numpy as np
import torch

from ktae.trainers.trl import KTAETrainer


def test_losses_of_entropy_in_bf16(trainer_arguments):
    settings = {"top_entropy_quantile": 0.2, "entropy_coef": 0.01, "bf16": True}
    arguments = trainer_arguments(max_steps=3, logging_steps=1, **settings)
    before = [p.clone() for p in arguments["model"].parameters()]
    batches = []
    trainer = KTAETrainer(**arguments, on_rollouts=batches.append)
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert len(losses) == 3 and np.isfinite(losses).all()
    pairs = zip(before, trainer.model.parameters(), strict=True)
    assert not all(torch.equal(p, q) for p, q in pairs)
    assert np.abs(batches[0].credit.numpy()).max() > 0


def test_evaluation_in_groups_of_another_size(trainer_arguments):
    arguments = trainer_arguments(
        eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8, num_generations_eval=2
    )
    arguments["eval_dataset"] = arguments["train_dataset"].select(range(4))
    trainer = KTAETrainer(**arguments)
    trainer.train()
    assert any("eval_credit/mean_abs" in line for line in trainer.state.log_history)
