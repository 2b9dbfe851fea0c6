"""What token credit must beat: credit of permuted labels, and the same credit at random places.

What is drawn depends on the seed and on the group's (or rollout's) own counted token ids alone.
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
from ktae.batch import Batch, make_batch
from ktae.errors import InputError
from ktae.estimators.base import Between
from ktae.estimators.transforms import Transform

Seed = Annotated[int, Between(0)]


@dataclasses.dataclass(frozen=True, repr=False)
class PermutedLabels(Transform):
    """A control: the estimator sees correctness permuted among the rollouts of each group.

    Rollouts of unknown correctness keep it, and so do those without a counted token.
    """

    seed: Seed = 0

    on_host = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_turn_rewards:
            raise InputError(f"{self.inner} looks at no label; expected an estimator that does")

    @override
    def credit(self, batch: Batch) -> Array:
        return self.inner.credit(batch._replace(evidence=next(_permuted(batch, [self.seed]))))


@dataclasses.dataclass(frozen=True, repr=False)
class RandomPlaces(Transform):
    """A control: each response's credit, on random tokens of the same response."""

    seed: Seed = 0

    on_host = True

    @override
    def credit(self, batch: Batch) -> Array:
        credit_bt = self.inner.credit(batch)
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
    """(B,) float64 correctness for each seed, as `PermutedLabels` has it; integers from 0.

    The arrays and their errors are those of `ktae.token_credit`; `correct` may be graded.
    """
    arrays = map(on_host, (token_ids, mask, correct, groups))
    return _permuted(make_batch(*arrays, graded=True), seeds)


def _permuted(batch: Batch, seeds: Iterable[int]) -> Iterator[np.ndarray]:
    counted_bt, evidence = batch.counted(), batch.evidence
    rows, starts = batch.by_group()
    groups = []
    for begin, end in itertools.pairwise(starts):
        # By content, so that the rows' order in the group does not matter either.
        members = sorted(
            (_digest(batch.token_ids[row, counted_bt[row]]), float(evidence[row]), row)
            for row in rows[begin:end].tolist()
            if counted_bt[row].any()
        )
        known = [row for _, label, row in members if label == label]  # NaN is not
        content = b"".join(digest for digest, _, _ in members)
        groups.append((content, np.array(known, dtype=np.int64)))
    for seed in seeds:
        permuted_b = evidence.copy()
        for content, known_rows in groups:
            permuted_b[known_rows] = evidence[_generator(seed, content).permutation(known_rows)]
        yield permuted_b


def _digest(ids_n: np.ndarray) -> bytes:
    return hashlib.blake2b(ids_n.astype("<i8", copy=False).tobytes(), digest_size=16).digest()


def _generator(seed: int, content: bytes) -> np.random.Generator:
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype="<u4").tolist()])
