"""In how many correct and incorrect responses of its group a unit stands, and how often.

A unit is what responses are compared by: a token, a run of two or three tokens, or any key that
takes the place of token ids. `count` answers that question for a batch as `Counts`, and `credit`
spreads a function of `Counts` over the batch's tokens. It is answered in three ways: `compiled`
counts arrays, `tensors` counts torch tensors on any device, and `naive` is the reference in plain
Python that tests and benchmarks compare the others with.
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

    Units of a group that have the same counts may share a row. Row 0 is that of no unit: of tokens
    that were not counted, since their response's correctness is not known or all responses of the
    group are equal. NumPy arrays, or torch tensors on one device.
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
    """(K,) float64: correct responses with the unit, the `a` of contingency tables; of graded
    scores their sum."""
    responses: Array
    """(K,) float64: all responses of known correctness with the unit, a + b."""
    occurrences_correct: Array
    """(K,) float64: how often it occurs in correct responses."""
    occurrences: Array
    """(K,) float64: how often in all of them."""
    key: Array | None = None
    """(K,) int64: the token id or the unit's key. None where units share rows."""

    def of_group(self, name: str) -> Array:
        """(K,) a total of each row's group, by its name in `Totals`."""
        return getattr(self.totals, name)[self.group]

    @functools.cached_property
    def table(self) -> tuple[Array, Array, Array, Array]:
        """(K,) a, b, n_true and n_false of each row's contingency table."""
        n_correct = self.of_group("n_correct")
        incorrect = self.responses - self.correct
        return self.correct, incorrect, n_correct, self.of_group("n") - n_correct

    def distinct_tables(self) -> tuple[tuple[Array, Array, Array, Array], Array]:
        """The T distinct contingency tables, (T,) each, and (K,) which of them each row has.

        A group has few of them and many units, so what depends on the table alone is best computed
        once for each. They are made for correctness of 0 and 1.
        """
        size = int(self.responses.max()) + 1
        code = (self.group * size + self.responses) * size + self.correct
        if is_tensor(code):
            distinct, place = code.long().unique(return_inverse=True)
            rows = place.new_zeros(len(distinct))
            rows[place] = namespace(code).arange(len(place), device=place.device)
        else:
            rows, place = _first_rows(code.astype(np.int64))
        a, b, n_true, n_false = (column[rows] for column in self.table)
        return (a, b, n_true, n_false), place

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
            are those of `batch.counted()`, row by row, whatever the unit: so counts of several
            units of one batch lie beside each other.
        unit: one of `NGRAMS`.
        **options: of arrays `by_unit`: a row for each unit, sorted by group and key, also in groups
            in which there is nothing to compare.

    Raises:
        InputError: an array has a token id that is out of range and unmasked.
    """
    counts: Counts = backend_of(batch).count(batch, unit, **options)
    return counts


def credit(
    batch: Batch, function: Callable[..., Array], units: Sequence[str] = ("token",)
) -> Array:
    """(B, T) float32: a function of counts, at each token that counts.

    Whole groups are taken some at a time, so that the memory beyond the output is bounded.

    Args:
        batch: rollouts. Those of unknown correctness get 0, unless the batch has them looked up.
        function: of the `Counts` of each unit, in the order of `units`; it gives (N,) numbers, one
            for each entry of their `index`.
        units: some of `NGRAMS`.

    Raises:
        InputError: as `count`.
    """
    return backend_of(batch).credit(batch, function, units)


def p_values(table: tuple[Array, Array, Array, Array], method: str = "two-sided") -> Array:
    """(T,) float64 p-values of contingency tables (a, b, n_true, n_false), computed on the host.

    `method` is `two-sided`, `point` or `float32`, as `ktae.estimators.KTAE` has it.
    """
    from ktae.counting import kernels

    arrays = [np.asarray(on_host(column)) for column in table]
    if method == "float32":
        p = kernels.single_precision_p_values(*arrays)
    else:
        p = kernels.fisher_p_values(*arrays, method == "point")
    return namespace(table[0]).asarray(p, device=table[0].device) if is_tensor(table[0]) else p


def _first_rows(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A row of each distinct code, and (K,) which of these has each row's code."""
    if code.max() > 16 * len(code):
        _, rows, place = np.unique(code, return_index=True, return_inverse=True)
        return rows, place
    lookup = np.full(int(code.max()) + 1, -1)  # faster than to sort them
    lookup[code] = np.arange(len(code))
    occurs = np.flatnonzero(lookup >= 0)
    rows = lookup[occurs]
    lookup[occurs] = np.arange(len(occurs))
    return rows, lookup[code]
