"""What a token term must beat: the same estimator on labels, values or places drawn at random, and
its two parts, the rollout's and the token's.

All are pure functions, deterministic in `seed`, of arrays or tensors, and give back what they got:
arrays for arrays, tensors on the same device for tensors. They compute on the host, wherever the
tensors are: controls need not be fast.

What is drawn for a group or a rollout depends on `seed` and on its own unmasked token ids and on
nothing else: not on the order of the batch, its padding or the process, and not on the device. So
processes that hold the same group agree, and the next step's rollouts are drawn for anew.
"""

from __future__ import annotations

import hashlib
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ktae.batch import (
    as_array,
    check_per_rollout,
    check_tokens,
    describe,
    group_labels,
    is_tensor,
    kind,
    on_host,
)
from ktae.errors import InputError


def permuted_labels(token_ids: Any, mask: Any, correct: Any, groups: Any, *, seed: int) -> Any:
    """Correctness, permuted at random among the rollouts of each group.

    The null model of every term: tokens and labels have nothing to do with each other, while the
    group's size and accuracy are what they are. Rollouts of unknown correctness (NaN) keep it, and
    so do those without an unmasked token, which no statistic counts.

    Args:
        token_ids: (B, T) integers.
        mask: (B, T) bool, integers or floats; a position counts where it is not 0.
        correct: (B,) bool or numbers; NaN: unknown.
        groups: (B,) integers or strings.
        seed: an integer from 0.

    Returns:
        (B,) of the type, dtype and device of `correct`.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit.
    """
    (labels_b,) = label_permutations(token_ids, mask, correct, groups, seeds=[seed])
    return _like(correct, labels_b)


def label_permutations(
    token_ids: Any, mask: Any, correct: Any, groups: Any, *, seeds: Iterable[int]
) -> Iterator[np.ndarray]:
    """`permuted_labels` for many seeds, as arrays; the token ids are looked at once.

    Arguments and errors as in `permuted_labels`.
    """
    ids_bt, mask_bt = _tokens(token_ids, mask)
    labels_b = _numbers("correct", correct, (len(ids_bt),))
    groups_b = group_labels(on_host(groups), len(ids_bt))
    known_b = _known(labels_b)
    contents, places = [], []
    for rows in _groups(groups_b, mask_bt):
        digests = [_rollout_digest(ids_bt, mask_bt, row) for row in rows]
        contents.append(b"".join(sorted(digests)))
        # By content, so that the rows' order in the group does not matter either.
        order = zip(digests, labels_b[rows].tolist(), rows.tolist(), strict=True)
        known = sorted(entry for entry in order if known_b[entry[2]])
        places.append(np.array([row for *_, row in known], dtype=np.int64))
    for seed in seeds:
        out_b = labels_b.copy()
        for content, rows in zip(contents, places, strict=True):
            out_b[rows] = labels_b[_generator(seed, content).permutation(rows)]
        yield out_b


