"""Rollouts as the engines keep them, and what each adapter adds to their advantages.

slime, SkyRL, NeMo-RL and ms-swift need GPUs' packages or other versions than the tests, so what
their adapters read is rebuilt here. tinker's and verifiers' objects are the packages' own where
these are installed, and otherwise rebuilt too. Trinity's tests are skipped without it.
"""

import collections
import dataclasses
import types
from typing import NamedTuple

import pytest
from extras import installed


def needs(*packages):
    if not all(map(installed, packages)):
        pytest.skip(f"needs {' and '.join(packages)}: make test-trainers")


class Written(NamedTuple):
    """A rollout: what was seen and what was done, turn by turn."""

    turns: list[tuple[list[int], list[int]]]
    reward: float
    right: float | None = None

    @property
    def ids(self):
        return [x for _, done in self.turns for x in done]


def rollouts():
    return [
        Written([([1, 2], [10, 11]), ([1, 3], [12])], 1.0),
        Written([([1, 2], [10, 13]), ([1, 3], [14, 15])], 0.0),
        Written([([1, 2], [16])], 1.0),
        Written([([1, 2], [14, 17])], 0.0),
    ]


@dataclasses.dataclass
class Sample:
    """The fields of slime's that the hooks read."""

    group_index: int | None = None
    rollout_id: int | None = None
    tokens: list = dataclasses.field(default_factory=list)
    response_length: int = 0
    reward: object = None
    loss_mask: list | None = None
    remove_sample: bool = False
    metadata: dict = dataclasses.field(default_factory=dict)

    def get_reward_value(self, args):
        return self.reward[args.reward_key] if args.reward_key else self.reward


def slime_arguments(**changes):
    from ktae.trainers.slime import HOOK

    stock = {
        "advantage_estimator": "grpo",
        "normalize_advantages": False,
        "use_opsm": False,
        "custom_advantage_function_path": HOOK,
        "rewards_normalization": True,
        "grpo_std_normalization": False,
        "reward_key": None,
    }
    return types.SimpleNamespace(**stock | changes)


def slime_credit(rollouts, **options):
    from ktae.trainers.slime import post_process_rewards

    samples = [
        Sample(0, i, [*seen, *done], len(done), rollout.reward, metadata={"right": rollout.right})
        for i, rollout in enumerate(rollouts)
        for seen, done in rollout.turns
    ]
    _, carried = post_process_rewards(slime_arguments(ktae=options), samples)
    credit = [[] for _ in rollouts]
    mean = sum(rollout.reward for rollout in rollouts) / len(rollouts)
    for sample, advantages in zip(samples, carried, strict=True):
        assert advantages.rollout == pytest.approx(sample.reward - mean)
        credit[sample.rollout_id] += [x - advantages.rollout for x in advantages.tokens]
    return credit, carried[0].metrics


class Tensor:
    """tinker's `TensorData`, as far as the adapter knows it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def to_torch(self):
        return self.tensor

    @classmethod
    def from_torch(cls, tensor):
        return cls(tensor)


def tinker_turn(seen, done, **metrics):
    """The cookbook's own transition, or where it is not installed one that has the same fields."""
    if not installed("tinker-cookbook"):
        return types.SimpleNamespace(seen=seen, done=done, metrics=metrics)
    import tinker
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.types import Transition

    return Transition(
        ob=tinker.ModelInput.from_ints(seen),
        ac=TokensWithLogprobs(tokens=done, maybe_logprobs=[-0.5] * len(done)),
        reward=0.0,
        episode_done=True,
        metrics=metrics,
    )


def tinker_group(*trajectories, rewards, metrics=None):
    metrics = metrics or [{} for _ in trajectories]
    if not installed("tinker-cookbook"):
        trajectories_G = [types.SimpleNamespace(transitions=list(x)) for x in trajectories]
        return types.SimpleNamespace(
            trajectories_G=trajectories_G, metrics_G=metrics, get_total_rewards=lambda: rewards
        )
    import tinker
    from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup

    end = tinker.ModelInput.from_ints([])
    return TrajectoryGroup(
        trajectories_G=[Trajectory(transitions=list(x), final_ob=end) for x in trajectories],
        final_rewards_G=list(rewards),
        metrics_G=metrics,
    )


def assembled(groups, advantages):
    """As the cookbook does where no turn continues the one before: a datum each, shifted by one."""
    import torch

    data, places = [], []
    for g, group in enumerate(groups):
        for t, trajectory in enumerate(group.trajectories_G):
            for turn in trajectory.transitions:
                targets = [*turn.seen[1:], *turn.done]
                mask = [0.0] * (len(turn.seen) - 1) + [1.0] * len(turn.done)
                columns = {
                    "target_tokens": torch.tensor(targets),
                    "mask": torch.tensor(mask),
                    "advantages": torch.tensor(mask) * advantages[g][t],
                }
                inputs = {name: Tensor(column) for name, column in columns.items()}
                data.append(types.SimpleNamespace(loss_fn_inputs=inputs))
                places.append({"group_idx": g, "traj_idx": t})
    return data, places


