"""The public functions: checked arrays in, an estimator's credit out, of the caller's type."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ktae.arrays import (
    Array,
    ArrayLike,
    above,
    as_array,
    device_type,
    is_tensor,
    on_host,
    require_dense,
)
from ktae.backends import BACKENDS, Backend, compiles, resolve
from ktae.backends.table import CreditTable
from ktae.batch import (
    Batch,
    Context,
    finite_per_rollout,
    in_words,
    make_batch,
    numbers_per_token,
    out_of_range,
)
from ktae.errors import InputError
from ktae.estimators import CreditFunction, Estimator, as_estimator
from ktae.estimators.transforms import require_scale
from ktae.rollout_advantages import SCALED, rollout_advantages
from ktae.statistics import Formula

if TYPE_CHECKING:
    from ktae.batch import Vocabulary

Base = Literal["grpo", "dr_grpo", "rloo"]

AnEstimator = Estimator | str | Mapping[str, Any] | CreditFunction
"""An estimator, the name of a preset, a recipe's section `credit`, or a function from rollouts to
credit."""


POLICY = {"log_probs": "log-probability", "entropies": "entropy"}
"""What an estimator may need of the policy, in words."""


class _How(NamedTuple):
    """The arguments that say how to compute, and not what."""

    backend: str
    validate: bool | None
    memory_bytes: int
    vocabulary: Vocabulary | None
    step: int | None
    log_probs: ArrayLike | None
    entropies: ArrayLike | None


def token_credit(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    estimator: AnEstimator = "paper",
    *,
    backend: str = "auto",
    validate: bool | None = None,
    memory_bytes: int = 2**30,
    vocabulary: Vocabulary | None = None,
    step: int | None = None,
    log_probs: ArrayLike | None = None,
    entropies: ArrayLike | None = None,
) -> Array:
    """How much credit each token of each rollout gets beside its rollout's advantage.

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
        backend: `auto`, by the arrays' device, or a name in `ktae.backends()`.
        validate: look at values too and not at shapes and dtypes alone. None, the default: yes on
            the CPU, no on a GPU, where the host would have to wait. False saves that wait and
            nothing else: whatever is in the host's memory is looked at in any case, since that
            costs next to nothing. Unchecked ids count as some token, and what is neither 0 nor
            NaN in `correct` as correct.
        memory_bytes: bound on the memory beyond the output in the torch and triton backends, as
            far as the largest group allows. The CPU backend needs for each thread at most
            48 bytes for eight times the distinct tokens or n-grams of the largest group (or eight
            times the padded length, if that is more), 8 bytes for each of its tokens, and some
            megabytes to convert arrays. With other units, or a control, a few arrays of the
            output's size come on top.
        vocabulary: the tokens' texts, for units that are made of text
            (`ktae.rollouts.tokens.vocabulary`).
        step: training steps done before these rollouts were sampled, for credit that decays.
        log_probs: (B, T) the log-probability that the policy gave each token when it sampled it,
            for estimators that weigh by it (`Estimator.needs_policy`).
        entropies: (B, T) the entropy of the policy's distribution there, in nats, likewise.

    Returns:
        (B, T) float32, 0 where masked. With `paper` it is σ(v) - 0.5 of each token's value v, and 0
        throughout a group that is all correct or all incorrect. NumPy arrays give a NumPy array,
        torch tensors a tensor on the same device.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; it says what and where.

    Source: the KTAE paper, Algorithm 1 and the equations of its section 3.
    """
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    arrays = (token_ids, mask, correct, groups)
    how = _How(backend, validate, memory_bytes, vocabulary, step, log_probs, entropies)
    return _estimate(arrays, as_estimator(estimator), None, how)


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
    backend: str = "auto",
    validate: bool | None = None,
    memory_bytes: int = 2**30,
    vocabulary: Vocabulary | None = None,
    step: int | None = None,
    log_probs: ArrayLike | None = None,
    entropies: ArrayLike | None = None,
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
        backend: as in `token_credit`.
        validate: as in `token_credit`.
        memory_bytes: as in `token_credit`.
        vocabulary: as in `token_credit`.
        step: as in `token_credit`.
        log_probs: as in `token_credit`.
        entropies: as in `token_credit`.

    Returns:
        (B, T) float32, 0 where masked, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; a reward is NaN or infinite.
    """
    check_threshold(threshold)
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    require_dense(rewards=rewards, base=base)
    estimator = as_estimator(estimator)
    if isinstance(base, str):
        require_scale(estimator, SCALED.get(base), f"base is {base!r}")
    given = rewards
    stay = _stays_on_device(token_ids) and _stays_on_device(rewards) and not estimator.on_host
    if not (stay and resolve(backend, token_ids).arrays == "torch"):
        rewards = on_host(rewards)
        shape = getattr(token_ids, "shape", None) or as_array("token_ids", token_ids).shape
        rewards = finite_per_rollout("rewards", rewards, shape[0] if shape else 0)
    if correct is None:
        correct = _correct_by(given, rewards, threshold, estimator)
    arrays = (token_ids, mask, correct, groups)
    how = _How(backend, validate, memory_bytes, vocabulary, step, log_probs, entropies)
    return _estimate(arrays, estimator, (rewards, base), how)


