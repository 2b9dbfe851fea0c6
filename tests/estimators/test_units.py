"""Unit keys against plain loops over tuples and strings."""

import itertools
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ktae
from ktae.backends import units
from ktae.backends.units import POSITION_BUCKET
from ktae.estimators.units import UNITS, unit_keys
from ktae.rollouts.tokens import vocabulary

IDS_ALONE = ("token", "bigram", "trigram", "position")
OF_TEXT = ("word", "line", "step")
OF_TURNS = ("turn", "state", "state-turn")

TEXTS = [
    "so", " so", "S", "o", " 3", "3", ".", ".\n", ".\n\n", "\n", "\n\n", " ", "  \n", "\n  x",
    "x\ny", "_", "é", " é", "的", "\n\n\n", "x \n \n", "(y", "-", "\t", "don", "'t", "'",
]  # fmt: skip


@pytest.fixture(scope="session")
def tokenizer():
    """A byte-level tokenizer of `TEXTS` and the bytes of "é" apart, with a hole in its ids."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra 'report'")
    from ktae.rollouts.tokens import BYTE_ALPHABET

    spelled = {byte: character for character, byte in BYTE_ALPHABET.items()}
    pieces = [bytes(text, "utf-8") for text in TEXTS] + [b"\xc3", b"\xa9"]
    vocabulary = {"".join(spelled[byte] for byte in piece): n for n, piece in enumerate(pieces)}
    vocabulary |= {"a": len(pieces), "z": len(pieces) + 3}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="a")
    made = tokenizers.Tokenizer(model)
    made.decoder = tokenizers.decoders.ByteLevel()
    return made


@pytest.fixture(scope="session")
def qwen2(shared_data):
    pytest.importorskip("tokenizers", reason="needs the extra 'report'")
    from ktae.rollouts.tokens import load_tokenizer

    return load_tokenizer(str(shared_data / "tokenizer_qwen2"))


def units_of(unit, ids, pieces):
    """The unit of each of one rollout's unmasked tokens, as something to compare."""
    if unit == "token":
        return ids
    if unit == "position":
        return [(place // POSITION_BUCKET, token) for place, token in enumerate(ids)]
    if unit in ("bigram", "trigram"):
        n = {"bigram": 2, "trigram": 3}[unit]
        padded = [None] * (n - 1) + ids
        return [tuple(padded[place : place + n]) for place in range(len(ids))]
    starts = [place for place in range(len(ids)) if begins(unit, pieces, place)]
    found = []
    for start, stop in itertools.pairwise([*starts, len(ids)]):
        content = b"".join(pieces[start:stop])
        found += [without_blanks(pieces[start:stop], content)] * (stop - start)
    return found


def turns_of(unit, ids, mask):
    """The same for turns, of a row with its holes: the prompt is None."""
    found, seen = [], None
    for written, run in itertools.groupby(zip(mask, ids, strict=True), key=lambda pair: pair[0]):
        tokens = tuple(token for _, token in run)
        if written:
            done = {"turn": tokens, "state": seen, "state-turn": (seen, tokens)}[unit]
            found += [done] * len(tokens)
        elif found:
            seen = tokens
    return found


def without_blanks(pieces, content):
    try:
        [piece.decode() for piece in pieces]
    except UnicodeDecodeError:  # only ASCII blanks are looked for in parts of characters
        return b"".join(
            "".join(p.decode().split()).encode() if decodes(p) else b"".join(p.split())
            for p in pieces
        )
    return "".join(content.decode().split()).encode()


def decodes(piece):
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def begins(unit, pieces, place):
    if place == 0:
        return True
    if unit == "word":
        return not (is_word(pieces[place - 1], -1) and is_word(pieces[place], 0))
    text = readable(pieces[place])
    if not text.strip():
        return False
    before = "".join(map(readable, pieces[:place]))
    if not before.strip():
        return False
    # Breaks since the last text, and those inside the token that holds it.
    holder = next(readable(p) for p in reversed(pieces[:place]) if readable(p).strip())
    tail = before[before.rindex(holder.strip()[-1]) + 1 :]
    blanks = tail + text[: len(text) - len(text.lstrip())]
    inner = holder.strip()
    runs = "".join(c if c.isspace() else "|" for c in inner).split("|")
    between = len(tail) - (len(holder) - len(holder.rstrip()))
    outside = blanks[len(tail) - between :] if between else blanks[len(tail) :]
    own = max(run.count("\n") for run in [*runs, holder[len(holder.rstrip()) :]])
    return own + outside.count("\n") >= {"line": 1, "step": 2}[unit]


def readable(piece):
    return piece.decode() if decodes(piece) else "x" * len(piece)


def is_word(piece, end):
    character = readable(piece)[end]
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def naive_keys(unit, ids_bt, mask_bt, pieces):
    """(B, T) numbers that are equal where units are, 0 where masked."""
    numbers = {}
    out = np.zeros(ids_bt.shape, dtype=int)
    for row, (ids_t, mask_t) in enumerate(zip(ids_bt.tolist(), mask_bt.tolist(), strict=True)):
        places = [t for t, counts in enumerate(mask_t) if counts]
        ids = [ids_t[t] for t in places]
        texts = [pieces.get(token, b"\0%d\0" % token) for token in ids]
        of_row = turns_of(unit, ids_t, mask_t) if unit in OF_TURNS else units_of(unit, ids, texts)
        for t, found in zip(places, of_row, strict=True):
            out[row, t] = numbers.setdefault(found, len(numbers) + 1)
    return out


def assert_same_partition(keys_bt, naive_bt, mask_bt):
    """Equal units <=> equal keys; masked positions have key 0."""
    assert keys_bt.dtype == np.int32 and keys_bt.min(initial=0) >= 0
    assert not keys_bt[~mask_bt].any()
    pairs = np.unique(np.stack([keys_bt[mask_bt], naive_bt[mask_bt]]), axis=1)
    assert len(np.unique(pairs[0])) == pairs.shape[1] == len(np.unique(pairs[1]))


def pieces_of(tokenizer, n):
    from ktae.rollouts.tokens import token_bytes

    pieces = enumerate(token_bytes(tokenizer, range(n)))
    return {token: piece for token, piece in pieces if piece is not None}


def random_rows(shape, n_tokens, seed=0, holes=0.2):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, n_tokens, shape)
    mask = (np.arange(shape[1]) < rng.integers(0, shape[1] + 1, (shape[0], 1))) & (
        rng.random(shape) >= holes
    )
    return np.where(mask, ids, rng.choice([-100, 2**40, 5], shape)), mask


SHAPES = [(1, 1), (5, 31), (3, 123), (4, 8), (7, 64), (0, 5), (3, 0)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit != "token"])
def test_against_plain_loops(unit, shape, tokenizer):
    n_tokens = len(TEXTS) + 8  # some without a token, and some above the last
    ids, mask = random_rows(shape, n_tokens)
    keys = unit_keys(unit, ids, mask, vocabulary=vocabulary(tokenizer))
    pieces = pieces_of(tokenizer, n_tokens)
    assert_same_partition(keys, naive_keys(unit, ids, mask, pieces), mask)


