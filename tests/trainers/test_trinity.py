"""Token credit in Trinity-RFT's own experiences, registries and losses."""

import types

import pytest
from placement import assert_placed, by_id, reference

from ktae.errors import InputError

pytest.importorskip("trinity.algorithm", reason="needs trinity-rft: make test-trainers")

import torch
from trinity.algorithm import ADVANTAGE_FN, ALGORITHM_TYPE, POLICY_LOSS_FN
from trinity.common.experience import (
    Experience,
    gather_action_masks,
    gather_response_attrs,
    gather_token_ids,
)

from ktae.trainers.trinity import LOSSES

ALGORITHM = "ktae.trainers.trinity.TokenCreditGRPO"


def experience(response, reward, *, run, step=0, prompt=(1, 2, 3), task="t", **more):
    return Experience(
        eid={"batch": 1, "task": task, "run": run, "step": step},
        tokens=[*prompt, *response],
        prompt_length=len(prompt),
        reward=reward,
        logprobs=[-0.5] * len(response),
        **more,
    )


def trained(experiences, **options):
    """As Trinity's pipeline makes them, with credit where there are options."""
    name = "ktae.trainers.trinity.TokenCreditAdvantage" if options else "grpo"
    return ADVANTAGE_FN.get(name)(**options).process([*experiences])


def experiences():
    """Two tasks; one response has the output of a tool in it."""
    return [
        experience([20, 21, 22], 1.0, run=0),
        experience([30, 9, 9, 31], 0.0, run=1, action_mask=[True, False, False, True]),
        experience([40], 1.0, run=2),
        experience([50, 51], 0.0, run=0, task="u"),
        experience([52, 53, 54], 1.0, run=1, task="u"),
    ]


def test_what_the_trainer_gathers_is_aligned():
    """The batch's own tensors, padded on both sides, after the way through bytes."""
    exps, _ = trained(experiences(), credit=by_id)
    plain, _ = trained(experiences())
    exps = Experience.deserialize_many(Experience.serialize_many(exps))
    tokens = gather_token_ids(exps, 4, 6, pad_token_id=0)[:, 4:]
    masks = gather_action_masks(exps, 6)
    advantages = gather_response_attrs(exps, "advantages", 6)
    for row, before in enumerate(plain):
        base = float(before.advantages[0])
        assert_placed(tokens[row], masks[row], advantages[row], base)


def test_the_steps_of_a_run_are_one_rollout():
    def steps():
        return [
            experience(done, reward, run=run, step=step, prompt=seen, metrics={"right": 1 - reward})
            for run, reward in enumerate((1.0, 0.0, 1.0, 0.0))
            for step, (seen, done) in enumerate((([1, 2], [10 + run, 11]), ([1, 3], [12 + run])))
        ]

    plain, _ = trained(steps())
    exps, _ = trained(steps(), credit="paper", correctness="right")
    credit = [(x.advantages - y.advantages).tolist() for x, y in zip(exps, plain, strict=True)]
    rows = [[10 + run, 11, 12 + run] for run in range(4)]
    for run, row in enumerate(reference(rows, [0, 1, 0, 1], [0] * 4)):
        assert credit[2 * run] + credit[2 * run + 1] == pytest.approx(row, abs=1e-6)


def test_a_prompt_that_was_cut_has_nothing_written():
    cut = Experience(
        eid={"task": "t", "run": 9},
        tokens=[1, 2, 3],
        prompt_length=3,
        reward=0.0,
        logprobs=[0.0, 0.0],
        truncate_status="prompt_truncated",
    )
    credited, _ = trained([*experiences()[:3], cut], credit=by_id)
    assert credited[-1].advantages.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"policy_loss_fn": "gspo"}, "policy_loss_fn is 'gspo'"),
        ({"policy_loss_fn_args": {"enable_sequence_masking": True}}, "sequence_masking is True"),
        ({"rollout_correction": {"rollout_is": "sequence"}}, "rollout_is is 'sequence'"),
        ({"advantage_fn": "rloo"}, "advantage_fn is 'rloo'"),
        ({"advantage_fn_args": {"credit": "papers"}}, "no estimator 'papers'"),
    ],
)
def test_what_would_erase_credit_is_refused(settings, key):
    keys = ("policy_loss_fn", "policy_loss_fn_args", "rollout_correction", "advantage_fn")
    stock = dict.fromkeys((*keys, "advantage_fn_args"))
    config = types.SimpleNamespace(algorithm=types.SimpleNamespace(**stock | settings))
    with pytest.raises(InputError) as error:
        ALGORITHM_TYPE.get(ALGORITHM).check_config(config)
    assert key in str(error.value)


def gradient(name, advantages, first_ratio=0.01):
    """The gradient of the loss by each token's log-probability, within the clipping range."""
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
    each = gradient(name, [0.5, -0.25, 1.0])
    assert (each * torch.tensor([0.5, -0.25, 1.0]) < 0).all()
    for other in (gradient(name, [2.0, -0.25, 1.0]), gradient(name, [0.5, -0.25, 1.0], 0.05)):
        assert torch.equal(each[1:], other[1:])
    assert not torch.equal(each[:1], gradient(name, [2.0, -0.25, 1.0])[:1])
