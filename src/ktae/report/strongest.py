"""The tokens that stand out over groups: their impact, their mean credit, and a p-value."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ktae.inference import mantel_haenszel_p_values, stratified_p_value
from ktae.stats import fisher_p_value

EXACT_GROUPS = 20
"""Up to so many groups a token's p-value is exact."""

EXACT_BELOW = 0.01
"""And wherever the approximation is below this: with classes of unequal size it is too small there.
"""

DISTINCT = ["distinct_a", "distinct_b", "distinct_c", "distinct_d"]
"""The counts a, b, c and d with identical rollouts of a group taken once."""


fisher_p = functools.lru_cache(1 << 16)(fisher_p_value)


class KeyToken(NamedTuple):
    """What one token does, over the mixed groups that contain it."""

    token_id: int
    token: str | None
    impact: float
    """Σ over groups of credit * |a - E[a]|, E[a] = n_true (a + b) / (n_true + n_false): the credit
    times the distance between the correct rollouts with the token and those that would have it by
    chance. Its sign is the credit's."""
    credit: float
    """The mean over `groups`, weighted by that |a - E[a]|."""
    a: int
    """Correct rollouts that contain the token, out of `n_true` in the mixed groups where any
    rollout does."""
    n_true: int
    b: int
    """Incorrect rollouts that contain it, out of `n_false`."""
    n_false: int
    groups: int
    """Mixed groups in which a is not E[a]: in the others presence tells nothing."""
    p_value: float
    """See `p_over_groups`; identical rollouts of a group count once. The tokens were picked from
    many for being strong, and this does not correct for that."""


class Strongest(NamedTuple):
    """Tokens by falling |impact|; none of impact 0."""

    supporting: list[KeyToken]
    opposing: list[KeyToken]


def strongest(tokens: Any, top: int = 10) -> Strongest:
    """The tokens of greatest impact for and against, over all mixed groups in `tokens`.

    Args:
        tokens: the credit table of `score`, or some groups of it (`tokens[group.rows]`). One that
            was read from a file of `write` gives the same, but p counts identical rollouts each.
        top: how many for, and how many against.
    """
    names = DISTINCT if DISTINCT[0] in tokens.column_names else "abcd"
    a, b, c, d = (tokens[name].to_numpy() for name in "abcd")
    rows = np.flatnonzero((a + c > 0) & (b + d > 0))  # those in mixed groups

    def column(name: str) -> np.ndarray:
        values: np.ndarray = tokens[name].to_numpy()[rows]
        return values

    ids, which = np.unique(column("token_id"), return_inverse=True)
    sums = over_groups(which, np.array([*map(column, "abcd")]), column("credit"), len(ids))
    sides = []
    for side in (sums.impact, -sums.impact):
        greatest = np.argsort(-side, kind="stable")[:top]
        sides.append(greatest[side[greatest] > 0].tolist())
    chosen = [*sides[0], *sides[1]]
    places = np.flatnonzero(np.isin(which, chosen))
    distinct = np.array([column(name)[places] for name in names])
    p = p_values(distinct, which[places], len(ids))
    first = dict(zip(which[places][::-1].tolist(), rows[places][::-1].tolist(), strict=True))

    def key_token(i: int) -> KeyToken:
        return KeyToken(
            token_id=int(ids[i]),
            token=tokens["token"][first[i]].as_py(),
            impact=float(sums.impact[i]),
            credit=float(sums.credit[i]),
            a=int(sums.a[i]),
            n_true=int(sums.n_true[i]),
            b=int(sums.b[i]),
            n_false=int(sums.n_false[i]),
            groups=int(sums.groups[i]),
            p_value=float(p[i]),
        )

    return Strongest(*(list(map(key_token, side)) for side in sides))


class TokenTotals(NamedTuple):
    """Each of V tokens over all mixed groups, as in `KeyToken`."""

    a: np.ndarray
    n_true: np.ndarray
    b: np.ndarray
    n_false: np.ndarray
    groups: np.ndarray
    impact: np.ndarray
    weight: np.ndarray
    """Σ |a - E[a]|."""

    @property
    def credit(self) -> np.ndarray:
        """The mean, weighted."""
        credit: np.ndarray = self.impact / np.where(self.weight > 0, self.weight, 1.0)
        return credit


def distance(counts: np.ndarray) -> np.ndarray:
    """(R,) |a - E[a]| of (4, R) tables, exactly 0 where a = E[a]."""
    a, b, c, d = counts.astype(np.int64)
    distances: np.ndarray = np.abs((a * d - b * c) / np.maximum(a + b + c + d, 1))
    return distances


def over_groups(which: np.ndarray, counts: np.ndarray, credit: np.ndarray, n: int) -> TokenTotals:
    """Sum (4, R) tables and (R,) credits of tokens in groups by `which`, each one's token of n."""
    weight = distance(counts)
    a, b, c, d = counts
    columns = (a, a + c, b, b + d, weight > 0, credit * weight, weight)
    return TokenTotals(*(np.bincount(which, column, n) for column in columns))


def p_values(distinct: np.ndarray, which: np.ndarray, n: int) -> np.ndarray:
    """(n,) each token's p-value over groups, of (4, R) tables; 1 where it is in no row."""
    a, b, c, d = distinct
    # What is in every rollout of a group, or in none, says nothing.
    tells = np.flatnonzero((a + b > 0) & (c + d > 0))
    order = tells[np.argsort(which[tells], kind="stable")]
    begins = np.flatnonzero(np.diff(which[order], prepend=-1))
    p_v = np.ones(n)
    for part in np.split(order, begins[1:]) if len(order) else ():
        p_v[which[part[0]]] = p_over_groups(*distinct[:, part].astype(np.int64))
    return p_v


def p_over_groups(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Two-sided p-value of one token over groups: the p of `ktae score` and of the page's Tokens.

    Exact (`stratified_p_value`) where at most `EXACT_GROUPS` tables [[a, b], [c, d]] can tell
    anything, or where Mantel and Haenszel's normal approximation is below `EXACT_BELOW`; elsewhere
    that approximation. For one group it is Fisher's.

    Args:
        a, b, c, d: (n_tables,) int64 counts.
    """
    n_with, n_without, total = a + b, c + d, a + b + c + d
    tells = (n_with > 0) & (n_without > 0) & (a + c > 0) & (b + d > 0)
    tables = [x[tells] for x in (a, b, c, d)]
    if tells.sum() <= EXACT_GROUPS:
        return _exact_p(tuple(sorted(zip(*(x.tolist() for x in tables), strict=True))))
    excess = (a * d - b * c)[tells] / total[tells]
    margins = (n_with * n_without * (a + c) * (b + d))[tells].astype(np.float64)
    variance = margins / (total[tells] ** 2.0 * (total[tells] - 1))
    p = mantel_haenszel_p_values(excess.sum(keepdims=True), variance.sum(keepdims=True))[0]
    return float(p) if p >= EXACT_BELOW else stratified_p_value(*tables)


@functools.lru_cache(maxsize=1 << 16)
def _exact_p(tables: tuple[tuple[int, int, int, int], ...]) -> float:
    """Rare tokens have the same few tables again and again."""
    return stratified_p_value(*np.array(tables, dtype=np.int64).T) if tables else 1.0