@given(
    ids=hnp.arrays(np.int64, (3, 12), elements=st.integers(0, len(TEXTS) + 1)),
    mask=hnp.arrays(np.bool_, (3, 12)),
    unit=st.sampled_from([unit for unit in UNITS if unit != "token"]),
)
def test_against_plain_loops_whatever_comes(tokenizer, ids, mask, unit):
    keys = unit_keys(unit, ids, mask, vocabulary=vocabulary(tokenizer))
    pieces = pieces_of(tokenizer, len(TEXTS) + 2)
    assert_same_partition(keys, naive_keys(unit, ids, mask, pieces), mask)


def test_words_lines_and_steps_by_hand(tokenizer):
    """Read off the rules in the docstring of `unit_keys`."""
    pieces = ["so", " so", ".\n", " 3", "3", "\n\n", "S", "o", "'", "'t", ".", "\n", "x\ny", "-"]
    ids = np.array([[TEXTS.index(piece) for piece in pieces]])
    cuts = {"word": [1, 1, 1, 2, 1, 2, 1, 1, 1, 1, 1, 1], "line": [3, 3, 6, 1, 1], "step": [6, 8]}
    for unit, lengths in cuts.items():
        keys = unit_keys(unit, ids, ids >= 0, vocabulary=vocabulary(tokenizer))[0]
        runs = np.split(keys, np.cumsum(lengths)[:-1])
        assert [len(set(run.tolist())) for run in runs] == [1] * len(lengths), unit
        if unit != "word":
            assert len(set(keys.tolist())) == len(lengths), unit
    word_keys = unit_keys("word", ids, ids >= 0, vocabulary=vocabulary(tokenizer))[0]
    assert word_keys[0] == word_keys[1]  # " so" is "so"
    assert word_keys[5] == word_keys[11]  # blanks alone


