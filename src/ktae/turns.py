"""The turns of rollouts: what the policy wrote between two observations, and what stood before.

A turn is a run of the policy's own tokens (mask 1) that is as long as possible. The run of other
tokens before it (mask 0: a tool's output, an environment's answer) is its observation. The first
turn's observation is the prompt, which all rollouts of a group share, whether or not the arrays
hold it. So token ids and mask say everything, whichever engine they come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ktae.arrays import ArrayLike, as_array, on_host
from ktae.batch import Vocabulary, check_token_range, make_batch
from ktae.errors import InputError

Normalise = Callable[[str], str]
"""A function of an observation's text: observations are equal where what it gives is equal. It
leaves out what differs by chance, such as times and numbers of processes."""

BASE = np.uint64(0x9E3779B97F4A7C15)
MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Odd, so that multiplying by them modulo 2**64 loses nothing; the last two are splitmix64's."""


class Turns(NamedTuple):
    """The N turns of a batch of arrays, rollout by rollout, each rollout's from first to last."""

    row: np.ndarray
    """(N,) the rollout."""
    number: np.ndarray
    """(N,) which of its rollout's turns it is, from 0."""
    left: np.ndarray
    """(N,) how many turns of its rollout come after it."""
    seen: np.ndarray
    """(N,) the column where its observation begins; `start` for a rollout's first turn."""
    start: np.ndarray
    """(N,) the column of its first token, before which the observation ends."""
    stop: np.ndarray
    """(N,) the column after its last token."""

    def per_token(self, values_n: np.ndarray) -> np.ndarray:
        """Each turn's value at each of its tokens, in the order of `array[mask != 0]`."""
        return np.repeat(values_n, self.stop - self.start)


def find_turns(mask: np.ndarray) -> Turns:
    """The turns of (B, T) rollouts; a position is the policy's where the mask is not 0."""
    written_bt = np.pad(np.not_equal(mask, 0), ((0, 0), (1, 1))).astype(np.int8)
    change_bt = np.diff(written_bt, axis=1)
    row, start = np.nonzero(change_bt == 1)
    stop = np.nonzero(change_bt == -1)[1]
    n_of_row = np.bincount(row, minlength=len(mask))
    number = np.arange(len(row)) - (np.cumsum(n_of_row) - n_of_row)[row]
    seen = np.where(number == 0, start, np.roll(stop, 1))
    return Turns(row, number, n_of_row[row] - 1 - number, seen, start, stop)


def turn_hashes(turns: Turns, ids_bt: np.ndarray, counted_bt: np.ndarray) -> np.ndarray:
    """(N,) uint64, a hash of each turn's counted tokens, in their order."""
    return _hashes(turns.row, turns.start, turns.stop, ids_bt, counted_bt)


def state_hashes(
    turns: Turns,
    ids_bt: np.ndarray,
    vocabulary: Vocabulary | None = None,
    normalise: Normalise | None = None,
) -> np.ndarray:
    """(N,) uint64, a hash of each turn's observation; the same for all first turns.

    Args:
        turns: those of the rollouts.
        ids_bt: (B, T) token ids.
        vocabulary: the tokens' texts, for `normalise`.
        normalise: what of the text counts; None: the token ids do, all of them.

    Raises:
        InputError: `normalise` is given without a vocabulary, or gives no text.
    """
    hashes_n = _hashes(turns.row, turns.seen, turns.start, ids_bt)
    if normalise is None:
        return hashes_n
    if vocabulary is None:
        raise InputError(
            "normalise is a function of text and needs the tokens' texts: give vocabulary= "
            "(ktae.rollouts.tokens.vocabulary makes one of a tokenizer)"
        )
    # Each distinct observation is spelt once: a group sees the same ones again and again.
    distinct, first, of_turn = np.unique(hashes_n, return_index=True, return_inverse=True)
    for place, turn in enumerate(first):
        if turns.number[turn] > 0:
            ids = ids_bt[turns.row[turn], turns.seen[turn] : turns.start[turn]]
            text = normalise(vocabulary.text(ids.tolist()))
            if not isinstance(text, str):
                raise InputError(f"normalise gave {text!r}; expected a text")
            digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
            distinct[place] = int.from_bytes(digest.digest(), "little")
    return distinct[of_turn]


def turn_keys(
    unit: str,
    ids_bt: np.ndarray,
    counted_bt: np.ndarray,
    written_bt: np.ndarray,
    vocabulary: Vocabulary | None = None,
    normalise: Normalise | None = None,
) -> np.ndarray:
    """(B, T) int32 keys of `turn`, `state` or `state-turn`, 0 where `counted_bt` is.

    Args:
        unit: its name.
        ids_bt: (B, T) token ids.
        counted_bt: (B, T) what counts; the other tokens of a turn are no part of its key.
        written_bt: (B, T) what the policy wrote, by which turns are told apart.
        vocabulary: as in `state_hashes`.
        normalise: as in `state_hashes`.

    Raises:
        InputError: as in `state_hashes`, or an id that counts is out of range.
    """
    check_token_range(ids_bt, counted_bt)
    turns = find_turns(written_bt)
    hashes_n = np.zeros(len(turns.row), dtype=np.uint64)
    if unit in ("state", "state-turn"):
        hashes_n = state_hashes(turns, ids_bt, vocabulary, normalise)
    if unit in ("turn", "state-turn"):
        hashes_n = _mixed(hashes_n) + turn_hashes(turns, ids_bt, counted_bt)
    keys_bt = np.zeros(ids_bt.shape, dtype=np.int32)
    keys_n = (_mixed(hashes_n) >> np.uint64(33)).astype(np.int32)
    keys_bt[np.not_equal(written_bt, 0)] = turns.per_token(keys_n)
    keys_bt[np.equal(counted_bt, 0)] = 0
    return keys_bt


