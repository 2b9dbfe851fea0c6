"""The public functions: checked arrays in, an estimator's credit out, of the caller's type."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np
from typing_extensions import TypedDict, Unpack

from ktae.arrays import (
    Array,
    ArrayLike,
    above,
    as_array,
    computes_there,
    describe,
    is_tensor,
    on_host,
    require_dense,
)
from ktae.backends import CreditTable, numpy
from ktae.batch import (
    Batch,
    Vocabulary,
    check_per_rollout,
    finite_per_rollout,
    group_total,
    in_words,
    make_batch,
    out_of_range,
)
from ktae.errors import InputError
from ktae.estimators import CreditFunction, Estimator, as_estimator
from ktae.estimators.base import ContingencyEstimator
from ktae.estimators.transforms import ignored_by, innermost, require_scale
from ktae.estimators.turn_rewards import padded_turn_rewards
from ktae.rollout_advantages import SCALED, rollout_advantages
from ktae.tables import formula_of, in_tables

Base = Literal["grpo", "dr_grpo", "rloo"]

AnEstimator = Estimator | str | Mapping[str, Any] | CreditFunction
"""An estimator, the name of a preset, a recipe's section `credit`, or a function from rollouts to
credit."""

POLICY = {"log_probs": "log-probability", "entropies": "entropy"}
"""What an estimator may need of the policy, in words."""


class Options(TypedDict, total=False):
    """What `token_credit` takes beside the rollouts and the estimator."""

    vocabulary: Vocabulary | None
    step: int | None
    policy: Mapping[str, ArrayLike] | None
    turn_rewards: ArrayLike | None


def token_credit(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    estimator: AnEstimator = "paper",
    *,
    vocabulary: Vocabulary | None = None,
    step: int | None = None,
    policy: Mapping[str, ArrayLike] | None = None,
    turn_rewards: ArrayLike | None = None,
) -> Array:
    """How much credit each token of each rollout gets beside its rollout's advantage.

    It is computed where the token ids are. What is in a GPU's memory stays there, and its values
    are not looked at, since the host would have to wait: token ids out of range count as some
    token, and what is neither 0 nor NaN in `correct` as correct.

    Args:
        token_ids: (B, T) integers, 0 to 2^31 - 1 where unmasked, anything elsewhere.
        mask: (B, T) bool, or whole numbers from 0; a position counts where it is not 0.
        correct: (B,) bool, or numbers 0, 1 and NaN. NaN is unknown (the verifier ran out of time):
            the rollout is left out of the statistics and its credit is 0. A graded estimator takes
            other scores, too.
        groups: (B,) integers or strings, the prompt that each rollout answers. Rows of a group
            need not be adjacent, sizes may differ.
        estimator: one of `ktae.estimators`, the name of a preset, a mapping as in a recipe, or a
            function of your own.
        vocabulary: the tokens' texts, for units that are made of text
            (`ktae.rollouts.tokens.vocabulary`).
        step: training steps done before these rollouts were sampled, for credit that decays.
        policy: for estimators that weigh by it (`Estimator.needs_policy`), (B, T) numbers of the
            policy that sampled: `log_probs`, the log-probability that it gave each token, and
            `entropies`, the entropy of its distribution there, in nats.
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
    chosen, arrays = as_estimator(estimator), (token_ids, mask, correct, groups)
    options: Options = {"vocabulary": vocabulary, "step": step, "policy": policy}
    options["turn_rewards"] = turn_rewards
    batch = _batch(arrays, chosen, **options)
    return _as_given(chosen.credit(batch), token_ids)


