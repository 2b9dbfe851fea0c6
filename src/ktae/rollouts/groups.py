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
from ktae.estimators import Estimator
from ktae.files.text import counted
from ktae.rollouts import record
from ktae.rollouts.tokens import tokenize

MAX_POSITIONS = 1 << 22
"""Padded positions (rollouts x longest length) that are in memory at a time, about 40 MB. A single
group above that is still taken whole."""

WORD = re.compile(r"\w+|[^\w\s]|\s+")
"""Without a tokenizer a text is cut so: into words, signs and blanks."""

ROWS_PER_BATCH = 1024
"""Rollouts that a tokenizer gets, or an Arrow list array holds, at a time."""


def group_codes(rollouts: Any) -> tuple[np.ndarray, np.ndarray]:
    """(B,) group numbers by first appearance of (group, step), and each group's first row."""
    group_b, step_b = (numbered(rollouts[name]) for name in ("group", "step"))
    # One number for each pair of group and step.
    pairs = pa.chunked_array([group_b * (step_b.max(initial=0) + 1) + step_b], pa.int64())
    codes_b = numbered(pairs)
    return codes_b, np.unique(codes_b, return_index=True)[1]


def numbered(column: Any) -> np.ndarray:
    """(B,) int64 numbers of a column's values, in the order of their first appearance."""
    chunks = pc.dictionary_encode(column, null_encoding="encode").chunks
    indices = [np.asarray(chunk.indices, dtype=np.int64) for chunk in chunks]
    return np.concatenate([np.zeros(0, dtype=np.int64), *indices])


def require_comparable(codes_b: np.ndarray) -> None:
    """Raise an InputError where every group has one rollout, so that nothing can be compared."""
    sizes = np.bincount(codes_b)
    if not len(sizes):
        raise InputError("the record is empty: there is nothing to compare")
    if sizes.max() < 2:
        raise InputError(
            f"every group has one rollout ({counted(len(sizes), 'group')}): there is nothing to "
            "compare; rollouts of a prompt need the same group, those of several files --join, "
            "and those of several models --pool-models"
        )


def evidence(rollouts: Any, estimator: Estimator) -> np.ndarray:
    """(B,) what the estimator gets for `correct`: the verdicts, or the rewards of those rollouts
    that have one if it is graded. NaN is unknown."""
    verdicts_b: np.ndarray = rollouts["correct"].to_numpy()
    if not estimator.takes_scores:
        return verdicts_b
    # A graded score counts only where there is a verdict at all.
    rewards_b: np.ndarray = np.where(np.isnan(verdicts_b), np.nan, rollouts["reward"].to_numpy())
    return rewards_b


def tokenized(rollouts: Any, tokenizer: Any, *, named: str | None = None) -> Any:
    """The record with token ids, made of the response where it has none.

    Args:
        rollouts: a record.
        tokenizer: a `tokenizers.Tokenizer`, or a fast one of transformers.
        named: what errors call it.
    """
    if not rollouts["token_ids"].null_count:
        return rollouts
    return with_ids(rollouts, lambda texts: tokenize(tokenizer, texts, named=named))


def with_ids(rollouts: Any, encode: Callable[[list[str]], Sequence[Any]]) -> Any:
    """The record with ids, made where they are null, and without credit, which was of others.

    Each segment is encoded by itself, and those that are not the policy's are masked. `encode`
    makes ids of texts.
    """
    ids: list[Any] = []
    masks: list[Any] = []
    names = ["token_ids", "mask", "response", "segments"]
    for batch in rollouts.select(names).to_batches(ROWS_PER_BATCH):
        known = batch["token_ids"].is_valid().to_pylist()
        texts = batch.select(["response", "segments"]).to_pylist()
        parts_b = [
            [] if is_known else x["segments"] or [{"role": "policy", "text": x["response"] or ""}]
            for is_known, x in zip(known, texts, strict=True)
        ]
        encoded = iter(encode([part["text"] for parts in parts_b for part in parts]))
        for row, parts in enumerate(parts_b):
            if known[row]:
                ids.append(batch["token_ids"][row].values.to_numpy())
                masks.append(batch["mask"][row].as_py())
                continue
            pieces = [np.asarray(next(encoded), dtype=np.int32) for _ in parts]
            pairs = zip(pieces, parts, strict=True)
            counts = [np.full(len(x), part["role"] == "policy") for x, part in pairs]
            ids.append(np.concatenate(pieces))
            masks.append(np.concatenate(counts) if len(pieces) > 1 else None)
    for name, values in (("token_ids", ids), ("mask", masks), ("credit", [None] * len(ids))):
        rollouts = _with_column(rollouts, name, values)
    return rollouts


