"""tinker-cookbook: token credit in the data that its RL loop sends to the service.

The cookbook gives every token of a trajectory that trajectory's advantage. Here the credit of each
sampled token is added to it, at the position of `target_tokens` that holds the token.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ktae.trainers.lists import Credited, Rollout, Settings, credit_of, cut, one_of, spread

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
    own = train.assemble_training_data, train.prepare_minibatch

    async def prepare_minibatch(*args: Any, **kwargs: Any) -> Any:
        token = _metrics.set({})
        try:
            result = await own[1](*args, **kwargs)
            result[1].update(_metrics.get())  # its metrics
        finally:
            _metrics.reset(token)
        return result

    train.assemble_training_data = with_credit(own[0], **options)
    train.prepare_minibatch = prepare_minibatch
    try:
        yield
    finally:
        train.assemble_training_data, train.prepare_minibatch = own


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
        credited = _add(data, places, groups, advantages, settings)
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
    turns = {place: trajectory.transitions for place, trajectory in _trajectories(groups)}
    tokens = {
        place: [x for turn in own if not _masked(turn) for x in turn.ac.tokens]
        for place, own in turns.items()
    }
    credited = _credited(tokens, groups, None, Settings.of(options))
    found: list[list[list[list[float]]]] = [[] for _ in groups]
    for (place, own), values in zip(turns.items(), credited.lists, strict=True):
        masks = [[not _masked(turn)] * len(turn.ac.tokens) for turn in own]
        parts = cut(values, map(sum, masks))
        found[place[0]].append([spread(*both) for both in zip(parts, masks, strict=True)])
    return found


def _add(data: Any, places: Any, groups: Any, advantages: Any, settings: Settings) -> Credited:
    """Add credit to the data in place. All data of a trajectory are one rollout."""
    names = ("target_tokens", "mask", "advantages")  # of equal length: a shift by one is in all
    inputs = [{name: datum.loss_fn_inputs[name].to_torch() for name in names} for datum in data]
    masks = [own["mask"].bool() for own in inputs]
    owners: list[Place] = [(place["group_idx"], place["traj_idx"]) for place in places]
    tokens: dict[Place, list[int]] = {place: [] for place, _ in _trajectories(groups)}
    for owner, own, mask in zip(owners, inputs, masks, strict=True):
        tokens[owner] += own["target_tokens"][mask].tolist()
    credited = _credited(tokens, groups, advantages, settings)
    rest = dict(zip(tokens, map(iter, credited.lists), strict=True))
    for owner, datum, own, mask in zip(owners, data, inputs, masks, strict=True):
        values, part = own["advantages"].clone(), itertools.islice(rest[owner], int(mask.sum()))
        values[mask] += values.new_tensor(list(part))
        datum.loss_fn_inputs["advantages"] = type(datum.loss_fn_inputs["mask"]).from_torch(values)
    return credited


def _credited(
    tokens: dict[Place, list[int]], groups: Any, advantages: Any, own: Settings
) -> Credited:
    """The credit of each trajectory's tokens; its metrics are of its steps and of the group."""
    named = [
        {name: x for turn in trajectory.transitions for name, x in turn.metrics.items()}
        | groups[g].metrics_G[t]
        for (g, t), trajectory in _trajectories(groups)
    ]
    whole = len(groups) > 1 or _metrics.get(None) is None  # the loop prints groups, each alone
    scores = own.scores([x for one in groups for x in one.get_total_rewards()], named, whole=whole)
    base = [0.0 if advantages is None else float(advantages[g][t]) for g, t in tokens]
    parts = zip(tokens.items(), scores, base, strict=True)
    return credit_of([Rollout(ids, place[0], *numbers) for (place, ids), *numbers in parts], own)


def _trajectories(groups: Any) -> Iterator[tuple[Place, Any]]:
    for g, group in enumerate(groups):
        yield from (((g, t), trajectory) for t, trajectory in enumerate(group.trajectories_G))


def _masked(transition: Any) -> bool:
    return float(transition.metrics.get("parse_error_masked", 0.0)) >= 1.0
