"""How much |credit|, and how many significant tokens, need no evidence: a permutation test."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ktae import padding
from ktae.counting import p_values
from ktae.credit import AnEstimator, credit_table
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator
from ktae.estimators.controls import label_permutations
from ktae.estimators.transforms import ignored_by
from ktae.files.text import counted
from ktae.inference import ALPHA, n_discoveries
from ktae.padding import chunks_of, pad
from ktae.rollouts import record
from ktae.tables import in_tables, largest_credit
from ktae.validity import repeats

SATURATED = 0.9
"""Credit counts as saturated above this share of the largest that there can be."""

ACCURACIES = (0.2, 0.4, 0.6, 0.8)
"""Bounds of the bins of group accuracy; a bin holds its upper bound."""

FREQUENCIES = ("1", "to 1/4", "to 3/4", "above", "all")
"""The bins of tokens by the rollouts of the group that hold them: one; up to a quarter; below three
quarters; more, but not all; all."""


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What one labelling of the rollouts gives."""

    credit_abs: float
    """Mean |credit| over the counted tokens of mixed groups, those with correct and incorrect
    rollouts that have a counted token; in all others all credit is 0. Tokens that the estimator
    ignores are not counted, nor those of rollouts without a verdict."""
    saturated: float
    """Share of tokens whose |credit| is above 90 % of the largest that there can be (.45 of .5)."""
    significant: float
    """Share of pairs (group, distinct token) with two-sided exact p below .05."""
    no_evidence: float
    """Share of pairs with p = 1."""
    discoveries: int
    """Pairs significant at a false discovery rate of 5 % (Benjamini and Hochberg 1995), over all
    pairs of all mixed groups."""


class Bin(NamedTuple):
    """The pairs of one accuracy of the group and one frequency of the token."""

    accuracy: tuple[float, float]
    """Above the first, up to the second."""
    frequency: str
    """One of `FREQUENCIES`."""
    pairs: int
    """With the rollouts' own labels; under permuted ones the pairs are the same."""
    credit: float
    """Mean credit over pairs."""
    credit_permuted: float
    """The same under permuted labels: what the estimator gives without evidence, its bias."""


