"""The public functions: checked arrays in, an estimator's credit out, of the caller's type."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ktae.arrays import (
    Array,
    ArrayLike,
    above,
    as_array,
    describe,
    is_tensor,
    on_host,
    on_supported_device,
    require_dense,
)
from ktae.batch import Batch, Vocabulary, finite_per_rollout, make_batch
from ktae.errors import InputError
from ktae.estimators import DEFAULT, CreditFunction, Estimator, as_estimator, resolved
from ktae.estimators.transforms import ignored_by, require_scale
from ktae.estimators.turn_rewards import padded_turn_rewards
from ktae.rollout_advantages import SCALED, rollout_advantages
from ktae.tables import CreditTable, in_tables, table_of

Base = Literal["grpo", "dr_grpo", "rloo"]

AnEstimator = Estimator | str | Mapping[str, Any] | CreditFunction
"""An estimator, its name, a recipe's section `credit`, or a function from rollouts to credit."""

POLICY = {"log_probs": "log-probability", "entropies": "entropy"}
"""What an estimator may need of the policy, in words."""


def token_credit(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    credit: AnEstimator = DEFAULT,
    *,
    vocabulary: Vocabulary | None = None,
    policy: Mapping[str, ArrayLike] | None = None,
    turn_rewards: ArrayLike | None = None,
) -> Array:
    """How much credit each token of each rollout gets beside its rollout's advantage.

    It is computed where the token ids are. What is in a GPU's memory is not looked at, since the
    host would have to wait: ids out of range count as some token, and what is neither 0 nor NaN in
    `correct` as correct.

    Args:
        token_ids: (B, T) integers, 0 to 2^31 - 1 where unmasked, anything elsewhere.
        mask: (B, T) bool, or whole numbers from 0; a position counts where it is not 0.
        correct: (B,) bool, or numbers 0, 1 and NaN. NaN is unknown (the verifier ran out of time):
            the rollout is left out of the statistics and its credit is 0. A graded estimator takes
            other scores, too.
        groups: (B,) integers or strings, the prompt that each rollout answers. Rows of a group
            need not be adjacent, sizes may differ.
        credit: the estimator: one of `ktae.estimators`, the name of a preset, a mapping as in a
            recipe, or a function of your own, perhaps as text (`mine.py:function`).
        vocabulary: the tokens' texts, for units that are made of text
            (`ktae.rollouts.tokens.vocabulary`).
        policy: for estimators that weigh by it, (B, T) numbers of the policy that sampled:
            `log_probs` of the tokens, and `entropies` of its distributions there, in nats.
        turn_rewards: for estimators of rewards by turn, a list of numbers for each rollout: one for
            each of its turns (`ktae.turns`), of which the last may be missing.

    Returns:
        (B, T) float32, 0 where masked. With `paper` it is σ(v) - 0.5 of each token's value v, and 0
        throughout a group that is all correct or all incorrect. NumPy arrays give a NumPy array,
        torch tensors a tensor on the same device.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; it says what and where.

    Source: the KTAE paper, Algorithm 1 and the equations of its section 3.
    """
    estimator, arrays = _resolved(credit), (token_ids, mask, correct, groups)
    batch = _batch(arrays, estimator, vocabulary, policy, turn_rewards)
    return _like_input(estimator.credit(batch), token_ids)


def token_advantages(
    rewards: ArrayLike,
    token_ids: ArrayLike,
    mask: ArrayLike,
    groups: ArrayLike,
    *,
    credit: AnEstimator = DEFAULT,
    correct: ArrayLike | None = None,
    threshold: float = 0.0,
    base: Base | ArrayLike = "grpo",
    vocabulary: Vocabulary | None = None,
    policy: Mapping[str, ArrayLike] | None = None,
    turn_rewards: ArrayLike | None = None,
) -> Array:
    """Token advantages: the rollout advantage plus the credit (paper, eq. "advantage").

    Args:
        rewards: (B,) finite numbers.
        token_ids: (B, T), as in `token_credit`, and so are `mask`, `groups` and `credit`.
        correct: (B,) as in `token_credit`. Without it a rollout counts as correct where its
            reward is above `threshold`, compared as numbers of the rewards' dtype; a graded
            estimator takes the rewards themselves. Give it wherever the reward is shaped: under
            DAPO's overlong penalty a correct but over-long rollout may have reward 0.
        threshold: used only without `correct`.
        base: the rollout advantage. `grpo`: (R - mean) / (std + 1e-6) in the group; `dr_grpo`:
            R - mean; `rloo`: R - mean of the group's others; or (B,) numbers of your own.
        vocabulary: as in `token_credit`, and so are `policy` and `turn_rewards`.

    Returns:
        (B, T) float32, 0 where masked, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; a reward is NaN or infinite.
    """
    check_threshold(threshold)
    require_dense(rewards=rewards, base=base, token_ids=token_ids)
    estimator = _resolved(credit)
    if isinstance(base, str):
        require_scale(estimator, SCALED.get(base), f"base is {base!r}")
    if correct is None:
        if not on_supported_device(rewards):
            shape = getattr(token_ids, "shape", None) or as_array("token_ids", token_ids).shape
            finite_per_rollout("rewards", on_host(rewards), *(shape or [0])[:1])
        correct = rewards if estimator.takes_scores else above(rewards, threshold)
    arrays = (token_ids, mask, correct, groups)
    batch = _batch(arrays, estimator, vocabulary, policy, turn_rewards)
    base_b = _numbers("rewards", rewards, batch)
    if isinstance(base, str):
        base_b = rollout_advantages(base, base_b, (batch.mask != 0).any(1), batch.group_b)
    else:
        base_b = _numbers("base", base, batch)
    credit_bt = estimator.credit(batch)
    if is_tensor(credit_bt):
        credit_bt += base_b[:, None].float() * (batch.mask != 0)
    else:
        # In double precision, so that it is rounded once.
        unmasked_bt = np.not_equal(batch.mask, 0)
        np.add(credit_bt, base_b[:, None], credit_bt, where=unmasked_bt, casting="same_kind")
    return _like_input(credit_bt, token_ids)


