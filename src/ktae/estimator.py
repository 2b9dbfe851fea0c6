"""The three public functions: check the arrays, dispatch to a backend, return the caller's type."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np

from ktae import backends
from ktae.batch import finite_per_rollout, make_batch
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.table import KeyTokenTable

Base = Literal["grpo", "dr_grpo", "rloo"]

_PAPER = KTAEConfig.paper()


def key_token_values(
    token_ids: Any,
    mask: Any,
    correct: Any,
    groups: Any,
    config: KTAEConfig = _PAPER,
    *,
    backend: str = "auto",
) -> Any:
    """Key-token terms: how much each token of each rollout speaks for a correct answer.

    Args:
        token_ids: (B, T) integers, 0 to 2^31 - 1 where unmasked, anything elsewhere.
        mask: (B, T) bool, integers or floats; a position counts where it is not 0.
        correct: (B,) bool, or numbers 0, 1 and NaN. NaN is unknown (the verifier ran out of time):
            the rollout is left out of the statistics and its terms are 0.
        groups: (B,) integers or strings, the prompt that each rollout answers. Rows of a group
            need not be adjacent, sizes may differ.
        config: weights and variants; `KTAEConfig.paper()` by default.
        backend: `auto`, or a name in `ktae.backends.BACKENDS`.

    Returns:
        (B, T) float32, σ(v) - 0.5 of each token's key-token value v (twice that under
        `released`), 0 where masked, and 0 throughout a group that is all correct or all
        incorrect. NumPy arrays give a NumPy array, torch tensors a tensor on the same device.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; it says what and where.

    Source: the KTAE paper, Algorithm 1 and the equations of its section 3.
    """
    arrays = _to_numpy(token_ids, mask, correct, groups)
    batch = make_batch(*arrays)
    zero_b = np.zeros(len(batch.correct))
    return _like(token_ids, backends.resolve(backend).terms(batch, config, zero_b))


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
) -> Any:
    """Token advantages: the rollout advantage plus the key-token term (paper, eq. "advantage").

    Args:
        rewards: (B,) finite numbers.
        token_ids: (B, T) integers.
        mask: (B, T) bool, integers or floats.
        groups: (B,) integers or strings.
        correct: (B,) as in `key_token_values`. Without it a rollout counts as correct where its
            reward is above `threshold`. Give it wherever the reward is shaped: under DAPO's
            overlong penalty a correct but over-long rollout may have reward 0.
        threshold: used only without `correct`.
        config: weights and variants.
        base: the rollout advantage. `grpo`: (R - mean) / (std + 1e-6) in the group; `dr_grpo`:
            R - mean; `rloo`: R - mean of the group's others; or (B,) numbers of your own.
        backend: as in `key_token_values`.

    Returns:
        (B, T) float32, 0 where masked, of the type and on the device of `token_ids`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit; a reward is NaN or infinite.
    """
    arrays = _to_numpy(token_ids, mask, groups, rewards, correct, base)
    ids_bt, mask_bt, groups_b, rewards_b, correct_b, base_b = arrays
    n_rows = len(np.atleast_1d(ids_bt))
    rewards_b = finite_per_rollout("rewards", rewards_b, n_rows)
    if correct_b is None:
        correct_b = rewards_b > threshold
    batch = make_batch(ids_bt, mask_bt, correct_b, groups_b)
    if isinstance(base_b, str):
        counted_b = np.any(batch.mask, axis=1)
        base_b = _rollout_advantages(base_b, rewards_b, batch.rows, batch.starts, counted_b)
    else:
        base_b = finite_per_rollout("base", base_b, n_rows)
    return _like(token_ids, backends.resolve(backend).terms(batch, config, base_b))


def key_token_table(
    token_ids: Any,
    mask: Any,
    correct: Any,
    groups: Any,
    config: KTAEConfig = _PAPER,
    *,
    backend: str = "auto",
) -> KeyTokenTable:
    """One row for each group and token: the counts, every statistic, the value and the term.

    Arguments and errors as in `key_token_values`; the columns are NumPy arrays whatever came.
    """
    batch = make_batch(*_to_numpy(token_ids, mask, correct, groups))
    return backends.resolve(backend).table(batch, config)


def _rollout_advantages(
    base: str, rewards_b: np.ndarray, rows: np.ndarray, starts: np.ndarray, counted_b: np.ndarray
) -> np.ndarray:
    """(B,) rollout advantages over each group's rollouts that have a token.

    The standard deviation is the sample's (n - 1), as in verl, on which the paper trained, and in
    TRL. A group of one has advantage 0 (verl leaves the raw reward there).
    """
    if base not in ("grpo", "dr_grpo", "rloo"):
        raise InputError(
            f"base is {base!r}; expected 'grpo', 'dr_grpo', 'rloo' or an array of shape (B,)"
        )
    out = np.zeros(len(rewards_b))
    group_of_row = np.empty(len(rewards_b), dtype=np.int64)
    group_of_row[rows] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    group_b, reward_b = group_of_row[counted_b], rewards_b[counted_b]
    n = np.bincount(group_b, minlength=len(starts) - 1)
    mean = np.bincount(group_b, reward_b, minlength=len(n)) / np.maximum(n, 1)
    centred = reward_b - mean[group_b]
    if base == "grpo":
        variance = np.bincount(group_b, centred**2, minlength=len(n)) / np.maximum(n - 1, 1)
        centred = centred / (np.sqrt(variance) + 1e-6)[group_b]
    elif base == "rloo":
        centred = centred * (n / np.maximum(n - 1, 1))[group_b]
    out[counted_b] = centred
    return out


def _to_numpy(*arrays: Any) -> list[Any]:
    """Torch tensors as NumPy arrays (without a copy on the CPU); everything else as it is."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported torch
    if torch is None:
        return list(arrays)
    return [x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x for x in arrays]


def _like(token_ids: Any, out: np.ndarray) -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(token_ids, torch.Tensor):
        return out
    return torch.from_numpy(out).to(token_ids.device)
