"""Batches on which a backend may go wrong, and estimators of every formula."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.estimators import KTAE, Estimator, Ignoring, OverUnits, PresenceZ, Scaled, preset

ESTIMATORS: dict[str, Estimator] = {
    "paper": preset("paper"),
    "released": Ignoring(preset("released"), (2, 5)),
    "point": Ignoring(KTAE(fisher="point"), (1,)),
    "mean lengths": Ignoring(KTAE(lengths="mean"), (1,), counted=True),
    "no_fisher": preset("no-fisher"),
    "no_information_gain": preset("no-ig"),
    "no_term_frequency": preset("no-tf"),
    "odd_numbers": KTAE(h1=0.3, h2=1.7, h3=0.01, k1=1.2, b_len=0.75, eps=1e-3),
    "z": Scaled(Ignoring(PresenceZ(), (1,)), 0.3),
    "float32, mean lengths": Ignoring(KTAE(lengths="mean", fisher="float32"), (2,)),
    "released point": preset("released", fisher="point", h3=0.1),
    "trigrams": preset("trigrams"),
    "sharp z": PresenceZ(sharp=True),
    "graded z": PresenceZ(graded_rewards=True),
    "n-grams": OverUnits(KTAE(), ("token", "bigram", "trigram")),
    "graded n-grams": OverUnits(PresenceZ(graded_rewards=True), ("token", "trigram")),
    "backoff": preset("backoff"),
}


class Rollouts(NamedTuple):
    """Arguments of `token_credit`."""

    token_ids: np.ndarray
    mask: np.ndarray
    correct: np.ndarray
    groups: np.ndarray

    def take(self, rows: Any) -> "Rollouts":
        return Rollouts(*(array[rows] for array in self))


def rollouts(
    sizes: Sequence[int],
    n_columns: int,
    vocabulary: int = 60,
    *,
    largest_id: int | None = None,
    holes: float = 0.1,
    empty: float = 0.05,
    unknown: float = 0.1,
    shuffled: bool = True,
    seed: int = 0,
) -> Rollouts:
    """Groups of the given sizes; tokens fall off like Zipf's, correct and incorrect ones differ."""
    rng = np.random.default_rng(seed)
    n_rows = sum(sizes)
    correct = rng.integers(0, 2, n_rows)
    exponent = np.where(correct, 1.3, 1.1)[:, None]
    rank = (vocabulary * rng.random((n_rows, n_columns)) ** (3 * exponent)).astype(np.int64)
    ids = rank if largest_id is None else np.round(rank * (largest_id / (vocabulary - 1)))
    lengths = rng.integers(0, n_columns + 1, n_rows) * (rng.random(n_rows) >= empty)
    mask = (np.arange(n_columns) < lengths[:, None]) & (rng.random(ids.shape) >= holes)
    ids = np.where(mask, ids, rng.integers(-100, 2**40, ids.shape)).astype(np.int64)
    verdict = np.where(rng.random(n_rows) < unknown, np.nan, correct)
    groups = np.repeat(rng.permutation(1000)[: len(sizes)], sizes)
    order = rng.permutation(n_rows) if shuffled else np.arange(n_rows)
    return Rollouts(ids[order], mask[order], verdict[order], groups[order])


def graded(batch: Rollouts, estimator: Estimator) -> Rollouts:
    """The batch with scores where the estimator takes them: some rewards of a group alike, some 0
    and 1, and some groups of one reward alone."""
    if not estimator.takes_scores:
        return batch
    known = np.nan_to_num(batch.correct)
    score = np.round(0.3 * known + 0.7 * np.random.default_rng(7).random(len(known)), 1)
    score = np.where(batch.groups % 5 == 0, 0.1, np.where(batch.groups % 3 == 0, known, score))
    return batch._replace(correct=np.where(np.isnan(batch.correct), np.nan, 20 * score - 7))


def distinct(n_tokens: int, n_rows: int = 4, seed: int = 0) -> Rollouts:
    """A group of `n_tokens` distinct tokens, each of them twice, between two small groups."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([rng.permutation(n_tokens), rng.permutation(n_tokens)])
    n_columns = -(-len(ids) // n_rows)
    ids = np.pad(ids, (0, n_rows * n_columns - len(ids))).reshape(n_rows, n_columns) * 97
    small = rollouts([5, 5], n_columns, shuffled=False, seed=seed)
    return Rollouts(
        np.concatenate([small.token_ids[:5], ids, small.token_ids[5:]]),
        np.concatenate([small.mask[:5], np.ones_like(ids, dtype=bool), small.mask[5:]]),
        np.concatenate([small.correct[:5], np.arange(n_rows) % 2, small.correct[5:]]),
        np.repeat([0, 1, 2], [5, n_rows, 5]),
    )


BATCHES = {
    **{
        f"groups of {size}, T = {n_columns}": rollouts([size] * n, n_columns, seed=size)
        for size, n in ((1, 5), (2, 9), (3, 7), (47, 3))
        for n_columns in (1, 31, 123)
    },
    "sizes that differ": rollouts([1, 2, 3, 47, 16, 1, 8, 5], 31),
    "sorted": rollouts([16] * 4, 123, shuffled=False),
    "all known, full": rollouts([16] * 4, 40, empty=0, unknown=0, holes=0),
    "mostly unknown": rollouts([16] * 4, 40, unknown=0.8),
    "mostly empty": rollouts([16] * 4, 40, empty=0.8),
    "nothing at all": rollouts([3, 4], 17, empty=1),
    "two tokens": rollouts([16] * 6, 5, vocabulary=2),
    "ids to 2^31 - 1": rollouts([16] * 4, 123, vocabulary=500, largest_id=2**31 - 1),
    "ids that collide": rollouts([16] * 4, 123, vocabulary=500, largest_id=499 << 22),
    "largest memo": rollouts([126, 127, 128, 130], 31, unknown=0, empty=0),
    "300 rollouts": rollouts([300, 4, 301], 31),
    "1000 rollouts": rollouts([1000, 3], 9),
}
