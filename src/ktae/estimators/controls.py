"""What token credit must beat: the same credit by labels, values or places drawn at random, and
its parts, those of the group, of the rollout and of the token.

What is drawn for a group or a rollout depends on the seed and on its own counted token ids and on
nothing else: not on the order of the batch, its padding, the process or the device. So processes
that hold the same group agree, and the next step's rollouts are drawn for anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated

import numpy as np
from typing_extensions import override

from ktae.arrays import Array, ArrayLike, on_host
from ktae.batch import Batch, make_batch, row_sums
from ktae.errors import InputError
from ktae.estimators.base import Between
from ktae.estimators.transforms import GroupTransform, PostTransform, Transform


@dataclasses.dataclass(frozen=True, repr=False)
class GroupMean(GroupTransform):
    """A control: every token of a group gets the mean credit of the group, an offset."""

    @override
    def changed_credit(self, credit_bt: Array, batch: Batch) -> Array:
        credit_bt[:] = self.shared(credit_bt, batch)
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class RolloutMean(PostTransform):
    """A control: every token of a rollout gets the mean credit of the rollout's tokens.

    With `WithinRollout` it adds up to the wrapped estimator's credit: what that does to a rollout's
    own advantage, and what it does to its tokens beside each other.
    """

    def means(self, credit_bt: Array, batch: Batch) -> Array:
        """(B, T) float64, each rollout's mean at its counted tokens."""
        counted_bt = batch.counted()
        return (row_sums(credit_bt) / row_sums(counted_bt).clip(1))[:, None] * counted_bt

    @override
    def changed_credit(self, credit_bt: Array, batch: Batch) -> Array:
        credit_bt[:] = self.means(credit_bt, batch)
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class WithinRollout(RolloutMean):
    """A control: the credit less its mean over the rollout, whose own advantage stays as it was."""

    @override
    def changed_credit(self, credit_bt: Array, batch: Batch) -> Array:
        credit_bt -= self.means(credit_bt, batch)
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class RandomControl(Transform):
    """A control that draws at random."""

    seed: Annotated[int, Between(0)] = 0
    """Seeds its random numbers, which depend on it and the rollouts alone; from 0."""

    on_host = True


@dataclasses.dataclass(frozen=True, repr=False)
class PermutedLabels(RandomControl):
    """A control: the estimator sees correctness permuted among the rollouts of each group.

    Rollouts of unknown correctness keep it, and so do those without a counted token.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_turn_rewards:
            raise InputError(
                f"{self.inner} looks at turn rewards and at no label; expected an estimator of "
                "correctness"
            )

    @override
    def credit(self, batch: Batch) -> Array:
        return self.inner.credit(batch._replace(evidence=next(_permuted(batch, [self.seed]))))


@dataclasses.dataclass(frozen=True, repr=False)
class ShuffledValues(RandomControl, PostTransform):
    """A control: credit exchanged among the distinct tokens of each group.

    Each value still belongs to all occurrences of one token. It wraps an estimator of one unit,
    inside of `OverUnits`: then each unit's are exchanged.
    """

    @override
    def changed_credit(self, credit_bt: Array, batch: Batch) -> Array:
        counted_bt, known_b = batch.counted(), batch.known()
        for rows, digests in _groups(batch):
            rng = _generator(self.seed, b"".join(sorted(digests)))
            known = rows[known_b[rows]]
            inside, credit = counted_bt[known], credit_bt[known]
            ids_n, credit_n = batch.token_ids[known][inside], credit[inside]
            tokens, first, which = np.unique(ids_n, return_index=True, return_inverse=True)
            values = credit_n[first]
            several = np.flatnonzero(values[which] != credit_n)
            if len(several):
                assert batch.labels is not None
                group = batch.labels[batch.group_b[rows[0]]]
                raise InputError(
                    f"credit has two values for token {ids_n[several[0]]} in group {group}; "
                    "expected one for each. With several units, let ShuffledValues wrap the "
                    "estimator inside of OverUnits; or take RandomPlaces or PermutedLabels"
                )
            credit[inside] = values[rng.permutation(len(tokens))][which]
            credit_bt[known] = credit
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class RandomPlaces(RandomControl, PostTransform):
    """A control: each rollout's credit, on random tokens of the same rollout."""

    @override
    def changed_credit(self, credit_bt: Array, batch: Batch) -> Array:
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

    Yields (B,) float64 for each seed, integers from 0. The arrays and their errors are those of
    `ktae.token_credit`; `correct` may be graded.
    """
    arrays = map(on_host, (token_ids, mask, correct, groups))
    return _permuted(make_batch(*arrays, graded=True), seeds)


def _permuted(batch: Batch, seeds: Iterable[int]) -> Iterator[np.ndarray]:
    groups = []
    for rows, digests in _groups(batch):
        # By content, so that the rows' order in the group does not matter either.
        labels = batch.evidence[rows].tolist()
        order = sorted(zip(digests, labels, rows.tolist(), strict=True))
        known = [row for _, label, row in order if label == label]  # NaN is not
        groups.append((b"".join(sorted(digests)), np.array(known, dtype=np.int64)))
    for seed in seeds:
        permuted_b = batch.evidence.copy()
        for content, rows in groups:
            permuted_b[rows] = batch.evidence[_generator(seed, content).permutation(rows)]
        yield permuted_b


def _groups(batch: Batch) -> Iterator[tuple[np.ndarray, list[bytes]]]:
    """The rows of each group's rollouts that have a counted token, and digests of these tokens."""
    counted_bt = batch.counted()
    rows, starts = batch.by_group()
    for begin, end in itertools.pairwise(starts):
        some = [row for row in rows[begin:end] if counted_bt[row].any()]
        if some:
            yield np.array(some), [_digest(batch.token_ids[row, counted_bt[row]]) for row in some]


def _digest(ids_n: np.ndarray) -> bytes:
    return hashlib.blake2b(ids_n.astype("<i8", copy=False).tobytes(), digest_size=16).digest()


def _generator(seed: int, content: bytes) -> np.random.Generator:
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype="<u4").tolist()])
