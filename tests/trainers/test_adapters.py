"""What all adapters do with the engine's own objects: the credit of each token is at that token,
a rollout counts once whatever its engine makes of it, and by the verdict that is named."""

import engine_objects
import numpy as np
import pytest
from engine_objects import Written, rollouts, skyrl_trainer, swift_trainer
from placement import UNIT, by_id, reference

import ktae
from ktae.errors import InputError
from ktae.trainers.settings import Settings
from ktae.trainers.skyrl import use_credit


@pytest.fixture(params=["ms_swift", "nemo_rl", "skyrl", "slime", "tinker", "verifiers"])
def adapter(request):
    """From one group's rollouts and options to what was added at each token that they wrote."""
    return getattr(engine_objects, f"{request.param}_credit")


def ids_of(rollout):
    return [x for _, done in rollout.turns for x in done]


def test_the_credit_of_a_token_is_at_that_token(adapter):
    credit, metrics = adapter(rollouts(), credit=by_id)
    for rollout, values in zip(rollouts(), credit, strict=True):
        assert values == pytest.approx([x * UNIT for x in ids_of(rollout)], abs=1e-6)
    assert metrics["credit/correct"] == 0.5 and metrics["credit/mean_abs"] > 0


def test_the_turns_of_a_rollout_are_one_rollout(adapter):
    """Each as a rollout of its own would be six instead of four."""
    credit, _ = adapter(rollouts(), credit="paper")
    expected = reference(list(map(ids_of, rollouts())), [1, 0, 1, 0], [0] * 4)
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
    "changes",
    [
        {"step_wise_trajectories": True},
        {"policy_loss_type": "gspo"},
        {"advantage_batch_normalize": True},
        {"correctness": "right"},
        {"credit": "tempo"},
    ],
)
def test_skyrl_refuses_what_would_erase_credit(changes):
    options = {name: changes.pop(name) for name in ("correctness", "credit") if name in changes}
    with pytest.raises(InputError):
        use_credit(skyrl_trainer(**changes), **options)


@pytest.mark.parametrize(
    "changes", [{"importance_sampling_level": "sequence"}, {"loss_type": "real"}]
)
def test_ms_swift_refuses_what_would_erase_credit(changes):
    pytest.importorskip("accelerate")
    from ktae.trainers.ms_swift import with_credit

    with pytest.raises(InputError):
        with_credit(print, Settings(by_id))(*swift_trainer(rollouts(), **changes))
