"""Does credit tell correct rollouts from incorrect ones that it has not seen? Held-out pairs.

Of a group one correct and one incorrect rollout are left out. Credit is computed from the rest, and
the two are scored by the mean credit of their tokens. How often does the correct one score higher?
One of each class is left out, so that the rest has the same balance whichever they are: under
permuted labels the expected share is exactly one half.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.backends import BACKENDS
from ktae.batch import Context, Vocabulary, make_batch
from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator
from ktae.inference import Interval, bootstrap_interval, bootstrap_means, mean_interval
from ktae.rollouts import groups as grouping
from ktae.rollouts import record

PAIRS = 16
"""Held-out pairs of a group, drawn at random where it has more."""

MOST_GROUPS = 2000
"""Groups that are looked at, drawn at random where there are more."""

FEWEST = 2
"""Distinct correct and distinct incorrect rollouts that a group needs: one of each is left out, and
one of each has to be left."""

MANY_GROUPS = 60
"""From so many groups on, an interval is of the plain bootstrap."""

EQUAL = 1e-9
"""Scores that differ by less are a tie: sums of the same numbers in another order."""


class Group(NamedTuple):
    """The distinct rollouts of one group that can be compared."""

    ids: list[np.ndarray]
    """n rollouts' counted token ids, as far as they are looked at."""
    correct: np.ndarray
    """(n,) bool"""
    rows: np.ndarray
    """(n,) where they are in the record."""


class Score(NamedTuple):
    """How well one estimator, or one baseline, orders held-out pairs."""

    name: str
    auc: Interval
    """Mean over groups of the share of pairs whose correct rollout scores higher; ties are half."""
    permuted: Interval
    """The same with labels permuted within groups: .5 but for chance."""
    auc_g: np.ndarray
    """(n_groups,) the share in each group."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "auc": self.auc.value,
            "interval": [self.auc.low, self.auc.high],
            "permuted": self.permuted.value,
            "permuted_interval": [self.permuted.low, self.permuted.high],
        }


class HeldOut(NamedTuple):
    """What `held_out_pairs` returns."""

    estimators: tuple[Score, ...]
    baselines: tuple[Score, ...]
    """`shorter`, and `majority` where responses state answers."""
    groups: int
    """That were looked at."""
    rollouts: int
    """Distinct ones in them."""
    pairs: int
    left_out: dict[str, int]
    """Groups that were not looked at, by the reason; and rollouts that repeat another one."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "estimators": [score.as_dict() for score in self.estimators],
            "baselines": [score.as_dict() for score in self.baselines],
            "groups": self.groups,
            "rollouts": self.rollouts,
            "pairs": self.pairs,
            "left_out": self.left_out,
        }


def held_out_pairs(
    rollouts: Any,
    estimators: Mapping[str, AnEstimator],
    *,
    tokenizer: Any = None,
    keep: np.ndarray | None = None,
    answers: Sequence[str | None] | None = None,
    vocabulary: Vocabulary | None = None,
    pairs: int = PAIRS,
    max_groups: int = MOST_GROUPS,
    seed: int = 0,
    max_positions: int = grouping.MAX_POSITIONS,
) -> HeldOut:
    """How often each estimator scores a held-out correct rollout above a held-out incorrect one.

    Args:
        rollouts: a record (`ktae.rollouts.record`, `ktae.rollouts.readers.read`).
        estimators: what to try, by the name that the result gets.
        tokenizer: needed where a rollout has no token ids.
        keep: (B,) how many tokens of each rollout are looked at, from its beginning
            (`ktae.validity.prefixes`); None: all.
        answers: the B rollouts' own answers, None where there is none. They make the baseline
            `majority`: how many of the others give the same answer.
        vocabulary: the tokens' texts, for estimators of words, lines and steps.
        pairs: at most so many of a group.
        max_groups: at most so many groups.
        seed: of what is drawn: pairs, groups and permutations.
        max_positions: padded positions in memory at a time.

    Raises:
        InputError: `rollouts` is not a record, no group has two distinct correct and two distinct
            incorrect rollouts, or a rollout has no token ids and there is no tokenizer.

    Source: ROC area of each group as in Hanley and McNeil 1982, "The meaning and use of the area
    under a ROC curve", averaged over groups.
    """
    if not estimators:
        raise InputError("estimators is empty; expected at least one")
    chosen = {name: as_estimator(estimator) for name, estimator in estimators.items()}
    own, left_out = _groups(record.conform(rollouts), tokenizer, keep, max_groups, seed)
    drawn = [_draws(group, pairs, seed) for group in own]
    permuted = [
        group._replace(correct=labels) for group, (_, labels, _) in zip(own, drawn, strict=True)
    ]
    context = Context(BACKENDS["cpu"].load().credit, vocabulary, step=0)
    sides = [
        _Side(own, [pairs_p2 for pairs_p2, _, _ in drawn]),
        _Side(permuted, [pairs_p2 for _, _, pairs_p2 in drawn]),
    ]
    return HeldOut(
        tuple(
            _score(name, [list(side.by(estimator, context, max_positions)) for side in sides])
            for name, estimator in chosen.items()
        ),
        tuple(
            _score(name, [list(side.by_baseline(baseline)) for side in sides])
            for name, baseline in _baselines(answers).items()
        ),
        groups=len(own),
        rollouts=sum(len(group.ids) for group in own),
        pairs=sum(len(pairs_p2) for pairs_p2, _, _ in drawn),
        left_out=left_out,
    )


