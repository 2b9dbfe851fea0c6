"""Token credit in tinker-cookbook's own data and loop."""

import asyncio
import types

import pytest
from engine_objects import tinker_data, tinker_group, tinker_turn
from placement import assert_placed, by_id

from ktae.errors import InputError

pytest.importorskip("tinker_cookbook", reason="needs tinker-cookbook: make test-trainers")

import torch
from tinker_cookbook.rl import data_processing, train

from ktae.trainers.tinker import token_credit

turn, group = tinker_turn, tinker_group
MERGED = [turn([1, 2], [10, 11]), turn([1, 2, 10, 11, 3], [12, 13, 14])]
"""Two turns of which the second continues the first: one datum."""
APART = [turn([1, 2], [20, 21]), turn([4, 5, 6], [22])]
"""Two turns that do not: two data of one rollout."""
UNPARSED = [turn([1, 2], [30], parse_error_masked=1.0), turn([1, 2, 30, 3], [31, 32])]
"""The first turn could not be parsed, and the cookbook masks it."""
PLAIN = [turn([1, 2], [40, 41, 42, 43])]


def groups():
    return [
        group(PLAIN, MERGED, APART, UNPARSED, rewards=[1.0, 0.0, 1.0, 0.0]),
        group([turn([7], [50, 51])], [turn([7], [52])], rewards=[0.0, 1.0]),
    ]


def test_the_credit_of_a_token_is_at_that_token_and_nothing_else_changes():
    made = groups()
    plain, places = data_processing.assemble_training_data(
        made, data_processing.compute_advantages(made)
    )
    data, same_places, tensors, advantages = tinker_data(groups(), credit=by_id)
    assert len(data) == 7 and places == same_places  # one more than there are trajectories
    for place, before, after, own in zip(places, plain, data, tensors, strict=True):
        advantage = float(advantages[place["group_idx"]][place["traj_idx"]])
        assert_placed(own["target_tokens"], own["mask"], own["advantages"], advantage)
        assert before.model_input == after.model_input
        assert set(own) == {"target_tokens", "logprobs", "advantages", "mask"}
        for name in set(own) - {"advantages"}:
            assert torch.equal(before.loss_fn_inputs[name].to_torch(), own[name])
        assert own["advantages"].dtype == torch.float32


def test_correctness_may_be_a_metric_of_a_step():
    trajectories = [[turn([1], [10, 11], correct=1.0)], [turn([1], [12, 11], correct=0.0)]]
    by_step = group(*trajectories, rewards=[-1.0, 1.0])
    _, _, (right, wrong), _ = tinker_data([by_step], correctness="correct")
    assert right["advantages"][0] > -1 and wrong["advantages"][0] < 1
    with pytest.raises(InputError) as error:
        tinker_data([by_step], correctness="accuracy")
    assert str(error.value).startswith("correctness is 'accuracy'")


class Tokenizer:
    def decode(self, ids, **_):
        return " ".join(map(str, ids))


def prepared(made, **options):
    """The cookbook's own step from trajectories to data, within the block."""
    before = train.assemble_training_data, train.prepare_minibatch
    settings = types.SimpleNamespace(loss_fn="importance_sampling")
    with token_credit(settings, **{"credit": by_id} | options):
        builder = types.SimpleNamespace(logging_tags=lambda: [])
        result = asyncio.run(
            train.prepare_minibatch([builder] * len(made), made, Tokenizer(), None, 0.0, 0.0)
        )
    assert (train.assemble_training_data, train.prepare_minibatch) == before
    return result


def test_the_cookbooks_own_loop_gets_advantages_and_metrics():
    """Its first groups are printed by the same function; the metrics are of the whole batch."""
    many = [[turn([1], [100 + i])] for i in range(6)]
    made = [group(*many, rewards=[1.0, 0.0] * 3), group(PLAIN, APART, rewards=[1.0, 1.0])]
    data, metrics, *_ = prepared(made)
    advantages = data_processing.compute_advantages(made)
    values = [datum.loss_fn_inputs["advantages"].to_torch() for datum in data]
    assert float(values[0][0]) == pytest.approx(float(advantages[0][0]) + 100 / 1024)
    assert metrics["credit/correct"] == 5 / 8
    assert "credit/mean_abs" in metrics


def test_a_group_without_the_score_is_printed_all_the_same():
    math = group([turn([1], [5], correct=1.0)], [turn([1], [6], correct=0.0)], rewards=[1.0, 0.0])
    chat = group([turn([1], [7], helpful=1.0)], [turn([1], [8], helpful=0.0)], rewards=[1.0, 0.0])
    _, metrics, *_ = prepared([math, chat], correctness="correct")
    assert metrics["credit/unknown"] == 1 / 2


def test_an_estimator_of_advantages_of_another_scale_is_refused():
    with pytest.raises(InputError) as error:
        tinker_data(groups(), credit="tempo")
    assert "scale_by_std" in str(error.value)
    tinker_data(groups(), credit={"estimator": "tempo", "scale_by_std": False})


@pytest.mark.parametrize("loss", ["gspo", "cross_entropy", "custom"])
def test_losses_that_would_not_use_it_are_refused(loss):
    with pytest.raises(InputError) as error, token_credit(types.SimpleNamespace(loss_fn=loss)):
        pass
    assert str(error.value).startswith(f"loss_fn is '{loss}'")
