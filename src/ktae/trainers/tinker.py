"""tinker-cookbook: token credit in the data that its RL loop sends to the service.

The cookbook gives every token of a trajectory that trajectory's advantage. Here the credit of each
sampled token is added to it, at the position of `target_tokens` that holds the token.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ktae.estimators.transforms import require_scale
from ktae.trainers.lists import Credited, Part, Rollout, Settings, credit_of, one_of

LOSSES = ("importance_sampling", "ppo", "cispo", "dro", "stable_reinforce")
"""They take an advantage for each token. What the last one does with it is not documented."""

Parts = dict[tuple[int, int], list[Part]]  # by trajectory: its group, and its place in the group
_metrics: contextvars.ContextVar[dict[str, float]] = contextvars.ContextVar("metrics")


@contextlib.contextmanager
def token_credit(config: Any, **options: Any) -> Iterator[None]:
    """Within the block, `tinker_cookbook.rl.train` uses token advantages and logs `credit/...`.

    Args:
        config: the run's `tinker_cookbook.rl.train.Config`.
        **options: fields of `ktae.trainers.lists.Settings`. `correctness` is a metric that the
            environment gives for a step or a trajectory, such as `correct`.

    Raises:
        InputError: an option is wrong, or the run's loss would not use token advantages.
    """
    from tinker_cookbook.rl import train

    loss = config.training_loss_fn() if hasattr(config, "training_loss_fn") else config.loss_fn
    one_of("loss_fn", loss, LOSSES, "which would not use token advantages")
    if loss == LOSSES[-1]:
        logging.getLogger(__name__).warning("how loss_fn=%r uses advantages is not public", loss)
    cookbooks = train.assemble_training_data, train.prepare_minibatch

    async def prepare_minibatch(*args: Any, **kwargs: Any) -> Any:
        # A variable of this context: the loop may prepare several batches at the same time.
        token = _metrics.set({})
        try:
            result = await cookbooks[1](*args, **kwargs)
            result[1].update(_metrics.get())  # its metrics
        finally:
            _metrics.reset(token)
        return result

    train.assemble_training_data = with_credit(cookbooks[0], **options)
    train.prepare_minibatch = prepare_minibatch
    try:
        yield
    finally:
        train.assemble_training_data, train.prepare_minibatch = cookbooks


def with_credit(assemble: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The cookbook's `assemble_training_data`, but with token advantages in the data it gives.

    Args:
        assemble: `tinker_cookbook.rl.data_processing.assemble_training_data`, or one of your own
            whose data have the same inputs and whose second result has the same keys.
        **options: as in `token_credit`.
    """
    settings = Settings.of(options).tried()
    require_scale(settings.estimator, False, "the cookbook's advantages are R - mean")

    @functools.wraps(assemble)
    def assemble_training_data(groups: Any, advantages: Any, *args: Any, **kwargs: Any) -> Any:
        data, places = assemble(groups, advantages, *args, **kwargs)
        owners = [(place["group_idx"], place["traj_idx"]) for place in places]
        parts = _no_parts(groups)
        for owner, datum in zip(owners, data, strict=True):
            # They are shifted by one against the model's input, and so are the advantages.
            names = ("target_tokens", "mask")
            ids, mask = (datum.loss_fn_inputs[name].to_torch().tolist() for name in names)
            parts[owner].append((ids, mask))
        credited = _credited(parts, groups, advantages, settings)
        rest = dict(zip(parts, map(iter, credited.parts), strict=True))
        for owner, datum in zip(owners, data, strict=True):
            inputs = datum.loss_fn_inputs
            values = inputs["advantages"].to_torch()
            values = values + values.new_tensor(next(rest[owner]))
            inputs["advantages"] = type(inputs["mask"]).from_torch(values)
        if (collected := _metrics.get(None)) is not None:
            collected |= credited.metrics()  # the loop's call comes last, after those for printing
        return data, places

    return assemble_training_data


def trajectory_credit(groups: Sequence[Any], **options: Any) -> list[list[list[list[float]]]]:
    """The credit of each sampled token, for a loop that assembles its data itself.

    Args:
        groups: the cookbook's `TrajectoryGroup`s.
        **options: as in `token_credit`.

    Returns:
        By group, trajectory and transition: one number for each of `transition.ac.tokens`; 0 in
        turns that the cookbook masks because they could not be parsed.
    """
    parts = _no_parts(groups)
    for (g, t), of_trajectory in parts.items():
        before: list[int] = []
        for turn in groups[g].trajectories_G[t].transitions:
            # An observation holds, as a rule, all that was before: what is new in it counts.
            seen, done = turn.ob.to_ints(), list(turn.ac.tokens)
            new = seen[len(before) :] if seen[: len(before)] == before else seen
            counts = float(turn.metrics.get("parse_error_masked", 0.0)) < 1.0
            of_trajectory += [(new, [False] * len(new)), (done, [counts] * len(done))]
            before = seen + done
    credited = _credited(parts, groups, None, Settings.of(options))
    by_group: list[list[list[list[float]]]] = [[] for _ in groups]
    for (g, _), credit in zip(parts, credited.parts, strict=True):
        by_group[g].append(credit[1::2])
    return by_group


def _no_parts(groups: Any) -> Parts:
    return {(g, t): [] for g, group in enumerate(groups) for t in range(len(group.trajectories_G))}


def _credited(parts: Parts, groups: Any, advantages: Any, settings: Settings) -> Credited:
    """The credit of each trajectory's tokens, all of whose parts are one rollout. Its metrics are
    those of its steps and of the group."""
    named = []
    for g, t in parts:
        steps = [turn.metrics.items() for turn in groups[g].trajectories_G[t].transitions]
        named.append({name: x for step in steps for name, x in step} | groups[g].metrics_G[t])
    rewards = [reward for group in groups for reward in group.get_total_rewards()]
    is_step = len(groups) > 1 or _metrics.get(None) is None  # the loop prints groups, each alone
    scores = settings.scores(rewards, named, is_step=is_step)
    rollouts = []
    for ((g, t), of_trajectory), score in zip(parts.items(), scores, strict=True):
        base = 0.0 if advantages is None else float(advantages[g][t])
        rollouts.append(Rollout(of_trajectory, g, score, base))
    return credit_of(rollouts, settings)
