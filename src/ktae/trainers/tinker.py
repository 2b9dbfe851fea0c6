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

from ktae.trainers.lists import (
    Credited,
    Part,
    Rollout,
    Settings,
    credit_of,
    one_of,
    spread,
)

LOSSES = ("importance_sampling", "ppo", "cispo", "dro", "stable_reinforce")
"""They take an advantage for each token. What the last one does with it is not documented."""

Place = tuple[int, int]  # a trajectory: its group, and its place in the group
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
    settings = Settings.of(options).tried().beside(False, "the cookbook's advantages are R - mean")

    @functools.wraps(assemble)
    def assemble_training_data(groups: Any, advantages: Any, *args: Any, **kwargs: Any) -> Any:
        data, places = assemble(groups, advantages, *args, **kwargs)
        credited = add_credit(data, places, groups, advantages, settings)
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
    parts: dict[Place, list[Part]] = {place: [] for place, _ in _trajectories(groups)}
    for place, trajectory in _trajectories(groups):
        before: list[int] = []
        for turn in trajectory.transitions:
            # An observation holds, as a rule, all that was before: what is new in it counts.
            seen, done = turn.ob.to_ints(), list(turn.ac.tokens)
            new = seen[len(before) :] if seen[: len(before)] == before else seen
            counts = float(turn.metrics.get("parse_error_masked", 0.0)) < 1.0
            parts[place] += [(new, [False] * len(new)), (done, [counts] * len(done))]
            before = seen + done
    credited = _credited(parts, groups, None, Settings.of(options))
    by_group: list[list[list[list[float]]]] = [[] for _ in groups]
    for (place, of_turns), values in zip(parts.items(), credited.lists, strict=True):
        by_group[place[0]].append(spread(values, of_turns)[1::2])
    return by_group


def add_credit(
    data: Any, places: Any, groups: Any, advantages: Any, settings: Settings
) -> Credited:
    """Add credit to the cookbook's data in place. All data of a trajectory are one rollout."""
    owners: list[Place] = [(place["group_idx"], place["traj_idx"]) for place in places]
    parts: dict[Place, list[Part]] = {place: [] for place, _ in _trajectories(groups)}
    for owner, datum in zip(owners, data, strict=True):
        # They are shifted by one against the model's input, and so are the advantages.
        ids, mask = (
            datum.loss_fn_inputs[name].to_torch().tolist() for name in ("target_tokens", "mask")
        )
        parts[owner].append((ids, mask))
    credited = _credited(parts, groups, advantages, settings)
    pairs = zip(parts.items(), credited.lists, strict=True)
    rest = {owner: iter(spread(values, of_data)) for (owner, of_data), values in pairs}
    for owner, datum in zip(owners, data, strict=True):
        inputs = datum.loss_fn_inputs
        values = inputs["advantages"].to_torch()
        values = values + values.new_tensor(next(rest[owner]))
        inputs["advantages"] = type(inputs["mask"]).from_torch(values)
    return credited


def _credited(
    parts: dict[Place, list[Part]], groups: Any, advantages: Any, settings: Settings
) -> Credited:
    """The credit of each trajectory's tokens; its metrics are of its steps and of the group."""
    named = [
        {name: x for turn in trajectory.transitions for name, x in turn.metrics.items()}
        | groups[g].metrics_G[t]
        for (g, t), trajectory in _trajectories(groups)
    ]
    rewards = [reward for group in groups for reward in group.get_total_rewards()]
    is_step = len(groups) > 1 or _metrics.get(None) is None  # the loop prints groups, each alone
    scores = settings.scores(rewards, named, is_step=is_step)
    rollouts = []
    for ((g, t), of_place), score in zip(parts.items(), scores, strict=True):
        base = 0.0 if advantages is None else float(advantages[g][t])
        rollouts.append(Rollout.of_parts(of_place, g, score, base))
    return credit_of(rollouts, settings)


def _trajectories(groups: Any) -> Iterator[tuple[Place, Any]]:
    for g, group in enumerate(groups):
        yield from (((g, t), trajectory) for t, trajectory in enumerate(group.trajectories_G))
