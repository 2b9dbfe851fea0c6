"""Token credit in Trinity-RFT's own experiences, registries and losses."""

import types

import numpy as np
import pytest
from extras import installed
from placement import assert_placed, by_id, reference

import ktae
from ktae.errors import InputError

if not installed("trinity-rft"):
    pytest.skip(
        "needs trinity-rft, whose pins conflict with other extras: make test-trainers",
        allow_module_level=True,
    )

import torch
from trinity.algorithm import ADVANTAGE_FN, ALGORITHM_TYPE, POLICY_LOSS_FN
from trinity.common.experience import (
    Experience,
    gather_action_masks,
    gather_response_attrs,
    gather_token_ids,
)

from ktae.trainers.trinity import LOSSES, TokenCreditAdvantage

ADVANTAGE = "ktae.trainers.trinity.TokenCreditAdvantage"
ALGORITHM = "ktae.trainers.trinity.TokenCreditGRPO"


def experience(response, reward, *, run, step=0, mask=None, task="t", **more):
    return Experience(
        eid={"batch": 1, "task": task, "run": run, "step": step},
        tokens=[1, 2, 3, *response],
        prompt_length=3,
        reward=reward,
        logprobs=[-0.5] * len(response),
        action_mask=mask,
        **more,
    )


def experiences():
    """Two tasks; one response has the output of a tool in it."""
    return [
        experience([20, 21, 22], 1.0, run=0),
        experience([30, 9, 9, 31], 0.0, run=1, mask=[True, False, False, True]),
        experience([40], 1.0, run=2),
        experience([50, 51], 0.0, run=0, task="u"),
        experience([52, 53, 54], 1.0, run=1, task="u"),
    ]


def processed(exps, **options):
    """As Trinity's pipeline does it, with the class that its registry finds."""
    return ADVANTAGE_FN.get(ADVANTAGE)(**options).process(exps)


def credit_of(exps, **options):
    """What is added to Trinity's own advantages of each experience."""
    plain, _ = ADVANTAGE_FN.get("grpo")().process([*exps])
    base = [own.advantages.clone() for own in plain]
    found, _ = processed(exps, **options)
    return [(own.advantages - other).tolist() for own, other in zip(found, base, strict=True)]


def test_the_credit_of_a_token_is_at_that_token():
    plain, _ = ADVANTAGE_FN.get("grpo")().process(experiences())
    exps, metrics = processed(experiences(), credit=by_id)
    for own, before in zip(exps, plain, strict=True):
        advantage = float(before.advantages[0])
        assert_placed(own.tokens[3:], own.action_mask, own.advantages, advantage)
        assert torch.equal(own.returns, own.advantages)
    assert metrics["group_advantages/credit/correct/mean"] == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_an_estimator_of_advantages_of_another_scale_is_refused():
    TokenCreditAdvantage("tempo")
    with pytest.raises(InputError, match="std_cal_level is 'batch'; expected GRPO's or Dr"):
        TokenCreditAdvantage("tempo", std_cal_level="batch")


def test_what_the_trainer_gathers_is_aligned():
    """The batch's own tensors, padded on both sides, after the way through bytes."""
    exps, _ = processed(experiences(), credit=by_id)
    plain, _ = ADVANTAGE_FN.get("grpo")().process(experiences())
    exps = Experience.deserialize_many(Experience.serialize_many(exps))
    tokens = gather_token_ids(exps, 4, 6, pad_token_id=0)[:, 4:]
    masks = gather_action_masks(exps, 6)
    advantages = gather_response_attrs(exps, "advantages", 6)
    for row, before in enumerate(plain):
        base = float(before.advantages[0])
        assert_placed(tokens[row], masks[row], advantages[row], base)


def steps_of_two_runs():
    return [
        experience([10, 11], 0.0, run=0, step=0),
        experience([12], 1.0, run=0, step=1),
        experience([10, 13], 0.0, run=1, step=0),
        experience([14], 0.0, run=1, step=1),
    ]


def test_the_steps_of_a_run_are_one_rollout():
    """Each step as a rollout of its own would be five; Trinity's own mean is over all five."""
    exps = [*steps_of_two_runs(), experience([12, 12], 1.0, run=2)]
    first, second, third, fourth, alone = credit_of(exps, credit="paper")
    expected = reference([[10, 11, 12], [10, 13, 14], [12, 12]], [1, 0, 1], [0] * 3)
    for row, other in zip((first + second, third + fourth, alone), expected, strict=True):
        assert row == pytest.approx(other, abs=1e-6)


def test_the_steps_of_a_run_are_turns_and_their_prompts_are_the_states():
    first, second, third, fourth = credit_of(steps_of_two_runs(), credit="anchor-states")
    ids = np.array([[10, 11, 1, 2, 3, 12], [10, 13, 1, 2, 3, 14]])
    expected = ktae.token_credit(ids, ids > 3, [1, 0], [0, 0], "anchor-states")[:, [0, 1, 5]]
    for row, other in zip((first + second, third + fourth), expected, strict=True):
        assert row == pytest.approx(other, abs=1e-6)
    assert second[0] > 0.5