def test_a_unit_is_its_text_however_it_is_tokenised(tokenizer):
    at = TEXTS.index
    whole, parts = [at("so"), at(".")], [at("S"), at("o")]
    split_e, e = [len(TEXTS), len(TEXTS) + 1], [at("é"), at(" ")]
    ids = np.array([whole, parts, split_e, e])
    keys = unit_keys("word", ids, ids >= 0, vocabulary=vocabulary(tokenizer))
    assert keys[2, 0] == keys[2, 1] == keys[3, 0]
    assert keys[0, 0] != keys[1, 0]


@pytest.mark.parametrize("unit", [*IDS_ALONE, *OF_TEXT])
def test_any_layout_and_dtype_gives_the_same_keys(unit, tokenizer):
    ids, mask = random_rows((6, 40), 20)
    expected = unit_keys(unit, ids, mask, vocabulary=vocabulary(tokenizer))
    clean = np.where(mask, ids, 0)
    wide = np.zeros((6, 80), dtype=np.int32)
    wide[:, ::2] = clean
    offset = np.zeros(6 * 40 + 1, dtype=np.uint8)
    offset[1:] = mask.ravel()
    for other_ids, other_mask in (
        (np.asfortranarray(ids), mask.astype(float)),
        (wide[:, ::2], np.asfortranarray(mask)),
        (clean.astype(np.uint8), offset[1:].reshape(6, 40)),
        (clean.astype(">i4"), mask.astype(np.int64) * 7),
        (clean.astype(np.uint64), mask.tolist()),
    ):
        keys = unit_keys(unit, other_ids, other_mask, vocabulary=vocabulary(tokenizer))
        np.testing.assert_array_equal(np.where(mask, keys, 0), np.where(mask, expected, 0))


def test_several_chunks_are_one_result(monkeypatch, tokenizer):
    ids, mask = random_rows((50, 31), 20)
    expected = [
        unit_keys(u, ids, mask, vocabulary=vocabulary(tokenizer)) for u in ("trigram", "step")
    ]
    monkeypatch.setattr(units, "AT_ONCE", 100)
    found = [unit_keys(u, ids, mask, vocabulary=vocabulary(tokenizer)) for u in ("trigram", "step")]
    np.testing.assert_array_equal(found, expected)
    ids[33, :] = -1
    mask[33, 7] = True
    with pytest.raises(ktae.InputError, match=r"token_ids\[33, "):
        unit_keys("bigram", ids, mask)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("unit", [*IDS_ALONE, *OF_TEXT, *OF_TURNS])
