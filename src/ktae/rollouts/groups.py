"""Which rollouts are a group, and what an estimator gets of them, some groups at a time.

A group agrees in run, file, label, prompt, model and step. Beside that stand the notes that only
all rollouts together tell.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.files.text import counted, path_text
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import CONDITIONS, NAMES
from ktae.rollouts.record import ROWS_PER_BATCH, SCHEMA, TYPES
from ktae.rollouts.schemas import STEP_FOLDER
from ktae.rollouts.tokens import tokenize
from ktae.rollouts.values import PARSERS, Row

WORD = re.compile(r"\w+|[^\w\s]|\s+")  # what stands for a token where there is no tokenizer

Place = tuple[str | None, str | None]
"""The run, or else the file, that rollouts come from, as far as it tells groups apart."""
READ = tuple(pa.schema({"is_evaluation": pa.bool_(), "by_reward": pa.bool_()}))
"""Columns beside the record's while files are read: whether the rollout is of an evaluation, and
correct by its reward alone."""
WITHIN_RUN = re.compile(
    rf"{STEP_FOLDER.pattern}|rollouts|completions|episodes|train|eval|all|traces|stream|file|monitors"
)
"""Folders that trainers make inside a run's."""
KEYS = ("run", "file", "label", "prompt_id", "step")
MAX_VALUES = 64  # of a condition; a field of more is none
MIN_TURNS, SHARED = 20, 0.25  # later turns of agents, and the share of states that is noted


def place_of(file: Path, names: str, table: str | None, join: bool) -> Place:
    """The place of the rollouts of a file; `names` is what the files of a run are called."""
    if join:
        return (None, table)
    if not re.fullmatch(names, file.name):
        return (path_text(file), table) if table else (None, path_text(file))
    inside = list(itertools.takewhile(WITHIN_RUN.fullmatch, (x.name for x in file.parents)))
    run = file.parents[len(inside)] / ("eval" if "eval" in inside else "")
    return (path_text(run), table)


def grouped(table: Any, options: ReadOptions, notes: Notes) -> Any:
    """The record of what was read, its groups named, and without evaluations beside training."""
    training_b = pc.invert(table["is_evaluation"])
    if pc.any(training_b).as_py():
        notes.add("evaluation", n=len(table) - pc.sum(training_b).as_py())
        table = table.filter(training_b)
    table = table.select(SCHEMA.names).replace_schema_metadata(SCHEMA.metadata)
    for name in ("run", "file"):
        if len(pc.unique(table[name])) < 2:  # what all have in common tells nothing
            table = with_column(table, name, pa.nulls(len(table)))
    n_models = len(pc.unique(table["model"].drop_null()))
    told: list[str] = []
    if n_models > 1 and not options.pool_models:
        # Pooled where most rollouts would be the only one of their model in their group.
        alone = np.bincount(codes_of(table, *KEYS, "model")) == 1
        told = ["model"] * (2 * int(alone.sum()) <= len(table))
        notes.add("models" if told else "pooled", n=n_models)
    both = table.filter(pc.and_(table["label"].is_valid(), table["prompt_id"].is_valid()))
    notes.add("split", n=_n_several(both, ("run", "file", "label", "step"), ("prompt_id",)))
    notes.add("apart", n=_n_several(table, ("label", "prompt_id", "step"), ("run", "file")))
    codes_b = codes_of(table, *KEYS, *told)
    firsts = np.unique(codes_b, return_index=True)[1]
    names = _names(take_rows(table.select([*KEYS, "model"]), firsts).to_pylist(), bool(told))
    table = with_column(table, "group", pa.array(names, pa.string()).take(pa.array(codes_b)))
    # Texts that begin alike and whose ids do not: these may begin with the prompt's.
    has_both = pc.and_(table["token_ids"].is_valid(), table["response"].is_valid())
    some = table.select(["response", "token_ids"]).filter(has_both)
    texts = pc.utf8_slice_codeunits(some["response"], 0, 16).to_pylist()
    heads = map(tuple, pc.list_slice(some["token_ids"], 0, 1).to_pylist())
    pairs = Counter(text for text, _ in {*zip(texts, heads, strict=True)})
    notes.add("ids_prompt", n=sum(n > 1 and len(text) == 16 for text, n in pairs.items()))
    _note_states(table, notes)
    return table


def _n_several(table: Any, names: Sequence[str], others: Sequence[str]) -> int:
    """How many groups of rows that agree in `names` differ in `others`."""
    firsts = np.unique(codes_of(table, *names, *others), return_index=True)[1]
    return int((np.bincount(codes_of(table, *names)[firsts]) > 1).sum())