@dataclasses.dataclass(frozen=True)
class PermutationTest:
    """What `permutation_test` returns."""

    real: Statistics
    permuted: tuple[Statistics, ...]
    """One for each permutation."""
    groups: int
    """Mixed groups; in all others all credit is 0."""
    rollouts: int
    """Distinct ones of known correctness, in mixed groups."""
    left_out: dict[str, int]
    """Rollouts that repeat another of their group, in all groups, by the reason: identical ones
    share a verdict, so their labels cannot be permuted apart, and tell nothing if they do not."""
    tokens: int
    pairs: int
    testable: float
    """Share of pairs that could have p below .05, had their tokens been placed as clearly as can
    be: the rest cannot, at this group size, accuracy and frequency."""
    smallest_p: float
    """Smallest p of any pair, had its token been placed so."""
    bins: tuple[Bin, ...]

    def quantiles(self, name: str) -> tuple[float, float, float]:
        """Mean, 5 % and 95 % quantile of a field of `Statistics` over the permutations."""
        values = np.array([getattr(statistics, name) for statistics in self.permuted], dtype=float)
        low, high = np.quantile(values, (0.05, 0.95))
        return float(values.mean()), float(low), float(high)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: everything, and mean and quantiles of each statistic under permuted labels."""
        permuted = {
            field.name: dict(zip(("mean", "q05", "q95"), self.quantiles(field.name), strict=True))
            for field in dataclasses.fields(Statistics)
        }
        bins = [bin_._asdict() for bin_ in self.bins]
        return dataclasses.asdict(self) | {"bins": bins, "under_permutation": permuted}


class _Cells:
    """Every table (a, b | n_correct, n_incorrect) that the groups allow, side by side, (C,) each:
    `p`, its two-sided exact p-value, `best_p`, the smallest with the same margins, and `bin`."""

    def __init__(self, margins: np.ndarray) -> None:
        # Where the tables of each pair of margins begin; a * (n_incorrect + 1) + b is added.
        self.first: dict[tuple[int, int], int] = {}
        p: list[np.ndarray] = []
        best, bins = [], []
        for n_correct, n_incorrect in margins.tolist():
            self.first[n_correct, n_incorrect] = sum(map(len, p))
            a, b = (x.ravel() for x in np.mgrid[: n_correct + 1, : n_incorrect + 1])
            m, n = a + b, n_correct + n_incorrect
            ones = np.ones(len(a))
            p.append(p_values((a * ones, b * ones, n_correct * ones, n_incorrect * ones)))
            # The best p of each frequency m: what a token held by m rollouts can reach at all.
            best_of = np.ones(n + 1)
            np.minimum.at(best_of, m, p[-1])
            best.append(best_of[m])
            # In whole numbers, for 1/4 of n is a bound that shares in floating point may miss.
            frequency = np.select([m == n, m <= 1, 4 * m <= n, 4 * m < 3 * n], [4, 0, 1, 2], 3)
            bins.append(np.searchsorted(ACCURACIES, n_correct / n) * len(FREQUENCIES) + frequency)
        self.p, self.best_p, self.bin = map(np.concatenate, (p, best, bins))


def permutation_test(
    rollouts: Any,
    estimator: AnEstimator = "paper",
    *,
    tokenizer: Any = None,
    permutations: int = 20,
    seed: int = 0,
) -> PermutationTest:
    """The estimator on a dump, beside itself under labels permuted within groups.

    Of identical rollouts of a group the first alone is looked at, as in `held_out_pairs`; none if
    their verdicts differ.

    Args:
        rollouts: a record (`ktae.rollouts.record`, `ktae.rollouts.readers.read`).
        estimator: tokens are tested one by one, so its larger units, graded scores and controls
            are left out (`ktae.tables.in_tables`).
        tokenizer: needed where a rollout has no token ids.
        permutations: how often the labels are permuted, from 1. Means settle after a few.
        seed: see `ktae.estimators.PermutedLabels`.

    Raises:
        InputError: `rollouts` is not a record, no group is mixed, `correct` is neither 0, 1 nor
            null, a rollout has no token ids and there is no tokenizer, or `permutations` is not a
            number from 1.
    """
    of_tokens = in_tables(as_estimator(estimator))
    if of_tokens is None:
        raise InputError(
            f"{estimator} rests on no contingency tables, which this test is of; expected an "
            "estimator that does, such as 'paper'. The transform PermutedLabels gives its credit "
            "under permuted labels"
        )
    if isinstance(permutations, bool) or not isinstance(permutations, int) or permutations < 1:
        raise InputError(f"permutations is {permutations!r}; expected an integer from 1")
    # Permuting labels keeps each group's margins: the tables that can occur are the same for every
    # labelling, and so few that each one's p is computed once.
    ids, masks, correct_b, codes_b, left_out = _mixed(
        record.conform(rollouts), tokenizer, of_tokens
    )
    group_b = np.unique(codes_b, return_inverse=True)[1]
    n_correct_g = np.bincount(group_b, correct_b).astype(np.int64)
    margins_g = np.stack([n_correct_g, np.bincount(group_b) - n_correct_g], axis=1)
    cells = _Cells(np.unique(margins_g, axis=0))
    sums = [_Sums(cells, of_tokens) for _ in range(permutations + 1)]
    seeds = np.random.SeedSequence(seed).generate_state(permutations, np.uint64).tolist()
    lengths_b = np.array([len(x) for x in ids])
    for rows in chunks_of(codes_b, lengths_b, padding.MAX_POSITIONS):
        batch = pad([ids[row] for row in rows], [masks[row] for row in rows])
        labels, groups = correct_b[rows], codes_b[rows]
        # Each chunk is read once for all labellings; only sums are kept of it.
        drawn = label_permutations(*batch, labels, groups, seeds=seeds)
        for side, labels_b in zip(sums, itertools.chain([labels], drawn), strict=True):
            side.add(*batch, labels_b, groups)
    real, *permuted = sums
    return PermutationTest(
        real=real.statistics(),
        permuted=tuple(side.statistics() for side in permuted),
        groups=len(margins_g),
        rollouts=len(ids),
        left_out=left_out,
        tokens=int(real.tokens),
        pairs=int(real.pairs_c.sum()),
        testable=float(real.pairs_c[cells.best_p < ALPHA].sum() / real.pairs_c.sum()),
        smallest_p=float(cells.best_p[real.pairs_c > 0].min()),
        bins=tuple(real.bins(permuted)),
    )


def _mixed(
    rollouts: Any, tokenizer: Any, estimator: Estimator
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, np.ndarray, dict[str, int]]:
    """Ids, masks, verdicts and groups of known rollouts of mixed groups, each once; what is not."""
    ids, masks, counted_ids, correct_b, codes_b, firsts = repeats.counted_rollouts(
        rollouts, tokenizer
    )
    # Repeats are found by all counted tokens, the ignored ones too.
    if ignored := ignored_by(estimator):
        masks = [mask & ~np.isin(x, ignored) for x, mask in zip(ids, masks, strict=True)]
    correct_b = np.where([mask.any() for mask in masks], correct_b, np.nan)
    left_out = {repeats.REPEATED: 0, repeats.CONTRADICTORY: 0}
    known_b = ~np.isnan(correct_b)
    known_b &= ~repeats.repeated(codes_b, counted_ids, correct_b, left_out)
    correct_g, incorrect_g = (
        np.bincount(codes_b[known_b & (correct_b == verdict)], minlength=len(firsts)) > 0
        for verdict in (1, 0)
    )
    # Elsewhere no labelling differs from another: such groups would only dilute every share.
    rows = np.flatnonzero(known_b & (correct_g & incorrect_g)[codes_b])
    if not len(rows):
        raise InputError(
            f"of {counted(len(firsts), 'group')} none has both correct and incorrect distinct "
            f"rollouts ({correct_g.sum()} have correct ones, {incorrect_g.sum()} incorrect "
            "ones), so nothing can be significant"
            + "".join(f"; {x}" for x in repeats.in_words(left_out))
        )
    known = ([ids[row] for row in rows], [masks[row] for row in rows])
    return *known, correct_b[rows], codes_b[rows], left_out


class _Sums:
    """Sums over the pairs of one labelling, chunk by chunk."""

    def __init__(self, cells: _Cells, estimator: Estimator) -> None:
        self.cells, self.estimator = cells, estimator
        self.pairs_c = np.zeros(len(cells.p), dtype=np.int64)
        self.credit = np.zeros((len(ACCURACIES) + 1) * len(FREQUENCIES))  # by bin
        self.tokens, self.tokens_abs, self.saturated = 0.0, 0.0, 0.0

    def add(
        self, ids_bt: np.ndarray, mask_bt: np.ndarray, correct_b: np.ndarray, codes_b: np.ndarray
    ) -> None:
        """The pairs of some whole groups."""
        # The table is sorted by group, so groups are runs of its rows.
        table = credit_table(ids_bt, mask_bt, correct_b, codes_b, self.estimator)
        n_correct, n_incorrect = table.a + table.c, table.b + table.d
        begins = np.flatnonzero(np.diff(table.group, prepend=-1))
        margins = zip(n_correct[begins].tolist(), n_incorrect[begins].tolist(), strict=True)
        sizes = np.diff([*begins.tolist(), len(table.group)])
        first = np.repeat([self.cells.first[margin] for margin in margins], sizes)
        cell = first + table.a * (n_incorrect + 1) + table.b
        # A histogram over tables instead of a list of pairs, of which a dump has millions.
        self.pairs_c += np.bincount(cell, minlength=len(self.pairs_c))
        self.credit += np.bincount(self.cells.bin[cell], table.credit, len(self.credit))
        # How often each token occurs, from its shares of the two classes' tokens. Rounded, for the
        # shares are fractions in floating point and the counts are whole.
        group = np.repeat(np.arange(len(begins)), sizes)
        group_b = np.unique(codes_b, return_inverse=True)[1]
        length_b = mask_bt.sum(axis=1)
        occurs = np.rint(
            table.tf_correct * np.bincount(group_b, length_b * (correct_b == 1))[group]
            + table.tf_incorrect * np.bincount(group_b, length_b * (correct_b == 0))[group]
        )
        absolute = np.abs(table.credit)
        largest = largest_credit(self.estimator, n_correct + n_incorrect)
        self.tokens += occurs.sum()
        self.tokens_abs += (occurs * absolute).sum()
        self.saturated += occurs[absolute > SATURATED * largest].sum()

    def statistics(self) -> Statistics:
        # Pairs weigh alike whatever their tokens' frequency; |credit| is per token, as in training.
        pairs = int(self.pairs_c.sum())
        return Statistics(
            credit_abs=float(self.tokens_abs / self.tokens),
            saturated=float(self.saturated / self.tokens),
            significant=float(self.pairs_c[self.cells.p < ALPHA].sum() / pairs),
            no_evidence=float(self.pairs_c[self.cells.p == 1].sum() / pairs),
            discoveries=n_discoveries(self.cells.p, self.pairs_c, ALPHA),
        )

    def bins(self, permuted: list[_Sums]) -> Iterator[Bin]:
        """The bins that hold a pair, with means over pairs, here and under permuted labels."""
        pairs = np.bincount(self.cells.bin, self.pairs_c, len(self.credit))
        bounds = list(itertools.pairwise((0.0, *ACCURACIES, 1.0)))
        for i in np.flatnonzero(pairs).tolist():
            accuracy, frequency = divmod(i, len(FREQUENCIES))
            of_permuted = np.mean([side.credit[i] for side in permuted])
            means = self.credit[i] / pairs[i], of_permuted / pairs[i]
            yield Bin(bounds[accuracy], FREQUENCIES[frequency], int(pairs[i]), *map(float, means))