def tinker_data(groups, **options):
    """The cookbook's data with credit: their places and tensors, and the rollout advantages."""
    from ktae.trainers.tinker import with_credit

    if installed("tinker-cookbook"):
        from tinker_cookbook.rl import data_processing

        advantages = data_processing.compute_advantages(groups)
        assemble = with_credit(data_processing.assemble_training_data, **options)
    else:
        totals = [group.get_total_rewards() for group in groups]
        advantages = [[x - sum(of) / len(of) for x in of] for of in totals]
        assemble = with_credit(assembled, **options)
    data, places = assemble(groups, advantages)
    tensors = [{key: x.to_torch() for key, x in datum.loss_fn_inputs.items()} for datum in data]
    return data, places, tensors, advantages


def tinker_credit(rollouts, **options):
    from ktae.trainers import tinker

    group = tinker_group(
        *([tinker_turn(*turn) for turn in rollout.turns] for rollout in rollouts),
        rewards=[rollout.reward for rollout in rollouts],
        metrics=[{"right": rollout.right} for rollout in rollouts],
    )
    token = tinker._metrics.set({})
    try:
        _, places, tensors, advantages = tinker_data([group], **options)
        metrics = tinker._metrics.get()
    finally:
        tinker._metrics.reset(token)
    credit = [[] for _ in rollouts]
    for place, of_datum in zip(places, tensors, strict=True):
        t, counted = place["traj_idx"], of_datum["mask"].bool()
        assert not of_datum["advantages"][~counted].any()
        credit[t] += (of_datum["advantages"] - advantages[0][t])[counted].tolist()
    return credit, metrics


def trinity_experience(response, reward, *, run, step=0, prompt=(1, 2, 3), task="t", **more):
    from trinity.common.experience import Experience

    return Experience(
        eid={"batch": 1, "task": task, "run": run, "step": step},
        tokens=[*prompt, *response],
        prompt_length=len(prompt),
        reward=reward,
        logprobs=[-0.5] * len(response),
        **more,
    )


def trinity_advantages(experiences, **options):
    """As Trinity's pipeline makes them, with the class that its registry finds; with credit where
    there are options."""
    from trinity.algorithm import ADVANTAGE_FN

    name = "ktae.trainers.trinity.TokenCreditAdvantage" if options else "grpo"
    return ADVANTAGE_FN.get(name)(**options).process([*experiences])


def trinity_credit(rollouts, **options):
    needs("trinity-rft")

    def experiences():
        return [
            trinity_experience(
                done, rollout.reward, run=i, step=k, prompt=seen, metrics={"right": rollout.right}
            )
            for i, rollout in enumerate(rollouts)
            for k, (seen, done) in enumerate(rollout.turns)
        ]

    plain, _ = trinity_advantages(experiences())
    exps, metrics = trinity_advantages(experiences(), **options)
    credit = [[] for _ in rollouts]
    for before, exp in zip(plain, exps, strict=True):
        assert exp.returns.equal(exp.advantages)
        credit[exp.eid.run] += (exp.advantages - before.advantages).tolist()
    prefix, suffix = "group_advantages/", "/mean"
    return credit, {k.removeprefix(prefix).removesuffix(suffix): x for k, x in metrics.items()}


def verifiers_node(ids, parent=None, *, written=False, scaffold=0):
    """A message; the policy wrote its tokens but for the first few, which are the template's."""
    mask = [False] * scaffold + [written] * (len(ids) - scaffold)
    if not installed("verifiers"):
        return types.SimpleNamespace(token_ids=ids, mask=mask, advantages=None)
    from verifiers import v1 as vf

    kind = vf.AssistantMessage if written else vf.UserMessage
    return vf.MessageNode(
        parent=parent,
        message=kind(content="text"),
        sampled=written,
        token_ids=ids,
        mask=mask,
        logprobs=[-0.5] * sum(mask),
    )


def verifiers_trace(nodes, reward, *, name="agent", right=None, info=None):
    scores = {"format": (reward, 2.0)} | ({} if right is None else {"right": (right, 0.0)})
    if not installed("verifiers"):
        metrics = {}
        return types.SimpleNamespace(
            nodes=nodes,
            agent=types.SimpleNamespace(name=name),
            rewards={key: types.SimpleNamespace(score=x) for key, (x, _) in scores.items()},
            reward=2.0 * reward,
            metrics=metrics,
            record_metrics=metrics.update,
            info=info or {},
        )
    from verifiers import v1 as vf

    return vf.Trace(
        task=vf.TraceTask(type="Task", data=vf.TaskData(idx=0, prompt="?"), key="t"),
        agent=vf.AgentInfo(config=vf.AgentConfig(), name=name),
        nodes=nodes,
        rewards={key: vf.Reward(score=x, weight=w) for key, (x, w) in scores.items()},
        metrics={},
        info=info or {},
        ok=True,
    )


