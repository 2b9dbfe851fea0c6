"""What token credit must beat: the same credit by labels, values or places drawn at random, and
its parts, those of the group, of the rollout and of the token.

What is drawn for a group or a rollout depends on the seed and on its own counted token ids and on
nothing else: not on the order of the batch, its padding, the process or the device. So processes
that hold the same group agree, and the next step's rollouts are drawn for anew. Controls that draw
compute in the host's memory: they need not be fast.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from typing_extensions import override

from ktae.arrays import Array, ArrayLike, as_array
from ktae.batch import Batch, check_per_rollout, check_tokens, group_labels, row_sums
from ktae.errors import InputError
from ktae.estimators.base import require_integer
from ktae.estimators.transforms import Moved, OfGroups, OverUnits, Transform


@dataclasses.dataclass(frozen=True, repr=False)
class GroupMean(OfGroups):
    """A control: every token of a group gets the mean credit of the group.

    It is a function of the group alone: an offset of all its advantages, and no rollout or token
    is told from another.
    """

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        credit_bt[:] = self.shared(credit_bt, batch)
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class RolloutMean(Moved):
    """A control: every token of a rollout gets the mean credit of the rollout's tokens.

    With `WithinRollout` it adds up to the wrapped estimator's credit: what that does to a rollout's
    own advantage, and what it does to its tokens beside each other.
    """

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        credit_bt[:] = _rollout_means(credit_bt, batch)
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class WithinRollout(Moved):
    """A control: the credit less its mean over the rollout, whose own advantage stays as it was."""

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        credit_bt -= _rollout_means(credit_bt, batch)
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class Drawn(Transform):
    """A control that draws at random."""

    seed: int = 0
    """Of its random numbers, which depend on it and the rollouts alone; from 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", require_integer("seed", self.seed, 0))

    @property
    @override
    def on_host(self) -> bool:
        return True


@dataclasses.dataclass(frozen=True, repr=False)
class PermutedLabels(Drawn):
    """A control: the estimator sees correctness permuted among the rollouts of each group.

    Tokens and labels then have nothing to do with each other, while the group's size and accuracy
    are what they are. Rollouts of unknown correctness keep it, and so do those without a counted
    token, which no statistic counts.
    """

    @override
    def credit(self, batch: Batch) -> Array:
        arrays = (batch.token_ids, batch.counted(), batch.evidence, batch.group_b)
        return self.inner.credit(batch._replace(evidence=next(_permuted(*arrays, [self.seed]))))


@dataclasses.dataclass(frozen=True, repr=False)
class ShuffledValues(Drawn, Moved):
    """A control: credit exchanged among the distinct tokens of each group.

    The values are as many and as large as the estimator's, and each still belongs to all
    occurrences of one token; only which token has which is left to chance. It wraps an estimator of
    one unit, inside of `OverUnits`: then each unit's are exchanged.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        while isinstance(inner, Transform):
            if isinstance(inner, OverUnits | RandomPlaces | RolloutMean | WithinRollout):
                raise InputError(
                    f"ShuffledValues wraps {type(inner).__name__}, which gives one token several "
                    "values; expected one value for each token of a group. With several units, "
                    "let ShuffledValues wrap the estimator inside of OverUnits"
                )
            inner = inner.inner
        if not inner.one_value_a_token:
            raise InputError(
                f"ShuffledValues wraps {type(inner).__name__}, which gives one token several "
                "values, by its place; expected one value for each token of a group. RandomPlaces "
                "and PermutedLabels are controls of it"
            )

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        counted_bt, known_b = batch.counted(), batch.known()
        for rows in _groups(batch.group_b, counted_bt):
            digests = sorted(_digest(batch.token_ids[row, counted_bt[row]]) for row in rows)
            rng = _generator(self.seed, b"".join(digests))
            places = counted_bt & np.isin(np.arange(len(known_b)), rows[known_b[rows]])[:, None]
            ids_n, credit_n = batch.token_ids[places], credit_bt[places]
            tokens, first, which = np.unique(ids_n, return_index=True, return_inverse=True)
            values = credit_n[first]
            if not np.array_equal(values[which], credit_n):
                token = ids_n[np.flatnonzero(values[which] != credit_n)[0]]
                group = batch.group_b[rows[0]]
                raise InputError(
                    f"credit has two values for token {token} in group "
                    f"{group if batch.labels is None else batch.labels[group]!s}; expected one for "
                    "each token of a group. With several units, let ShuffledValues wrap the "
                    "estimator inside of OverUnits"
                )
            credit_bt[places] = values[rng.permutation(len(tokens))][which]
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class RandomPlaces(Drawn, Moved):
    """A control: each rollout's credit, on random tokens of the same rollout."""

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        for row, counted_t in enumerate(batch.counted()):
            rng = _generator(self.seed, _digest(batch.token_ids[row, counted_t]))
            credit_bt[row, counted_t] = rng.permutation(credit_bt[row, counted_t])
        return credit_bt


