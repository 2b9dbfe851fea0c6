"""Where the trainer takes correctness and tokens from, and what it refuses."""

import math

import numpy as np
import oracle
import pyarrow.parquet as pq
import pytest
import torch
from copied import copy_of
from datasets import Dataset
from transformers import TrainingArguments
from trl import GRPOTrainer

from ktae import InputError
from ktae.estimators import KTAE, Function, OverUnits, PermutedLabels, Scaled, Tempo, preset
from ktae.padding import pad
from ktae.rollouts import readers
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.tokens import vocabulary
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import even_start


def overlong(completion_ids, **_):
    """A penalty that turns many a correct rollout's sum negative."""
    return [-2.0 if len(ids) > 6 else 0.0 for ids in completion_ids]


def undecided(completion_ids, **_):
    return [None if ids[0] % 3 == 0 else float(ids[0] % 2 == 0) for ids in completion_ids]


def train(arguments, **more):
    batches = []
    more = {"credit": "paper"} | more
    trainer = KTAETrainer(**arguments, on_rollouts=batches.append, **more)
    trainer.train()
    return batches[0], trainer


def expected_credit(batch, correct, estimator="paper", **options):
    ids_bt, mask_bt = pad(batch.token_ids)
    groups = np.arange(len(ids_bt)) // 4
    return oracle.token_credit(ids_bt, mask_bt, correct, groups, estimator, **options)


def test_correctness_is_the_named_reward(trainer_arguments, tmp_path, capsys, logged):
    arguments = trainer_arguments(log_completions=True)
    arguments["reward_funcs"] = [overlong, arguments["reward_funcs"]]
    batch, _ = train(arguments, credit="trigrams", correctness="even_start", threshold=0.5)
    correct = even_start(batch.token_ids)
    assert batch.correct.tolist() == correct
    assert (np.array(correct) != (batch.rewards.numpy() > 0)).any(), "the sum would have done"
    expected = expected_credit(batch, correct, preset("trigrams"))
    np.testing.assert_allclose(batch.credit, expected, atol=1e-6)

    (table,) = (tmp_path / "out/completions").glob("*.parquet")
    options = ReadOptions(correctness="even_start", threshold=0.5)
    rows = readers.read([tmp_path / "out"], options).to_pylist()
    assert [row["correct"] for row in rows] == batch.correct.tolist()
    assert [row["prompt"] for row in rows] == [row["prompt"] for row in batch.inputs]
    line = logged[0].getMessage()
    assert all(x in line for x in ("ktae", "trigrams", "even_start", "0.5", "4"))
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) < 300 and "|max|" in printed
    credit = pq.read_table(table)["token_credit"].to_pylist()
    for row, ids, cell in zip(batch.credit, batch.token_ids, credit, strict=True):
        np.testing.assert_allclose(cell, row[: len(ids)], atol=1e-5)


def large(completion_ids, **_):
    return [float(ids[0] > 20) for ids in completion_ids]


@pytest.mark.parametrize("correctness", [["undecided", large], ["undecided"]], ids=["two", "one"])
def test_the_first_verdict_that_is_there_counts_and_without_one_it_is_unknown(
    trainer_arguments, correctness
):
    arguments = trainer_arguments() | {"reward_funcs": [overlong, large, undecided]}
    batch, _ = train(arguments, correctness=correctness)
    other = large(batch.token_ids) if large in correctness else [math.nan] * len(batch.token_ids)
    pairs = zip(undecided(batch.token_ids), other, strict=True)
    correct = [y if x is None else x for x, y in pairs]
    np.testing.assert_array_equal(batch.correct, correct)
    unknown = np.isnan(correct)
    assert unknown.any() == (large not in correctness) and not batch.credit.numpy()[unknown].any()
    np.testing.assert_allclose(batch.credit, expected_credit(batch, correct), atol=1e-6)


def alternating(token_ids, mask, correct, groups):
    """Large numbers whose place in the rollout can be told."""
    sign = np.where(correct, 2.0, -2.0)[:, None] + groups[:, None]
    return sign * (1 + np.arange(token_ids.shape[1]) % 3)


@pytest.mark.parametrize(
    "estimator",
    [
        PermutedLabels(OverUnits(KTAE(), ("trigram",)), 2),
        OverUnits(KTAE(), ("word",)),
        Tempo(),
        Scaled(KTAE(), 20),
        Function(alternating),
    ],
    ids=repr,
)
def test_the_credit_is_the_cores(trainer_arguments, estimator):
    arguments = trainer_arguments(logging_steps=1)
    batch, trainer = train(arguments, credit=estimator)
    texts = vocabulary(arguments["processing_class"])
    correct = even_start(batch.token_ids)
    expected = expected_credit(batch, correct, estimator, vocabulary=texts)
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(batch.credit, expected, atol=1e-5)
    first = next(line for line in trainer.state.log_history if "credit/mean_abs" in line)
    absolute = np.abs(expected)[pad(batch.token_ids)[1]]
    assert first["credit/mean_abs"] == pytest.approx(absolute.mean(), rel=1e-5)
    for share in (50, 90, 99):  # to a thousandth of the largest, which may be large
        quantile = np.percentile(absolute, share, method="inverted_cdf")
        within = float(absolute.max()) / 1000
        assert first[f"credit/abs_p{share}"] == pytest.approx(quantile, abs=within)