class Choice(NamedTuple):
    """What some rollouts of a group did in one state."""

    token_ids: tuple[int, ...]
    """The turn."""
    rollouts: tuple[int, ...]
    """The rows of those that did it, each once."""
    known: int
    """How many of them are of known correctness."""
    correct: float
    """How many of those are correct; of graded scores their sum."""
    credit: float | None
    """The mean of the turn's credit over them; None: no credit was given."""


class State(NamedTuple):
    """An observation that rollouts of a group have in common, and what each did then.

    "Here 6 of 8 rollouts opened the door; 5 of them were right": `len(choice.rollouts)` of
    `state.rollouts`, and `choice.correct` of `choice.known`.
    """

    group: int | str
    """Its label."""
    token_ids: tuple[int, ...]
    """The observation; none: the prompt."""
    rollouts: int
    """How many rollouts were there."""
    choices: tuple[Choice, ...]
    """Those of most rollouts first."""


def shared_states(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    credit: ArrayLike | None = None,
    at_least: int = 2,
) -> list[State]:
    """The states that several rollouts of a group were in, group by group, the most shared first.

    Args:
        token_ids: as in `ktae.token_credit`, and so are the next three; `correct` may be graded.
        mask: (B, T)
        correct: (B,)
        groups: (B,)
        credit: (B, T) credit of any estimator, to be shown beside.
        at_least: rollouts that have to share a state.

    Raises:
        InputError: shapes or dtypes do not fit.
    """
    arrays = (on_host(array) for array in (token_ids, mask, correct, groups))
    batch = make_batch(*arrays, score_range=(-np.inf, np.inf))
    turns, ids_bt = find_turns(batch.mask), batch.token_ids
    credit_bt = None if credit is None else as_array("credit", on_host(credit))
    states: dict[tuple[int, tuple[int, ...]], dict[tuple[int, ...], list[int]]] = {}
    for n, (row, seen, start, stop) in enumerate(
        zip(turns.row, turns.seen, turns.start, turns.stop, strict=True)
    ):
        key = (int(batch.group_b[row]), tuple(ids_bt[row, seen:start].tolist()))
        choices = states.setdefault(key, {})
        choices.setdefault(tuple(ids_bt[row, start:stop].tolist()), []).append(n)

    def choice(ids: tuple[int, ...], of_turns: list[int]) -> Choice:
        rows = np.unique(turns.row[of_turns])
        scores = batch.evidence[rows][batch.known()[rows]]
        mean = None
        if credit_bt is not None:
            spans = ((turns.row[n], slice(turns.start[n], turns.stop[n])) for n in of_turns)
            mean = float(np.mean([credit_bt[span].mean() for span in spans]))
        return Choice(ids, tuple(rows.tolist()), len(scores), float(scores.sum()), mean)

    assert batch.labels is not None
    labels = batch.labels.tolist()  # Python's own, which JSON knows
    rows_of = []
    for (group, seen_ids), by_turn in states.items():
        n_rollouts = len({turns.row[n] for of_turns in by_turn.values() for n in of_turns})
        if n_rollouts >= at_least:
            done = sorted(
                (choice(*item) for item in by_turn.items()), key=lambda c: -len(c.rollouts)
            )
            rows_of.append((group, State(labels[group], seen_ids, n_rollouts, tuple(done))))
    return [state for _, state in sorted(rows_of, key=lambda pair: (pair[0], -pair[1].rollouts))]


def _hashes(
    row_n: np.ndarray,
    start_n: np.ndarray,
    stop_n: np.ndarray,
    ids_bt: np.ndarray,
    counted_bt: np.ndarray | None = None,
) -> np.ndarray:
    """(N,) uint64, a polynomial over the mixed ids of each span of columns; 0 of an empty one."""
    lengths_n = stop_n - start_n
    of_span = np.repeat(np.arange(len(row_n)), lengths_n)
    place = np.arange(lengths_n.sum()) - np.repeat(np.cumsum(lengths_n) - lengths_n, lengths_n)
    row, column = row_n[of_span], start_n[of_span] + place
    if counted_bt is not None:
        counts = np.not_equal(counted_bt[row, column], 0)
        of_span, row, column = of_span[counts], row[counts], column[counts]
        n_kept = np.bincount(of_span, minlength=len(row_n))
        place = np.arange(len(of_span)) - np.repeat(np.cumsum(n_kept) - n_kept, n_kept)
    powers = np.multiply.accumulate(np.full(int(place.max(initial=0)) + 1, BASE))
    # All arithmetic is modulo 2**64. A token that is not 0 in one span and missing in another
    # makes two hashes, since no mixed id is 0.
    terms = _mixed(ids_bt[row, column].astype(np.int64).astype(np.uint64) + BASE) * powers[place]
    hashes_n = np.zeros(len(row_n), dtype=np.uint64)
    np.add.at(hashes_n, of_span, terms)
    return hashes_n


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """splitmix64's last step, by which near numbers become far ones."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * MIX[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * MIX[1]
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return mixed