def verifiers_credit(rollouts, **options):
    from ktae.trainers.settings import Settings
    from ktae.trainers.verifiers import add_credit

    traces = []
    for rollout in rollouts:
        nodes = []
        for seen, done in rollout.turns:
            nodes.append(verifiers_node(seen, len(nodes) - 1 if nodes else None))
            nodes.append(verifiers_node(done, len(nodes) - 1, written=True))
        traces.append(verifiers_trace(nodes, rollout.reward, right=rollout.right))
    add_credit(traces, Settings(**options))
    credit = []
    for trace in traces:
        assert all(node.advantages is None for node in trace.nodes[::2])  # nothing was sampled
        credit.append([x for node in trace.nodes for x in node.advantages or ()])
    return credit, traces[0].metrics


class Batch(dict):
    """SkyRL's `TrainingInputBatch`, as far as the adapter knows it."""

    metadata: dict


class SkyRLTrainer:
    """Stands for SkyRL's `RayPPOTrainer`, whose module needs a GPU's packages."""

    def __init__(self, **changes):
        algorithm = {
            "advantage_estimator": "grpo",
            "policy_loss_type": "regular",
            "grpo_norm_by_std": False,
            "advantage_batch_normalize": False,
        }
        settings = {"step_wise_trajectories": False} | algorithm | changes
        space = types.SimpleNamespace
        generator = space(step_wise_trajectories=settings.pop("step_wise_trajectories"))
        self.cfg = space(trainer=space(algorithm=space(**settings)), generator=generator)
        self.all_metrics, self.global_step = {}, 1

    def compute_advantages_and_returns(self, data):
        import torch

        rewards = data["rewards"].sum(dim=-1)
        for uid in set(data.metadata["uids"]):
            rows = torch.tensor([x == uid for x in data.metadata["uids"]])
            rewards[rows] -= rewards[rows].mean()
        data["advantages"] = rewards[:, None] * data["response_mask"]
        data["returns"] = data["advantages"]
        return data


def right_aligned(rows):
    import torch

    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(row)) + list(row) for row in rows])


def skyrl_batch(rollouts, padding=1):
    """Sequences as SkyRL lays them out, all ending together, and a row that only fills it up."""
    responses = [
        [x for k, (seen, done) in enumerate(r.turns) for x in ((*seen, *done) if k else done)]
        for r in rollouts
    ]
    loss = [
        [
            x
            for k, (seen, done) in enumerate(r.turns)
            for x in [0] * len(seen) * (k > 0) + [1] * len(done)
        ]
        for r in rollouts
    ]
    prompts = [r.turns[0][0] for r in rollouts]
    fill = [[0]] * padding
    data = Batch(
        sequences=right_aligned([p + x for p, x in zip(prompts, responses, strict=True)] + fill),
        response_mask=right_aligned([[1] * len(x) for x in responses] + fill),
        loss_mask=right_aligned([*loss, *fill]),
        rewards=right_aligned(
            [[0.0] * (len(x) - 1) + [r.reward] for x, r in zip(responses, rollouts, strict=True)]
            + fill
        ),
    )
    uids = ["a"] * len(rollouts) + [f"pad{i}" for i in range(padding)]
    data.metadata = {"uids": uids, "pad_size": padding}
    return data


def skyrl_credit(rollouts, **options):
    from ktae.trainers.skyrl import use_credit

    if options.get("correctness"):
        pytest.skip("SkyRL hands over the reward alone")
    trainer = SkyRLTrainer()
    plain = trainer.compute_advantages_and_returns(skyrl_batch(rollouts))["advantages"]
    trainer = use_credit(trainer, **options)
    data = trainer.compute_advantages_and_returns(skyrl_batch(rollouts))
    assert data["returns"] is data["advantages"]
    added, counted = data["advantages"] - plain, data["loss_mask"] != 0
    assert not added[~counted].any()
    rows = zip(added[: len(rollouts)], counted, strict=False)
    return [row[mask].tolist() for row, mask in rows], trainer.all_metrics


class GRPOEstimator:
    """Stands for NeMo-RL's `GRPOAdvantageEstimator`, whose package needs Python 3.13."""

    def compute_advantage(self, prompt_ids, rewards, mask, **_):
        return (rewards - rewards.mean())[:, None].expand(mask.shape)


