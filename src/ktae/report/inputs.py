"""From whatever lies on disk to what a report needs: rollouts with token ids, and their texts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.batch import Vocabulary
from ktae.errors import InputError
from ktae.estimators import Estimator, from_section
from ktae.files.hub import HUB_NAME, copy_of
from ktae.files.text import path_text
from ktae.rollouts import readers, record
from ktae.rollouts.groups import tokenized, with_ids
from ktae.rollouts.metrics import metrics_by_step, metrics_files
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.tokens import Speller, load_tokenizer, note_other_texts, token_bytes
from ktae.rollouts.trained_with import FILE, TrainedWith

WORD = re.compile(r"\w+|[^\w\s]|\s+")
"""Without a tokenizer a text is cut so: into words, signs and blanks."""


Tell = Callable[[str, int, int | None], None]
"""Is told what is being done, how much of it is, and of how much (None: not known)."""


@dataclasses.dataclass
class Dump:
    """Rollouts with token ids, and everything that came with them."""

    rollouts: Any
    """A record (`ktae.rollouts.record.SCHEMA`) whose `token_ids` are never null."""
    unit: Literal["tokens", "words", "ids"]
    """What a token id stands for: a token with text, a word (the dump holds text and there is no
    tokenizer), or only its number (the dump holds ids and there is no tokenizer)."""
    token_ids: np.ndarray
    """(V,) the distinct token ids, ascending."""
    texts: list[bytes | None]
    """The bytes of each of those; None where there is no text."""
    notes: Notes
    """What was read, joined, masked, left out and assumed."""
    names: list[str]
    """The inputs, as they were given."""
    metrics: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    """A run folder's metrics by training step."""
    estimator: Estimator | None = None
    """What the run was trained with, where it says so; None elsewhere and for plain GRPO."""
    trained: str = ""
    """Where that is written down, and what; empty where nothing is."""
    grader: str | None = None
    """The own grader of a single run's task; None: there is none."""

    shown: tuple[int, int] = (0, 0)
    """How many groups the page shows that was made of it, of how many."""
    page: Any = None
    """What that page says (`ktae.report.data.Page`)."""

    @property
    def title(self) -> str:
        """The title of a page about it: the inputs' names."""
        names = ", ".join(Path(name).name for name in self.names)
        return f"ktae report: {names or 'rollouts'}"

    def which(self, ids_n: np.ndarray) -> np.ndarray:
        """(N,) int32 the place of each of these token ids in `token_ids`."""
        if self._place is None:
            return np.searchsorted(self.token_ids, ids_n).astype(np.int32)
        places_n: np.ndarray = self._place[ids_n]
        return places_n

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens' texts, for units that are made of text."""

        if self.unit == "ids":
            raise InputError("words, lines and steps are made of text; give --tokenizer")

        texts = dict(zip(self.token_ids.tolist(), self.texts, strict=True))
        return Vocabulary(tuple(texts.get(i) for i in range(max(texts, default=-1) + 1)))

    @functools.cached_property
    def speller(self) -> Speller:
        """Spells rollouts by the places of their tokens; one without text has none."""
        return Speller(self.texts)

    @functools.cached_property
    def _place(self) -> np.ndarray | None:
        """The place of every id up to the largest; None where that would be a large array."""
        n = int(self.token_ids[-1]) + 1 if len(self.token_ids) else 0
        if n > 1 << 22:
            return None
        place = np.zeros(n, dtype=np.int32)
        place[self.token_ids] = np.arange(len(self.token_ids))
        return place


def load(
    inputs: Sequence[str | Path] | str | Path,
    options: ReadOptions = DEFAULT,
    *,
    strict: bool = False,
) -> Dump:
    """Read run folders, dumps of other tools, or plain files (`ktae.rollouts.readers`).

    Args:
        inputs: files and folders.
        options: how they are read.
        strict: raise the first row's error, instead of leaving the row out.

    Raises:
        InputError: nothing can be read, there is no such tokenizer, or it cannot spell a response.
    """
    paths = readers.paths_of(inputs)
    notes = Notes(strict)
    rollouts = readers.read(paths, options, notes=notes)
    tokenizer, named = options.tokenizer, None
    if tokenizer is None and (folder := own_tokenizer(paths)) is not None:
        tokenizer = str(folder)
        named = f"{folder}, the run's own tokenizer and so taken for all that is given,"
    dump = from_record(rollouts, tokenizer, named=named, notes=notes)
    dump.names = [path_text(path) for path in paths]
    # Metrics are of one run, so of several inputs none are shown.
    if len(paths) == 1 and _is_run(Path(paths[0])):
        dump.metrics = metrics_by_step(metrics_files(Path(paths[0])))
    if (trained := trained_with(paths)) is not None:
        dump.estimator, dump.grader = trained.estimator, trained.grader
        dump.trained = trained.note
    return dump