def token_advantages(
    rewards: ArrayLike,
    token_ids: ArrayLike,
    mask: ArrayLike,
    groups: ArrayLike,
    *,
    estimator: AnEstimator = "paper",
    correct: ArrayLike | None = None,
    threshold: float = 0.0,
    base: Base | ArrayLike = "grpo",
    **options: Unpack[Options],
) -> Array:
    """Token advantages: the rollout advantage plus the credit (paper, eq. "advantage").

    Args:
        rewards: (B,) finite numbers.
        token_ids: (B, T) integers.
        mask: (B, T) bool, or whole numbers from 0.
        groups: (B,) integers or strings.
        estimator: as in `token_credit`.
        correct: (B,) as in `token_credit`. Without it a rollout counts as correct where its
            reward is above `threshold`, compared as numbers of the rewards' dtype; a graded
            estimator takes the rewards themselves. Give it wherever the reward is shaped: under
            DAPO's overlong penalty a correct but over-long rollout may have reward 0.
        threshold: used only without `correct`.
        base: the rollout advantage. `grpo`: (R - mean) / (std + 1e-6) in the group; `dr_grpo`:
            R - mean; `rloo`: R - mean of the group's others; or (B,) numbers of your own.
        **options: `vocabulary`, `step`, `policy` and `turn_rewards`, as in `token_credit`.

    Returns:
        (B, T) float32, 0 where masked, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; a reward is NaN or infinite.
    """
    check_threshold(threshold)
    require_dense(rewards=rewards, base=base, token_ids=token_ids)
    chosen = as_estimator(estimator)
    if isinstance(base, str):
        require_scale(chosen, SCALED.get(base), f"base is {base!r}")
    if correct is None:
        _check_rewards(rewards, token_ids, chosen)
        correct = rewards if chosen.score_range else above(rewards, threshold)
    arrays = (token_ids, mask, correct, groups)
    batch = _batch(arrays, chosen, **options)
    base_b = _rollout_advantages(batch, rewards, base)
    credit_bt = chosen.credit(batch)
    if is_tensor(credit_bt):
        credit_bt += base_b[:, None].float() * (batch.mask != 0)
    else:
        # In double precision, so that it is rounded once.
        unmasked_bt = np.not_equal(batch.mask, 0)
        np.add(credit_bt, base_b[:, None], credit_bt, where=unmasked_bt, casting="same_kind")
    return _as_given(credit_bt, token_ids)


def credit_table(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    estimator: AnEstimator = "paper",
) -> CreditTable:
    """One row for each group and token: the counts, every statistic, the value and the credit.

    Arguments and errors as in `token_credit`; the columns are NumPy arrays whatever came. The
    table is for people and files, so it is made on the host. It is of single tokens: the
    estimator's larger units and controls play no part (`ktae.tables.in_tables`).
    """
    chosen = as_estimator(estimator)
    of_tokens = in_tables(chosen)
    if of_tokens is None:
        raise InputError(f"{chosen} rests on no contingency tables, so it has no credit table")
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    arrays = map(on_host, (token_ids, mask, correct, groups))
    batch = make_batch(*arrays, score_range=chosen.score_range, ignored=ignored_by(of_tokens))
    statistic = cast("ContingencyEstimator", innermost(of_tokens))
    table = numpy.table(statistic.prepared(batch), formula_of(of_tokens))
    table.credit[np.isin(table.token_id, ignored_by(of_tokens, counted=True))] = 0.0
    return table


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
    chosen = as_estimator(estimator)
    require_dense(token_ids=token_ids, mask=mask, groups=groups)
    require_dense(classes=classes, class_rewards=class_rewards)
    if chosen.score_range is not None:
        raise InputError(f"{chosen} is graded; expected one of verdicts, since a class is one")
    rewards_k = np.atleast_1d(as_array("class_rewards", on_host(class_rewards)))
    if rewards_k.size == 0:
        raise InputError("class_rewards is empty; expected the reward of each class")
    rewards_k = finite_per_rollout("class_rewards", rewards_k, rewards_k.size)
    class_b = as_array("classes", on_host(classes))
    check_per_rollout("classes", class_b, len(token_ids), "iu", "integers")
    bad = np.flatnonzero((class_b < -1) | (class_b >= rewards_k.size))
    if bad.size:
        raise InputError(
            f"classes[{bad[0]}] is {class_b[bad[0]]}; expected 0 to {rewards_k.size - 1}, the rows "
            "of class_rewards, or -1 (unknown)"
        )
    # The verdicts do not matter: what is needed of the batch here are its groups and its tokens.
    batch = make_batch(*map(on_host, (token_ids, mask, class_b >= 0, groups)))
    counted_b = (batch.mask != 0).any(axis=1) & (class_b >= 0)
    reward_b = np.where(counted_b, rewards_k[class_b], 0.0)
    n_b = group_total(counted_b, batch.group_b).clip(1)
    mean_b = group_total(reward_b, batch.group_b) / n_b
    total: Array = 0
    for k, reward in enumerate(rewards_k):
        correct_b = np.where(class_b >= 0, class_b == k, np.nan)
        credit = token_credit(token_ids, mask, correct_b, groups, chosen, **options)
        weight = (reward - mean_b)[:, None].astype(np.float32)
        total += credit * (weight if isinstance(credit, np.ndarray) else credit.new_tensor(weight))
    return total


