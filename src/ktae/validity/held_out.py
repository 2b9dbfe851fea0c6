"""Does credit tell correct rollouts from incorrect ones that it has not seen? Held-out pairs.

Of a group one correct and one incorrect rollout are left out. Credit is computed from the rest, and
the two are scored by the mean credit of their tokens. How often does the correct one score higher?
One of each class is left out, so that the rest has the same balance whichever they are: under
permuted labels the expected share is exactly one half.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktae import padding
from ktae.batch import Vocabulary, make_batch
from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import as_estimator
from ktae.files.text import counted as in_words
from ktae.inference import Interval, t_interval
from ktae.padding import pad
from ktae.rollouts import groups as grouping
from ktae.rollouts import memory
from ktae.validity import repeats
from ktae.validity.scores import HeldOut, Score

PAIRS = 16
"""Held-out pairs of a group, drawn at random where it has more."""

MAX_GROUPS = 2000
"""Groups that are looked at, drawn at random where there are more."""

MIN_PER_CLASS = 2
"""Distinct correct and distinct incorrect rollouts that a group needs: one of each is left out, and
one of each has to be left."""

MIN_PERMUTED_GROUPS = 100
"""Groups, each with permuted labels, that the mean under permuted labels is over at least: that of
few is mostly chance, so where there are fewer, their labels are permuted several times."""

TIE = 1e-9
"""Scores that differ by less are a tie: sums of the same numbers in another order."""


class Group(NamedTuple):
    """The distinct rollouts of one group that can be compared."""

    key: int
    """`group_key` of its label: seeds what is drawn for it."""
    ids: list[np.ndarray]
    """n rollouts' token ids, as far as they are looked at."""
    masks: list[np.ndarray]
    """n times bool, false where a tool wrote the token."""
    correct: np.ndarray
    """(n,) bool"""
    rows: np.ndarray
    """(n,) where they are in the record."""


Wins = Callable[[Group, np.ndarray], np.ndarray]
"""(P,) of (P, 2) pairs of a group: 1 where the first scores higher, 0 the second, .5 for a tie."""


def held_out_pairs(
    rollouts: Any,
    estimators: Mapping[str, AnEstimator] | Sequence[str],
    *,
    tokenizer: Any = None,
    keep: np.ndarray | None = None,
    answers: Sequence[str | None] | None = None,
    vocabulary: Vocabulary | None = None,
    pairs: int = PAIRS,
    max_groups: int = MAX_GROUPS,
    permutations: int | None = None,
    seed: int = 0,
) -> HeldOut:
    """How often each estimator scores a held-out correct rollout above a held-out incorrect one.

    Args:
        rollouts: a record, or another table as `ktae.score` takes it.
        estimators: what to try, by the name that the result gets; or names of presets.
        tokenizer: where a rollout has no token ids; without one, responses are cut at words.
        keep: (B,) how many tokens of each rollout are looked at, from its beginning
            (`ktae.validity.prefixes`); None: all.
        answers: the B rollouts' own answers, None where there is none. They make the baseline
            `majority`: how many of the others give the same answer.
        vocabulary: the tokens' texts, for estimators of words, lines and steps.
        pairs: the largest number of a group.
        max_groups: the largest number of groups.
        permutations: how often each group's labels are permuted; None: as often as gives
            `MIN_PERMUTED_GROUPS`. 0: not at all, and what permuted labels give is NaN.
        seed: of what is drawn: pairs, groups and permutations. What is drawn for a group depends
            on this and on its label and step alone: not on the other groups, nor on their order.

    Raises:
        InputError: `rollouts` is not a record, no group has two distinct correct and two distinct
            incorrect rollouts, or some have only text and others only token ids.

    Source: ROC area of each group as in Hanley and McNeil 1982, "The meaning and use of the area
    under a ROC curve", averaged over groups.
    """
    if isinstance(estimators, list | tuple):
        estimators = {str(name): name for name in estimators}
    if not isinstance(estimators, Mapping) or not estimators:
        expected = "names and estimators, such as {'paper': 'paper'}"
        raise InputError(f"estimators is {estimators!r:.60}; expected {expected}")
    tried = {name: as_estimator(estimator) for name, estimator in estimators.items()}
    if min(pairs, max_groups) < 1 or (permutations or 0) < 0:
        numbers = f"pairs {pairs}, max_groups {max_groups}, permutations {permutations}"
        raise InputError(f"{numbers}; expected integers from 1, and permutations from 0 or None")
    rollouts = memory.as_record(rollouts)
    if tokenizer is None and rollouts["token_ids"].null_count:
        rollouts, words = grouping.cut_at_words(rollouts)
        vocabulary = Vocabulary(tuple(word.encode() for word in words))
    groups, left_out, too_small = _groups(rollouts, tokenizer, keep, max_groups, seed)
    if permutations is None:
        permutations = max(1, math.ceil(MIN_PERMUTED_GROUPS / len(groups)))
    sides = list(_sides(groups, pairs, permutations))

    def score(name: str, wins_of: Wins) -> Score:
        # Groups stay the unit: permutations of one are averaged first, as they are dependent.
        real, *permuted = (np.array([float(wins_of(*x).mean()) for x in side]) for side in sides)
        means = np.mean(permuted, axis=0) if permuted else np.full(len(real), np.nan)
        return Score(name, interval_of(real), interval_of(means), real)

    return HeldOut(
        tuple(
            score(name, functools.partial(wins, estimator=x, vocabulary=vocabulary))
            for name, x in tried.items()
        ),
        tuple(score(name, wins_of) for name, wins_of in _baselines(answers).items()),
        groups=len(groups),
        rollouts=sum(len(group.ids) for group in groups),
        pairs=sum(len(drawn) for _, drawn in sides[0]),
        permutations=permutations,
        left_out=left_out,
        too_small=tuple(too_small),
    )


