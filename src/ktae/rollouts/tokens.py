"""Tokenizers at the border of the record: loading one, text to token ids, token ids to text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ktae.errors import InputError, passed_on
from ktae.files.hub import local_or_hub
from ktae.files.inputs import read_input

if TYPE_CHECKING:
    from ktae.batch import Vocabulary
    from ktae.rollouts.notes import Notes

TEXTS_AT_ONCE = 128  # an encoding takes 100 bytes for each character

# Printable Latin-1 stands for itself, the rest follows from U+0100 on.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTE_ALPHABET = {chr(x): x for x in PRINTABLE} | {chr(0x100 + i): x for i, x in enumerate(OTHERS)}
"""The character that stands for each byte in byte-level vocabularies (GPT-2's `encoder.py`)."""
BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2})>")  # a byte in SentencePiece's vocabularies


def load_tokenizer(name: str) -> Any:
    """The `tokenizers.Tokenizer` of a local folder or of a hub name, from its `tokenizer.json`.

    A name in the hub's local cache needs no network.

    Raises:
        InputError: there is no such folder or name, it holds no tokenizer, the hub cannot be
            reached, or a library is not installed.
    """
    folder = Path(local_or_hub("tokenizer", name))
    file = folder / "tokenizer.json"
    if folder.is_dir() and not file.is_file():
        raise InputError(f"no tokenizer in {folder}; expected a folder with tokenizer.json")
    # tokenizers raises Exception itself.
    with passed_on(f"tokenizer {name}", Exception, install="pip install 'ktae[report]'"):
        from tokenizers import Tokenizer

        if not folder.is_dir():
            from huggingface_hub import hf_hub_download

            file = Path(hf_hub_download(name, "tokenizer.json", etag_timeout=10))
        return inner_tokenizer(Tokenizer.from_str(read_input(file).decode()), copy=True)


kept_tokenizer = functools.cache(load_tokenizer)
"""The same, loaded once in a process: for code that asks at every step."""


def inner_tokenizer(tokenizer: Any, *, copy: bool = False) -> Any:
    """The `tokenizers.Tokenizer` inside a tokenizer of transformers; one as such is returned, or
    a copy. Copies neither cut nor pad, whatever was saved with them."""
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(inner, "encode_batch"):
        raise InputError(f"{type(tokenizer).__name__} is a slow tokenizer; expected a fast one")
    if inner is tokenizer and not copy:
        return inner
    inner = type(inner).from_str(inner.to_str())
    inner.no_truncation()
    inner.no_padding()
    return inner


def tokenize(tokenizer: Any, texts: Sequence[str], *, named: str | None = None) -> list[np.ndarray]:
    """Each text's token ids, int32, as they stand in a response: no special tokens are added.

    `named` is what errors call the tokenizer, such as "tokenizer models/qwen".
    """
    tokenizer = inner_tokenizer(tokenizer)
    problem = f"{named or 'the tokenizer'} spells no response"
    hint = "give the tokenizer of the model that wrote it"
    ids: list[np.ndarray] = []
    for begin in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[begin : begin + TEXTS_AT_ONCE]
        # tokenizers raises Exception itself, as of a word level
        with passed_on(problem, Exception, hint=hint):
            encodings = tokenizer.encode_batch_fast(some, add_special_tokens=False)
        ids += [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
    return ids


def token_bytes(tokenizer: Any, token_ids: Iterable[int]) -> list[bytes | None]:
    """Each token's bytes inside a response; None for an unknown id.

    Joined, the bytes of a response's tokens are its text in UTF-8: a token that is part of a
    character only has that part's bytes, so decode runs of tokens and never one alone. Bytes come
    from GPT-2's byte alphabet or from SentencePiece's `<0xE4>`.
    """
    tokenizer = inner_tokenizer(tokenizer)
    # SentencePiece drops a leading space at the start of a text, so decode after something: "a",
    # or the first token where that is none.
    before = tokenizer.token_to_id("a") or 0
    prefix = tokenizer.decode([before], skip_special_tokens=False)
    spelt: list[bytes | None] = []
    for token_id in map(int, token_ids):
        if (piece := tokenizer.id_to_token(token_id)) is None:
            spelt.append(None)
            continue
        text = tokenizer.decode([before, token_id], skip_special_tokens=False).removeprefix(prefix)
        if "\ufffd" not in text:
            spelt.append(text.encode())
        elif match := BYTE_PIECE.fullmatch(piece):
            spelt.append(bytes([int(match[1], 16)]))
        elif BYTE_ALPHABET.keys() >= {*piece}:
            spelt.append(bytes(BYTE_ALPHABET[character] for character in piece))
        else:
            spelt.append(piece.encode())
    return spelt


@functools.lru_cache(maxsize=4)
def vocabulary(tokenizer: Any) -> Vocabulary:
    """The texts of a tokenizer's tokens, for units that are made of text.

    They take a second or two to make; those of the last few tokenizers are kept.

    Raises:
        InputError: neither a `tokenizers.Tokenizer` nor a fast tokenizer of transformers.
    """
    from ktae.batch import Vocabulary

    inner = inner_tokenizer(tokenizer)
    n = max(inner.get_vocab().values(), default=-1) + 1
    return Vocabulary(tuple(token_bytes(inner, range(n))))


def note_other_texts(rollouts: Any, tokenizer: Any, notes: Notes) -> None:
    """Note responses that are not the text of their token ids, in the first rollouts."""
    some = rollouts.slice(0, TEXTS_AT_ONCE).select(["response", "token_ids", "segments", "source"])
    for number, row in enumerate(some.to_pylist(), start=1):
        ids, response = row["token_ids"], row["response"]
        if ids is None or not response or row["segments"]:
            continue
        text = inner_tokenizer(tokenizer).decode(ids, skip_special_tokens=True)
        if text.split() != response.split():
            notes.add("ids_text", f"rollout {number}: {text[:30]!r}")


class Spelling(NamedTuple):
    """The bytes of one rollout's tokens, side by side."""

    text: bytes
    ends_t: np.ndarray  # (T,) where each token ends in `text`

    def tokens(self, begin: int, end: int) -> tuple[int, int]:
        """The first token of `text[begin:end]`, and the token after its last."""
        first = np.searchsorted(self.ends_t, begin, side="right")
        return int(first), int(np.searchsorted(self.ends_t, end)) + 1


def spell(texts: Sequence[bytes | None], which_t: np.ndarray) -> Spelling:
    """The spelling of one rollout, by each token's place in `texts`; one without text has none."""
    pieces = [texts[i] or b"" for i in which_t.tolist()]
    return Spelling(b"".join(pieces), np.cumsum([*map(len, pieces)], dtype=np.int64))


def standing_alone(answer: str) -> bytes:
    """The pattern of an answer that is no part of another number or word, as 5 is of 15 and 5.2."""
    return rb"(?<![\w.])" + re.escape(answer.encode()) + rb"(?!\w|\.\d)"
