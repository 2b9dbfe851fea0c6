"""Sums over all groups of a dump, which are scored some at a time: by token, and by step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ktae.estimators import Estimator
from ktae.inference import LEVEL, n_discoveries
from ktae.report import strongest, summary
from ktae.report.columns import Frame
from ktae.report.inputs import Dump
from ktae.report.summary import Scored

TOKENS_OVER_STEPS = 300
"""Tokens whose value is followed over training: those of greatest |impact| in the whole run."""


class TokenTotals(NamedTuple):
    """Each of V tokens over all mixed groups; `ktae.report.strongest.KeyToken` says more."""

    a: np.ndarray
    b: np.ndarray
    groups: np.ndarray
    """Those that `credit` is a mean over."""
    impact: np.ndarray
    credit: np.ndarray
    p: np.ndarray
    """See `ktae.report.strongest.p_over_groups`; identical rollouts of a group count once."""


class TokenSums:
    """Sums of V tokens, to which credit tables are added: in the same order they are the same to
    the bit, in however many tables the rows come."""

    def __init__(self, n: int) -> None:
        self._a, self._b, self._groups = (np.zeros(n) for _ in range(3))
        self._impact, self._weight = np.zeros(n), np.zeros(n)
        self._which, self._distinct = [np.zeros(0, np.int32)], [np.zeros((4, 0), np.int32)]

    def add(self, table: Mapping[str, np.ndarray], which: np.ndarray) -> strongest.MixedRows:
        """Add the columns of a credit table, and return its rows in mixed groups.

        Args:
            table: see `ktae.report.strongest.mixed_rows`.
            which: the token of each row, 0 to V - 1.
        """
        mixed = strongest.mixed_rows(table)
        which = which[mixed.rows]
        for sums, values in (
            (self._a, mixed.cells[0].astype(np.float64)),
            (self._b, mixed.cells[1].astype(np.float64)),
            (self._groups, (mixed.weight > 0).astype(np.float64)),
            (self._impact, mixed.impact),
            (self._weight, mixed.weight),
        ):
            np.add.at(sums, which, values)
        # For the test over groups: what is in every rollout of a group, or in none, says nothing.
        a, b, c, d = mixed.distinct
        tells = (a + b > 0) & (c + d > 0)
        self._which.append(which[tells].astype(np.int32))
        self._distinct.append(mixed.distinct[:, tells].astype(np.int32))
        return mixed

    def totals(self) -> TokenTotals:
        """What the sums say; the p-value of a token without a table is 1."""
        credit, p = np.zeros(len(self._weight)), np.ones(len(self._weight))
        which = np.concatenate(self._which)
        order = np.argsort(which, kind="stable")
        begins = np.flatnonzero(np.diff(which[order], prepend=-1))
        tables = np.concatenate(self._distinct, axis=1)[:, order].astype(np.int64)
        for token, its in zip(
            which[order[begins]], np.split(tables, begins[1:], axis=1), strict=False
        ):
            p[token] = strongest.p_over_groups(*its)
        return TokenTotals(
            self._a,
            self._b,
            self._groups,
            self._impact,
            np.divide(self._impact, self._weight, out=credit, where=self._weight > 0),
            p,
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
    """All groups of a dump, scored."""

    scored: Scored
    """Without credit and table."""
    totals: TokenTotals
    over_steps: OverSteps
    halves: dict[int, tuple[float, float]]
    """Of those rollouts that were asked for: the sum of the credit up to a place, and after it."""
    discoveries_g: np.ndarray
    """(G,) int64: distinct tokens that are significant at a false discovery rate of 5 % in their
    group (Fisher's exact test, identical rollouts counted once)."""


def score_all(frame: Frame, dump: Dump, estimator: Estimator, ends: dict[int, int]) -> AllScored:
    """Score all groups, some at a time.

    Args:
        frame: the rollouts.
        dump: where they come from.
        estimator: what gives the credit; the tables are those of single tokens.
        ends: of some rollouts a place among their tokens.
    """
    parts, sums = [], TokenSums(len(dump.token_ids))
    over_steps, halves = [], dict[int, tuple[float, float]]()
    step_g = np.array([-1 if step is None else step for step in frame.steps], dtype=np.int64)
    discoveries_g = np.zeros(len(step_g), dtype=np.int64)
    texts = dump.vocabulary if estimator.needs_vocabulary else None
    for groups, rows, columns in frame.parts():
        scored = summary.score(columns, estimator, texts)
        for row in filter(ends.__contains__, range(rows.start, rows.stop)):
            begin, stop = columns.offsets_b[row - rows.start : row - rows.start + 2]
            before, after = np.split(scored.credit_n[begin:stop], [ends[row]])
            halves[row] = float(before.sum()), float(after.sum())
        for table in scored.tables:
            which = dump.which(table["token_id"])
            mixed = sums.add(table, which)
            of_group = table["group"][mixed.rows]
            over_steps.append(
                OverSteps(which[mixed.rows], step_g[groups][of_group], mixed.impact, mixed.weight)
            )
            discoveries_g[groups] += _discoveries(of_group, mixed.distinct, len(columns.labels))
        parts.append(scored._replace(credit_n=np.zeros(0, np.float32), tables=[]))
    # The parts hold groups and rollouts in their order, so their numbers are put side by side.
    numbers = map(np.concatenate, zip(*[part[2:] for part in parts], strict=True))
    none = OverSteps(*np.zeros((2, 0), dtype=np.int64), *np.zeros((2, 0)))
    return AllScored(
        Scored(parts[0].credit_n, [], *numbers),
        sums.totals(),
        OverSteps(*map(np.concatenate, zip(none, *over_steps, strict=True))),
        halves,
        discoveries_g,
    )


def _discoveries(group: np.ndarray, tables: np.ndarray, n_groups: int) -> np.ndarray:
    """(n_groups,) int64: see `AllScored.discoveries_g`; tables (4, n) of a token in a group each.

    `group` is ascending.
    """
    distinct, which = np.unique(tables, axis=1, return_inverse=True)
    p_values = np.array([strongest.p_over_groups(*x[:, None]) for x in distinct.T])[which.ravel()]
    begins = np.searchsorted(group, np.arange(n_groups + 1))
    return np.array(
        [
            n_discoveries(p_values[begin:end], np.ones(end - begin, dtype=np.int64), LEVEL)
            for begin, end in itertools.pairwise(begins.tolist())
        ],
        dtype=np.int64,
    )


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
    greatest = np.argsort(-np.abs(totals.impact), kind="stable")[:TOKENS_OVER_STEPS]
    greatest = greatest[totals.impact[greatest] != 0]
    if not steps or not len(greatest):
        return {"tokens": [], "credit": [], "impact": []}
    place_v = np.full(len(totals.impact), -1)
    place_v[greatest] = np.arange(len(greatest))
    place, column = place_v[rows.which], np.searchsorted(steps, rows.step)
    here = (place >= 0) & (rows.step >= 0)
    # Sums of impact and weight by token and step. Their ratio is the mean credit there.
    impact, weight = np.zeros((2, len(greatest), len(steps)))
    at = place[here], column[here]
    np.add.at(impact, at, rows.impact[here])
    np.add.at(weight, at, rows.weight[here])
    seen = weight > 0
    return {
        "tokens": greatest.tolist(),
        "credit": np.divide(impact, weight, out=np.full(impact.shape, np.nan), where=seen),
        "impact": np.where(seen, impact, np.nan),
    }
