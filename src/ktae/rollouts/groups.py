"""The groups of a record, and what an estimator gets of its rollouts, some groups at a time."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.files.text import counted
from ktae.rollouts.record import ROWS_PER_BATCH, TYPES
from ktae.rollouts.tokens import tokenize

MAX_POSITIONS = 1 << 22
"""Padded positions (rollouts x longest length) that are in memory at a time, about 40 MB. A single
group above that is still taken whole."""

WORD = re.compile(r"\w+|[^\w\s]|\s+")
"""Without a tokenizer a text is cut so: into words, signs and blanks."""


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


def chunks_of(
    codes_b: np.ndarray, lengths_b: np.ndarray, max_positions: int
) -> Iterator[np.ndarray]:
    """Row numbers of consecutive groups, at least one, padded at most `max_positions`."""
    order = np.argsort(codes_b, kind="stable")
    starts = np.flatnonzero(np.diff(codes_b[order], prepend=-1))
    longest = np.maximum.reduceat(lengths_b[order], starts).tolist()
    start, width = 0, 0
    bounds = [*starts.tolist(), len(order)]
    for (begin, end), length in zip(itertools.pairwise(bounds), longest, strict=True):
        width = max(width, length)
        if begin > start and (end - start) * width > max_positions:
            yield order[start:begin]
            start, width = begin, length
    yield order[start:]