def _with_column(rollouts: Any, name: str, values: Sequence[Any]) -> Any:
    field, place = record.SCHEMA.field(name), rollouts.column_names.index(name)
    chunks = [
        pa.array(values[i : i + ROWS_PER_BATCH], field.type)
        for i in range(0, len(values), ROWS_PER_BATCH)
    ]
    return rollouts.set_column(place, field, pa.chunked_array(chunks, field.type))


def cut_at_words(rollouts: Any) -> tuple[Any, list[str]]:
    """The record with words for tokens, where there is no tokenizer, and the words.

    A word's id is its place among them, in the order in which they come.

    Raises:
        InputError: some rollouts have only text, others only token ids.
    """
    if without := rollouts["response"].null_count:
        raise InputError(
            f"{without:,} of {len(rollouts):,} rollouts have token_ids and no response, and others "
            "a response and no token_ids; expected one of the two everywhere, or a tokenizer"
        )
    for name in ("token_ids", "mask"):  # masks belong to the ids that are dropped
        rollouts = _with_column(rollouts, name, [None] * len(rollouts))
    number = defaultdict[str, int]()
    number.default_factory = number.__len__
    rollouts = with_ids(
        rollouts, lambda texts: [[*map(number.__getitem__, WORD.findall(text))] for text in texts]
    )
    return rollouts, list(number)


def arrays_of(column: Any) -> list[np.ndarray]:
    """The entries of a column of lists of numbers, none of them null; they share its memory."""
    arrays: list[np.ndarray] = []
    for chunk in column.chunks:
        values = chunk.values.to_numpy(zero_copy_only=False)
        arrays += [values[a:b] for a, b in itertools.pairwise(chunk.offsets.to_pylist())]
    return arrays


def take_rows(table: Any, rows: np.ndarray) -> Any:
    """These rows of a table, in this order; neighbours are not copied.

    Each batch gives its rows apart: Arrow would put all chunks of a column together first.
    """
    if not len(rows):
        return table.slice(0, 0)
    if (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    # Take the rows of each batch in ascending order, and put them in the wanted order last.
    order = np.argsort(rows, kind="stable")
    ascending, parts, begin = rows[order], [], 0
    for batch in table.to_batches():
        end = begin + len(batch)
        low, high = np.searchsorted(ascending, (begin, end))
        if low < high:
            parts.append(batch.take(pa.array(ascending[low:high] - begin)))
        begin = end
    taken = pa.Table.from_batches(parts, table.schema)
    if (np.diff(order) == 1).all():
        return taken
    return taken.take(pa.array(np.argsort(order, kind="stable")))


def masks_of(rollouts: Any) -> list[np.ndarray | None]:
    """Each rollout's mask; None where every token counts."""
    return [
        x.values.to_numpy(zero_copy_only=False) if x.is_valid else None for x in rollouts["mask"]
    ]


def chunks_of(
    codes_b: np.ndarray, lengths_b: np.ndarray, max_positions: int
) -> Iterator[np.ndarray]:
    """Row numbers of consecutive groups, at least one, padded at most `max_positions`."""
    order = np.argsort(codes_b, kind="stable")
    starts = np.flatnonzero(np.diff(codes_b[order], prepend=-1))
    longest = np.maximum.reduceat(lengths_b[order], starts).tolist()
    bounds = [*starts.tolist(), len(order)]
    # Add groups while the padded rectangle of all their rollouts fits.
    start, width = 0, 0
    for group, (begin, end) in enumerate(itertools.pairwise(bounds)):
        width = max(width, longest[group])
        if begin > start and (end - start) * width > max_positions:
            yield order[start:begin]
            start, width = begin, longest[group]
    yield order[start:]