def credit_table(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    estimator: AnEstimator = "paper",
    *,
    backend: Literal["auto", "cpu", "numpy", "naive"] = "auto",
) -> CreditTable:
    """One row for each group and token: the counts, every statistic, the value and the credit.

    Arguments and errors as in `token_credit`; the columns are NumPy arrays whatever came. The
    table is for people and files, so it is made on the host. It is of single tokens: the
    estimator's larger units and controls play no part (`Estimator.in_tables`).
    """
    if backend not in ("auto", "cpu", "numpy", "naive"):
        raise InputError(
            f"backend is {backend!r}; a table is made by 'auto', 'cpu', 'numpy' or 'naive'"
        )
    estimator = as_estimator(estimator)
    of_tokens = estimator.in_tables()
    if of_tokens is None:
        raise InputError(f"{estimator} rests on no contingency tables, so it has no credit table")
    require_dense(token_ids=token_ids, mask=mask, correct=correct, groups=groups)
    arrays = [on_host(array) for array in (token_ids, mask, correct, groups)]
    chosen = _for_arrays(BACKENDS["cpu" if backend == "auto" else backend], backend, arrays[1])
    module = chosen.load()
    batch = make_batch(*arrays, score_range=estimator.score_range, context=Context(module.credit))
    return of_tokens.table(batch, module.table)


def check_threshold(threshold: Any, name: str = "threshold") -> None:
    """Raise an InputError, which begins with `name`, unless a reward can be above it."""
    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real):
        raise InputError(f"{name} is {threshold!r}; expected a number")
    if not math.isfinite(threshold):
        raise InputError(f"{name} is {threshold!r}; expected a finite number")


def _correct_by(given: ArrayLike, rewards: Array, threshold: float, estimator: Estimator) -> Array:
    """What stands for `correct` where there are rewards alone: as they were given, and checked."""
    score_range = estimator.score_range
    if score_range is None:
        return above(given, threshold)
    if isinstance(rewards, np.ndarray):
        for i in out_of_range(rewards, score_range)[:1]:
            raise InputError(
                f"rewards[{i}] is {rewards[i]}; with {estimator} and no `correct` they are the "
                f"scores, {in_words(score_range)}: give `correct`, or "
                "PresenceZ(graded_rewards=True)"
            )
    return rewards


def _estimate(
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    estimator: Estimator,
    rewards_and_base: tuple[ArrayLike, ArrayLike] | None,
    how: _How,
) -> Array:
    """Credit, plus the rollout advantages if there are rewards."""
    _check_how(how)
    token_ids = arrays[0]
    chosen = resolve(how.backend, token_ids)
    if chosen.arrays == "torch" and _stays_on_device(token_ids) and not estimator.on_host:
        return _on_device(chosen, arrays, estimator, rewards_and_base, how)
    own = [on_host(array) for array in arrays]
    chosen = _for_arrays(chosen, how.backend, own[1])
    context = Context(
        _on_arrays(chosen, how.memory_bytes), how.vocabulary, how.step,
        compiled=chosen.name not in ("naive", "numpy"),
        ngrams=chosen.ngrams,
        policy=_of_policy(estimator, how, token_ids),
    )  # fmt: skip
    batch = make_batch(*own, score_range=estimator.score_range, context=context)
    if rewards_and_base:
        batch = batch._replace(base=_base(batch, *map(on_host, rewards_and_base)))
    credit_bt = estimator.credit(batch)
    if is_tensor(token_ids):
        return sys.modules["torch"].from_numpy(credit_bt).to(token_ids.device)
    return credit_bt


