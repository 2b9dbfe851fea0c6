import sys

import numpy as np
import pytest

from ktae import InputError
from ktae.files.text import visible
from ktae.rollouts.tokens import load_tokenizer, token_bytes, tokenize


def test_visible():
    text = " \n\t\x1b[31m\u202e\u00a0␣⟨A0⟩é中"
    shown = "␣↵⇥⟨1B⟩[31m⟨202E⟩⟨A0⟩⟨2423⟩⟨27E8⟩A0⟨27E9⟩é中"
    assert visible(text) == shown


@pytest.mark.parametrize("name", ["/no/such", "./nowhere", "~/nowhere", "a/b/c", "a b", "x/", ""])
def test_a_path_that_does_not_exist_is_refused(name):
    with pytest.raises(InputError):
        load_tokenizer(name)


def test_without_tokenizers_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"ktae\[report\]"):
        load_tokenizer(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_one_line(tmp_path):
    with pytest.raises(InputError, match="tokenizer") as caught:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_text_that_the_tokenizer_cannot_spell_is_named():
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"one": 0, "two": 1}))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert [ids.tolist() for ids in tokenize(words, ["two one", "one"])] == [[1, 0], [0]]
    with pytest.raises(InputError, match="tokenizer x"):
        tokenize(words, ["one", "one three", "four"], named="tokenizer x")


def test_byte_level_tokens_have_their_text(byte_tokenizer):
    pytest.importorskip("tokenizers")
    tokenizer = load_tokenizer(str(byte_tokenizer))
    text = "Let  x = \\frac{1}{2}\n\tso é"
    (ids,) = tokenize(tokenizer, [text])
    assert ids.dtype == np.int32
    assert b"".join(token_bytes(tokenizer, ids)) == text.encode()
    end, unknown = token_bytes(tokenizer, [0, 10**7])
    assert end == b"<|endoftext|>"
    assert unknown is None
    (half_a_character, *_) = tokenize(tokenizer, ["🧮"])[0]
    (part,) = token_bytes(tokenizer, [half_a_character])
    assert part and "🧮".encode().startswith(part), "its own bytes, and no replacement"


def test_no_special_tokens_are_added_to_a_response():
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "a": 1}, "<s>"))
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("<s>", 0), ("<s>", 0))
    assert tokenizer.encode("a").ids == [0, 1, 0]
    assert [x.tolist() for x in tokenize(tokenizer, ["a", ""])] == [[1], []]