def test_runs_that_are_not_told_apart_are_rollouts_of_their_own():
    exps = [experience([10, 11], 1.0, run=0), experience([10, 12], 0.0, run=0)]
    found, _ = processed(exps, credit="paper")
    assert len({round(float(x), 4) for own in found for x in own.advantages}) == 4


def test_correctness_is_a_metric():
    exps = [
        experience([10, 11], -1.0, run=0, metrics={"accuracy": 1.0}),
        experience([12, 11], 1.0, run=1, metrics={"accuracy": 0.0}),
    ]
    right, wrong = credit_of(exps, correctness="accuracy")
    assert right[0] > 0 > wrong[0]


def test_groups_that_trinity_leaves_out_stay_out():
    exps = [experience([10], 1.0, run=0), experience([11], 1.0, run=1), *experiences()[:3]]
    for own in exps[:2]:
        own.eid.task = "equal"
    found, metrics = processed(exps, credit=by_id, std_threshold=0.0)
    assert len(found) == 3 and metrics["filtered_count"] == 2


def test_a_prompt_that_was_cut_has_nothing_written():
    cut = Experience(
        eid={"task": "t", "run": 9}, tokens=[1, 2, 3], prompt_length=3, reward=0.0,
        logprobs=[0.0, 0.0], truncate_status="prompt_truncated",
    )  # fmt: skip
    found, _ = processed([*experiences()[:3], cut], credit=by_id)
    assert found[-1].advantages.tolist() == [0.0, 0.0]


def config(**algorithm):
    names = ("policy_loss_fn", "policy_loss_fn_args", "rollout_correction", "advantage_fn",
             "advantage_fn_args")  # fmt: skip
    own = types.SimpleNamespace(**dict.fromkeys(names) | algorithm)
    return types.SimpleNamespace(algorithm=own)


def test_trinitys_own_check_of_a_configuration_takes_it():
    from trinity.common.config import Config
    from trinity.common.config_validator import AlgorithmConfigValidator

    settings = Config()
    settings.algorithm.algorithm_type = ALGORITHM
    AlgorithmConfigValidator().validate(settings)
    assert settings.algorithm.advantage_fn == ADVANTAGE
    assert settings.algorithm.advantage_fn_args["credit"] == "paper"
    settings.algorithm.policy_loss_fn = "gspo"
    with pytest.raises(InputError, match="policy_loss_fn is 'gspo'"):
        AlgorithmConfigValidator().validate(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy_loss_fn": "gspo"}, "policy_loss_fn is 'gspo'"),
        ({"policy_loss_fn_args": {"enable_sequence_masking": True}}, "sequence_masking is True"),
        ({"rollout_correction": {"rollout_is": "sequence"}}, "rollout_is is 'sequence'"),
        ({"advantage_fn": "rloo"}, "advantage_fn is 'rloo'"),
        ({"advantage_fn_args": {"credit": "papers"}}, "no estimator 'papers'"),
    ],
)
def test_what_would_erase_credit_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        ALGORITHM_TYPE.get(ALGORITHM).check_config(config(**settings))


def gradient(name, advantages, first_ratio=0.01):
    """Of the loss by each token's log-probability, within the clipping range."""
    loss = POLICY_LOSS_FN.get(name)(**POLICY_LOSS_FN.get(name).default_args())
    log_probs = torch.tensor([[-0.5, -1.0, -2.0]], requires_grad=True)
    old = log_probs.detach() - torch.tensor([[first_ratio, 0.02, -0.01]])
    every = torch.ones(1, 3).bool()
    value, _ = loss(
        logprob=log_probs, old_logprob=old, old_log_probs=old, action_mask=every,
        response_mask=every, advantages=torch.tensor([advantages]),
    )  # fmt: skip
    value.backward()
    return log_probs.grad[0]


@pytest.mark.parametrize("name", LOSSES)
def test_a_tokens_gradient_is_of_its_own_advantage_and_ratio(name):
    found = gradient(name, [0.5, -0.25, 1.0])
    assert (found * torch.tensor([0.5, -0.25, 1.0]) < 0).all()
    for other in (gradient(name, [2.0, -0.25, 1.0]), gradient(name, [0.5, -0.25, 1.0], 0.05)):
        assert torch.equal(found[1:], other[1:])
    assert not torch.equal(found[:1], gradient(name, [2.0, -0.25, 1.0])[:1])


def test_a_sequence_level_ratio_is_of_all_tokens():
    """Why gspo is refused: what one token gets hangs on the others' ratios."""
    found = gradient("gspo", [0.5, -0.25, 1.0])
    assert not torch.equal(found[1:], gradient("gspo", [0.5, -0.25, 1.0], 0.05)[1:])