def _for_arrays(chosen: Backend, asked_for: str, mask: ArrayLike) -> Backend:
    """The backend, or `numpy` for few tokens if `cpu` was not asked for by name."""
    few = asked_for == "auto" and chosen.name == "cpu" and not compiles(as_array("mask", mask))
    return BACKENDS["numpy"] if few else chosen


def _on_arrays(chosen: Backend, memory_bytes: int) -> Any:
    """`Context.contingency` for arrays."""
    module = chosen.load()
    if chosen.arrays == "numpy":
        return module.credit

    def contingency(batch: Batch, formula: Formula) -> np.ndarray:
        from ktae.backends.tensors import from_batch

        credit = module.credit(from_batch(batch), formula, memory_bytes=memory_bytes)
        credit_bt: np.ndarray = credit.numpy()
        return credit_bt

    return contingency


def _on_device(
    chosen: Backend,
    arrays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    estimator: Estimator,
    rewards_and_base: tuple[ArrayLike, ArrayLike] | None,
    how: _How,
) -> Array:
    """The same, all of it on the device of the token ids."""
    from ktae.backends import tensors

    module, validate = chosen.load(), bool(how.validate)

    def contingency(batch: Any, formula: Formula) -> Array:
        return module.credit(batch, formula, memory_bytes=how.memory_bytes)

    context = Context(contingency, how.vocabulary, how.step)
    batch = tensors.on_device(
        *arrays, score_range=estimator.score_range, context=context, validate=validate
    )
    if rewards_and_base:
        base_b = tensors.base_on_device(batch, *rewards_and_base, validate=validate)
        batch = batch._replace(base=base_b)
    return estimator.credit(batch)


def _of_policy(estimator: Estimator, how: _How, token_ids: ArrayLike) -> dict[str, np.ndarray]:
    """`Context.policy`: what the estimator needs, and nothing else."""
    found = {}
    for name in sorted(estimator.needs_policy):
        given = getattr(how, name)
        if given is None:
            raise InputError(
                f"{estimator} needs the {POLICY[name]} of each token, and there is none; give "
                f"{name}= (dumps of rollouts hold none)"
            )
        require_dense(**{name: given})
        shape = as_array("token_ids", on_host(token_ids)).shape
        found[name] = numbers_per_token(name, on_host(given), shape)
    return found


def _check_how(how: _How) -> None:
    if how.validate is not None and not isinstance(how.validate, bool):
        raise InputError(f"validate is {how.validate!r}; expected true, false or None")
    _check_count("memory_bytes", how.memory_bytes)
    if how.step is not None:
        _check_count("step", how.step)


def _check_count(name: str, value: Any) -> None:
    is_integer = hasattr(value, "__index__") and not isinstance(value, bool)
    if not is_integer or operator.index(value) < 0:
        raise InputError(f"{name} is {value!r}; expected an integer from 0")


def _base(batch: Batch, rewards_b: np.ndarray, base: ArrayLike) -> np.ndarray:
    """(B,) float64 rollout advantages."""
    if not isinstance(base, str):
        return finite_per_rollout("base", base, len(batch.correct))
    group_b = batch.group_b
    counted_b = np.any(batch.mask, axis=1).astype(np.float64)
    advantages_b: np.ndarray = rollout_advantages(
        base, rewards_b, counted_b, lambda x: np.bincount(group_b, x)[group_b]
    )
    return advantages_b


def _stays_on_device(array: ArrayLike) -> bool:
    """Whether it is a tensor in other memory than the host's: a GPU's, of whatever make."""
    return is_tensor(array) and device_type(array) != "cpu"