def _names(firsts: Sequence[Row], told: bool) -> list[str]:
    """A name for each group, by its first row: with its model, and where it is from, as far as
    these differ. No other group of its step has it."""
    places = [row["run"] or row["file"] for row in firsts]
    paths = [os.path.abspath(x) for row in firsts for x in (row["run"], row["file"]) if x]
    common = os.path.commonpath(paths) if paths else ""
    names, taken = list[str](), Counter[Any]()
    for row, place in zip(firsts, places, strict=True):
        name = f"prompt {row['prompt_id']}" if row["label"] is None else row["label"]
        if place and os.path.abspath(place) != common:
            name = f"{os.path.relpath(place, common)}:{name}"
        if told and row["model"] is not None and not name.endswith(f" ({row['model']})"):
            name = f"{name} ({row['model']})"
        unique, step = name, row["step"]
        while taken[unique, step]:  # a label may end in " #2" itself
            taken[name, step] += 1
            unique = f"{name} #{taken[name, step]}"
        taken[unique, step] = 1
        names.append(unique)
    return names


# --- what only all rollouts together tell


def note_rewards(table: Any, notes: Notes) -> None:
    """Note where rewards leave open which of them mean correct."""
    rewards_b = table["reward"].filter(table["by_reward"]).to_numpy()
    values, counts = np.unique(rewards_b, return_counts=True)
    if (above := values > 0).sum() > 1 or (values[above] < 1).any():
        first = ", ".join(f"{x:g}" for x in values[above][:3]) + ", ..." * bool(above.sum() > 3)
        notes.add("values", first, int(counts[above].sum()))
    if len(rewards_b) == len(table) and len(values) > 1:
        shown = f"{values[0]:g} to {values[-1]:g}"
        notes.add("all_above", shown, n=int(above.all()))
        notes.add("none_above", shown, n=int(not above.any()))


def note_conditions(rollouts: Sequence[tuple[Row, Row]], notes: Notes) -> None:
    """Note fields that differ between rollouts of a group and come of no rollout, such as a method.

    `rollouts` are plain rows, each with its row of the record. Where notes are strict, a field
    whose name says that its rollouts are not meant to be compared is an InputError.
    """
    for name in dict.fromkeys(name for plain, _ in rollouts for name in plain):
        is_named = name.lower() in CONDITIONS
        is_outcome = not is_named and any(x in name.lower() for x in NAMES.outcomes)
        if name in PARSERS or name.startswith("ktae:") or is_outcome:
            continue
        of_group = defaultdict[Any, list[Any]](list)
        for plain, made in rollouts:
            if (value := plain.get(name)) is not None:
                group = tuple(map(made.get, ("label", "prompt_id", "step", "is_evaluation")))
                of_group[group].append((str(value), type(value), made.get("correct")))
        if _is_condition(list(of_group.values()), is_named):
            notes.add("conditions", repr(name))
            if notes.strict and is_named:
                raise InputError(
                    f"rollouts of a group differ in {name!r}; expected one value in each group "
                    f"(--group-by PROMPT --group-by {name} tells them apart)"
                )


def _is_condition(groups: Sequence[Sequence[Any]], is_named: bool) -> bool:
    """Whether the values of a field, with their types and verdicts, differ in most groups and
    repeat in one, and are not told by the verdict."""
    keys = {key for group in groups for key in group}
    if {kind for _, kind, _ in keys} - {str, int} or len({x for x, *_ in keys}) > MAX_VALUES:
        return False
    large = [group for group in groups if len(group) > 1]
    several = [group for group in large if len({x for x, *_ in group}) > 1]
    # A number of the rollout within its group has each value once.
    repeats = any(min(Counter(x for x, *_ in group).values()) > 1 for group in several)
    mixed = [group for group in large if len({correct for *_, correct in group}) > 1]
    tells = bool(mixed) and all(len({*group}) == len({x for x, *_ in group}) for group in mixed)
    return 2 * len(several) >= max(len(large), 1) and (is_named or (repeats and not tells))


def _note_states(rollouts: Any, notes: Notes) -> None:
    """Note agents whose states, what is seen before a later turn, are seldom shared in a group."""
    states = Counter[Any]()
    table = rollouts.select(["group", "step", "segments"])
    for batch in table.filter(table["segments"].is_valid()).to_batches():
        for group, step, parts in zip(*(x.to_pylist() for x in batch.columns), strict=True):
            seen = ""
            for part in parts:
                is_policy = part["role"] == "policy"
                states[group, step, seen] += is_policy and bool(seen)
                seen = "" if is_policy else seen + part["text"]
    shared = sum(n for n in states.values() if n > 1)
    if states.total() >= MIN_TURNS and shared < SHARED * states.total():
        notes.add("states", f"{shared:,} of {states.total():,}")


# --- columns of a record


def group_codes(rollouts: Any) -> tuple[np.ndarray, np.ndarray]:
    """(B,) group numbers by first appearance of (group, step), and each group's first row."""
    codes_b = codes_of(rollouts, "group", "step")
    return codes_b, np.unique(codes_b, return_index=True)[1]


def codes_of(table: Any, *names: str) -> np.ndarray:
    """(B,) int64 numbers, by first appearance, of rows that agree in all of these columns."""
    codes_b = np.zeros(len(table), dtype=np.int64)
    for name in names:
        other_b = numbered(table[name])
        if n_more := int(other_b.max(initial=0)):  # a column of one value tells nothing
            codes_b = numbered(pa.chunked_array([codes_b * (n_more + 1) + other_b]))
    return codes_b


