"""More than two outcomes: each class against the rest, weighted by its reward."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktae.batch import (
    as_array,
    check_per_rollout,
    check_tokens,
    finite_per_rollout,
    group_labels,
    on_host,
)
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.estimator import key_token_values

_PAPER = KTAEConfig.paper()


def class_token_values(
    token_ids: Any,
    mask: Any,
    classes: Any,
    class_rewards: Any,
    groups: Any,
    config: KTAEConfig = _PAPER,
    **options: Any,
) -> Any:
    """Key-token terms of rollouts with more than two outcomes.

    Each class k in turn is what `correct` is in `key_token_values`, and the others are incorrect.
    The term is Σ_k (reward_k - r̄) · term_k, where r̄ is the mean reward of the group's rollouts.
    With two classes of rewards 0 and 1 that is the term of `key_token_values`; rewards that are
    all alike give 0.

    Args:
        token_ids: (B, T) as in `key_token_values`.
        mask: (B, T)
        classes: (B,) integers from 0 to K - 1, or -1 for unknown.
        class_rewards: (K,) finite numbers.
        groups: (B,)
        config: weights and variants, not graded.
        **options: as in `key_token_values`.

    Returns:
        (B, T) float32, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit.
    """
    class_b, rewards_k = as_array("classes", on_host(classes)), on_host(class_rewards)
    n_rows = len(class_b) if class_b.ndim else 0
    check_per_rollout("classes", class_b, n_rows, "iu", "integers")
    if isinstance(config, KTAEConfig) and config.graded:
        raise InputError("config is graded; expected one of verdicts, since a class is one")
    n_classes = as_array("class_rewards", rewards_k).size
    if n_classes == 0:
        raise InputError("class_rewards is empty; expected the reward of each class")
    rewards_k = finite_per_rollout("class_rewards", rewards_k, n_classes)
    bad = np.flatnonzero((class_b < -1) | (class_b >= n_classes))
    if bad.size:
        raise InputError(
            f"classes[{bad[0]}] is {class_b[bad[0]]}; expected 0 to {n_classes - 1}, the rows of "
            "class_rewards, or -1 (unknown)"
        )
    mask_bt = as_array("mask", on_host(mask))
    check_tokens(as_array("token_ids", on_host(token_ids)), mask_bt)
    counted_b = np.any(mask_bt, axis=1) & (class_b >= 0)
    known_b = class_b >= 0
    _, group_b = np.unique(group_labels(on_host(groups), n_rows), return_inverse=True)
    reward_b = np.zeros(n_rows)
    reward_b[counted_b] = rewards_k[class_b[counted_b]]
    mean_b = (np.bincount(group_b, reward_b) / np.bincount(group_b, counted_b).clip(1))[group_b]
    total: Any = 0
    for k, reward in enumerate(rewards_k):
        correct_b = np.where(known_b, class_b == k, np.nan)
        terms = key_token_values(token_ids, mask, correct_b, groups, config, **options)
        weight = (reward - mean_b)[:, None].astype(np.float32)
        total += terms * (weight if isinstance(terms, np.ndarray) else terms.new_tensor(weight))
    return total
