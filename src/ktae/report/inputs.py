"""From whatever lies on disk or in memory to a `Dump`: rollouts with token ids, and their texts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from ktae.batch import Vocabulary
from ktae.errors import InputError
from ktae.files.text import path_text
from ktae.report.proposal import proposing
from ktae.rollouts import memory, readers, record
from ktae.rollouts.groups import cut_at_words, tokenized
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.tokens import load_tokenizer, note_other_texts, token_bytes

ProgressCallback = Callable[[str, int, int | None], None]
"""Is told what is being done, how much of it is, and of how much (None: not known)."""


@dataclasses.dataclass
class Dump:
    """Rollouts with token ids, and everything that came with them."""

    rollouts: Any  # a record (`ktae.rollouts.record.SCHEMA`) whose `token_ids` are never null
    unit: Literal["tokens", "words", "ids"]
    """What a token id stands for: a token with text, a word (the dump holds text and there is no
    tokenizer), or only its number (the dump holds ids and there is no tokenizer)."""
    token_ids: np.ndarray  # (V,) the distinct token ids, ascending
    texts: list[bytes | None]  # the bytes of each of those; None where there is no text
    notes: Notes  # what was read, joined, masked, left out and assumed
    names: list[str] = dataclasses.field(default_factory=list)  # the files and folders
    has_own_grader: bool = False  # of `ktae train`, whose task's grader gave the verdicts
    shown: tuple[int, int] = (0, 0)  # how many groups its page shows, of how many
    page: Any = None  # what that page says (`ktae.report.data.Page`)

    @property
    def word(self) -> str:
        """What one of its tokens is called; a text is cut into words, signs and blanks."""
        return "piece" if self.unit == "words" else "token"

    @functools.cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The tokens' texts by their ids, for units that are made of text; None without any."""
        if self.unit == "ids":
            return None
        texts = dict(zip(self.token_ids.tolist(), self.texts, strict=True))
        return Vocabulary(tuple(texts.get(i) for i in range(max(texts, default=-1) + 1)))

    def text(self, which: int) -> str | None:
        """The text of the token at a place of `token_ids`; None where only its number is known."""
        piece = self.texts[which]
        return None if piece is None else piece.decode(errors="backslashreplace")


def load(
    inputs: Sequence[str | Path] | str | Path,
    options: ReadOptions = DEFAULT,
    *,
    strict: bool = False,
) -> Dump:
    """Read run folders, dumps of other tools, or plain files (`ktae.rollouts.readers`).

    `strict` raises the first row's error, instead of leaving the row out.

    Raises:
        InputError: nothing can be read, there is no such tokenizer, or it cannot spell a response.
    """
    paths = readers.paths_of(inputs)
    notes = Notes(strict)
    with proposing(paths, options):
        rollouts = readers.read(paths, options, notes=notes)
    tokenizer, named = options.tokenizer, None
    folders = [folder for path in map(Path, paths) for folder in (path / "tokenizer", path)]
    if tokenizer is None:
        tokenizer = next((str(x) for x in folders if (x / "tokenizer.json").is_file()), None)
        named = f"{tokenizer}, the run's own tokenizer and so taken for all that is given,"
    dump = from_record(rollouts, tokenizer, named=named, notes=notes)
    dump.names = [path_text(path) for path in paths]
    dump.has_own_grader = any((Path(path) / "recipe.yaml").is_file() for path in paths)
    return dump


def from_record(
    rollouts: Any, tokenizer: Any = None, *, named: str | None = None, notes: Notes | None = None
) -> Dump:
    """The same for rollouts that are in memory: a record, with or without token ids.

    The tokenizer (loaded, a folder or a hub name; an error calls it `named`) makes the ids that are
    missing; without one, the words of the responses stand for tokens. `notes` says so.
    """
    rollouts, notes = record.conform(rollouts), notes or Notes()
    if not len(rollouts):
        raise InputError("there are no rollouts")
    if isinstance(tokenizer, str | Path):
        named = named or f"tokenizer {tokenizer}"
        tokenizer = load_tokenizer(str(tokenizer))
    missing = rollouts["token_ids"].null_count
    if missing and tokenizer is None:
        notes.add("words")
        rollouts, words = cut_at_words(rollouts)
        return Dump(rollouts, "words", np.arange(len(words)), [x.encode() for x in words], notes)
    if missing:
        notes.add("made")
        rollouts = tokenized(rollouts, tokenizer, named=named)
    distinct = np.sort(pc.unique(pc.list_flatten(rollouts["token_ids"])).to_numpy())
    if tokenizer is None:
        return Dump(rollouts, "ids", distinct, [None] * len(distinct), notes)
    if missing < len(rollouts):
        note_other_texts(rollouts, tokenizer, notes)
    return Dump(rollouts, "tokens", distinct, token_bytes(tokenizer, distinct), notes)


def dump_of(rollouts: Any, options: ReadOptions = DEFAULT) -> Dump:
    """The dump of files and folders, or of what is in memory (`ktae.rollouts.memory`)."""
    if memory.is_paths(rollouts):
        return load(rollouts, options)
    record_ = memory.as_record(rollouts, options.threshold or 0.0)
    return from_record(record_, options.tokenizer)