def numbered(column: Any) -> np.ndarray:
    """(B,) int64 numbers of a column's values, in the order of their first appearance."""
    chunks = pc.dictionary_encode(column, null_encoding="encode").chunks
    indices = [np.asarray(chunk.indices, dtype=np.int64) for chunk in chunks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *indices])


def require_comparable(codes_b: np.ndarray) -> None:
    """Raise an InputError where every group has one rollout, so that nothing can be compared."""
    sizes = np.bincount(codes_b)
    if sizes.max(initial=0) < 2:
        raise InputError(
            f"every group has one rollout ({counted(len(sizes), 'group')}): there is nothing to "
            "compare; rollouts of a prompt need the same group, those of several files --join, "
            "and those of several models --pool-models"
        )


def tokenized(rollouts: Any, tokenizer: Any, *, named: str | None = None) -> Any:
    """The record with token ids, made of the response where it has none.

    Args:
        rollouts: a record.
        tokenizer: a `tokenizers.Tokenizer`, or a fast one of transformers.
        named: what errors call it.
    """
    if not rollouts["token_ids"].null_count:
        return rollouts
    return _with_ids(rollouts, lambda texts: tokenize(tokenizer, texts, named=named))


def cut_at_words(rollouts: Any) -> tuple[Any, list[str]]:
    """The record with words for tokens, where there is no tokenizer, and the words.

    A word's id is its place among them, in the order in which they come.

    Raises:
        InputError: some rollouts have only text, others only token ids.
    """
    if n := rollouts["response"].null_count:
        raise InputError(
            f"{n:,} of {len(rollouts):,} rollouts have token_ids and no response, and others a "
            "response and no token_ids; expected one of the two everywhere, or a tokenizer"
        )
    for name in ("token_ids", "mask"):  # masks belong to the ids that are dropped
        rollouts = with_column(rollouts, name, pa.nulls(len(rollouts)))
    number = defaultdict[str, int]()
    number.default_factory = number.__len__
    rollouts = _with_ids(
        rollouts, lambda texts: [[*map(number.__getitem__, WORD.findall(text))] for text in texts]
    )
    return rollouts, list(number)


def _with_ids(rollouts: Any, encode: Callable[[list[str]], Sequence[Any]]) -> Any:
    """The record with ids, made where they are null, and without credit, which was of others.

    Each segment is encoded by itself, and those that are not the policy's are masked.
    """
    ids: list[Any] = []
    masks: list[Any] = []
    names = ["token_ids", "mask", "response", "segments"]
    for batch in rollouts.select(names).to_batches(ROWS_PER_BATCH):
        rows = batch.to_pylist()
        for row in rows:
            is_missing, text = row["token_ids"] is None, row["response"] or ""
            parts = row["segments"] or [{"role": "policy", "text": text}]
            row["parts"] = parts if is_missing else []
        encoded = iter(encode([part["text"] for row in rows for part in row["parts"]]))
        for row in rows:
            if parts := row["parts"]:
                pieces = [np.asarray(next(encoded), dtype=np.int32) for _ in parts]
                are_policy = [part["role"] == "policy" for part in parts]
                mask = np.repeat(are_policy, [*map(len, pieces)]) if len(parts) > 1 else None
                row |= {"token_ids": np.concatenate(pieces), "mask": mask}
        ids.append(pa.array([row["token_ids"] for row in rows], TYPES["ints"]))
        masks.append(pa.array([row["mask"] for row in rows], TYPES["bools"]))
    rollouts = with_column(rollouts, "token_ids", pa.chunked_array(ids, TYPES["ints"]))
    rollouts = with_column(rollouts, "mask", pa.chunked_array(masks, TYPES["bools"]))
    return with_column(rollouts, "credit", pa.nulls(len(rollouts)))


def with_column(rollouts: Any, name: str, values: Any) -> Any:
    """The record with other values in a column."""
    place = rollouts.column_names.index(name)
    field = rollouts.schema.field(name)
    return rollouts.set_column(place, field, values.cast(field.type))


def arrays_of(column: Any) -> list[Any]:
    """The entries of a column of lists of numbers, which share its memory; None for null."""
    arrays: list[Any] = []
    for chunk in column.chunks:
        values, known = chunk.values.to_numpy(zero_copy_only=False), chunk.is_valid().to_pylist()
        bounds = zip(itertools.pairwise(chunk.offsets.to_pylist()), known, strict=True)
        arrays += [values[a:b] if is_known else None for (a, b), is_known in bounds]
    return arrays


def take_rows(table: Any, rows: np.ndarray) -> Any:
    """These rows of a table, in this order; neighbours are not copied."""
    if len(rows) and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    # Batch by batch: Arrow would put all chunks of a column together first.
    order = np.argsort(rows, kind="stable")
    ascending, parts, begin = rows[order], [], 0
    for batch in table.to_batches():
        low, high = np.searchsorted(ascending, (begin, begin + len(batch)))
        if low < high:
            parts.append(batch.take(pa.array(ascending[low:high] - begin)))
        begin += len(batch)
    return pa.Table.from_batches(parts, table.schema).take(pa.array(np.argsort(order)))