def group_key(label: str, step: int | None, seed: int = 0) -> int:
    """A number of 64 bits that seeds a group's draws; of many groups, the lowest keys are drawn."""
    content = f"{seed}\0{step}\0{label}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def wins(
    group: Group,
    pairs: np.ndarray,
    estimator: AnEstimator,
    *,
    vocabulary: Vocabulary | None = None,
) -> np.ndarray:
    """`Wins` of (P, 2) pairs of rows of a group; each in turn is left out of the statistics.

    A score is the mean credit of a rollout's tokens, where a token that the others lack has none.
    """
    # Many pairs in one call: copies of the group side by side, each a group of its own in which
    # one pair has no verdict. So its tokens count in no table, and yet get the others' credit.
    ids_nt, mask_nt = pad(group.ids, group.masks)
    n, at_once = len(ids_nt), max(1, padding.MAX_POSITIONS // max(1, ids_nt.size))
    scores = []
    for start in range(0, len(pairs), at_once):
        part = pairs[start : start + at_once]
        copies = np.arange(len(part))
        labels_pn = np.tile(group.correct.astype(np.float64), (len(part), 1))
        np.put_along_axis(labels_pn, part, np.nan, axis=1)
        rows = np.tile(np.arange(n), len(part))
        arrays = (ids_nt[rows], mask_nt[rows], labels_pn.ravel(), np.repeat(copies, n))
        batch = make_batch(*arrays, vocabulary=vocabulary)
        credit_bt = as_estimator(estimator).credit(batch._replace(look_up_unknown=True))
        # A mean and no sum: with a sum the longer rollout would win or lose by its length alone.
        sums_p2 = credit_bt[copies[:, None] * n + part].sum(axis=2, dtype=np.float64)
        scores.append(sums_p2 / mask_nt.sum(axis=1)[part].clip(1))
    return _first_wins(np.concatenate(scores))


def _first_wins(scores_p2: np.ndarray) -> np.ndarray:
    ahead = scores_p2[:, 0] - scores_p2[:, 1]
    return np.where(np.abs(ahead) < TIE, 0.5, (ahead > 0).astype(np.float64))


def interval_of(values_g: np.ndarray) -> Interval:
    """Mean over groups of shares and its 95 % interval: the wider of two, on each side.

    One is Student's t. Shares lie against 1, where the studentised bootstrap of a few groups is far
    too wide below. But groups that happen to be nearly equal say little of the spread, and there t
    is far too narrow. So a share of up to 1 - .025^(1/n) of all groups may differ from the n seen
    (Clopper and Pearson's bound of none in n), and these may have any value: two groups leave
    nearly everything open, a hundred 4 % of it.
    """
    n, value = len(values_g), float(values_g.mean())
    if n == 1:
        return Interval(value, 0.0, 1.0)
    by_t, other = t_interval(values_g), 1 - 0.025 ** (1 / n)
    return Interval(
        value,
        max(0.0, min(by_t.low, value - other * value)),
        min(1.0, max(by_t.high, value + other * (1 - value))),
    )


def _baselines(answers: Sequence[str | None] | None) -> dict[str, Wins]:
    def shorter(group: Group, pairs_p2: np.ndarray) -> np.ndarray:
        # It needs no credit and no tokens, and often orders pairs well: what has to be beaten.
        scores = np.array([-np.count_nonzero(mask) for mask in group.masks], dtype=np.float64)
        return _first_wins(np.take(scores, pairs_p2))

    def majority(group: Group, pairs_p2: np.ndarray) -> np.ndarray:
        assert answers is not None
        stated = [answers[row] for row in group.rows]
        votes = Counter(answer for answer in stated if answer is not None)
        # Votes of the others. Two of a pair that agree have each other's vote too: they are even.
        others = np.array([float(votes[x] - 1) if x is not None else 0.0 for x in stated])
        return _first_wins(others[pairs_p2])

    if answers is None or all(answer is None for answer in answers):
        return {"shorter": shorter}
    return {"shorter": shorter, "majority": majority}


def _sides(
    groups: list[Group], pairs: int, permutations: int
) -> Iterator[list[tuple[Group, np.ndarray]]]:
    """The groups with the pairs to leave out, and again for each permutation of the labels."""
    # A generator a group, so that no group's draws depend on how many others there are.
    rngs = [np.random.default_rng(group.key) for group in groups]
    for number in range(permutations + 1):
        side = []
        for group, rng in zip(groups, rngs, strict=True):
            labels = rng.permutation(group.correct) if number else group.correct
            correct, incorrect = np.flatnonzero(labels), np.flatnonzero(~labels)
            # Pairs are numbered, not listed: a group of a thousand has 250,000 of them.
            n = len(correct) * len(incorrect)
            drawn = np.arange(n) if n <= pairs else np.sort(rng.choice(n, pairs, replace=False))
            i, j = np.divmod(drawn, len(incorrect))
            drawn_pairs = np.stack([correct[i], incorrect[j]], axis=1)
            side.append((group._replace(correct=labels), drawn_pairs))
        yield side


def _groups(
    rollouts: Any, tokenizer: Any, keep: np.ndarray | None, max_groups: int, seed: int
) -> tuple[list[Group], dict[str, int], list[str]]:
    """The groups that can be looked at, how much is left out, and the labels of small groups."""
    ids, masks, counted, correct_b, codes_b, first_rows = repeats.counted_rollouts(
        rollouts, tokenizer
    )
    # What is looked at of each rollout: its first tokens, with what a tool wrote among them.
    ends = [len(x) for x in ids] if keep is None else keep.tolist()
    usable_b = ~np.isnan(correct_b) & np.array([len(x) > 0 for x in counted], dtype=bool)
    left_out = dict.fromkeys(_REASONS, 0)
    left_out["rollouts without a verdict"] = int(np.isnan(correct_b).sum())
    left_out["empty rollouts"] = int((~usable_b).sum()) - left_out["rollouts without a verdict"]
    groups: list[Group] = []
    too_small: list[str] = []
    names = rollouts.select(["group", "step"]).take(pa.array(first_rows)).to_pylist()
    for name, rows in zip(names, repeats.rows_of_groups(codes_b), strict=True):
        usable = rows[usable_b[rows]]
        # A copy among the others would tell the held-out rollout's own verdict.
        distinct = repeats.distinct(usable, counted, correct_b, left_out)
        is_correct = correct_b[distinct] == 1
        n_least = min(int(is_correct.sum()), int((~is_correct).sum()))
        if n_least >= MIN_PER_CLASS:
            key = group_key(name["group"], name["step"], seed)
            seen = [ids[row][: ends[row]] for row in distinct]
            written = [masks[row][: ends[row]] for row in distinct]
            groups.append(Group(key, seen, written, is_correct, distinct))
        elif not len(usable):
            left_out["groups without a verdict"] += 1
        elif not np.ptp(correct_b[usable]):
            left_out["groups all correct or all incorrect"] += 1
        else:
            left_out["groups of fewer than two of each, distinct"] += 1
            too_small.append(name["group"])
    if not groups:
        raise InputError(
            f"of {in_words(len(first_rows), 'group')} none has two distinct correct and two "
            "distinct incorrect rollouts, which held-out pairs need"
            + "".join(f"; {line}" for line in repeats.in_words(left_out))
        )
    # By key: neither the file's order nor what else is in it decides which groups are drawn.
    groups.sort(key=lambda group: group.key)
    left_out["groups not drawn"] = max(0, len(groups) - max_groups)
    return groups[:max_groups], left_out, too_small


_REASONS = (
    "groups without a verdict",
    "groups all correct or all incorrect",
    "groups of fewer than two of each, distinct",
    "groups not drawn",
    "rollouts without a verdict",
    "empty rollouts",
    repeats.REPEATED,
    repeats.CONTRADICTORY,
)