def wins(
    token_ids: np.ndarray,
    mask: np.ndarray,
    correct: np.ndarray,
    pairs: np.ndarray,
    estimator: AnEstimator,
    *,
    context: Context | None = None,
) -> np.ndarray:
    """Whether the first rollout of each held-out pair of one group scores above the second.

    Args:
        token_ids: (n, T) integers.
        mask: (n, T) bool.
        correct: (n,) bool.
        pairs: (P, 2) rows; each pair in turn is left out of the statistics.
        estimator: as in `ktae.token_credit`.
        context: what the estimator may use beside the rollouts.

    Returns:
        (P,) 1 where the first scores higher, 0 where the second does, and .5 for a tie. A score is
        the mean credit of a rollout's tokens, where a token that the others lack has none.
    """
    context = context or Context(BACKENDS["cpu"].load().credit, step=0)
    n, n_pairs = len(token_ids), len(pairs)
    labels_pn = np.tile(correct.astype(np.float64), (n_pairs, 1))
    np.put_along_axis(labels_pn, pairs, np.nan, axis=1)
    rows = np.tile(np.arange(n), n_pairs)
    held = (np.arange(n_pairs)[:, None] * n + pairs).ravel()
    batch = make_batch(
        token_ids[rows], mask[rows], labels_pn.ravel(), np.repeat(np.arange(n_pairs), n),
        score_range=None, context=context,
    )  # fmt: skip
    credit_bt = as_estimator(estimator).credit(batch._replace(look_up_unknown=True))
    lengths = mask[pairs.ravel()].sum(axis=1).clip(1)
    means = credit_bt[held].sum(axis=1, dtype=np.float64) / lengths
    return _first_wins(means.reshape(n_pairs, 2))


def _first_wins(scores_p2: np.ndarray) -> np.ndarray:
    ahead = scores_p2[:, 0] - scores_p2[:, 1]
    return np.where(np.abs(ahead) < EQUAL, 0.5, (ahead > 0).astype(np.float64))


