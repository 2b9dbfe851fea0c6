"""Unit keys against plain loops over tuples and strings."""

import itertools
import re
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ktae
from ktae.batch import Vocabulary
from ktae.counting import naive
from ktae.estimators import OverUnits, PresenceZ
from ktae.estimators.units import OF_TURNS, UNITS, unit_keys

TEXTS = [
    "so", " so", "S", "o", " 3", "3", ".", ".\n", ".\n\n", "\n", "\n\n", " ", "  \n", "\n  x",
    "x\ny", "_", "é", " é", "的", "\n\n\n", "x \n \n", "(y", "-", "\t", "don", "'t", "'",
]  # fmt: skip
PIECES = [*(text.encode() for text in TEXTS), b"\xc3", b"\xa9", b"a", None, None, b"z"]
"""The bytes of "é" apart, and a hole in the ids."""
VOCABULARY = Vocabulary(tuple(PIECES))
N_TOKENS = len(PIECES) + 3
"""With some above the last."""
LARGER = [unit for unit in UNITS if unit != "token"]


def units_of(unit, ids, pieces):
    """The unit of each of one rollout's unmasked tokens, as something to compare."""
    if unit in ("bigram", "trigram"):
        n = {"bigram": 2, "trigram": 3}[unit]
        padded = [None] * (n - 1) + ids
        return [tuple(padded[place : place + n]) for place in range(len(ids))]
    texts, contents = zip(*map(text_and_content, pieces), strict=True) if pieces else ((), ())
    starts = [place for place in range(len(ids)) if begins(unit, texts, place)]
    of_tokens = []
    for start, stop in itertools.pairwise([*starts, len(ids)]):
        of_tokens += [b"".join(contents[start:stop])] * (stop - start)
    return of_tokens


def begins(unit, texts, place):
    if place == 0:
        return True
    text, before = texts[place], texts[:place]
    if unit == "word":
        return not (is_of_word(before[-1][-1]) and is_of_word(text[0]))
    holders = [n for n, other in enumerate(before) if other.strip()]
    if not text.strip() or not holders:
        return False
    # Breaks within or behind the token that holds the last text, at most in a run, and since.
    runs = re.findall(r"\s+", before[holders[-1]].lstrip())
    since = "".join(before[holders[-1] + 1 :]) + text[: len(text) - len(text.lstrip())]
    breaks = max((run.count("\n") for run in runs), default=0) + since.count("\n")
    return breaks >= {"line": 1, "step": 2}[unit]


def is_of_word(character):
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def text_and_content(piece):
    """What a token's bytes spell, and the bytes without blanks: in parts of characters ASCII's."""
    try:
        return piece.decode(), "".join(piece.decode().split()).encode()
    except UnicodeDecodeError:
        return "x" * len(piece), b"".join(piece.split())


def turns_of(unit, ids, mask):
    """The same for turns, of a row with its holes: the prompt is None."""
    of_tokens, seen = [], None
    for written, run in itertools.groupby(zip(mask, ids, strict=True), key=lambda pair: pair[0]):
        tokens = tuple(token for _, token in run)
        if written:
            done = {"turn": tokens, "state": seen, "state-turn": (seen, tokens)}[unit]
            of_tokens += [done] * len(tokens)
        elif of_tokens:
            seen = tokens
    return of_tokens


def naive_keys(unit, ids_bt, mask_bt, pieces=PIECES):
    """(B, T) numbers that are equal where units are, 0 where masked."""
    numbers = {}
    out = np.zeros(ids_bt.shape, dtype=int)
    for row, (ids_t, mask_t) in enumerate(zip(ids_bt.tolist(), mask_bt.tolist(), strict=True)):
        places = [t for t, counts in enumerate(mask_t) if counts]
        ids = [ids_t[t] for t in places]
        texts = [pieces[token] if token < len(pieces) else None for token in ids]
        texts = [text or b"\0%d\0" % token for token, text in zip(ids, texts, strict=True)]
        of_row = turns_of(unit, ids_t, mask_t) if unit in OF_TURNS else units_of(unit, ids, texts)
        for t, content in zip(places, of_row, strict=True):
            out[row, t] = numbers.setdefault(content, len(numbers) + 1)
    return out


