"""Keys of units that are runs of token ids. `ktae.estimators.unit_keys` says what the keys are."""

from __future__ import annotations

from ktae.arrays import Array, namespace

NGRAMS = ("token", "bigram", "trigram")
"""What is counted without keys that somebody else has to make."""

MIX = 0x9E3779B97F4A7C15
FINISH = 0xD6E8FEB86659FD93
"""Odd, so that multiplying by them modulo 2**64 loses nothing; int64 holds them less 2**64."""


def ngram_keys(unit: str, token: Array, place: Array) -> Array:
    """(N,) int64 keys of 31 bits of tokens that stand one response after the other.

    Args:
        unit: one of `NGRAMS`.
        token: (N,) int64 ids.
        place: (N,) int64: which of its response's tokens each one is, from 0.
    """
    if unit == "token":
        return token
    state = mixed(token * 0, token)
    for _ in range(NGRAMS.index(unit)):
        before = namespace(token).roll(state, 1)
        before[place == 0] = 0
        state = mixed(before, token)
    return state * (FINISH - 2**64) >> 33 & 0x7FFFFFFF


def mixed(state: Array, number: Array) -> Array:
    """The states after one more number each: 64 bits, in int64, whose products wrap around."""
    state = (state ^ (number + 1)) * (MIX - 2**64)
    return state ^ (state >> 32 & 0xFFFFFFFF)
