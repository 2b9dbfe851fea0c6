"""Log-probabilities and entropies of TRL's own pass reach the estimators that weigh by them."""

import numpy as np
import pytest
import torch

from ktae import InputError, token_credit
from ktae.estimators import AdvantageReweighting, EntropyWeights
from ktae.padding import pad
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import GROUP_SIZE, even_start, train_one_step


def check_credit(trainer_arguments, estimator, resampling_rounds=0, **settings):
    """The credit is that of log-probabilities and entropies computed here, one rollout at a time.

    Returns which rollouts ended by themselves.
    """
    arguments = trainer_arguments(**settings)
    tokenizer = arguments["processing_class"]
    batch, policy, _ = train_one_step(
        arguments, credit=estimator, resampling_rounds=resampling_rounds
    )
    ids, mask = pad(batch.token_ids)
    log_probs, entropies = np.zeros((2, *ids.shape))
    for row, written in enumerate(batch.token_ids):
        prompt = tokenizer(batch.inputs[row]["prompt"])["input_ids"]
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + written])).logits[0, len(prompt) - 1 : -1]
        logps = logits.log_softmax(-1)
        log_probs[row, : len(written)] = logps[torch.arange(len(written)), torch.tensor(written)]
        entropies[row, : len(written)] = -(logps.exp() * logps).sum(-1)
    finished = np.array([row[-1] == tokenizer.eos_token_id for row in batch.token_ids])
    correct = np.array(even_start(batch.token_ids))
    if settings.get("mask_truncated_completions"):
        correct[~finished] = np.nan
    known = {"log_probs": log_probs, "entropies": entropies}
    groups = np.arange(len(ids)) // GROUP_SIZE
    expected = token_credit(ids, mask, correct, groups, estimator, policy=known)
    np.testing.assert_allclose(batch.credit[:, : ids.shape[1]], expected, atol=1e-4)
    assert np.abs(expected).max() > 0.01
    assert not batch.correct.isnan().any()  # the verdicts stay
    return finished


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        (AdvantageReweighting(), {"steps_per_generation": 2}),
        (EntropyWeights(), {"num_iterations": 2}),
        (EntropyWeights(), {"resampling_rounds": 2, "steps_per_generation": 2, "seed": 5}),
    ],
    ids=str,
)
def test_credit_is_that_of_the_policy_that_sampled(trainer_arguments, estimator, settings):
    """With dynamic sampling it is of the rollouts that were kept."""
    check_credit(trainer_arguments, estimator, **settings)


def test_truncated_rollouts_whose_entropies_trl_masks_are_no_evidence(trainer_arguments):
    """In groups of both verdicts of which some rollouts are truncated."""
    settings = {"mask_truncated_completions": True, "max_completion_length": 40}
    finished = check_credit(trainer_arguments, EntropyWeights(), num_iterations=2, **settings)
    assert finished.any() and not finished.all()


@pytest.mark.parametrize("estimator", [AdvantageReweighting(), EntropyWeights()], ids=repr)
def test_where_trl_has_none_it_is_refused_before_anything_is_sampled(trainer_arguments, estimator):
    with pytest.raises(InputError):
        KTAETrainer(**trainer_arguments(), credit=estimator)
