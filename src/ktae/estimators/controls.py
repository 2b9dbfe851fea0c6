"""What token credit must beat: the same credit by labels, values or places drawn at random, and
its parts, those of the group, of the rollout and of the token.

All are pure functions, deterministic in `seed`, of arrays or tensors, and give back what they got:
arrays for arrays, tensors on the same device for tensors. They compute on the host, wherever the
tensors are: controls need not be fast.

What is drawn for a group or a rollout depends on `seed` and on its own unmasked token ids and on
nothing else: not on the order of the batch, its padding or the process, and not on the device. So
processes that hold the same group agree, and the next step's rollouts are drawn for anew.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator

import numpy as np

from ktae.arrays import Array, ArrayLike, as_array, describe, kind, like, on_host
from ktae.batch import check_per_rollout, check_tokens, group_labels
from ktae.errors import InputError


def permuted_labels(
    token_ids: ArrayLike, mask: ArrayLike, correct: ArrayLike, groups: ArrayLike, *, seed: int
) -> Array:
    """Correctness, permuted at random among the rollouts of each group.

    What a permutation test of credit tests: tokens and labels have nothing to do with each other,
    while the group's size and accuracy are what they are. Rollouts of unknown correctness (NaN)
    keep it, and so do those without an unmasked token, which no statistic counts.

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
    return like(correct, labels_b)


def label_permutations(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    seeds: Iterable[int],
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
    credit: ArrayLike,
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    seed: int,
) -> Array:
    """Credit, exchanged at random among the distinct tokens of each group.

    The values are as many and as large as the estimator's, and each still belongs to all
    occurrences of one token; only which token has which is left to chance.

    Args:
        credit: (B, T) floats, in each group one value a token: what `ktae.token_credit` gives.
        token_ids: (B, T) integers, or the keys that it was computed from (`unit_keys`).
        mask: (B, T) bool, integers or floats.
        correct: (B,) bool or numbers. Rollouts of unknown correctness (NaN) have none,
            which stays; their tokens do not take part.
        groups: (B,) integers or strings.
        seed: an integer from 0.

    Returns:
        (B, T) of the type, dtype and device of `credit`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit, or a token of a group has two
            values.
    """
    ids_bt, mask_bt = _tokens(token_ids, mask)
    credit_bt = _numbers("credit", credit, ids_bt.shape)
    labels_b = _numbers("correct", correct, (len(ids_bt),))
    groups_b = group_labels(on_host(groups), len(ids_bt))
    known_b = _known(labels_b)
    out_bt = np.zeros_like(credit_bt)
    for rows in _groups(groups_b, mask_bt):
        rng = _generator(seed, b"".join(sorted(_rollout_digest(ids_bt, mask_bt, r) for r in rows)))
        rows = rows[known_b[rows]]
        counted = mask_bt[rows]
        ids_n, credit_n = ids_bt[rows][counted], credit_bt[rows][counted]
        tokens, first, which = np.unique(ids_n, return_index=True, return_inverse=True)
        values = credit_n[first]
        if not np.array_equal(values[which], credit_n):
            token = ids_n[np.flatnonzero(values[which] != credit_n)[0]]
            raise InputError(
                f"credit has two values for token {token} in group {groups_b[rows[0]]!s}; expected "
                "one for each token of a group. With several units, let ShuffledValues wrap the "
                "estimator inside of OverUnits"
            )
        shuffled = np.zeros(counted.shape, dtype=credit_bt.dtype)
        shuffled[counted] = values[rng.permutation(len(tokens))][which]
        out_bt[rows] = shuffled
    return like(credit, out_bt)


def random_places(credit: ArrayLike, mask: ArrayLike, *, token_ids: ArrayLike, seed: int) -> Array:
    """Each rollout's credit, on random unmasked positions of the same rollout.

    Args:
        credit: (B, T) floats.
        mask: (B, T) bool, integers or floats.
        token_ids: (B, T) integers, which decide, with `seed`, what is drawn.
        seed: an integer from 0.

    Returns:
        (B, T) of the type, dtype and device of `credit`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit.
    """
    ids_bt, mask_bt = _tokens(token_ids, mask)
    credit_bt = _numbers("credit", credit, ids_bt.shape)
    out_bt = np.zeros_like(credit_bt)
    for row, mask_t in enumerate(mask_bt):
        rng = _generator(seed, _rollout_digest(ids_bt, mask_bt, row))
        out_bt[row, mask_t] = rng.permutation(credit_bt[row, mask_t])
    return like(credit, out_bt)