def test_tensors_and_arrays_agree(unit, shape, tokenizer):
    torch = pytest.importorskip("torch")
    ids, mask = random_rows(shape, 30)
    arrays = unit_keys(unit, ids, mask, vocabulary=vocabulary(tokenizer))
    tensor, tensor_mask = torch.from_numpy(ids), torch.from_numpy(mask)
    for given_mask in (tensor_mask, mask, tensor_mask.bfloat16()):
        tensors = unit_keys(unit, tensor, given_mask, vocabulary=vocabulary(tokenizer))
        np.testing.assert_array_equal(tensors.numpy(), arrays)
        assert unit == "token" or tensors.dtype == torch.int32


def test_keys_spread_over_their_range():
    """8,000 distinct bigrams collide about as often as 8,000 random 31-bit numbers: in 1.5 % of
    groups. Of 300 groups that is 4.5 on average, and 15 or more with probability 1e-4."""
    ids = np.random.default_rng(0).integers(0, 5000, (300, 8001))
    pairs = ids[:, :-1] * 5000 + ids[:, 1:]
    keys = unit_keys("bigram", ids, ids >= 0)[:, 1:]
    distinct = [len(set(row)) for row in pairs.tolist()]
    assert sum(len(set(k)) < n for k, n in zip(keys.tolist(), distinct, strict=True)) < 15


def test_the_estimator_takes_them_and_spreads_the_value(tokenizer):
    """A word of three tokens, whose middle one occurs in every rollout, has one credit."""
    at = TEXTS.index
    ids = np.array([[at("S"), at("o"), at("3")], [at("o"), at("."), at(" ")]] * 2)
    keys = unit_keys("word", ids, ids >= 0, vocabulary=vocabulary(tokenizer))
    credit = ktae.token_credit(keys, ids >= 0, [1, 0, 1, 0], [0] * 4)
    assert len(set(credit[0].tolist())) == 1 and credit[0, 0] > 0
    assert ktae.token_credit(ids, ids >= 0, [1, 0, 1, 0], [0] * 4)[0, 1] == 0


@pytest.mark.parametrize("unit", OF_TEXT)
def test_a_real_tokenizer(unit, qwen2):
    text = (
        "To find 12.5% of 80, we multiply:\n\n\\[\n0.125 \\times 80 = 10\n\\]\n\nWait, let me "
        "check. 80/8 = 10.\nSo naïve 的 answer is \\boxed{10}.  \n \n🎉 Done"
    )
    ids = np.array([qwen2.encode(text, add_special_tokens=False).ids], dtype=np.int32)
    mask = np.ones(ids.shape, dtype=bool)
    pieces = pieces_of(qwen2, 151_646)
    keys = unit_keys(unit, ids, mask, vocabulary=vocabulary(qwen2))
    assert_same_partition(keys, naive_keys(unit, ids, mask, pieces), mask)
    if unit != "word":
        texts = [line for line in text.split("\n") if line.strip()]
        if unit == "step":
            texts = [text[: text.index("\n\n")], *text.split("\n\n")[1:]]
        lengths = {"line": len(texts), "step": 4}
        assert len(np.unique(keys)) == lengths[unit]


@pytest.mark.parametrize(
    ("unit", "ids", "mask", "says"),
    [
        ("words", [[1]], [[1]], "no unit 'words'; expected one of token, bigram, trigram, "),
        (
            "step",
            [[1]],
            [[1]],
            "'step' is made of text and needs the tokens' texts: give vocabulary=",
        ),
        ("bigram", [1, 2], [1, 1], "expected integers of shape"),
        ("bigram", [[1.5]], [[1]], "expected integers of shape"),
        ("bigram", [[1, 2]], [[1]], "expected the shape of token_ids"),
        ("bigram", [[1, 2], [3]], [[1]], "token_ids is ragged"),
        ("bigram", [[1, -2]], [[1, 1]], r"token_ids\[0, 1\] is -2"),
        ("position", [[2**31]], [[1]], r"token_ids\[0, 0\] is 2147483648"),
    ],
)
def test_bad_input(unit, ids, mask, says):
    with pytest.raises(ktae.InputError, match=says):
        unit_keys(unit, ids, mask)
