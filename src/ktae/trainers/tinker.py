"""tinker-cookbook: token credit in the data that its RL loop sends to the service.

The cookbook gives every token of a trajectory that trajectory's advantage. Here the credit of each
sampled token is added to it, at the position of `target_tokens` that holds the token.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ktae.estimators.transforms import require_scale
from ktae.trainers.lists import credit_samples
from ktae.trainers.settings import Settings, one_of

LOSSES = ("importance_sampling", "ppo", "cispo", "dro", "stable_reinforce")
_metrics: contextvars.ContextVar[dict[str, float]] = contextvars.ContextVar("metrics")


@contextlib.contextmanager
def token_credit(config: Any, **options: Any) -> Iterator[None]:
    """Within the block, `tinker_cookbook.rl.train` uses token advantages and logs `credit/...`.

    `config` is the run's; `options` are fields of `ktae.trainers.settings.Settings`, of which
    `correctness` is a metric that the environment gives for a step or a trajectory.
    """
    from tinker_cookbook.rl import train

    loss = config.training_loss_fn() if hasattr(config, "training_loss_fn") else config.loss_fn
    one_of("loss_fn", loss, LOSSES, "which would not use token advantages")
    assemble, prepare = train.assemble_training_data, train.prepare_minibatch

    async def prepare_minibatch(*args: Any, **kwargs: Any) -> Any:
        # A variable of this context: the loop may prepare several batches at the same time.
        token = _metrics.set({})
        try:
            result = await prepare(*args, **kwargs)
            result[1].update(_metrics.get())  # its metrics
        finally:
            _metrics.reset(token)
        return result

    train.assemble_training_data = with_credit(assemble, **options)
    train.prepare_minibatch = prepare_minibatch
    try:
        yield
    finally:
        train.assemble_training_data, train.prepare_minibatch = assemble, prepare


def with_credit(assemble: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The cookbook's `assemble_training_data`, or one like it, but with token advantages."""
    settings = Settings(**options).tried()
    require_scale(settings.estimator, False, "the cookbook's advantages are R - mean")

    @functools.wraps(assemble)
    def assemble_training_data(groups: Any, advantages: Any, *args: Any, **kwargs: Any) -> Any:
        data, places = assemble(groups, advantages, *args, **kwargs)
        samples = []
        for datum, place in zip(data, places, strict=True):
            # They are shifted by one against the model's input, and so are the advantages.
            names = ("target_tokens", "mask")
            ids, mask = (datum.loss_fn_inputs[name].to_torch().tolist() for name in names)
            samples.append(((place["group_idx"], place["traj_idx"]), (ids, mask)))
        # Each trajectory's group, score and advantage; its metrics are its steps' and the group's.
        keys = [(g, t) for g, group in enumerate(groups) for t in range(len(group.trajectories_G))]
        named = []
        for g, t in keys:
            steps = [turn.metrics.items() for turn in groups[g].trajectories_G[t].transitions]
            named.append({name: x for step in steps for name, x in step} | groups[g].metrics_G[t])
        rewards = [reward for group in groups for reward in group.get_total_rewards()]
        # The loop prints groups, each alone.
        is_step = len(groups) > 1 or _metrics.get(None) is None
        pairs = zip(keys, settings.scores(rewards, named, is_step=is_step), strict=True)
        owners = {(g, t): (g, score, float(advantages[g][t])) for (g, t), score in pairs}
        credit, metrics = credit_samples(samples, owners, settings)
        for datum, values in zip(data, credit, strict=True):
            inputs = datum.loss_fn_inputs
            total = inputs["advantages"].to_torch()
            inputs["advantages"] = type(inputs["mask"]).from_torch(total + total.new_tensor(values))
        if (collected := _metrics.get(None)) is not None:
            collected |= metrics  # the loop's call comes last, after those for printing
        return data, places

    return assemble_training_data
