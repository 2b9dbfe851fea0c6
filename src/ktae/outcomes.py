"""Credit of rollouts with more than two outcomes."""

from __future__ import annotations

import numpy as np
from typing_extensions import Unpack

from ktae.arrays import Array, ArrayLike, as_array, on_host, require_dense
from ktae.batch import check_per_rollout, check_tokens, finite_per_rollout, group_labels
from ktae.credit import AnEstimator, Options, token_credit
from ktae.errors import InputError
from ktae.estimators import as_estimator


def class_credit(
    token_ids: ArrayLike,
    mask: ArrayLike,
    classes: ArrayLike,
    class_rewards: ArrayLike,
    groups: ArrayLike,
    estimator: AnEstimator = "paper",
    **options: Unpack[Options],
) -> Array:
    """Credit of rollouts with more than two outcomes.

    Each class k in turn is what `correct` is in `token_credit`, and the others are incorrect. The
    credit is Σ_k (reward_k - r̄) · credit_k, where r̄ is the mean reward of the group's rollouts.
    Rewards that are all alike give 0. With two classes of rewards 0 and 1 that is `token_credit`
    for estimators that change signs alone where right and wrong change places, as all but
    `ConflictTokens`, and `AnchorStates` with `gamma` below 1, do.

    Args:
        token_ids: (B, T) as in `token_credit`.
        mask: (B, T)
        classes: (B,) integers from 0 to K - 1, or -1 for unknown.
        class_rewards: (K,) finite numbers.
        groups: (B,)
        estimator: one that is not graded.
        **options: as in `token_credit`.

    Returns:
        (B, T) float32, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit.
    """
    estimator = as_estimator(estimator)
    require_dense(token_ids=token_ids, mask=mask, classes=classes, groups=groups)
    require_dense(class_rewards=class_rewards)
    if estimator.score_range is not None:
        raise InputError(f"{estimator} is graded; expected one of verdicts, since a class is one")
    rewards_k = np.atleast_1d(as_array("class_rewards", on_host(class_rewards)))
    if rewards_k.size == 0:
        raise InputError("class_rewards is empty; expected the reward of each class")
    rewards_k = finite_per_rollout("class_rewards", rewards_k, rewards_k.size)
    mask_bt = as_array("mask", on_host(mask))
    check_tokens(as_array("token_ids", on_host(token_ids)), mask_bt)
    class_b = _classes(classes, rewards_k.size, len(mask_bt))
    counted_b = np.any(mask_bt, axis=1) & (class_b >= 0)
    labels = group_labels(on_host(groups), len(class_b))
    _, group_b = np.unique(labels, return_inverse=True)
    reward_b = np.zeros(len(class_b))
    reward_b[counted_b] = rewards_k[class_b[counted_b]]
    mean_b = (np.bincount(group_b, reward_b) / np.bincount(group_b, counted_b).clip(1))[group_b]
    total: Array = 0
    for k, reward in enumerate(rewards_k):
        correct_b = np.where(class_b >= 0, class_b == k, np.nan)
        credit = token_credit(token_ids, mask, correct_b, groups, estimator, **options)
        weight = (reward - mean_b)[:, None].astype(np.float32)
        total += credit * (weight if isinstance(credit, np.ndarray) else credit.new_tensor(weight))
    return total


def _classes(classes: ArrayLike, n_classes: int, n_rollouts: int) -> np.ndarray:
    """(B,) integers from -1 to `n_classes` - 1."""
    class_b = as_array("classes", on_host(classes))
    check_per_rollout("classes", class_b, n_rollouts, "iu", "integers")
    bad = np.flatnonzero((class_b < -1) | (class_b >= n_classes))
    if bad.size:
        raise InputError(
            f"classes[{bad[0]}] is {class_b[bad[0]]}; expected 0 to {n_classes - 1}, the rows of "
            "class_rewards, or -1 (unknown)"
        )
    return class_b