def shuffled_values(
    terms: Any, token_ids: Any, mask: Any, correct: Any, groups: Any, *, seed: int
) -> Any:
    """Terms, exchanged at random among the distinct tokens of each group.

    The values are as many and as large as the estimator's, and each still belongs to all
    occurrences of one token; only which token has which is left to chance.

    Args:
        terms: (B, T) floats, in each group one value a token: what `ktae.key_token_values` gives.
        token_ids: (B, T) integers, or the keys that the terms were computed from (`ktae.units`).
        mask: (B, T) bool, integers or floats.
        correct: (B,) bool or numbers. Rollouts of unknown correctness (NaN) have terms of 0,
            which stay; their tokens do not take part.
        groups: (B,) integers or strings.
        seed: an integer from 0.

    Returns:
        (B, T) of the type, dtype and device of `terms`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit, or a token of a group has two terms.
    """
    ids_bt, mask_bt = _tokens(token_ids, mask)
    terms_bt = _numbers("terms", terms, ids_bt.shape)
    labels_b = _numbers("correct", correct, (len(ids_bt),))
    groups_b = group_labels(on_host(groups), len(ids_bt))
    known_b = _known(labels_b)
    out_bt = np.zeros_like(terms_bt)
    for rows in _groups(groups_b, mask_bt):
        rng = _generator(seed, b"".join(sorted(_rollout_digest(ids_bt, mask_bt, r) for r in rows)))
        rows = rows[known_b[rows]]
        counted = mask_bt[rows]
        ids_n, terms_n = ids_bt[rows][counted], terms_bt[rows][counted]
        tokens, first, which = np.unique(ids_n, return_index=True, return_inverse=True)
        values = terms_n[first]
        if not np.array_equal(values[which], terms_n):
            token = ids_n[np.flatnonzero(values[which] != terms_n)[0]]
            raise InputError(
                f"terms has two values for token {token} in group {groups_b[rows[0]]!s}; expected "
                "one for each token of a group"
            )
        shuffled = np.zeros(counted.shape, dtype=terms_bt.dtype)
        shuffled[counted] = values[rng.permutation(len(tokens))][which]
        out_bt[rows] = shuffled
    return _like(terms, out_bt)


def random_tokens(terms: Any, mask: Any, *, token_ids: Any, seed: int) -> Any:
    """Each rollout's terms, on random unmasked positions of the same rollout.

    Args:
        terms: (B, T) floats.
        mask: (B, T) bool, integers or floats.
        token_ids: (B, T) integers, which decide, with `seed`, what is drawn.
        seed: an integer from 0.

    Returns:
        (B, T) of the type, dtype and device of `terms`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit.
    """
    ids_bt, mask_bt = _tokens(token_ids, mask)
    terms_bt = _numbers("terms", terms, ids_bt.shape)
    out_bt = np.zeros_like(terms_bt)
    for row, mask_t in enumerate(mask_bt):
        rng = _generator(seed, _rollout_digest(ids_bt, mask_bt, row))
        out_bt[row, mask_t] = rng.permutation(terms_bt[row, mask_t])
    return _like(terms, out_bt)


def rollout_means(terms: Any, mask: Any) -> Any:
    """Each rollout's terms, averaged over it: no token is told from another.

    Terms are the sum of this and of `within_rollouts`: what they do to a rollout's own advantage,
    and what they do to its tokens beside each other. Neither is random.

    Args:
        terms: (B, T) floats.
        mask: (B, T) bool, integers or floats.

    Returns:
        (B, T) of the type, dtype and device of `terms`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit.
    """
    terms_bt, mask_bt = _terms(terms, mask)
    return _like(terms, _means(terms_bt, mask_bt))


def within_rollouts(terms: Any, mask: Any) -> Any:
    """Each rollout's terms less their mean, so that its own advantage stays what it was.

    Arguments, result and errors as in `rollout_means`.
    """
    terms_bt, mask_bt = _terms(terms, mask)
    return _like(terms, terms_bt - _means(terms_bt, mask_bt))


PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "rollout-mean": rollout_means,
    "within-rollout": within_rollouts,
}
"""The parts by name."""


def high_entropy(entropies: Any, mask: Any, *, share: float = 0.2) -> Any:
    """Which tokens are among the `share` of highest entropy in the batch.

    A baseline: the policy gradient of these tokens alone (Wang et al. 2025, "Beyond the 80/20
    rule", arXiv:2506.01939), which looks at no label.

    Args:
        entropies: (B, T) floats, the policy's entropy at each position; anything where masked.
        mask: (B, T) bool, integers or floats.
        share: above 0, at most 1. Tokens as uncertain as the last one that belongs all belong.

    Returns:
        (B, T) bool, False where masked, of the type and on the device of `entropies`.

    Raises:
        InputError: (a ValueError) shapes, dtypes or values do not fit.
    """
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    if not is_number or not 0 < share <= 1:
        raise InputError(f"share is {share!r}; expected a number above 0 and at most 1")
    entropies_bt, mask_bt = _floats("entropies", entropies, mask)
    counted_n = entropies_bt[mask_bt]
    bad = np.argwhere(mask_bt & np.isnan(entropies_bt))
    if len(bad):
        raise InputError(f"entropies[{bad[0, 0]}, {bad[0, 1]}] is nan; expected a number")
    if not len(counted_n):
        return _like(entropies, mask_bt)
    last = len(counted_n) - math.ceil(share * len(counted_n))
    threshold = np.partition(counted_n, last)[last]
    with np.errstate(invalid="ignore"):
        chosen_bt: np.ndarray = mask_bt & (entropies_bt >= threshold)
    return _like(entropies, chosen_bt)


