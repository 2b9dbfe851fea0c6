"""Token credit in tinker-cookbook's own data and loop."""

import asyncio
import types

import pytest
from placement import assert_placed, by_id

from ktae.errors import InputError

pytest.importorskip("tinker_cookbook", reason="needs tinker-cookbook: make test-trainers")

import tinker
import torch
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl import data_processing, train
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition

from ktae.trainers.tinker import token_credit, with_credit


def turn(seen, done, **metrics):
    return Transition(
        ob=tinker.ModelInput.from_ints(seen),
        ac=TokensWithLogprobs(tokens=done, maybe_logprobs=[-0.5] * len(done)),
        reward=0.0,
        episode_done=True,
        metrics=metrics,
    )


def group(*trajectories, rewards):
    end = tinker.ModelInput.from_ints([])
    return TrajectoryGroup(
        trajectories_G=[Trajectory(transitions=list(x), final_ob=end) for x in trajectories],
        final_rewards_G=list(rewards),
        metrics_G=[{} for _ in trajectories],
    )


def data_of(groups, **options):
    """The cookbook's data with credit: their places and tensors, and the rollout advantages."""
    advantages = data_processing.compute_advantages(groups)
    assemble = with_credit(data_processing.assemble_training_data, **options)
    data, places = assemble(groups, advantages)
    tensors = [{key: x.to_torch() for key, x in datum.loss_fn_inputs.items()} for datum in data]
    return data, places, tensors, advantages


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
    data, same_places, tensors, advantages = data_of(groups(), credit=by_id)
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
    _, _, (right, wrong), _ = data_of([by_step], correctness="correct")
    assert right["advantages"][0] > -1 and wrong["advantages"][0] < 1
    with pytest.raises(InputError) as error:
        data_of([by_step], correctness="accuracy")
    assert str(error.value).startswith("correctness is 'accuracy'")


def test_the_cookbooks_own_loop_gets_advantages_and_metrics():
    """Its first groups are printed by the same function; the metrics are of the whole batch."""
    many = [[turn([1], [100 + i])] for i in range(6)]
    made = [group(*many, rewards=[1.0, 0.0] * 3), group(PLAIN, APART, rewards=[1.0, 1.0])]
    before = train.assemble_training_data, train.prepare_minibatch
    builders = [types.SimpleNamespace(logging_tags=lambda: [])] * len(made)
    tokenizer = types.SimpleNamespace(decode=lambda ids, **_: " ".join(map(str, ids)))
    with token_credit(types.SimpleNamespace(loss_fn="importance_sampling"), credit=by_id):
        step = train.prepare_minibatch(builders, made, tokenizer, None, 0.0, 0.0)
        data, metrics, *_ = asyncio.run(step)
    assert (train.assemble_training_data, train.prepare_minibatch) == before
    advantages = data_processing.compute_advantages(made)
    values = [datum.loss_fn_inputs["advantages"].to_torch() for datum in data]
    assert float(values[0][0]) == pytest.approx(float(advantages[0][0]) + 100 / 1024)
    assert metrics["credit/correct"] == 5 / 8
    assert "credit/mean_abs" in metrics


def test_losses_that_would_not_use_it_are_refused():
    config = types.SimpleNamespace(loss_fn="cross_entropy")
    with pytest.raises(InputError), token_credit(config):
        pass
