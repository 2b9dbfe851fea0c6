"""What all adapters do with the engine's own objects: the credit of each token is at that token,
a rollout counts once whatever its engine makes of it, and by the verdict that is named."""

import types

import engine_objects
import numpy as np
import pytest
from engine_objects import (
    SkyRLTrainer,
    Written,
    nemo_rl_credit,
    rollouts,
    swift_fills,
    swift_trainer,
)
from placement import UNIT, by_id, reference

import ktae
from ktae.errors import InputError
from ktae.trainers.settings import Settings
from ktae.trainers.skyrl import use_credit

ADAPTERS = {
    "ms_swift": engine_objects.ms_swift_credit,
    "nemo_rl": engine_objects.nemo_rl_credit,
    "skyrl": engine_objects.skyrl_credit,
    "slime": engine_objects.slime_credit,
    "tinker": engine_objects.tinker_credit,
    "trinity": engine_objects.trinity_credit,
    "verifiers": engine_objects.verifiers_credit,
}


@pytest.fixture(params=ADAPTERS)
def adapter(request):
    """From one group's rollouts and options to what was added at each token that they wrote."""
    return ADAPTERS[request.param]


def test_the_credit_of_a_token_is_at_that_token(adapter):
    credit, metrics = adapter(rollouts(), credit=by_id)
    for rollout, values in zip(rollouts(), credit, strict=True):
        assert values == pytest.approx([x * UNIT for x in rollout.ids], abs=1e-6)
    assert metrics["credit/correct"] == 0.5 and metrics["credit/mean_abs"] > 0


def test_the_turns_of_a_rollout_are_one_rollout(adapter):
    """Each as a rollout of its own would be six instead of four."""
    credit, _ = adapter(rollouts(), credit="paper")
    expected = reference([x.ids for x in rollouts()], [1, 0, 1, 0], [0] * 4)
    for values, other in zip(credit, expected, strict=True):
        assert values == pytest.approx(other, abs=1e-6)
    assert max(map(max, expected)) > 0.1


def test_turns_and_their_states_are_told_apart(adapter):
    """The first turn of a rollout starts from the prompt, the second from what was seen then."""
    credit, _ = adapter(rollouts()[:2], credit="anchor-states")
    ids = np.array([[10, 11, 1, 3, 12, 0], [10, 13, 1, 3, 14, 15]])
    expected = ktae.token_credit(ids, ids > 3, [1, 0], [0, 0], "anchor-states")
    for values, row, of_row in zip(credit, expected, ids > 3, strict=True):
        assert values == pytest.approx(row[of_row].tolist(), abs=1e-6)
    assert credit[0][2] > 0.5


def test_correctness_is_a_score_by_its_name(adapter):
    """The reward says the opposite, as one with a penalty may."""
    pair = [Written([([1], [10, 11])], -1.0, right=1.0), Written([([1], [12, 11])], 1.0, right=0.0)]
    (right, wrong), _ = adapter(pair, correctness="right")
    assert right[0] > 0 > wrong[0]


@pytest.mark.parametrize(
    ("changes", "options", "place"),
    [
        ({"step_wise_trajectories": True}, {}, "step_wise_trajectories is True"),
        ({"policy_loss_type": "gspo"}, {}, "policy_loss_type is 'gspo'"),
        ({"advantage_estimator": "gae"}, {}, "advantage_estimator is 'gae'"),
        ({"advantage_batch_normalize": True}, {}, "advantage_batch_normalize is True"),
        ({}, {"correctness": "right"}, "correctness is 'right'"),
        ({}, {"credit": "tempo"}, "Tempo()"),
    ],
)
def test_skyrl_refuses_what_would_erase_credit(changes, options, place):
    with pytest.raises(InputError) as error:
        use_credit(SkyRLTrainer(**changes), **options)
    assert str(error.value).startswith(place)


@pytest.mark.parametrize(
    ("changes", "correctness", "place"),
    [
        ({"importance_sampling_level": "sequence"}, None, "importance_sampling_level"),
        ({"loss_type": "real"}, None, "loss_type is 'real'"),
        ({}, "rihgt", "correctness is 'rihgt'"),
        (
            {"template": types.SimpleNamespace(padding_free=True, sequence_parallel_size=1)},
            None,
            "padding_free is True",
        ),
    ],
)
def test_ms_swift_refuses_what_would_erase_credit(changes, correctness, place):
    pytest.importorskip("accelerate")
    from ktae.trainers.ms_swift import with_credit

    arguments = swift_trainer(rollouts(), **changes)
    with pytest.raises(InputError) as error:
        with_credit(swift_fills, Settings(by_id, correctness))(*arguments)
    assert str(error.value).startswith(place)


def test_nemo_rl_refuses_a_score_that_the_batch_lacks():
    with pytest.raises(InputError) as error:
        nemo_rl_credit(rollouts(), correctness="accuracy")
    assert str(error.value).startswith("correctness is 'accuracy'")