def _tokens(token_ids: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    ids_bt, mask_bt = as_array("token_ids", on_host(token_ids)), as_array("mask", on_host(mask))
    check_tokens(ids_bt, mask_bt)
    return ids_bt, np.not_equal(mask_bt, 0)


def _terms(terms: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """Terms, 0 where masked, and the mask."""
    terms_bt, mask_bt = _floats("terms", terms, mask)
    return np.where(mask_bt, terms_bt, 0), mask_bt


def _floats(name: str, values: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) floats as they are, and where they count."""
    array, mask_bt = as_array(name, on_host(values)), as_array("mask", on_host(mask))
    if array.ndim != 2 or array.dtype.kind != "f":
        raise InputError(f"{name} is {describe(array)}; expected floats of shape (B, T)")
    return array, _mask(name, array, mask_bt)


def _means(terms_bt: np.ndarray, mask_bt: np.ndarray) -> np.ndarray:
    means_b = terms_bt.sum(axis=1, dtype=np.float64) / np.maximum(mask_bt.sum(axis=1), 1)
    means_bt: np.ndarray = (means_b[:, None] * mask_bt).astype(terms_bt.dtype)
    return means_bt


def _mask(name: str, array: np.ndarray, mask_bt: np.ndarray) -> np.ndarray:
    if mask_bt.shape != array.shape or kind(mask_bt) not in "biuf":
        raise InputError(
            f"mask is {describe(mask_bt)}; expected bool, integers or floats of the shape of "
            f"{name}, {array.shape}"
        )
    counted_bt: np.ndarray = mask_bt != 0
    return counted_bt


def _numbers(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = as_array(name, on_host(values))
    if len(shape) == 1:
        check_per_rollout(name, array, shape[0], "biuf", "bool or numbers; NaN is unknown")
    elif array.shape != shape or array.dtype.kind != "f":
        raise InputError(f"{name} is {describe(array)}; expected floats of shape {shape}")
    return array


def _known(labels_b: np.ndarray) -> np.ndarray:
    known_b: np.ndarray = np.equal(labels_b, labels_b)  # NaN is not
    return known_b


def _groups(groups_b: np.ndarray, mask_bt: np.ndarray) -> Iterator[np.ndarray]:
    """The row numbers of each group's rollouts that have an unmasked token."""
    _, group_b = np.unique(groups_b, return_inverse=True)
    order = np.argsort(group_b, kind="stable")
    order = order[np.any(mask_bt[order], axis=1)]
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(group_b[order])) + 1)


def _rollout_digest(ids_bt: np.ndarray, mask_bt: np.ndarray, row: int) -> bytes:
    return _digest(ids_bt[row, mask_bt[row]].astype("<i8", copy=False).tobytes())


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _generator(seed: int, content: bytes) -> np.random.Generator:
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or operator.index(seed) < 0:
        raise InputError(f"seed is {seed!r}; expected an integer from 0")
    words = np.frombuffer(_digest(content), dtype="<u4").tolist()
    return np.random.default_rng([operator.index(seed), *words])


def _like(given: Any, array: np.ndarray) -> Any:
    """`array` as a tensor on the device of `given`, if that is one; of its dtype, but for bool."""
    if not is_tensor(given):
        return array
    torch = sys.modules["torch"]
    tensor = torch.from_numpy(array).to(given.device)
    return tensor if tensor.dtype == torch.bool else tensor.to(given.dtype)
