"""Log-probabilities and entropies of TRL's own pass reach the estimators that weigh by them."""

import numpy as np
import oracle
import pytest
import torch

from ktae import InputError, token_credit
from ktae.estimators import AdvantageReweighting, EntropyWeights, Tempo
from ktae.rollouts import record
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import GROUP_SIZE, even_start, train_one_step


def of_policy(policy, tokenizer, batch):
    """(n, T) log-probabilities and entropies of the rollouts, one rollout at a time."""
    ids, mask = record.pad(batch.token_ids)
    log_probs, entropies = np.zeros((2, *ids.shape))
    for row, own in enumerate(batch.token_ids):
        prompt = tokenizer(batch.inputs[row]["prompt"])["input_ids"]
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + own])).logits[0, len(prompt) - 1 : -1]
        logps = logits.log_softmax(-1)
        log_probs[row, : len(own)] = logps[torch.arange(len(own)), torch.tensor(own)]
        entropies[row, : len(own)] = -(logps.exp() * logps).sum(-1)
    return ids, mask, {"log_probs": log_probs, "entropies": entropies}


@pytest.mark.parametrize("estimator", [AdvantageReweighting(), EntropyWeights()], ids=repr)
@pytest.mark.parametrize("settings", [{"steps_per_generation": 2}, {"num_iterations": 2}], ids=str)
def test_credit_is_that_of_the_policy_that_sampled(trainer_arguments, estimator, settings):
    arguments = trainer_arguments(**settings)
    batch, policy, _ = train_one_step(arguments, credit=estimator)
    ids, mask, known = of_policy(policy, arguments["processing_class"], batch)
    groups = np.arange(len(ids)) // GROUP_SIZE
    correct = even_start(batch.token_ids)
    expected = token_credit(ids, mask, correct, groups, estimator, policy=known)
    np.testing.assert_allclose(batch.credit[:, : ids.shape[1]], expected, atol=1e-4)
    assert np.abs(expected).max() > 0.01


def test_entropies_are_of_the_rollouts_that_dynamic_sampling_kept(trainer_arguments):
    arguments = trainer_arguments(steps_per_generation=2, seed=5)
    batch, policy, _ = train_one_step(arguments, credit=EntropyWeights(), resampling_rounds=2)
    ids, mask, known = of_policy(policy, arguments["processing_class"], batch)
    groups = np.arange(len(ids)) // GROUP_SIZE
    correct = even_start(batch.token_ids)
    expected = token_credit(ids, mask, correct, groups, EntropyWeights(), policy=known)
    np.testing.assert_allclose(batch.credit[:, : ids.shape[1]], expected, atol=1e-4)


def test_truncated_rollouts_whose_entropies_trl_masks_are_no_evidence(trainer_arguments):
    """In groups of both verdicts of which some rollouts are truncated."""
    arguments = trainer_arguments(
        num_iterations=2, mask_truncated_completions=True, max_completion_length=40
    )
    tokenizer, estimator = arguments["processing_class"], EntropyWeights()
    batch, policy, _ = train_one_step(arguments, credit=estimator)
    ids, mask, known = of_policy(policy, tokenizer, batch)
    finished = np.array([own[-1] == tokenizer.eos_token_id for own in batch.token_ids])
    groups = np.arange(len(ids)) // GROUP_SIZE
    correct = np.where(finished, even_start(batch.token_ids), np.nan)
    expected = token_credit(ids, mask, correct, groups, estimator, policy=known)
    np.testing.assert_allclose(batch.credit[:, : ids.shape[1]], expected, atol=1e-4)
    assert np.abs(expected).max() > 0.01 and not finished.all()
    assert not batch.correct.isnan().any()  # the verdicts stay


@pytest.mark.parametrize("estimator", [AdvantageReweighting(), EntropyWeights()], ids=repr)
def test_where_trl_has_none_it_is_refused_before_anything_is_sampled(trainer_arguments, estimator):
    with pytest.raises(InputError, match="TRL computes none before the loss"):
        KTAETrainer(**trainer_arguments(), credit=estimator)


def test_tempo_trains(trainer_arguments):
    batch, _, _ = train_one_step(trainer_arguments(), credit=Tempo())
    ids, mask = record.pad(batch.token_ids)
    groups = np.arange(len(ids)) // GROUP_SIZE
    expected = oracle.token_credit(
        ids,
        mask,
        even_start(batch.token_ids),
        groups,
        Tempo(),
    )
    np.testing.assert_array_equal(batch.credit[:, : ids.shape[1]], expected)
    assert np.abs(expected).max() > 0.1
