"""The three public functions: check the arrays, dispatch to a backend, return the caller's type."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from typing import Any, Literal, NamedTuple

import numpy as np

from ktae.backends import BACKENDS, device_type, resolve
from ktae.batch import (
    Batch,
    as_array,
    finite_per_rollout,
    is_tensor,
    make_batch,
    on_host,
    out_of_range,
    score_bounds,
)
from ktae.composition import composed_terms, is_composed
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.rollout_advantages import rollout_advantages
from ktae.table import KeyTokenTable

Base = Literal["grpo", "dr_grpo", "rloo"]

_PAPER = KTAEConfig.paper()


class _How(NamedTuple):
    """The arguments that say how to compute, and not what."""

    backend: str
    validate: bool | None
    memory_bytes: int
    tokenizer: Any


def key_token_values(
    token_ids: Any,
    mask: Any,
    correct: Any,
    groups: Any,
    config: KTAEConfig = _PAPER,
    *,
    backend: str = "auto",
    validate: bool | None = None,
    memory_bytes: int = 2**30,
    tokenizer: Any = None,
) -> Any:
    """Key-token terms: how much each token of each rollout speaks for a correct answer.

    Args:
        token_ids: (B, T) integers, 0 to 2^31 - 1 where unmasked, anything elsewhere.
        mask: (B, T) bool, integers or floats; a position counts where it is not 0.
        correct: (B,) bool, or numbers 0, 1 and NaN. NaN is unknown (the verifier ran out of time):
            the rollout is left out of the statistics and its terms are 0. A graded config takes
            other scores, too.
        groups: (B,) integers or strings, the prompt that each rollout answers. Rows of a group
            need not be adjacent, sizes may differ.
        config: weights and variants; `KTAEConfig.paper()` by default.
        backend: `auto`, by the arrays' device, or a name in `ktae.backends()`.
        validate: look at values too and not at shapes and dtypes alone. None, the default: yes on
            the CPU, no on a GPU, where the host would have to wait. False saves that wait and
            nothing else: whatever is in the host's memory is looked at in any case, since that
            costs next to nothing. Unchecked ids count as some token, and what is neither 0 nor
            NaN in `correct` as correct.
        memory_bytes: bound on the memory beyond the output in the torch and triton backends, as
            far as the largest group allows. The CPU backend needs its tables, at most 36 bytes a
            thread for four times the distinct tokens of the largest group (or four to eight times
            the padded length, if that is more), and some megabytes to convert arrays. With units
            other than tokens, or a control, a few arrays of the output's size come on top.
        tokenizer: for units that are made of text (`ktae.units.unit_keys`).

    Returns:
        (B, T) float32, σ(v) - 0.5 of each token's key-token value v (twice that under
        `released`), 0 where masked, and 0 throughout a group that is all correct or all
        incorrect. NumPy arrays give a NumPy array, torch tensors a tensor on the same device.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; it says what and where.

    Source: the KTAE paper, Algorithm 1 and the equations of its section 3.
    """
    arrays = (token_ids, mask, correct, groups)
    return _estimate(arrays, config, None, _How(backend, validate, memory_bytes, tokenizer))


def token_advantages(
    rewards: Any,
    token_ids: Any,
    mask: Any,
    groups: Any,
    *,
    correct: Any = None,
    threshold: float = 0.0,
    config: KTAEConfig = _PAPER,
    base: Base | Any = "grpo",
    backend: str = "auto",
    validate: bool | None = None,
    memory_bytes: int = 2**30,
    tokenizer: Any = None,
) -> Any:
    """Token advantages: the rollout advantage plus the key-token term (paper, eq. "advantage").

    Args:
        rewards: (B,) finite numbers.
        token_ids: (B, T) integers.
        mask: (B, T) bool, integers or floats.
        groups: (B,) integers or strings.
        correct: (B,) as in `key_token_values`. Without it a rollout counts as correct where its
            reward is above `threshold`; a graded config takes the rewards themselves. Give it
            wherever the reward is shaped: under DAPO's overlong penalty a correct but over-long
            rollout may have reward 0.
        threshold: used only without `correct`.
        config: weights and variants.
        base: the rollout advantage. `grpo`: (R - mean) / (std + 1e-6) in the group; `dr_grpo`:
            R - mean; `rloo`: R - mean of the group's others; or (B,) numbers of your own.
        backend: as in `key_token_values`.
        validate: as in `key_token_values`.
        memory_bytes: as in `key_token_values`.
        tokenizer: as in `key_token_values`.

    Returns:
        (B, T) float32, 0 where masked, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; a reward is NaN or infinite.
    """
    check_threshold(threshold)
    stay = _stays_on_device(token_ids) and _stays_on_device(rewards)
    if not (stay and resolve(backend, token_ids).arrays == "torch"):
        (rewards,) = _to_numpy(rewards)
        shape = getattr(token_ids, "shape", None) or as_array("token_ids", token_ids).shape
        rewards = finite_per_rollout("rewards", rewards, shape[0] if shape else 0)
    if correct is None:
        correct = _correct_by(rewards, threshold, config)
    arrays = (token_ids, mask, correct, groups)
    how = _How(backend, validate, memory_bytes, tokenizer)
    return _estimate(arrays, config, (rewards, base), how)


def check_threshold(threshold: Any, name: str = "threshold") -> None:
    """Raise an InputError, which begins with `name`, unless a reward can be above it."""
    if isinstance(threshold, bool) or not isinstance(threshold, numbers.Real):
        raise InputError(f"{name} is {threshold!r}; expected a number")
    if not math.isfinite(threshold):
        raise InputError(f"{name} is {threshold!r}; expected a finite number")


def _correct_by(rewards: Any, threshold: float, config: KTAEConfig) -> Any:
    """What stands for `correct` where there are rewards alone."""
    if not (isinstance(config, KTAEConfig) and config.graded):
        return rewards > threshold
    if isinstance(rewards, np.ndarray):
        for i in out_of_range(rewards, config)[:1]:
            raise InputError(
                f"rewards[{i}] is {rewards[i]}; with a graded config and no `correct` they are the "
                f"scores, {score_bounds(config)}: give `correct`, or statistic='z'"
            )
    return rewards


def key_token_table(
    token_ids: Any,
    mask: Any,
    correct: Any,
    groups: Any,
    config: KTAEConfig = _PAPER,
    *,
    backend: Literal["auto", "cpu", "naive"] = "auto",
) -> KeyTokenTable:
    """One row for each group and token: the counts, every statistic, the value and the term.

    Arguments and errors as in `key_token_values`; the columns are NumPy arrays whatever came. The
    table is for people and files, so it is made on the host. It is of single tokens: the config's
    other units and its control play no part.
    """
    if backend not in ("auto", "cpu", "naive"):
        raise InputError(f"backend is {backend!r}; a table is made by 'auto', 'cpu' or 'naive'")
    if not isinstance(config, KTAEConfig):
        raise InputError(f"config is {config!r}; expected a KTAEConfig")
    batch = make_batch(config, *_to_numpy(token_ids, mask, correct, groups))
    module = BACKENDS["cpu" if backend == "auto" else backend].load()
    table: KeyTokenTable = module.table(batch, config)
    return table


def _estimate(
    arrays: tuple[Any, Any, Any, Any],
    config: KTAEConfig,
    rewards_and_base: tuple[Any, Any] | None,
    how: _How,
) -> Any:
    """Terms, plus the base advantages if there are rewards."""
    _check_settings(config, how.validate, how.memory_bytes)
    token_ids = arrays[0]
    chosen = resolve(how.backend, token_ids)
    module = chosen.load()
    if chosen.arrays == "torch" and _stays_on_device(token_ids):
        return _on_device(module, arrays, config, rewards_and_base, how)
    batch = make_batch(config, *_to_numpy(*arrays))
    group_b = np.empty(len(batch.rows), dtype=np.int64)
    group_b[batch.rows] = np.repeat(np.arange(len(batch.group_ids)), np.diff(batch.starts))
    base_b = np.zeros(len(batch.correct))
    if rewards_and_base:
        base_b = _base_of_arrays(batch, group_b, *_to_numpy(*rewards_and_base))

    def terms(batch: Batch, config: KTAEConfig, base_b: np.ndarray) -> np.ndarray:
        if chosen.arrays != "torch":
            out: np.ndarray = module.terms(batch, config, base_b, memory_bytes=how.memory_bytes)
            return out
        from ktae.backends.tensors import from_batch

        base = sys.modules["torch"].from_numpy(base_b)
        tensors = from_batch(batch)
        out = module.terms(tensors, config, base, memory_bytes=how.memory_bytes).numpy()
        return out

    if is_composed(config):
        out = composed_terms(terms, batch, group_b, config, base_b, tokenizer=how.tokenizer)
    else:
        out = terms(batch, config, base_b)
    if is_tensor(token_ids):
        return sys.modules["torch"].from_numpy(out).to(token_ids.device)
    return out


def _check_settings(config: Any, validate: Any, memory_bytes: Any) -> None:
    if not isinstance(config, KTAEConfig):
        raise InputError(f"config is {config!r}; expected a KTAEConfig")
    if validate is not None and not isinstance(validate, bool):
        raise InputError(f"validate is {validate!r}; expected true, false or None")
    is_integer = hasattr(memory_bytes, "__index__") and not isinstance(memory_bytes, bool)
    if not is_integer or operator.index(memory_bytes) < 0:
        raise InputError(f"memory_bytes is {memory_bytes!r}; expected an integer from 0")


def _on_device(
    module: Any,
    arrays: tuple[Any, Any, Any, Any],
    config: KTAEConfig,
    rewards_and_base: tuple[Any, Any] | None,
    how: _How,
) -> Any:
    """The same, all of it on the device of the token ids."""
    from ktae.backends import tensors

    validate = bool(how.validate)
    batch = tensors.on_device(*arrays, config, validate=validate)
    base_b = batch.correct.new_zeros(batch.correct.shape).double()
    if rewards_and_base:
        base_b = tensors.base_on_device(batch, *rewards_and_base, validate=validate)

    def terms(batch: Any, config: KTAEConfig, base_b: Any) -> Any:
        return module.terms(batch, config, base_b, memory_bytes=how.memory_bytes)

    if not is_composed(config):
        return terms(batch, config, base_b)
    group_b = tensors.group_of_rows(batch)
    return composed_terms(terms, batch, group_b, config, base_b, tokenizer=how.tokenizer)


def _base_of_arrays(
    batch: Batch, group_b: np.ndarray, rewards_b: np.ndarray, base: Any
) -> np.ndarray:
    if not isinstance(base, str):
        return finite_per_rollout("base", base, len(batch.correct))
    counted_b = np.any(batch.mask, axis=1).astype(np.float64)
    advantages_b: np.ndarray = rollout_advantages(
        base, rewards_b, counted_b, lambda x: np.bincount(group_b, x)[group_b]
    )
    return advantages_b


def _stays_on_device(array: Any) -> bool:
    """Whether it is a tensor in other memory than the host's: a GPU's, of whatever make."""
    return is_tensor(array) and device_type(array) != "cpu"


def _to_numpy(*arrays: Any) -> list[Any]:
    """Torch tensors as NumPy arrays (without a copy on the CPU); everything else as it is."""
    return [on_host(x) for x in arrays]
