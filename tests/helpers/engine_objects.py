"""Rollouts as the engines keep them, and what each adapter adds to their advantages.

slime itself needs Megatron and SGLang, so its `Sample` is rebuilt here as documented. The others
are the packages' own; without them a test is skipped.
"""

import dataclasses
import types

import pytest
from extras import installed


def needs(*packages):
    if not all(map(installed, packages)):
        pytest.skip(f"needs {' and '.join(packages)}: make test-trainers")


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


def tinker_turn(seen, done, **metrics):
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
    import tinker
    from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup

    end = tinker.ModelInput.from_ints([])
    return TrajectoryGroup(
        trajectories_G=[Trajectory(transitions=list(x), final_ob=end) for x in trajectories],
        final_rewards_G=list(rewards),
        metrics_G=metrics or [{} for _ in trajectories],
    )


def tinker_data(groups, **options):
    """The cookbook's data with credit: their places and tensors, and the rollout advantages."""
    from tinker_cookbook.rl import data_processing

    from ktae.trainers.tinker import with_credit

    advantages = data_processing.compute_advantages(groups)
    assemble = with_credit(data_processing.assemble_training_data, **options)
    data, places = assemble(groups, advantages)
    tensors = [{key: x.to_torch() for key, x in datum.loss_fn_inputs.items()} for datum in data]
    return data, places, tensors, advantages


def tinker_credit(rollouts, **options):
    needs("tinker", "tinker-cookbook")
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
    from verifiers import v1 as vf

    kind = vf.AssistantMessage if written else vf.UserMessage
    mask = [False] * scaffold + [written] * (len(ids) - scaffold)
    return vf.MessageNode(
        parent=parent,
        message=kind(content="text"),
        sampled=written,
        token_ids=ids,
        mask=mask,
        logprobs=[-0.5] * sum(mask),
    )


def verifiers_trace(nodes, reward, *, name="agent", right=None):
    from verifiers import v1 as vf

    rewards = {"format": vf.Reward(score=reward, weight=2.0)}
    if right is not None:
        rewards["right"] = vf.Reward(score=right, weight=0.0)
    return vf.Trace(
        task=vf.TraceTask(type="Task", data=vf.TaskData(idx=0, prompt="?"), key="t"),
        agent=vf.AgentInfo(config=vf.AgentConfig(), name=name),
        nodes=nodes,
        rewards=rewards,
        metrics={},
        ok=True,
    )


def verifiers_credit(rollouts, **options):
    needs("verifiers")
    from ktae.trainers.lists import Settings
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