def credit_table(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    credit: AnEstimator = "paper",
) -> CreditTable:
    """One row for each group and token: the counts, every statistic, the value and the credit.

    Arguments and errors as in `token_credit`; it is made on the host, of NumPy arrays. It is of
    single tokens: larger units and controls are left out (`ktae.tables.in_tables`).
    """
    estimator = _resolved(credit)
    of_tokens = in_tables(estimator)
    if of_tokens is None:
        raise InputError(f"{estimator} rests on no contingency tables, so it has no credit table")
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    arrays = map(on_host, (token_ids, mask, correct, groups))
    ignored = ignored_by(of_tokens)
    return table_of(make_batch(*arrays, graded=estimator.takes_scores, ignored=ignored), of_tokens)


def check_threshold(threshold: Any, name: str = "threshold") -> None:
    """Raise an InputError, which begins with `name`, unless a reward can be above it."""
    is_number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    if not is_number or not math.isfinite(threshold):
        raise InputError(f"{name} is {threshold!r}; expected a finite number")


def _resolved(credit: AnEstimator) -> Estimator:
    """The estimator; one that is named by text is imported, for the caller has named it."""
    estimator = as_estimator(credit, "credit")
    return resolved(estimator) if isinstance(credit, str) else estimator


def _batch(
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    estimator: Estimator,
    vocabulary: Vocabulary | None,
    policy: Mapping[str, ArrayLike] | None,
    turn_rewards: ArrayLike | None,
) -> Batch:
    """The checked batch: on the device of the token ids, or in the host's memory."""
    token_ids, mask, correct, groups = arrays
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    optional: dict[str, Any] = {"vocabulary": vocabulary}
    if on_supported_device(token_ids) and not estimator.on_host:
        from ktae.device_batch import batch_on_device

        return batch_on_device(*arrays, graded=estimator.takes_scores, **optional)
    if estimator.needs_turn_rewards:
        mask_bt = as_array("mask", on_host(mask))
        optional["turn_rewards"] = padded_turn_rewards(turn_rewards, mask_bt)
    for name in sorted(estimator.needs_policy):
        numbers_bt = (policy or {}).get(name)
        if numbers_bt is None:
            raise InputError(
                f"{estimator} needs the {POLICY[name]} of each token, and there is none; give "
                f"policy={{{name!r}: ...}} (dumps of rollouts hold none)"
            )
        require_dense(**{name: numbers_bt})
        numbers_bt = as_array(name, on_host(numbers_bt))
        shape = as_array("token_ids", on_host(token_ids)).shape
        if numbers_bt.shape != shape or numbers_bt.dtype.kind not in "iuf":
            raise InputError(f"{name} is {describe(numbers_bt)}; expected numbers of shape {shape}")
        optional[name] = numbers_bt
    return make_batch(*map(on_host, arrays), graded=estimator.takes_scores, **optional)


def _numbers(name: str, values: ArrayLike, batch: Batch) -> Array:
    """(B,) float64, where the batch is."""
    if not is_tensor(batch.evidence):
        return finite_per_rollout(name, on_host(values), len(batch.evidence))
    from ktae.device_batch import numbers_on_device

    return numbers_on_device(name, values, batch)


def _like_input(credit_bt: Array, token_ids: ArrayLike) -> Array:
    """An array as it is; beside tensors, a tensor on their device."""
    if is_tensor(token_ids) and not is_tensor(credit_bt):
        return sys.modules["torch"].from_numpy(credit_bt).to(token_ids.device)
    return credit_bt
