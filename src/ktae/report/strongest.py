"""The tokens that stand out over groups: their impact, their mean credit, and a p-value."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.inference import mantel_haenszel_p_values, stratified_p_value

EXACT_GROUPS = 20
"""Up to so many groups a token's p-value is exact."""

DISTINCT = ["distinct_a", "distinct_b", "distinct_c", "distinct_d"]
"""The counts a, b, c and d with identical rollouts of a group taken once."""


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
    ids = np.sort(pc.unique(tokens["token_id"]).to_numpy())
    total = np.zeros(len(ids))
    # First every token's impact, a batch at a time, and then all about the strongest.
    for batch in tokens.to_batches():
        mixed = mixed_rows(as_columns(batch))
        place = np.searchsorted(ids, batch["token_id"].to_numpy()[mixed.rows])
        np.add.at(total, place, mixed.impact)
    rising, falling = (np.argsort(x, kind="stable")[:top] for x in (total, -total))
    sides = (
        [i for i in falling.tolist() if total[i] > 0],
        [i for i in rising.tolist() if total[i] < 0],
    )
    chosen = tokens.filter(pc.is_in(tokens["token_id"], pa.array(ids[[*sides[0], *sides[1]]])))
    mixed, token_id = mixed_rows(as_columns(chosen)), chosen["token_id"].to_numpy()
    described = []
    for i in (*sides[0], *sides[1]):
        its = np.flatnonzero(token_id[mixed.rows] == ids[i])
        a, b, c, d = mixed.cells[:, its].sum(axis=1).tolist()
        weight = mixed.weight[its]
        described.append(
            KeyToken(
                token_id=int(ids[i]),
                token=chosen["token"][int(mixed.rows[its[0]])].as_py(),
                impact=float(total[i]),
                credit=float(total[i] / weight.sum()),
                a=a,
                n_true=a + c,
                b=b,
                n_false=b + d,
                groups=int((weight > 0).sum()),
                p_value=p_over_groups(*mixed.distinct[:, its]),
            )
        )
    return Strongest(described[: len(sides[0])], described[len(sides[0]) :])


class MixedRows(NamedTuple):
    """Rows of a credit table that are in mixed groups."""

    rows: np.ndarray
    """Where they are in the table."""
    cells: np.ndarray
    """(4, n) int64: a, b, c, d."""
    impact: np.ndarray
    weight: np.ndarray
    distinct: np.ndarray
    """(4, n) int64: the cells with identical rollouts of a group taken once."""


def as_columns(table: Any) -> dict[str, np.ndarray]:
    """The numbers of an Arrow credit table, or of a batch of one, by name."""
    names = [x for x in table.schema.names if x not in ("group", "step", "token")]
    return {name: table[name].to_numpy() for name in names}


def mixed_rows(columns: Mapping[str, np.ndarray]) -> MixedRows:
    """Select the rows in mixed groups, of the columns of a credit table.

    A file of `write` has no counts of distinct rollouts: there `distinct` is the cells themselves.
    """
    a, b, c, d = (columns[name] for name in "abcd")
    rows = np.flatnonzero((a + c > 0) & (b + d > 0))
    cells = np.array([x[rows] for x in (a, b, c, d)], dtype=np.int64)
    names = DISTINCT if DISTINCT[0] in columns else "abcd"
    distinct = np.array([columns[name][rows] for name in names], dtype=np.int64)
    return MixedRows(rows, cells, *impact(columns["credit"][rows], *cells), distinct)


def impact(
    credit: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`KeyToken.impact` of tables in mixed groups: credit * |a - E[a]|, and the weight |a - E[a]|.

    Args:
        credit: (n_tables,) token credit.
        a, b, c, d: (n_tables,) int64 counts.
    """
    # a - E[a] is (a d - b c) / n.
    weight = np.abs((a * d - b * c) / (a + b + c + d))  # exactly 0 where a = E[a]
    return credit * weight, weight


def p_over_groups(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Two-sided p-value of one token over groups: the p of `ktae score` and of the page's Tokens.

    Exact (`stratified_p_value`) where at most `EXACT_GROUPS` tables [[a, b], [c, d]] can tell
    anything, and Mantel and Haenszel's normal approximation above. For one group it is Fisher's.

    Args:
        a, b, c, d: (n_tables,) int64 counts.
    """
    n_with, n_without, total = a + b, c + d, a + b + c + d
    tells = (n_with > 0) & (n_without > 0) & (a + c > 0) & (b + d > 0)
    if tells.sum() <= EXACT_GROUPS:
        return _exact_p(tuple(sorted(zip(*(x[tells].tolist() for x in (a, b, c, d)), strict=True))))
    excess = (a * d - b * c)[tells] / total[tells]
    margins = (n_with * n_without * (a + c) * (b + d))[tells].astype(np.float64)
    variance = margins / (total[tells] ** 2.0 * (total[tells] - 1))
    return float(
        mantel_haenszel_p_values(excess.sum(keepdims=True), variance.sum(keepdims=True))[0]
    )


@functools.lru_cache(maxsize=1 << 16)
def _exact_p(tables: tuple[tuple[int, int, int, int], ...]) -> float:
    """Rare tokens have the same few tables again and again."""
    return stratified_p_value(*np.array(tables, dtype=np.int64).T) if tables else 1.0