def check_threshold(threshold: Any, name: str = "threshold") -> None:
    """Raise an InputError, which begins with `name`, unless a reward can be above it."""
    is_number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    if not is_number or not math.isfinite(threshold):
        raise InputError(f"{name} is {threshold!r}; expected a finite number")


def _check_rewards(rewards: ArrayLike, token_ids: ArrayLike, estimator: Estimator) -> None:
    """Raise an InputError for rewards in the host's memory that tell nothing of correctness."""
    if computes_there(rewards):
        return
    shape = getattr(token_ids, "shape", None) or as_array("token_ids", token_ids).shape
    rewards_b = finite_per_rollout("rewards", on_host(rewards), shape[0] if shape else 0)
    if estimator.score_range is None:
        return
    bad = out_of_range(rewards_b, estimator.score_range)
    if bad.size:
        raise InputError(
            f"rewards[{bad[0]}] is {rewards_b[bad[0]]}; with {estimator} and no `correct` they are "
            f"the scores, {in_words(estimator.score_range)}: give `correct`, or "
            "PresenceZ(graded_rewards=True)"
        )


def _batch(
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    estimator: Estimator,
    **options: Unpack[Options],
) -> Batch:
    """The checked batch: on the device of the token ids, or in the host's memory."""
    token_ids, mask, correct, groups = arrays
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    step = options.get("step")
    is_count = hasattr(step, "__index__") and not isinstance(step, bool)
    if step is not None and not (is_count and operator.index(step) >= 0):
        raise InputError(f"step is {step!r}; expected an integer from 0")
    optional: dict[str, Any] = {"vocabulary": options.get("vocabulary"), "step": step}
    if computes_there(token_ids) and not estimator.on_host:
        from ktae.backends.torch import batch_on_device

        return batch_on_device(*arrays, score_range=estimator.score_range, **optional)
    if estimator.needs_turn_rewards:
        mask_bt = as_array("mask", on_host(mask))
        optional["turn_rewards"] = padded_turn_rewards(options.get("turn_rewards"), mask_bt)
    policy = options.get("policy") or {}
    for name in sorted(estimator.needs_policy):
        if policy.get(name) is None:
            raise InputError(
                f"{estimator} needs the {POLICY[name]} of each token, and there is none; give "
                f"policy={{{name!r}: ...}} (dumps of rollouts hold none)"
            )
        require_dense(**{name: policy[name]})
        numbers_bt = as_array(name, on_host(policy[name]))
        shape = as_array("token_ids", on_host(token_ids)).shape
        if numbers_bt.shape != shape or numbers_bt.dtype.kind not in "iuf":
            raise InputError(f"{name} is {describe(numbers_bt)}; expected numbers of shape {shape}")
        optional[name] = numbers_bt
    return make_batch(*map(on_host, arrays), score_range=estimator.score_range, **optional)


def _rollout_advantages(batch: Batch, rewards: ArrayLike, base: ArrayLike) -> Array:
    """(B,) float64, where the batch is."""

    def numbers_of(name: str, values: ArrayLike) -> Array:
        if not is_tensor(batch.evidence):
            return finite_per_rollout(name, on_host(values), len(batch.evidence))
        from ktae.backends.torch import numbers_on_device

        return numbers_on_device(name, values, batch)

    rewards_b = numbers_of("rewards", rewards)
    if not isinstance(base, str):
        return numbers_of("base", base)
    return rollout_advantages(base, rewards_b, (batch.mask != 0).any(1), batch.group_b)


def _as_given(credit_bt: Array, token_ids: ArrayLike) -> Array:
    """An array as it is; beside tensors, a tensor on their device."""
    if is_tensor(token_ids) and not is_tensor(credit_bt):
        return sys.modules["torch"].from_numpy(credit_bt).to(token_ids.device)
    return credit_bt