def assert_same_partition(keys_bt, naive_bt, mask_bt):
    """Equal units <=> equal keys; masked positions have key 0."""
    assert keys_bt.dtype == np.int32 and keys_bt.min(initial=0) >= 0
    assert not keys_bt[~mask_bt].any()
    pairs = np.unique(np.stack([keys_bt[mask_bt], naive_bt[mask_bt]]), axis=1)
    assert len(np.unique(pairs[0])) == pairs.shape[1] == len(np.unique(pairs[1]))


def random_rows(shape, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, N_TOKENS, shape)
    mask = np.arange(shape[1]) < rng.integers(0, shape[1] + 1, (shape[0], 1))
    mask &= rng.random(shape) >= 0.2
    return np.where(mask, ids, rng.choice([-100, 2**40, 5], shape)), mask


@pytest.mark.parametrize("unit", LARGER)
def test_against_plain_loops_and_of_tensors(unit):
    for shape in ((1, 1), (5, 31), (0, 5), (3, 0)):
        ids, mask = random_rows(shape)
        keys = unit_keys(unit, ids, mask, vocabulary=VOCABULARY)
        assert_same_partition(keys, naive_keys(unit, ids, mask), mask)
        tensor = torch.from_numpy(mask)
        for other_mask in (tensor, mask, tensor.bfloat16()):
            tensors = unit_keys(unit, torch.from_numpy(ids), other_mask, vocabulary=VOCABULARY)
            np.testing.assert_array_equal(tensors.numpy(), keys)
            assert tensors.dtype == torch.int32


@given(
    ids=hnp.arrays(np.int64, (3, 12), elements=st.integers(0, N_TOKENS)),
    mask=hnp.arrays(np.bool_, (3, 12)),
    unit=st.sampled_from(LARGER),
)
def test_against_plain_loops_whatever_comes(ids, mask, unit):
    keys = unit_keys(unit, ids, mask, vocabulary=VOCABULARY)
    assert_same_partition(keys, naive_keys(unit, ids, mask), mask)


@pytest.mark.parametrize("unit", ["bigram", "trigram"])
def test_ngrams_that_are_counted_are_those_of_the_keys(unit):
    """Counting makes keys of its own, in compiled code; the reference makes them in Python."""
    ids, mask = random_rows((50, 31))
    keys = unit_keys(unit, ids, mask)
    correct, groups = np.arange(50) % 3 == 0, np.arange(50) // 10
    for row in range(50):
        tokens = ids[row, mask[row]].tolist()
        assert keys[row, mask[row]].tolist() == naive.keys(unit, tokens)
    got = ktae.token_credit(ids, mask, correct, groups, OverUnits(PresenceZ(), (unit,)))
    np.testing.assert_array_equal(got, ktae.token_credit(keys, mask, correct, groups, PresenceZ()))


def test_several_chunks_are_one_result(monkeypatch):
    ids, mask = random_rows((50, 31))
    expected = unit_keys("step", ids, mask, vocabulary=VOCABULARY)
    monkeypatch.setattr("ktae.estimators.units.CHUNK_POSITIONS", 100)
    got = unit_keys("step", ids, mask, vocabulary=VOCABULARY)
    np.testing.assert_array_equal(got, expected)
    ids[33, :] = -1
    mask[33, 7] = True
    with pytest.raises(ktae.InputError, match=r"token_ids\[33, "):
        unit_keys("bigram", ids, mask)


@pytest.mark.parametrize(
    ("unit", "ids", "mask", "says"),
    [
        ("words", [[1]], [[1]], "'words'.*token, bigram, trigram, "),
        ("step", [[1]], [[1]], "'step'.*vocabulary="),
        ("bigram", [[1.5]], [[1]], "^token_ids "),
        ("bigram", [[1, 2]], [[1]], "^mask "),
        ("bigram", [[1, -2]], [[1, 1]], r"^token_ids\[0, 1\]"),
        ("turn", [[2**31]], [[1]], r"^token_ids\[0, 0\]"),
    ],
)
def test_bad_input(unit, ids, mask, says):
    with pytest.raises(ktae.InputError, match=says):
        unit_keys(unit, ids, mask)
