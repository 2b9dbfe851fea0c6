"""Sums over all groups of a dump, which are scored some at a time: by token, and by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktae.estimators import Estimator
from ktae.inference import mantel_haenszel_p_values
from ktae.report import scoring, summary
from ktae.report.columns import Columns, Frame
from ktae.report.inputs import Dump
from ktae.report.summary import Scored
from ktae.rollouts.spool import Spool

TOKENS_OVER_STEPS = 300
"""Tokens whose value is followed over training: those of greatest |impact| in the whole run."""

ROWS = pa.schema(
    {"which": pa.int32(), "step": pa.int32(), "impact": pa.float64(), "weight": pa.float64()}
)
"""What is kept of a credit table for curves over steps."""


class TokenTotals(NamedTuple):
    """Each of V tokens over all mixed groups; `ktae.report.scoring.KeyToken` says more."""

    a: np.ndarray
    b: np.ndarray
    groups: np.ndarray
    """Those that `credit` is a mean over."""
    impact: np.ndarray
    credit: np.ndarray
    p: np.ndarray
    """See `ktae.inference.mantel_haenszel_p_values`; identical rollouts of a group count once."""


class TokenSums:
    """Sums of V tokens, to which credit tables are added: in the same order they are the same to
    the bit, in however many tables the rows come."""

    def __init__(self, n: int) -> None:
        self._a, self._b, self._groups = (np.zeros(n) for _ in range(3))
        self._impact, self._weight = np.zeros(n), np.zeros(n)
        self._excess, self._variance = np.zeros(n), np.zeros(n)

    def add(self, table: Any, which: np.ndarray) -> dict[str, np.ndarray]:
        """Add a credit table, and return of its rows in mixed groups what `ROWS` holds.

        Args:
            table: as `ktae.report.scoring.score` gives it.
            which: the token of each row, 0 to V - 1.
        """
        rows, cells, impact, weight, distinct = scoring.mixed_rows(table)
        a, b, c, d = cells.astype(np.float64)
        which = which[rows]
        for sums, values in ((self._a, a), (self._b, b), (self._groups, weight > 0)):
            np.add.at(sums, which, values.astype(np.float64))
        np.add.at(self._impact, which, impact)
        np.add.at(self._weight, which, weight)
        a, b, c, d = distinct.astype(np.float64)
        total = np.maximum(a + b + c + d, 1)
        np.add.at(self._excess, which, (a * d - b * c) / total)
        variance = (a + b) * (c + d) * (a + c) * (b + d) / (total**2 * np.maximum(total - 1, 1))
        np.add.at(self._variance, which, variance)
        step = table["step"].to_numpy(zero_copy_only=False)[rows]
        return {"which": which, "step": step, "impact": impact, "weight": weight}

    def totals(self) -> TokenTotals:
        """What the sums say; the p-value of a token without a table is 1."""
        return TokenTotals(
            self._a,
            self._b,
            self._groups,
            self._impact,
            _ratio(self._impact, self._weight),
            mantel_haenszel_p_values(self._excess, self._variance),
        )


def token_totals(table: Any, token_ids: np.ndarray) -> TokenTotals:
    """Totals of the tokens in `token_ids` (V,), ascending, over the mixed groups of a table."""
    sums = TokenSums(len(token_ids))
    if table is not None:
        sums.add(table, np.searchsorted(token_ids, table["token_id"].to_numpy()))
    return sums.totals()


class AllScored(NamedTuple):
    """All groups of a dump, scored by several estimators."""

    scored: list[Scored]
    """By each; without credit and table."""
    totals: list[TokenTotals]
    """By each."""
    rows: Spool
    """`ROWS` by the first estimator."""
    halves: dict[int, tuple[float, float]]
    """Of those rollouts that were asked for: the sum of the credit up to a place, and after it."""


def score_all(
    frame: Frame, dump: Dump, estimators: Sequence[Estimator], ends: dict[int, int]
) -> AllScored:
    """Score all groups, some at a time.

    Args:
        frame: the rollouts.
        dump: where they come from.
        estimators: the first is that of `rows` and `halves`.
        ends: of some rollouts a place among their tokens.
    """
    scored = [_nothing(frame) for _ in estimators]
    sums = [TokenSums(len(dump.token_ids)) for _ in estimators]
    kept, halves = Spool(ROWS), dict[int, tuple[float, float]]()
    for groups, rows, columns in frame.parts():
        for i, estimator in enumerate(estimators):
            one = summary.score(columns, estimator)
            _put(scored[i], one, groups, rows)
            if not i:
                halves |= _halves(columns, one.credit_n, rows, ends)
            if one.table is not None:
                found = sums[i].add(one.table, dump.which(one.table["token_id"].to_numpy()))
                if not i:
                    kept.add(_rows(found))
    return AllScored(scored, [one.totals() for one in sums], kept, halves)


def _nothing(frame: Frame) -> Scored:
    n_rollouts, n_groups = len(frame.group_b), len(frame.labels)
    return Scored(
        np.zeros(0, dtype=np.float32),
        None,
        credit_b=np.zeros(n_rollouts),
        credit_abs_b=np.zeros(n_rollouts),
        compared_b=np.zeros(n_rollouts, dtype=np.int64),
        n_true_g=np.zeros(n_groups, dtype=np.int64),
        n_false_g=np.zeros(n_groups, dtype=np.int64),
    )


def _put(whole: Scored, part: Scored, groups: slice, rows: slice) -> None:
    whole.credit_b[rows], whole.credit_abs_b[rows] = part.credit_b, part.credit_abs_b
    whole.compared_b[rows] = part.compared_b
    whole.n_true_g[groups], whole.n_false_g[groups] = part.n_true_g, part.n_false_g


def _rows(found: dict[str, np.ndarray]) -> Any:
    step = found["step"]
    without = np.isnan(step) if step.dtype.kind == "f" else None
    columns = found | {"step": pa.array(step, pa.int32(), mask=without, from_pandas=True)}
    return pa.table(columns).cast(ROWS)


def _halves(
    columns: Columns, credit_n: np.ndarray, rows: slice, ends: dict[int, int]
) -> dict[int, tuple[float, float]]:
    found = {}
    for row in range(rows.start, rows.stop):
        if (end := ends.get(row)) is not None:
            begin, stop = columns.offsets_b[row - rows.start : row - rows.start + 2]
            credit_t = credit_n[begin:stop]
            found[row] = float(credit_t[:end].sum()), float(credit_t[end:].sum())
    return found


def tokens_over_steps(rows: Spool, totals: TokenTotals, steps: list[int]) -> dict[str, Any]:
    """How tokens' values changed: for the strongest tokens, one row a token, one column a step.

    Args:
        rows: see `AllScored`.
        totals: of the same estimator.
        steps: the steps, ascending.

    Returns:
        `tokens`, indices into the V tokens; `credit` and `impact`, lists of rows with null where
        the step has no group that `TokenTotals.credit` is a mean over.
    """
    strongest = np.argsort(-np.abs(totals.impact), kind="stable")[:TOKENS_OVER_STEPS]
    strongest = strongest[totals.impact[strongest] != 0]
    if not steps or not len(strongest):
        return {"tokens": [], "credit": [], "impact": []}
    place_v = np.full(len(totals.impact), -1)
    place_v[strongest] = np.arange(len(strongest))
    impact, weight = np.zeros((2, len(strongest) * len(steps)))
    for batch in rows.table().to_batches():
        place = place_v[batch["which"].to_numpy()]
        step = batch["step"].to_numpy(zero_copy_only=False)
        column = np.searchsorted(steps, step).clip(max=len(steps) - 1)
        here = np.flatnonzero((place >= 0) & (np.array(steps)[column] == step))
        at = place[here] * len(steps) + column[here]
        np.add.at(impact, at, batch["impact"].to_numpy()[here])
        np.add.at(weight, at, batch["weight"].to_numpy()[here])
    shape = (len(strongest), len(steps))
    seen = weight > 0
    credit = np.where(seen, _ratio(impact, weight), np.nan)
    impact = np.where(seen, impact, np.nan)
    return {
        "tokens": strongest.tolist(),
        "credit": credit.reshape(shape),
        "impact": impact.reshape(shape),
    }


def _ratio(total: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """0 where the weight is."""
    found: np.ndarray = np.divide(total, weight, out=np.zeros(len(total)), where=weight > 0)
    return found
