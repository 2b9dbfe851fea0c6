"""Limits of size: what is refused, and that many long texts are taken a few at a time."""

import gzip
import json

import pytest

from ktae.errors import InputError
from ktae.rollouts import files, readers, tokens
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions

ROLLOUT = {"group": "a", "response": "x " * 200, "reward": 1.0}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_line_without_end_is_refused_before_it_is_whole_in_memory(zipped, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    content = json.dumps(ROLLOUT).encode() + b"\n" + b"[" * 5000
    path = tmp_path / ("r.jsonl.gz" if zipped else "r.jsonl")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(InputError, match=r"line 2: more than 1,000 bytes"):
        readers.read([path])


def test_texts_are_encoded_a_few_at_a_time(monkeypatch):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    texts = ["a b", "b", "", "a a a", "b"]
    expected = [ids.tolist() for ids in tokens.tokenize(tokenizer, texts)]
    assert expected == [[0, 1], [1], [], [0, 0, 0], [1]]
    monkeypatch.setattr(tokens, "TEXTS_AT_ONCE", 2)
    assert [ids.tolist() for ids in tokens.tokenize(tokenizer, texts)] == expected


def test_a_long_response_is_refused_or_left_out_and_an_option_takes_it(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(ROLLOUT | {"response": "x" * n}) + "\n" for n in (5, 50)))
    with pytest.raises(InputError, match=r"line 2: the response has 50 characters; .* at most 49"):
        readers.read([path], ReadOptions(max_response=49))
    notes = Notes()
    assert len(readers.read([path], ReadOptions(max_response=49), notes=notes)) == 1
    assert notes.counts["rejected"] == 1
    assert len(readers.read([path], ReadOptions(max_response=50))) == 2
