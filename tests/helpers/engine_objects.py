"""Rollouts as the engines keep them, and what each adapter adds to their advantages.

The engines need GPUs' packages or other versions than the tests, so what their adapters read is
rebuilt here as plain namespaces; `test_skyrl.py`, `test_tinker.py`, `test_trinity.py` and
`test_verifiers.py` have the packages' own objects.
"""

import collections
import sys
from types import SimpleNamespace as space
from typing import NamedTuple

import pytest
import torch


class Written(NamedTuple):
    """A rollout: what was seen and what was done, turn by turn."""

    turns: list[tuple[list[int], list[int]]]
    reward: float
    right: float | None = None

    def joined(self):
        """All its tokens, and which of them the policy wrote."""
        ids = [x for turn in self.turns for part in turn for x in part]
        return ids, [m for seen, done in self.turns for m in [0] * len(seen) + [1] * len(done)]


def rollouts():
    return [
        Written([([1, 2], [10, 11]), ([1, 3], [12])], 1.0),
        Written([([1, 2], [10, 13]), ([1, 3], [14, 15])], 0.0),
        Written([([1, 2], [16])], 1.0),
        Written([([1, 2], [14, 17])], 0.0),
    ]


def slime_sample(group, rollout, tokens, n, reward, **more):
    sample = space(
        group_index=group,
        rollout_id=rollout,
        tokens=tokens,
        response_length=n,
        reward=reward,
        loss_mask=None,
        remove_sample=False,
        metadata={},
    )
    vars(sample).update(more)
    sample.get_reward_value = lambda args: (
        sample.reward[args.reward_key] if args.reward_key else sample.reward
    )
    return sample


def slime_arguments(**changes):
    stock = {
        "advantage_estimator": "grpo",
        "normalize_advantages": False,
        "use_opsm": False,
        "custom_advantage_function_path": "ktae.trainers.slime.token_advantages",
        "rewards_normalization": True,
        "grpo_std_normalization": False,
        "reward_key": None,
    }
    return space(**stock | changes)


def slime_credit(rollouts, **options):
    from ktae.trainers.slime import post_process_rewards

    samples = [
        slime_sample(0, i, [*seen, *done], len(done), r.reward, metadata={"right": r.right})
        for i, r in enumerate(rollouts)
        for seen, done in r.turns
    ]
    _, carried = post_process_rewards(slime_arguments(ktae=options), samples)
    credit = [[] for _ in rollouts]
    for sample, advantages in zip(samples, carried, strict=True):
        credit[sample.rollout_id] += [x - advantages.rollout for x in advantages.tokens]
    return credit, carried[0].metrics


class Tensor(NamedTuple):
    """tinker's `TensorData`, as far as the adapter knows it."""

    tensor: torch.Tensor

    def to_torch(self):
        return self.tensor

    @classmethod
    def from_torch(cls, tensor):
        return cls(tensor)


def tinker_credit(rollouts, **options):
    """Data as the cookbook has them where no turn continues the one before, shifted by one."""
    from ktae.trainers import tinker

    data, places = [], []
    for i, rollout in enumerate(rollouts):
        for seen, done in rollout.turns:
            mask = torch.tensor([0.0] * (len(seen) - 1) + [1.0] * len(done))
            columns = {"target_tokens": torch.tensor([*seen[1:], *done]), "mask": mask}
            columns["advantages"] = mask * rollout.reward
            inputs = {name: Tensor(column) for name, column in columns.items()}
            data.append(space(loss_fn_inputs=inputs))
            places.append({"group_idx": 0, "traj_idx": i})
    rewards = [r.reward for r in rollouts]
    group = space(
        trajectories_G=[space(transitions=[space(metrics={})]) for _ in rollouts],
        metrics_G=[{"right": r.right} for r in rollouts],
        get_total_rewards=lambda: rewards,
    )
    token = tinker._metrics.set({})
    try:
        tinker.with_credit(lambda *_: (data, places), **options)([group], [rewards])
        metrics = tinker._metrics.get()
    finally:
        tinker._metrics.reset(token)
    credit = [[] for _ in rollouts]
    for place, datum in zip(places, data, strict=True):
        values, mask = (datum.loss_fn_inputs[x].to_torch() for x in ("advantages", "mask"))
        assert not values[mask == 0].any()
        credit[place["traj_idx"]] += (values[mask != 0] - rewards[place["traj_idx"]]).tolist()
    return credit, metrics


def verifiers_credit(rollouts, **options):
    from ktae.trainers.settings import Settings
    from ktae.trainers.verifiers import add_credit

    traces = []
    for r in rollouts:
        metrics, scores = {}, {"format": r.reward, "right": r.right}
        nodes = [
            space(token_ids=ids, mask=[is_done] * len(ids), advantages=None)
            for turn in r.turns
            for ids, is_done in zip(turn, (False, True), strict=True)
        ]
        trace = space(nodes=nodes, agent=space(name="agent"), reward=r.reward, metrics=metrics)
        trace.rewards = {name: space(score=x) for name, x in scores.items() if x is not None}
        trace.record_metrics = metrics.update
        traces.append(trace)
    add_credit(traces, Settings(**options))
    credit = []
    for trace in traces:
        assert all(node.advantages is None for node in trace.nodes[::2])  # nothing was sampled
        credit.append([x for node in trace.nodes for x in node.advantages or ()])
    return credit, traces[0].metrics