class _Side(NamedTuple):
    """Groups with labels, their own or permuted ones, and the pairs to leave out."""

    groups: list[Group]
    pairs: list[np.ndarray]

    def by(self, estimator: Estimator, context: Context, max_positions: int) -> Iterator[float]:
        """Each group's share of pairs that an estimator orders rightly."""
        for group, pairs_p2 in zip(self.groups, self.pairs, strict=True):
            ids_nt, mask_nt = record.pad(group.ids)
            if not ids_nt.size:  # all were cut to nothing: all are alike
                yield 0.5
                continue
            at_once = max(1, max_positions // max(1, ids_nt.size))
            parts = [
                wins(ids_nt, mask_nt, group.correct, pairs_p2[i : i + at_once], estimator,
                     context=context)
                for i in range(0, len(pairs_p2), at_once)
            ]  # fmt: skip
            yield float(np.concatenate(parts).mean())

    def by_baseline(self, baseline: Any) -> Iterator[float]:
        """The same for a baseline."""
        for group, pairs_p2 in zip(self.groups, self.pairs, strict=True):
            yield float(_first_wins(baseline(group, pairs_p2)).mean())


def _score(name: str, of_sides: list[list[float]]) -> Score:
    own, permuted = (np.array(values) for values in of_sides)
    return Score(name, _interval(own), _interval(permuted), own)


def _interval(values: np.ndarray) -> Interval:
    if len(values) < 2:  # nothing is known of the spread
        return Interval(float(values.mean()), 0.0, 1.0)
    if len(values) < MANY_GROUPS:
        mean, low, high = mean_interval(values)
        return Interval(mean, max(low, 0.0), min(high, 1.0))
    return bootstrap_interval(values, bootstrap_means(values, np.random.default_rng(0)))


def _baselines(answers: Sequence[str | None] | None) -> dict[str, Any]:
    def shorter(group: Group, pairs_p2: np.ndarray) -> np.ndarray:
        scores = np.array([-len(ids) for ids in group.ids], dtype=np.float64)
        return np.take(scores, pairs_p2)

    def majority(group: Group, pairs_p2: np.ndarray) -> np.ndarray:
        assert answers is not None
        own = [answers[row] for row in group.rows]
        same = np.array([[x is not None and x == y for y in own] for x in own], dtype=np.float64)
        # Of the others, so neither the rollout itself nor the one held out with it.
        others = np.take(same.sum(axis=1) - same.diagonal(), pairs_p2)
        scores: np.ndarray = others - same[pairs_p2[:, 0], pairs_p2[:, 1]][:, None]
        return scores

    found: dict[str, Any] = {"shorter": shorter}
    if answers is not None and any(answer is not None for answer in answers):
        found["majority"] = majority
    return found


def _draws(group: Group, pairs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of the group's own labels, permuted labels, and pairs of those."""
    rng = np.random.default_rng([seed, int(group.rows[0])])
    own = _pairs(group.correct, pairs, rng)
    permuted = rng.permutation(group.correct)
    return own, permuted, _pairs(permuted, pairs, rng)


def _pairs(correct: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """(P, 2) rows of a correct and an incorrect rollout."""
    every = list(itertools.product(np.flatnonzero(correct), np.flatnonzero(~correct)))
    found = np.array(every, dtype=np.int64)
    if len(found) > most:
        found = found[np.sort(rng.choice(len(found), most, replace=False))]
    return found


def _cut(
    ids: list[np.ndarray], masks: list[np.ndarray | None], keep: np.ndarray
) -> list[np.ndarray]:
    """The counted ones of each rollout's first tokens."""
    every = zip(ids, masks, keep.tolist(), strict=True)
    return [x[:n] if mask is None else x[:n][mask[:n]] for x, mask, n in every]


def _groups(
    rollouts: Any, tokenizer: Any, keep: np.ndarray | None, max_groups: int, seed: int
) -> tuple[list[Group], dict[str, int]]:
    """The groups that can be looked at, and how much is left out."""
    codes_b, first_rows = grouping.group_codes(rollouts)
    ids, masks = grouping.ids_of(rollouts, tokenizer), grouping.masks_of(rollouts)
    correct_b = rollouts["correct"].to_numpy()
    counted = [x if m is None else x[m] for x, m in zip(ids, masks, strict=True)]
    cut = counted if keep is None else _cut(ids, masks, keep)
    bounds = np.searchsorted(np.sort(codes_b), np.arange(len(first_rows) + 1))
    order = np.argsort(codes_b, kind="stable")
    left_out = {"not mixed": 0, "fewer than two of each, distinct": 0, "not drawn": 0}
    repeated = 0
    found = []
    for start, stop in itertools.pairwise(bounds.tolist()):
        rows = [row for row in order[start:stop].tolist() if len(counted[row])]
        rows = [row for row in rows if not np.isnan(correct_b[row])]
        distinct = {counted[row].tobytes(): row for row in reversed(rows)}
        own = np.array(sorted(distinct.values()), dtype=np.int64)
        right = correct_b[own] == 1
        n_least = min(int(right.sum()), int((~right).sum()))
        if n_least < FEWEST:
            left_out["fewer than two of each, distinct" if n_least else "not mixed"] += 1
            continue
        repeated += len(rows) - len(own)
        found.append(Group([cut[row] for row in own], right, own))
    if not found:
        raise InputError(
            f"none of {len(first_rows)} groups has two distinct correct and two distinct incorrect "
            f"rollouts, which held-out pairs need ({left_out['not mixed']} are all correct or all "
            "incorrect)"
        )
    if len(found) > max_groups:
        left_out["not drawn"] = len(found) - max_groups
        drawn = np.random.default_rng(seed).choice(len(found), max_groups, replace=False)
        found = [found[i] for i in np.sort(drawn)]
    return found, left_out | {"repeated rollouts": repeated}