def nemo_rl_credit(rollouts, **options):
    import sys

    import torch

    from ktae.trainers.nemo_rl import use_in_nemo_rl

    module = types.ModuleType("grpo")
    module._create_advantage_estimator = lambda master_config: GRPOEstimator()
    names = ("nemo_rl", "nemo_rl.algorithms", "nemo_rl.algorithms.grpo")
    stand_ins = dict.fromkeys(names, types.ModuleType("nemo_rl")) | {names[2]: module}
    stand_ins["nemo_rl.algorithms"].grpo = module
    with pytest.MonkeyPatch.context() as patch:
        for name, stand_in in stand_ins.items():
            patch.setitem(sys.modules, name, stand_in)
        use_in_nemo_rl(**options)
    loss = types.SimpleNamespace(sequence_level_importance_ratios=False)
    estimator = module._create_advantage_estimator(types.SimpleNamespace(loss_fn=loss))
    logs = [[{"token_ids": torch.tensor(x)} for turn in r.turns for x in turn] for r in rollouts]
    rows = [
        [m for seen, done in r.turns for m in [0] * len(seen) + [1] * len(done)] for r in rollouts
    ]
    width = max(map(len, rows)) + 1  # as wide as the batch was padded
    mask = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    rewards = torch.tensor([float(r.reward) for r in rollouts])
    batch = {"message_log": logs, "right": torch.tensor([r.right or 0.0 for r in rollouts])}
    prompt_ids = torch.tensor([r.turns[0][0] for r in rollouts])
    advantages = estimator.compute_advantage(
        prompt_ids=prompt_ids,
        rewards=rewards,
        mask=mask,
        repeated_batch=batch,
        logprobs_policy=None,
    )
    added = advantages - (rewards - rewards.mean())[:, None]
    assert not added[mask == 0].any()
    credit = [row[m != 0].tolist() for row, m in zip(added, mask, strict=True)]
    return credit, estimator.last_metrics


def swift_trainer(rollouts, **changes):
    """Stands for ms-swift's GRPO trainer, which needs a TRL below 1, with its samples and its
    batches of two rows."""
    import torch

    space = types.SimpleNamespace
    rewards = torch.tensor([[r.reward, r.right or 0.0] for r in rollouts])
    trainer = space(
        importance_sampling_level="token",
        loss_type="grpo",
        template=space(padding_free=False, sequence_parallel_size=1),
        reward_func_names=["format", "right"],
        reward_weights=torch.tensor([1.0, 0.0]),
        _rewards_per_func=rewards,
        accelerator=space(process_index=0),
        model=space(training=True),
        _metrics={"train": collections.defaultdict(list)},
    )
    vars(trainer).update(changes)
    samples = [space(prompt_id="prompt_0") for _ in rollouts]
    rows = [
        ([x for turn in r.turns for part in turn for x in part],
         [m for seen, done in r.turns for m in [0] * len(seen) + [1] * len(done)])
        for r in rollouts
    ]  # fmt: skip
    batches = []
    for start in range(0, len(rows), 2):
        some = rows[start : start + 2]
        width = max(len(ids) for ids, _ in some)
        ids = torch.tensor([x + [0] * (width - len(x)) for x, _ in some])
        mask = torch.tensor([x + [0] * (width - len(x)) for _, x in some])[:, 1:]
        batch = space(completion_mask=mask, advantages=None)
        batches.append({"model_inputs": {"input_ids": ids}, "grpo_batch": batch})
    return trainer, samples, batches


def swift_fills(self, samples, batches):
    """The rollout advantages, (B, T), as ms-swift's own function leaves them."""
    base = self._rewards_per_func[:, 0] - self._rewards_per_func[:, 0].mean()
    first = 0
    for batch in batches:
        mask = batch["grpo_batch"].completion_mask
        rows = base[first : first + len(mask), None]
        batch["grpo_batch"].advantages = rows.expand(mask.shape).clone()
        first += len(mask)


def ms_swift_credit(rollouts, **options):
    pytest.importorskip("accelerate")
    from ktae.trainers.ms_swift import with_credit
    from ktae.trainers.settings import Settings

    trainer, samples, batches = swift_trainer(rollouts)
    with_credit(swift_fills, Settings(**options))(trainer, samples, batches)
    credited = [batch["grpo_batch"] for batch in batches]
    rows = [
        row
        for batch in credited
        for row in zip(batch.advantages, batch.completion_mask, strict=True)
    ]
    base = trainer._rewards_per_func[:, 0] - trainer._rewards_per_func[:, 0].mean()
    credit = []
    for (advantages, mask), own in zip(rows, base, strict=True):
        assert not (advantages - own)[mask == 0].any()
        credit.append((advantages - own)[mask != 0].tolist())
    return credit, {name: values[-1] for name, values in trainer._metrics["train"].items()}
