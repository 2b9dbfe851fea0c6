"""In how many correct and incorrect responses of its group a unit stands, and how often.

A unit is a token, a run of two or three tokens, or any key that takes the place of token ids.
`count` answers that question for a batch as `Counts`, and `credit` spreads a function of `Counts`
over the batch's tokens: `compiled` for arrays, `tensors` for torch tensors on any device, and
`naive` in plain Python as the reference.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ktae.arrays import Array, is_tensor, namespace, on_host

if TYPE_CHECKING:
    from ktae.batch import Batch


class Totals(NamedTuple):
    """What all counts of a group have in common: (G,) float64 each, of its responses of known
    correctness that have a token. Of graded scores r, a response is correct by the share r."""

    n: Array  # responses
    n_correct: Array  # correct ones; the sum of graded scores
    tokens_correct: Array  # tokens of the correct responses
    tokens_incorrect: Array
    variance: Array  # of correctness, divided by n; exactly 0 where there is nothing to compare


@dataclasses.dataclass(frozen=True)
class Counts:
    """How units are spread over the responses of their groups: K rows, and an index of tokens.

    Units of a group that have the same counts may share a row. Row 0 is that of tokens that were
    not counted: their response's correctness is not known, or that of the group does not differ.
    """

    index: Array
    """(N,) int64: the row of each token that counts, response by response."""
    totals: Totals
    """(G,) each."""
    lengths: Array
    """(R,) int64: tokens that count of each response, in the order of `index`."""
    group: Array
    """(K,) int64: the group, of G."""
    correct: Array
    """(K,) float64: correct responses with the unit (graded: the sum of their scores)."""
    responses: Array
    """(K,) float64: all responses of known correctness with the unit."""
    occurrences_correct: Array
    """(K,) float64: how often it occurs in correct responses."""
    occurrences: Array
    """(K,) float64: how often in all of them."""
    key: Array | None = None
    """(K,) int64: the token id or the unit's key; None where units share rows."""

    def of_group(self, name: str) -> Array:
        """(K,) a total of each row's group, by its name in `Totals`."""
        return getattr(self.totals, name)[self.group]

    @functools.cached_property
    def table(self) -> tuple[Array, Array, Array, Array]:
        """(K,) a, b, n_correct and n_incorrect of each row's contingency table."""
        n_correct = self.of_group("n_correct")
        incorrect = self.responses - self.correct
        return self.correct, incorrect, n_correct, self.of_group("n") - n_correct

    def distinct_tables(self) -> tuple[tuple[Array, Array, Array, Array], Array]:
        """The T distinct contingency tables of verdicts, (T,) each, and (K,) each row's table.

        A group has few of them and many units: what depends on the table alone is computed once.
        """
        size = int(self.responses.max()) + 1
        code = (self.group * size + self.responses) * size + self.correct
        xp = namespace(code)
        code = xp.asarray(code, dtype=xp.int64)
        distinct, place = xp.unique(code, return_inverse=True)
        rows = xp.zeros_like(distinct)
        rows[place] = xp.ones_like(place).cumsum(0) - 1
        a, b, n_correct, n_incorrect = (column[rows] for column in self.table)
        return (a, b, n_correct, n_incorrect), place

    def comparable(self) -> Array:
        """(K,) bool: rows of groups in which correctness differs, and not the row of no unit."""
        return (self.of_group("variance") > 0) & (self.responses > 0)


def backend_of(batch: Batch) -> Any:
    """The module that counts the batch; each imports a library that takes long to import."""
    if is_tensor(batch.token_ids):
        from ktae.counting import tensors

        return tensors
    from ktae.counting import compiled

    return compiled


def count(batch: Batch, unit: str = "token", **options: bool) -> Counts:
    """The counts of a batch, in arrays of the batch's library, on its device.

    Args:
        batch: rollouts; those of unknown correctness have no counts. The N tokens of `Counts.index`
            are those of `batch.counted()`, row by row.
        unit: one of `NGRAMS`.
        **options: of arrays `by_unit`: a row for each unit, sorted by group and key.

    Raises:
        InputError: an array has a token id that is out of range and unmasked.
    """
    counts: Counts = backend_of(batch).count(batch, unit, **options)
    return counts


def credit(
    batch: Batch, function: Callable[..., Array], units: Sequence[str] = ("token",)
) -> Array:
    """(B, T) float32: what a function makes of the `Counts` of these units, at each token.

    It gives (N,) numbers, one for each entry of their `index`. Whole groups are taken some at a
    time, so that the memory beyond the output is bounded. Rollouts of unknown correctness get 0,
    unless the batch has them looked up. Errors are those of `count`.
    """
    return backend_of(batch).credit(batch, function, units)


def p_values(table: tuple[Array, Array, Array, Array], method: str = "two-sided") -> Array:
    """(T,) p-values of contingency tables by `KTAE.fisher`'s methods, computed on the host."""
    from ktae.counting import kernels

    arrays = [np.asarray(on_host(column)) for column in table]
    if method == "float32":
        p = kernels.single_precision_p_values(*arrays)
    else:
        p = kernels.fisher_p_values(*arrays, method == "point")
    return namespace(table[0]).asarray(p, device=table[0].device) if is_tensor(table[0]) else p
