"""Sums over all groups of a dump, which are scored some at a time: by token, and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.estimators import Estimator
from ktae.inference import mantel_haenszel_p_values
from ktae.report import scoring, summary
from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.report.summary import Scored

TOKENS_OVER_STEPS = 300
"""Tokens whose value is followed over training: those of greatest |impact| in the whole run."""


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

    def add(self, table: Mapping[str, np.ndarray], which: np.ndarray) -> scoring.MixedRows:
        """Add the columns of a credit table, and return its rows in mixed groups.

        Args:
            table: see `ktae.report.scoring.mixed_rows`.
            which: the token of each row, 0 to V - 1.
        """
        mixed = scoring.mixed_rows(table)
        which = which[mixed.rows]
        a, b, *_ = mixed.cells.astype(np.float64)
        for sums, values in (
            (self._a, a),
            (self._b, b),
            (self._groups, (mixed.weight > 0).astype(np.float64)),
            (self._impact, mixed.impact),
            (self._weight, mixed.weight),
        ):
            np.add.at(sums, which, values)
        # The hypergeometric mean and variance of a, for the test over groups.
        a, b, c, d = mixed.distinct.astype(np.float64)
        total = np.maximum(a + b + c + d, 1)
        np.add.at(self._excess, which, (a * d - b * c) / total)
        variance = (a + b) * (c + d) * (a + c) * (b + d) / (total**2 * np.maximum(total - 1, 1))
        np.add.at(self._variance, which, variance)
        return mixed

    def totals(self) -> TokenTotals:
        """What the sums say; the p-value of a token without a table is 1."""
        credit = np.zeros(len(self._weight))
        return TokenTotals(
            self._a,
            self._b,
            self._groups,
            self._impact,
            np.divide(self._impact, self._weight, out=credit, where=self._weight > 0),
            mantel_haenszel_p_values(self._excess, self._variance),
        )


class OverSteps(NamedTuple):
    """The rows of a credit table in mixed groups, for curves over steps."""

    which: np.ndarray
    """The token of each, 0 to V - 1."""
    step: np.ndarray
    """int64, -1 where there is none."""
    impact: np.ndarray
    weight: np.ndarray


class AllScored(NamedTuple):
    """All groups of a dump, scored by several estimators."""

    scored: list[Scored]
    """By each; without credit and table."""
    totals: list[TokenTotals]
    """By each."""
    over_steps: OverSteps
    """By the first estimator."""
    halves: dict[int, tuple[float, float]]
    """Of those rollouts that were asked for: the sum of the credit up to a place, and after it."""


def score_all(
    frame: Frame, dump: Dump, estimators: Sequence[Estimator], ends: dict[int, int]
) -> AllScored:
    """Score all groups, some at a time.

    Args:
        frame: the rollouts.
        dump: where they come from.
        estimators: the first is that of `over_steps` and `halves`.
        ends: of some rollouts a place among their tokens.
    """
    parts_of: list[list[Scored]] = [[] for _ in estimators]
    sums = [TokenSums(len(dump.token_ids)) for _ in estimators]
    over_steps, halves = [], dict[int, tuple[float, float]]()
    step_g = np.array([-1 if step is None else step for step in frame.steps], dtype=np.int64)
    for groups, rows, columns in frame.parts():
        for i, estimator in enumerate(estimators):
            scored = summary.score(columns, estimator)
            # The first estimator is the one that the page is about.
            if not i:
                for row in filter(ends.__contains__, range(rows.start, rows.stop)):
                    begin, stop = columns.offsets_b[row - rows.start : row - rows.start + 2]
                    before, after = np.split(scored.credit_n[begin:stop], [ends[row]])
                    halves[row] = float(before.sum()), float(after.sum())
            for table in scored.tables:
                which = dump.which(table["token_id"])
                mixed = sums[i].add(table, which)
                if not i:
                    step = step_g[groups][table["group"][mixed.rows]]
                    over_steps.append(
                        OverSteps(which[mixed.rows], step, mixed.impact, mixed.weight)
                    )
            parts_of[i].append(scored._replace(credit_n=np.zeros(0, np.float32), tables=[]))
    # The parts hold groups and rollouts in their order, so their numbers are put side by side.
    everything = []
    for parts in parts_of:
        numbers = map(np.concatenate, zip(*[part[2:] for part in parts], strict=True))
        everything.append(Scored(parts[0].credit_n, [], *numbers))
    none = OverSteps(*np.zeros((2, 0), dtype=np.int64), *np.zeros((2, 0)))
    joined = OverSteps(*map(np.concatenate, zip(none, *over_steps, strict=True)))
    return AllScored(everything, [x.totals() for x in sums], joined, halves)


def tokens_over_steps(rows: OverSteps, totals: TokenTotals, steps: list[int]) -> dict[str, Any]:
    """How tokens' values changed: for the strongest tokens, one row a token, one column a step.

    Args:
        rows: see `AllScored`.
        totals: of the same estimator.
        steps: the steps, ascending.

    Returns:
        `tokens`, indices into the V tokens; `credit` and `impact`, lists of rows with null where
        the step has no group that `TokenTotals.credit` is a mean over.
    """
    # The strongest tokens of the whole run, each with a row of its own.
    strongest = np.argsort(-np.abs(totals.impact), kind="stable")[:TOKENS_OVER_STEPS]
    strongest = strongest[totals.impact[strongest] != 0]
    if not steps or not len(strongest):
        return {"tokens": [], "credit": [], "impact": []}
    place_v = np.full(len(totals.impact), -1)
    place_v[strongest] = np.arange(len(strongest))
    place, column = place_v[rows.which], np.searchsorted(steps, rows.step)
    here = (place >= 0) & (rows.step >= 0)
    # Sums of impact and weight by token and step. Their ratio is the mean credit there.
    impact, weight = np.zeros((2, len(strongest), len(steps)))
    at = place[here], column[here]
    np.add.at(impact, at, rows.impact[here])
    np.add.at(weight, at, rows.weight[here])
    seen = weight > 0
    return {
        "tokens": strongest.tolist(),
        "credit": np.divide(impact, weight, out=np.full(impact.shape, np.nan), where=seen),
        "impact": np.where(seen, impact, np.nan),
    }
