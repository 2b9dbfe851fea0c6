"""How much |term|, and how many significant tokens, chance gives: rollouts with permuted labels."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ktae import scoring
from ktae.config import KTAEConfig
from ktae.controls import label_permutations
from ktae.errors import InputError
from ktae.estimator import key_token_table
from ktae.rollouts import record

SATURATED = 0.9
"""A term counts as saturated above this share of the largest that there can be."""

LEVEL = 0.05
"""Of the single tests and of the false discovery rate."""

ACCURACIES = (0.2, 0.4, 0.6, 0.8)
"""Bounds of the bins of group accuracy; a bin holds its upper bound."""

FREQUENCIES = ("1", "to 1/4", "to 3/4", "above", "all")
"""The bins of tokens by the rollouts of the group that hold them: one; up to a quarter; below three
quarters; more, but not all; all."""


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What one labelling of the rollouts gives."""

    term_abs: float
    """Mean |term| over the tokens."""
    saturated: float
    """Share of tokens whose |term| is above 90 % of the largest that there can be (.45 of .5)."""
    significant: float
    """Share of pairs (group, distinct token) with two-sided exact p below .05."""
    no_evidence: float
    """Share of pairs with p = 1."""
    discoveries: int
    """Pairs significant at a false discovery rate of 5 % (Benjamini and Hochberg 1995), over all
    pairs of all mixed groups."""


@dataclasses.dataclass(frozen=True)
class Bin:
    """The pairs of one accuracy of the group and one frequency of the token."""

    accuracy: tuple[float, float]
    """Above the first, up to the second."""
    frequency: str
    """One of `FREQUENCIES`."""
    pairs: int
    """With the rollouts' own labels; under permuted ones the pairs are the same."""
    term: float
    """Mean term over pairs."""
    term_by_chance: float
    """The same under permuted labels: what the estimator gives for nothing, its bias."""
    term_abs: float
    term_abs_by_chance: float
    significant: float
    significant_by_chance: float


