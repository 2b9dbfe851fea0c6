"""The turns of rollouts: what the policy wrote between two observations, and what stood before.

A turn is a run of the policy's own tokens (mask 1) that is as long as possible. The run of other
tokens before it (mask 0: a tool's output, an environment's answer) is its observation. The first
turn's observation is the prompt, which all rollouts of a group share, whether or not the arrays
hold it. So token ids and mask say everything, whichever engine they come from.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ktae.arrays import ArrayLike, as_array, on_host
from ktae.batch import Vocabulary, make_batch
from ktae.errors import InputError

Normalise = Callable[[str], str]
"""A function of an observation's text: observations are equal where what it gives is equal. It
leaves out what differs by chance, such as times and numbers of processes."""

ODD = np.uint64(0x9E3779B97F4A7C15)
"""Multiplying by it modulo 2**64 loses nothing."""


class Turns(NamedTuple):
    """The N turns of a batch of arrays, rollout by rollout, each rollout's from first to last."""

    row: np.ndarray  # (N,) the rollout
    number: np.ndarray  # which of its rollout's turns it is, from 0
    left: np.ndarray  # how many turns of its rollout come after it
    seen: np.ndarray  # the column where its observation begins; `start` for the first turn
    start: np.ndarray  # the column of its first token, before which the observation ends
    stop: np.ndarray  # the column after its last token

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
    counted_bt = np.not_equal(counted_bt, 0)
    spans = zip(turns.row, turns.start, turns.stop, strict=True)
    ids_of_turns = (ids_bt[r, a:b][counted_bt[r, a:b]] for r, a, b in spans)
    return _hashes(ids.astype("<i8").tobytes() for ids in ids_of_turns)


def state_hashes(
    turns: Turns,
    ids_bt: np.ndarray,
    vocabulary: Vocabulary | None = None,
    normalise: Normalise | None = None,
) -> np.ndarray:
    """(N,) uint64, a hash of each turn's observation; the same for all first turns."""
    spans = zip(turns.row, turns.seen, turns.start, strict=True)
    contents = (ids_bt[r, a:b].astype("<i8").tobytes() for r, a, b in spans)
    if normalise is None:
        return _hashes(contents)
    if vocabulary is None or not callable(normalise):
        raise InputError(
            f"normalise is {normalise!r}; expected a function of text, and the tokens' texts: give "
            "vocabulary= (ktae.rollouts.tokens.vocabulary makes one of a tokenizer)"
        )

    @functools.cache  # a group sees the same ones again and again
    def normalised(content: bytes) -> bytes:
        text = normalise(vocabulary.text(np.frombuffer(content, "<i8").tolist()))
        if not isinstance(text, str):
            raise InputError(f"normalise gave {text!r}; expected a text")
        return b"text" + text.encode("utf-8", "surrogatepass")

    return _hashes(normalised(content) if content else b"" for content in contents)


def turn_keys(
    unit: str,
    ids_bt: np.ndarray,
    counted_bt: np.ndarray,
    written_bt: np.ndarray,
) -> np.ndarray:
    """(B, T) int32 keys of `turn`, `state` or `state-turn`, 0 where `counted_bt` is. Turns are runs
    of what the policy wrote; of their tokens those that count make the key."""
    turns = find_turns(written_bt)
    hashes_n = np.zeros(len(turns.row), dtype=np.uint64)
    if "state" in unit:
        hashes_n = state_hashes(turns, ids_bt) * ODD
    if "turn" in unit:
        hashes_n += turn_hashes(turns, ids_bt, counted_bt)
    keys_bt = np.zeros(ids_bt.shape, dtype=np.int32)
    keys_n = (hashes_n >> np.uint64(33)).astype(np.int32)
    keys_bt[np.not_equal(written_bt, 0)] = turns.per_token(keys_n)
    keys_bt[np.equal(counted_bt, 0)] = 0
    return keys_bt


class Choice(NamedTuple):
    """What some rollouts of a group did in one state."""

    token_ids: tuple[int, ...]  # the turn
    rollouts: tuple[int, ...]  # the rows of those that did it, each once
    known: int  # how many of them are of known correctness
    correct: float  # how many of those are correct; of graded scores their sum
    credit: float | None  # the mean of the turn's credit over them; None: no credit was given


class State(NamedTuple):
    """An observation that rollouts of a group have in common, and what each did then: "here 6 of 8
    rollouts opened the door; 5 of them are correct"."""

    group: int | str  # its label
    token_ids: tuple[int, ...]  # the observation; none: the prompt
    rollouts: int  # how many rollouts were there
    choices: tuple[Choice, ...]  # those of most rollouts first


def shared_states(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    credit: ArrayLike | None = None,
    at_least: int = 2,
) -> list[State]:
    """The states that `at_least` so many rollouts of a group were in, group by group, the most
    shared first.

    The arrays and their errors are those of `ktae.token_credit`; `correct` may be graded. `credit`
    is (B, T) credit of any estimator, to be shown beside.
    """
    arrays = (on_host(array) for array in (token_ids, mask, correct, groups))
    batch = make_batch(*arrays, graded=True)
    credit_bt = None if credit is None else as_array("credit", on_host(credit))
    # By group and observation, and then by what was done: the row and columns of each such turn.
    states: dict[Any, dict[Any, list[tuple[int, slice]]]] = {}
    for row, _, _, seen, start, stop in np.transpose(find_turns(batch.mask)).tolist():
        ids_t = batch.token_ids[row]
        choices = states.setdefault((batch.group_b[row], tuple(ids_t[seen:start].tolist())), {})
        done = choices.setdefault(tuple(ids_t[start:stop].tolist()), [])
        done.append((row, slice(start, stop)))

    def choice(ids: tuple[int, ...], spans: list[tuple[int, slice]]) -> Choice:
        rows = sorted({row for row, _ in spans})
        scores = batch.evidence[rows][batch.known()[rows]]
        mean = None
        if credit_bt is not None:
            mean = float(np.mean([credit_bt[span].mean() for span in spans]))
        return Choice(ids, tuple(rows), len(scores), float(scores.sum()), mean)

    assert batch.labels is not None
    labels = batch.labels.tolist()  # Python's own, which JSON knows
    shared = []
    for (group, ids), by_turn in states.items():
        n_rollouts = len({row for spans in by_turn.values() for row, _ in spans})
        if n_rollouts >= at_least:
            all_done = [choice(*item) for item in by_turn.items()]
            all_done.sort(key=lambda x: -len(x.rollouts))
            shared.append((group, State(labels[group], ids, n_rollouts, tuple(all_done))))
    return [state for _, state in sorted(shared, key=lambda pair: (pair[0], -pair[1].rollouts))]


def _hashes(contents: Iterable[bytes]) -> np.ndarray:
    digests = b"".join(hashlib.blake2b(x, digest_size=8).digest() for x in contents)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