def label_permutations(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    seeds: Iterable[int],
) -> Iterator[np.ndarray]:
    """Correctness as `PermutedLabels` has it, for many seeds: the token ids are looked at once.

    Args:
        token_ids: (B, T) integers.
        mask: (B, T) bool, integers or floats; a position counts where it is not 0.
        correct: (B,) bool or numbers; NaN: unknown.
        groups: (B,) integers or strings.
        seeds: integers from 0.

    Yields:
        (B,) of the dtype of `correct`, for each seed.

    Raises:
        InputError: (a ValueError) shapes or dtypes do not fit.
    """
    ids_bt, mask_bt = as_array("token_ids", token_ids), as_array("mask", mask)
    check_tokens(ids_bt, mask_bt)
    labels_b = as_array("correct", correct)
    check_per_rollout("correct", labels_b, len(ids_bt), "biuf", "bool or numbers; NaN is unknown")
    group_b = np.unique(group_labels(groups, len(ids_bt)), return_inverse=True)[1]
    return _permuted(ids_bt, mask_bt != 0, labels_b, group_b, seeds)


def _permuted(
    ids_bt: np.ndarray,
    counted_bt: np.ndarray,
    labels_b: np.ndarray,
    group_b: np.ndarray,
    seeds: Iterable[int],
) -> Iterator[np.ndarray]:
    contents, places = [], []
    for rows in _groups(group_b, counted_bt):
        digests = [_digest(ids_bt[row, counted_bt[row]]) for row in rows]
        contents.append(b"".join(sorted(digests)))
        # By content, so that the rows' order in the group does not matter either.
        order = sorted(zip(digests, labels_b[rows].tolist(), rows.tolist(), strict=True))
        known = [row for _, label, row in order if label == label]  # NaN is not
        places.append(np.array(known, dtype=np.int64))
    for seed in seeds:
        permuted_b = labels_b.copy()
        for content, rows in zip(contents, places, strict=True):
            permuted_b[rows] = labels_b[_generator(seed, content).permutation(rows)]
        yield permuted_b


def _rollout_means(credit_bt: Array, batch: Batch) -> Array:
    """(B, T) float64, each rollout's mean at its counted tokens."""
    counted_bt = batch.counted()
    return (row_sums(credit_bt) / row_sums(counted_bt).clip(1))[:, None] * counted_bt


def _groups(group_b: np.ndarray, counted_bt: np.ndarray) -> Iterator[np.ndarray]:
    """The row numbers of each group's rollouts that have a counted token."""
    order = np.argsort(group_b, kind="stable")
    order = order[np.any(counted_bt[order], axis=1)]
    if len(order):
        yield from np.split(order, np.flatnonzero(np.diff(group_b[order])) + 1)


def _digest(ids_n: np.ndarray) -> bytes:
    return _hash(ids_n.astype("<i8", copy=False).tobytes())


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _generator(seed: int, content: bytes) -> np.random.Generator:
    words = np.frombuffer(_hash(content), dtype="<u4").tolist()
    return np.random.default_rng([require_integer("seed", seed, 0), *words])