def from_record(
    rollouts: Any,
    tokenizer: Any = None,
    *,
    named: str | None = None,
    notes: Notes | None = None,
) -> Dump:
    """The same for rollouts that are in memory: a record, with or without token ids.

    The tokenizer (loaded, a folder or a hub name; an error calls it `named`) makes the ids that are
    missing. `notes` takes what stands for tokens where the policy's own are not there.
    """
    rollouts, notes = record.conform(rollouts), notes or Notes()
    if not len(rollouts):
        raise InputError("there are no rollouts")
    if isinstance(tokenizer, str | Path):
        named = named or f"tokenizer {tokenizer}"
        tokenizer = load_tokenizer(str(tokenizer))
    missing = rollouts["token_ids"].null_count
    # Only text: the words of it stand for tokens.
    if missing and tokenizer is None:
        notes.add("words")
        return _cut_at_words(rollouts, notes)
    if missing:
        notes.add("made")
        rollouts = tokenized(rollouts, tokenizer, named=named)
    distinct = np.sort(pc.unique(pc.list_flatten(rollouts["token_ids"])).to_numpy())
    if tokenizer is None:
        texts: list[bytes | None] = [None] * len(distinct)
        return Dump(rollouts, "ids", distinct, texts, notes, [])
    texts = token_bytes(tokenizer, distinct)
    if missing < len(rollouts):
        note_other_texts(rollouts, tokenizer, notes)
    return Dump(rollouts, "tokens", distinct, texts, notes, [])


class Trained(NamedTuple):
    """What a run says of its own training: in words, and the estimator, which is None for plain
    GRPO and for one that cannot be made from its name."""

    note: str
    estimator: Estimator | None
    grader: str | None = None


def trained_with(inputs: Sequence[str | Path]) -> Trained | None:
    """What the one run that is given was trained with; None for several, or where nothing says it.

    A run folder has a recipe. Trainers of other folders leave `ktae.json` beside the rollouts.
    """
    if len(inputs) != 1:
        return None
    path = Path(inputs[0])
    recipe = path / "recipe.yaml" if _is_run(path) else None
    stored = TrainedWith.beside([path]) if recipe is None else TrainedWith.of_recipe(recipe)
    if stored is None:
        return None
    note, estimator = _trained(path_text(recipe or FILE), stored.estimator), None
    # A function that no module holds is there by what it prints, and cannot be made again.
    with contextlib.suppress(InputError, ValueError):
        text = stored.estimator or ""
        estimator = from_section(json.loads(text) if text.startswith("{") else text)
    if stored.estimator and estimator is None:
        note += " That cannot be made from its name, so the page shows the paper's; give -e."
    return Trained(note, estimator, stored.grader)


def _trained(file: str, name: str | None) -> str:
    how = f"with {name}" if name else "on the rollout advantages alone"
    return f"{file} says that this run was trained {how}."


def _is_run(path: Path) -> bool:
    return (path / "recipe.yaml").is_file()


def own_tokenizer(paths: Sequence[str | Path]) -> Path | None:
    """The tokenizer's folder of the first folder in `paths` that has one; None where none has.

    A run folder has its own or its base model's; others may hold a `tokenizer.json`.
    """
    of_runs = (_model_folders(path) for path in map(Path, paths) if _is_run(path))
    folders = itertools.chain(*of_runs, map(Path, paths))
    return next((folder for folder in folders if (folder / "tokenizer.json").is_file()), None)


def _model_folders(run: Path) -> Iterator[Path]:
    """Where a run's tokenizer may lie: all hold the same one. Nothing is fetched."""
    yield run / "tokenizer"
    yield run / "model"
    yield from run.glob("checkpoints/global_step_*/actor/huggingface")  # as verl saves them
    # A run through verl that has not saved anything yet: a folder, or a copy of one of the hub's.
    model = TrainedWith.of_recipe(run / "recipe.yaml").model or ""
    yield Path(os.path.expanduser(model))
    if HUB_NAME.fullmatch(model):
        yield copy_of(model)
        with contextlib.suppress(ModuleNotFoundError):
            from huggingface_hub import try_to_load_from_cache

            if isinstance(file := try_to_load_from_cache(model, "tokenizer.json"), str):
                yield Path(file).parent


def _cut_at_words(rollouts: Any, notes: Notes) -> Dump:
    """Every response cut at words; a response that is null, beside ids, has none."""
    number = defaultdict[str, int]()
    number.default_factory = number.__len__  # numbers words in the order in which they come

    # Masks belong to the ids that are dropped.
    for name in ("token_ids", "mask"):
        field = record.SCHEMA.field(name)
        place = rollouts.column_names.index(name)
        rollouts = rollouts.set_column(place, field, pa.nulls(len(rollouts), field.type))

    rollouts = with_ids(
        rollouts, lambda texts: [[*map(number.__getitem__, WORD.findall(text))] for text in texts]
    )
    return Dump(rollouts, "words", np.arange(len(number)), [x.encode() for x in number], notes, [])


def words_of(dump: Dump) -> dict[int, str] | None:
    """The words, by the number that stands for a token id, where there is no tokenizer.

    Raises:
        InputError: some rollouts have only text, others only token ids.
    """
    if dump.unit != "words":
        return None
    if without := dump.rollouts["response"].null_count:
        raise InputError(
            f"{without:,} of {len(dump.rollouts):,} rollouts have token_ids and no response, and "
            "others a response and no token_ids; expected one of the two everywhere, or a tokenizer"
        )
    texts = (text.decode() for text in dump.texts if text is not None)
    return dict(zip(dump.token_ids.tolist(), texts, strict=True))