def third(t):
    """Which tokens a tool wrote."""
    return int(t % 3 > 0)


MASKS = {
    "padded with 1": lambda n, width: [third(t) if t < n else 1 for t in range(width)],
    "shorter": lambda n, width: [third(t) for t in range(n if n == width else 2)],
}
"""How a user's `env_mask` may be long, beside a completion of n tokens in a batch of a width."""


@pytest.mark.parametrize("kind", MASKS)
def test_tokens_of_tools_are_no_evidence_as_trl_reads_their_mask(
    trainer_arguments, monkeypatch, kind
):
    generate = GRPOTrainer._generate
    used = []

    def with_tools(self, prompts):
        """TRL's third result is the mask; what is beyond a row it takes as the policy's."""
        generated = list(generate(self, prompts))
        lengths = [len(ids) for ids in generated[1]]
        rows = [MASKS[kind](n, max(lengths)) for n in lengths]
        used.extend([row[t] if t < len(row) else 1 for t in range(max(lengths))] for row in rows)
        generated[2] = torch.tensor(rows) if kind == "padded with 1" else rows
        return tuple(generated)

    monkeypatch.setattr(GRPOTrainer, "_generate", with_tools)
    batch, _ = train(trainer_arguments(mask_truncated_completions=True))
    ids_bt, mask_bt = pad(batch.token_ids)
    mask_bt = mask_bt & (np.array(used[: len(ids_bt)])[:, : ids_bt.shape[1]] > 0)
    expected = oracle.token_credit(
        ids_bt, mask_bt, batch.correct.tolist(), np.arange(16) // 4, "paper"
    )
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(batch.credit, expected, atol=1e-6)


def test_metrics_are_those_of_the_rollouts(trainer_arguments):
    """Each one computed again, by other means, from what the trainer hands out."""
    arguments = trainer_arguments(logging_steps=1)
    arguments["reward_funcs"] = undecided
    _, plain = train(arguments | {"model": copy_of(arguments["model"])}, credit=None)
    batch, trainer = train(arguments)
    logged = next(line for line in trainer.state.log_history if "credit/mean_abs" in line)
    of_plain = {k: x for k, x in plain.state.log_history[0].items() if k.startswith("credit/")}
    assert sorted(of_plain) == ["credit/correct", "credit/unknown"]
    assert of_plain.items() <= logged.items()
    assert logged["credit/unknown"] == pytest.approx(batch.correct.isnan().float().mean())

    lengths = [len(ids) for ids in batch.token_ids]
    tokens = [(row, t) for row, length in enumerate(lengths) for t in range(length)]

    absolute = [abs(batch.credit[row, t].item()) for row, t in tokens]
    assert logged["credit/mean_abs"] == pytest.approx(np.mean(absolute), rel=1e-5)
    advantage = batch.advantages
    flips = [advantage[row] * (advantage[row] + batch.credit[row, t]) < 0 for row, t in tokens]
    assert logged["credit/sign_flips"] == pytest.approx(np.mean(flips))

    correct = batch.correct.numpy()
    assert logged["credit/correct"] == pytest.approx(np.nanmean(correct))
    by_group = correct.reshape(-1, 4)
    has_true, has_false = (by_group == 1).any(axis=1), (by_group == 0).any(axis=1)
    assert logged["credit/skipped/all_correct"] == pytest.approx(np.mean(has_true & ~has_false))
    assert logged["credit/skipped/all_incorrect"] == pytest.approx(np.mean(~has_true & has_false))
    assert logged["credit/skipped/unknown"] == pytest.approx(np.mean(~has_true & ~has_false))

    assert logged["credit/seconds"] > 0


@pytest.mark.parametrize(
    ("settings", "more", "place"),
    [
        ({"importance_sampling_level": "sequence"}, {}, "importance_sampling_level"),
        ({}, {"correctness": "even_strat"}, "correctness is 'even_strat'"),
        ({}, {"reward_funcs": [overlong, even_start]}, "there are 2 reward functions"),
        ({}, {"credit": "none"}, "no estimator 'none'"),
        ({}, {"threshold": math.nan}, "threshold"),
        ({}, {"args": TrainingArguments(use_cpu=True)}, "args is a TrainingArguments"),
        ({}, {"train_dataset": Dataset.from_dict({"prompt": ["1"]})}, "the training set"),
    ],
)
def test_what_cannot_work_is_refused(trainer_arguments, settings, more, place):
    with pytest.raises(InputError) as error:
        KTAETrainer(**trainer_arguments(**settings) | more)
    assert str(error.value).startswith(place)


def test_an_infinite_reward_is_refused(trainer_arguments):
    """TRL's loss would be NaN, or its group would have no advantages without a word."""

    def infinite(completion_ids, **_):
        return [-math.inf, *even_start(completion_ids[1:])]

    with pytest.raises(InputError) as error:
        train(trainer_arguments() | {"reward_funcs": infinite})
    assert "infinite gave -inf" in str(error.value)


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