@dataclasses.dataclass(frozen=True)
class Null:
    """What `null` returns."""

    real: Statistics
    chance: tuple[Statistics, ...]
    """One for each permutation."""
    groups: int
    """Mixed groups; in all others every term is 0."""
    rollouts: int
    """Of known correctness, in mixed groups."""
    tokens: int
    pairs: int
    testable: float
    """Share of pairs that could have p below .05, had their tokens been placed as clearly as can
    be: the rest cannot, at this group size, accuracy and frequency."""
    smallest_p: float
    """Of any pair, had its token been placed so."""
    bins: tuple[Bin, ...]

    def quantiles(self, name: str) -> tuple[float, float, float]:
        """Mean, 5 % and 95 % quantile of a field of `Statistics` over the permutations."""
        values = np.array([getattr(one, name) for one in self.chance], dtype=np.float64)
        low, high = np.quantile(values, (0.05, 0.95))
        return float(values.mean()), float(low), float(high)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: everything, and mean and quantiles of each statistic by chance."""
        names = [field.name for field in dataclasses.fields(Statistics)]
        by_chance = {
            name: dict(zip(("mean", "q05", "q95"), self.quantiles(name), strict=True))
            for name in names
        }
        return dataclasses.asdict(self) | {"by_chance": by_chance}


class _Rollouts(NamedTuple):
    """Those of known correctness in mixed groups, nothing else."""

    ids: list[np.ndarray]
    masks: list[np.ndarray]
    correct_b: np.ndarray
    codes_b: np.ndarray


class _Cells(NamedTuple):
    """Every table (a, b | n_true, n_false) that the groups allow, side by side."""

    first: dict[tuple[int, int], int]
    """Where the tables of each (n_true, n_false) begin; a * (n_false + 1) + b is added."""
    p: np.ndarray
    """(C,) two-sided exact p-values."""
    best_p: np.ndarray
    """(C,) the smallest p of any table with the same margins."""
    bin: np.ndarray
    """(C,) the number of the bin."""


def null(
    rollouts: Any,
    config: KTAEConfig | None = None,
    *,
    tokenizer: Any = None,
    permutations: int = 20,
    seed: int = 0,
    max_positions: int = scoring.MAX_POSITIONS,
) -> Null:
    """The estimator on a dump, beside itself under labels permuted within groups.

    Args:
        rollouts: a record (`ktae.rollouts.record`, `ktae.rollouts.readers.read`).
        config: `KTAEConfig.paper()` by default. Tokens are tested one by one, so its units, graded
            scores and control are left out (`KTAEConfig.for_single_tokens`).
        tokenizer: needed where a rollout has no token ids.
        permutations: how often the labels are permuted, from 1. Means settle after a few.
        seed: see `ktae.controls.permuted_labels`.
        max_positions: as in `ktae.scoring.score`.

    Raises:
        InputError: `rollouts` is not a record, no group is mixed, `correct` is neither 0, 1 nor
            null, a rollout has no token ids and there is no tokenizer, or `permutations` is not a
            number from 1.
    """
    config = (config or KTAEConfig.paper()).for_single_tokens()
    if isinstance(permutations, bool) or not isinstance(permutations, int) or permutations < 1:
        raise InputError(f"permutations is {permutations!r}; expected an integer from 1")
    mixed = _mixed(record.conform(rollouts), tokenizer, config)
    margins_g = _margins(mixed.correct_b, mixed.codes_b)
    cells = _all_cells(np.unique(margins_g, axis=0))
    sums = [_Sums(cells, config) for _ in range(permutations + 1)]
    seeds = np.random.SeedSequence(seed).generate_state(permutations, np.uint64).tolist()
    lengths_b = np.array([len(x) for x in mixed.ids])
    for rows in scoring.chunks_of(mixed.codes_b, lengths_b, max_positions):
        batch = record.pad([mixed.ids[row] for row in rows], [mixed.masks[row] for row in rows])
        correct_b, codes_b = mixed.correct_b[rows], mixed.codes_b[rows]
        drawn = label_permutations(*batch, correct_b, codes_b, seeds=seeds)
        for one, labels_b in zip(sums, itertools.chain([correct_b], drawn), strict=True):
            one.add(*batch, labels_b, codes_b)
    real = sums[0].pairs_c
    return Null(
        real=sums[0].statistics(),
        chance=tuple(one.statistics() for one in sums[1:]),
        groups=len(margins_g),
        rollouts=len(mixed.ids),
        tokens=int(sums[0].tokens),
        pairs=int(real.sum()),
        testable=float(real[cells.best_p < LEVEL].sum() / max(real.sum(), 1)),
        smallest_p=float(cells.best_p[real > 0].min(initial=1.0)),
        bins=tuple(_bins(sums)),
    )


class _Sums:
    """Sums over the pairs of one labelling, chunk by chunk."""

    def __init__(self, cells: _Cells, config: KTAEConfig) -> None:
        n_bins = (len(ACCURACIES) + 1) * len(FREQUENCIES)
        self.cells, self.config = cells, config
        self.pairs_c = np.zeros(len(cells.p), dtype=np.int64)
        self.term, self.term_abs = np.zeros(n_bins), np.zeros(n_bins)
        self.tokens, self.tokens_abs, self.saturated = 0.0, 0.0, 0.0

    def add(
        self, ids_bt: np.ndarray, mask_bt: np.ndarray, correct_b: np.ndarray, codes_b: np.ndarray
    ) -> None:
        """The pairs of some whole groups."""
        table = key_token_table(ids_bt, mask_bt, correct_b, codes_b, self.config)
        n_true, n_false = table.a + table.c, table.b + table.d
        begins = np.flatnonzero(np.diff(table.group, prepend=-1))
        firsts = [
            self.cells.first[margin]
            for margin in zip(n_true[begins].tolist(), n_false[begins].tolist(), strict=True)
        ]
        sizes = np.diff([*begins.tolist(), len(table.group)])
        cell = np.repeat(firsts, sizes) + table.a * (n_false + 1) + table.b
        self.pairs_c += np.bincount(cell, minlength=len(self.pairs_c))
        which, absolute = self.cells.bin[cell], np.abs(table.term)
        self.term += np.bincount(which, table.term, len(self.term))
        self.term_abs += np.bincount(which, absolute, len(self.term))
        # How often each token occurs, from its shares of the two classes' tokens.
        group = np.repeat(np.arange(len(begins)), sizes)
        _, group_b = np.unique(codes_b, return_inverse=True)
        length_b = mask_bt.sum(axis=1)
        occurs = np.rint(
            table.tf_true * np.bincount(group_b, length_b * (correct_b == 1))[group]
            + table.tf_false * np.bincount(group_b, length_b * (correct_b == 0))[group]
        )
        self.tokens += occurs.sum()
        self.tokens_abs += (occurs * absolute).sum()
        largest = self.config.largest_term(n_true + n_false)
        self.saturated += occurs[absolute > SATURATED * largest].sum()

    def statistics(self) -> Statistics:
        pairs, tokens = max(int(self.pairs_c.sum()), 1), max(self.tokens, 1.0)
        return Statistics(
            term_abs=float(self.tokens_abs / tokens),
            saturated=float(self.saturated / tokens),
            significant=float(self.pairs_c[self.cells.p < LEVEL].sum() / pairs),
            no_evidence=float(self.pairs_c[self.cells.p == 1].sum() / pairs),
            discoveries=discoveries(self.cells.p, self.pairs_c),
        )


def discoveries(p: np.ndarray, times: np.ndarray, level: float = LEVEL) -> int:
    """How many of m tests are significant at a false discovery rate of `level`.

    The k smallest p-values, for the largest k whose k-th is at most `level` k / m (Benjamini and
    Hochberg 1995). Exact p-values of small tables are discrete and larger than uniform ones on
    average, so that the rate is kept, with room to spare, and few are found.

    Args:
        p: (C,) p-values.
        times: (C,) how many tests have each of them.
    """
    order = np.argsort(p, kind="stable")
    p, rank = p[order], np.cumsum(times[order])
    if not len(rank) or not rank[-1]:
        return 0
    kept = p <= level * rank / rank[-1]
    # Equal p-values count together: `rank` of the last of them holds for all.
    return int(rank[kept].max(initial=0))


def _mixed(rollouts: Any, tokenizer: Any, config: KTAEConfig) -> _Rollouts:
    """Drop what can have no term."""
    codes_b, first_rows = scoring.group_codes(rollouts)
    ids = scoring.ids_of(rollouts, tokenizer)
    ignored = np.array(config.ignore_token_ids, dtype=np.int64)
    masks = [
        np.ones(len(x), dtype=bool) if mask is None else mask
        for x, mask in zip(ids, scoring.masks_of(rollouts), strict=True)
    ]
    if len(ignored):
        masks = [mask & ~np.isin(x, ignored) for x, mask in zip(ids, masks, strict=True)]
    correct_b = rollouts["correct"].to_numpy()
    known_b = ~np.isnan(correct_b) & np.array([mask.any() for mask in masks], dtype=bool)
    of_g = [
        np.bincount(codes_b[known_b & (correct_b == verdict)], minlength=len(first_rows))
        for verdict in (1, 0)
    ]
    mixed_g = (of_g[0] > 0) & (of_g[1] > 0)
    if not mixed_g.any():
        raise InputError(
            f"none of {len(first_rows)} groups has both correct and incorrect rollouts "
            f"({int((of_g[0] > 0).sum())} have correct ones, {int((of_g[1] > 0).sum())} incorrect "
            "ones), so every term is 0 and nothing can be significant"
        )
    rows = np.flatnonzero(known_b & mixed_g[codes_b])
    return _Rollouts(
        [ids[row] for row in rows], [masks[row] for row in rows], correct_b[rows], codes_b[rows]
    )


def _margins(correct_b: np.ndarray, codes_b: np.ndarray) -> np.ndarray:
    """(G, 2) the correct and the incorrect rollouts of each group."""
    _, group_b = np.unique(codes_b, return_inverse=True)
    n_true_g = np.bincount(group_b, correct_b).astype(np.int64)
    return np.stack([n_true_g, np.bincount(group_b) - n_true_g], axis=1)


def _all_cells(margins: np.ndarray) -> _Cells:
    from ktae.backends._cpu_judging import fisher_p_value

    first: dict[tuple[int, int], int] = {}
    p: list[np.ndarray] = []
    best, bins = [], []
    for n_true, n_false in margins.tolist():
        first[n_true, n_false] = sum(len(done) for done in p)
        a, b = (x.ravel() for x in np.mgrid[: n_true + 1, : n_false + 1])
        pairs = zip(a.astype(float).tolist(), b.astype(float).tolist(), strict=True)
        totals = (float(n_true), float(n_false))
        p.append(np.array([fisher_p_value(x, y, *totals, False) for x, y in pairs]))
        best_of = np.ones(n_true + n_false + 1)
        np.minimum.at(best_of, a + b, p[-1])
        best.append(best_of[a + b])
        bins.append(_bin(n_true / (n_true + n_false), a + b, n_true + n_false))
    return _Cells(first, *map(np.concatenate, (p, best, bins)))


def _bin(accuracy: float, m: np.ndarray, n: int) -> np.ndarray:
    """The bin of tokens that `m` of a group's `n` rollouts hold."""
    frequency = np.select([m == n, m <= 1, 4 * m <= n, 4 * m < 3 * n], [4, 0, 1, 2], 3)
    binned: np.ndarray = np.searchsorted(ACCURACIES, accuracy) * len(FREQUENCIES) + frequency
    return binned


def _bins(sums: list[_Sums]) -> Iterator[Bin]:
    real, chance = sums[0], sums[1:]
    n_bins = len(real.term)
    cells = real.cells
    pairs = np.bincount(cells.bin, real.pairs_c, n_bins)
    below = [
        np.bincount(cells.bin, one.pairs_c * (cells.p < LEVEL), n_bins) for one in (real, *chance)
    ]
    bounds = list(itertools.pairwise((0.0, *ACCURACIES, 1.0)))
    for number in np.flatnonzero(pairs).tolist():
        n = pairs[number]
        yield Bin(
            accuracy=bounds[number // len(FREQUENCIES)],
            frequency=FREQUENCIES[number % len(FREQUENCIES)],
            pairs=int(n),
            term=float(real.term[number] / n),
            term_by_chance=float(np.mean([one.term[number] for one in chance]) / n),
            term_abs=float(real.term_abs[number] / n),
            term_abs_by_chance=float(np.mean([one.term_abs[number] for one in chance]) / n),
            significant=float(below[0][number] / n),
            significant_by_chance=float(np.mean([one[number] for one in below[1:]]) / n),
        )