def rollout_means(credit: ArrayLike, mask: ArrayLike) -> Array:
    """Each rollout's credit, averaged over it: no token is told from another.

    Credit is the sum of this and of `within_rollouts`: what it does to a rollout's own advantage,
    and what it does to its tokens beside each other. Neither is random.

    Args:
        credit: (B, T) floats.
        mask: (B, T) bool, integers or floats.

    Returns:
        (B, T) of the type, dtype and device of `credit`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit.
    """
    credit_bt, mask_bt = _credit(credit, mask)
    return like(credit, _means(credit_bt, mask_bt))


def within_rollouts(credit: ArrayLike, mask: ArrayLike) -> Array:
    """Each rollout's credit less its mean, so that the rollout's advantage stays what it was.

    Arguments, result and errors as in `rollout_means`.
    """
    credit_bt, mask_bt = _credit(credit, mask)
    return like(credit, credit_bt - _means(credit_bt, mask_bt))


def group_means(
    credit: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    over: str = "tokens",
) -> Array:
    """Each group's credit, averaged over the group: neither rollouts nor tokens are told apart.

    Args:
        credit: (B, T) floats.
        mask: (B, T) bool, integers or floats.
        correct: (B,) bool or numbers. Rollouts of unknown correctness (NaN) have no credit, do not
            count for the mean and get 0.
        groups: (B,) integers or strings.
        over: what weighs the same: `tokens`, so that a long rollout weighs more than a short one,
            or `rollouts`, each with the mean of its tokens.

    Returns:
        (B, T) of the type, dtype and device of `credit`, 0 where masked.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit, or `over` is neither.
    """
    require_over(over)
    credit_bt, mask_bt = _credit(credit, mask)
    n_rows = len(credit_bt)
    known_b = _known(_numbers("correct", correct, (n_rows,)))
    _, group_b = np.unique(group_labels(on_host(groups), n_rows), return_inverse=True)
    sums_b = credit_bt.sum(axis=1, dtype=np.float64) * known_b
    weight_b = mask_bt.sum(axis=1) * known_b
    if over == "rollouts":
        sums_b, weight_b = sums_b / np.maximum(weight_b, 1), np.minimum(weight_b, 1)
    means_g = np.bincount(group_b, sums_b) / np.maximum(np.bincount(group_b, weight_b), 1)
    means_bt = (means_g[group_b] * known_b)[:, None] * mask_bt
    return like(credit, means_bt.astype(credit_bt.dtype))


def require_over(over: object) -> None:
    """Raise an InputError unless it is one of the two that `group_means` takes."""
    if over not in ("tokens", "rollouts"):
        raise InputError(f"over is {over!r}; expected tokens or rollouts")


def _tokens(token_ids: ArrayLike, mask: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    ids_bt, mask_bt = as_array("token_ids", on_host(token_ids)), as_array("mask", on_host(mask))
    check_tokens(ids_bt, mask_bt)
    return ids_bt, np.not_equal(mask_bt, 0)


def _credit(credit: ArrayLike, mask: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Credit, 0 where masked, and the mask."""
    credit_bt, mask_bt = _floats("credit", credit, mask)
    return np.where(mask_bt, credit_bt, 0), mask_bt


def _floats(name: str, values: ArrayLike, mask: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) floats as they are, and where they count."""
    array, mask_bt = as_array(name, on_host(values)), as_array("mask", on_host(mask))
    if array.ndim != 2 or array.dtype.kind != "f":
        raise InputError(f"{name} is {describe(array)}; expected floats of shape (B, T)")
    return array, _mask(name, array, mask_bt)


def _means(credit_bt: np.ndarray, mask_bt: np.ndarray) -> np.ndarray:
    means_b = credit_bt.sum(axis=1, dtype=np.float64) / np.maximum(mask_bt.sum(axis=1), 1)
    means_bt: np.ndarray = (means_b[:, None] * mask_bt).astype(credit_bt.dtype)
    return means_bt


def _mask(name: str, array: np.ndarray, mask_bt: np.ndarray) -> np.ndarray:
    if mask_bt.shape != array.shape or kind(mask_bt) not in "biuf":
        raise InputError(
            f"mask is {describe(mask_bt)}; expected bool, integers or floats of the shape of "
            f"{name}, {array.shape}"
        )
    counted_bt: np.ndarray = mask_bt != 0
    return counted_bt


def _numbers(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
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