def skyrl_trainer(**changes):
    """SkyRL's `RayPPOTrainer`, with the rewards as advantages."""
    algorithm = {
        "advantage_estimator": "grpo",
        "policy_loss_type": "regular",
        "grpo_norm_by_std": False,
        "advantage_batch_normalize": False,
    }
    settings = {"step_wise_trajectories": False} | algorithm | changes
    trainer = space(
        cfg=space(
            trainer=space(algorithm=space(**settings)),
            generator=space(step_wise_trajectories=settings["step_wise_trajectories"]),
        ),
        all_metrics={},
    )

    def compute(data):
        data["advantages"] = data["rewards"].sum(dim=-1)[:, None] * data["response_mask"]
        return data

    trainer.compute_advantages_and_returns = compute
    return trainer


class Batch(dict):
    """SkyRL's `TrainingInputBatch`, as far as the adapter knows it."""


def right_aligned(rows):
    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(row)) + list(row) for row in rows])


def skyrl_batch(rollouts):
    """Sequences as SkyRL lays them out, all ending together, and a row that only fills it up."""
    ids, masks = zip(*(r.joined() for r in rollouts), strict=True)
    starts = [len(r.turns[0][0]) for r in rollouts]
    loss = [mask[start:] for mask, start in zip(masks, starts, strict=True)]
    rewards = [[0.0] * (len(row) - 1) + [r.reward] for row, r in zip(loss, rollouts, strict=True)]
    data = Batch(
        sequences=right_aligned([*ids, [0]]),
        response_mask=right_aligned([*([1] * len(row) for row in loss), [0]]),
        loss_mask=right_aligned([*loss, [0]]),
        rewards=right_aligned([*rewards, [0.0]]),
    )
    data.metadata = {"uids": ["a"] * len(rollouts) + ["pad"], "pad_size": 1}
    return data


def skyrl_credit(rollouts, **options):
    from ktae.trainers.skyrl import use_credit

    if options.get("correctness"):
        pytest.skip("SkyRL hands over the reward alone")
    trainer = use_credit(skyrl_trainer(), **options)
    data = trainer.compute_advantages_and_returns(skyrl_batch(rollouts))
    counted = data["loss_mask"] != 0
    added = data["advantages"] - data["rewards"].sum(dim=-1)[:, None] * data["response_mask"]
    return written(added[:-1], counted[:-1]), trainer.all_metrics


def written(added, mask):
    """Each row's numbers where the policy wrote; there are none elsewhere."""
    assert not added[mask == 0].any()
    return [row[m != 0].tolist() for row, m in zip(added, mask, strict=True)]


def nemo_rl_credit(rollouts, **options):
    """On NeMo-RL's advantage estimator, which gives the rewards as advantages here."""
    from ktae.trainers.nemo_rl import use_in_nemo_rl

    def compute_advantage(prompt_ids, rewards, mask, **_):
        return rewards[:, None] * mask

    inner = space(compute_advantage=compute_advantage)
    module = space(_create_advantage_estimator=lambda master_config: inner)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "nemo_rl", space())
        patch.setitem(sys.modules, "nemo_rl.algorithms", space(grpo=module))
        use_in_nemo_rl(**options)
    loss = space(sequence_level_importance_ratios=False)
    estimator = module._create_advantage_estimator(space(loss_fn=loss))
    width = max(len(r.joined()[0]) for r in rollouts) + 1  # as wide as the batch was padded
    mask = torch.tensor([m + [0] * (width - len(m)) for _, m in (r.joined() for r in rollouts)])
    rewards = torch.tensor([float(r.reward) for r in rollouts])
    logs = [[{"token_ids": torch.tensor(x)} for turn in r.turns for x in turn] for r in rollouts]
    advantages = estimator.compute_advantage(
        prompt_ids=torch.tensor([r.turns[0][0] for r in rollouts]),
        rewards=rewards,
        mask=mask,
        repeated_batch={
            "message_log": logs,
            "right": torch.tensor([r.right or 0.0 for r in rollouts]),
        },
    )
    return written(advantages - rewards[:, None] * mask, mask), estimator.last_metrics


def swift_trainer(rollouts, **changes):
    """ms-swift's GRPO trainer, with its samples and its batches of two rows."""
    trainer = space(
        importance_sampling_level="token",
        loss_type="grpo",
        template=space(padding_free=False, sequence_parallel_size=1),
        reward_func_names=["format", "right"],
        reward_weights=torch.tensor([1.0, 0.0]),
        _rewards_per_func=torch.tensor([[r.reward, r.right or 0.0] for r in rollouts]),
        accelerator=space(process_index=0),
        model=space(training=True),
        _metrics={"train": collections.defaultdict(list)},
    )
    vars(trainer).update(changes)
    batches = []
    for start in range(0, len(rollouts), 2):
        pair = [r.joined() for r in rollouts[start : start + 2]]
        ids, mask = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(x) for x in rows], batch_first=True)
            for rows in zip(*pair, strict=True)
        )
        batch = space(completion_mask=mask[:, 1:], advantages=torch.zeros(mask[:, 1:].shape))
        batches.append({"model_inputs": {"input_ids": ids}, "grpo_batch": batch})
    return trainer, [space(prompt_id="prompt_0") for _ in rollouts], batches


def ms_swift_credit(rollouts, **options):
    pytest.importorskip("accelerate")
    from ktae.trainers.ms_swift import with_credit
    from ktae.trainers.settings import Settings

    trainer, samples, batches = swift_trainer(rollouts)
    with_credit(lambda *_: None, Settings(**options))(trainer, samples, batches)
    made = [batch["grpo_batch"] for batch in batches]
    credit = [row for batch in made for row in written(batch.advantages, batch.completion_mask)]
    return credit, {name: values[-1] for name, values in trainer._metrics["train"].items()}
