"""Token credit for rollouts that lie in a record, and its tables."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktae.arrays import MAX_TOKEN_ID
from ktae.batch import Vocabulary
from ktae.credit import AnEstimator, credit_table, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, to_section
from ktae.files.atomic import atomic_write
from ktae.report.strongest import DISTINCT
from ktae.rollouts import record
from ktae.rollouts.groups import (
    MAX_POSITIONS,
    ROWS_PER_BATCH,
    arrays_of,
    chunks_of,
    evidence,
    group_codes,
    masks_of,
    require_comparable,
    take_rows,
    tokenized,
)
from ktae.rollouts.tokens import token_texts, vocabulary
from ktae.tables import CreditTable, in_tables, table_estimator
from ktae.validity import repeats

TOKENS_VERSION_KEY = b"ktae.tokens.version"
TOKENS_VERSION = b"2"


class Group(NamedTuple):
    """The rollouts of one prompt (and step)."""

    label: str
    step: int | None
    rollouts: int
    n_true: int
    """Correct rollouts that have a token that counts."""
    n_false: int
    """Incorrect ones."""
    rows: slice
    """Where the group is in the credit table."""

    @property
    def mixed(self) -> bool:
        """Whether there is anything to compare; in any other group all credit is 0."""
        return self.n_true > 0 and self.n_false > 0


class Scores(NamedTuple):
    """What `score` returns."""

    record: Any
    """The record with `token_ids` and `credit` filled; its metadata holds the estimator."""
    tokens: Any
    """The credit table: the columns of `ktae.CreditTable`, with `step` and, where there is a
    tokenizer, the text of each token in `token`. Groups in the record's order, then token ids. It
    is of single tokens and verdicts, also where the credit is of other units or graded scores.
    `distinct_a` to `distinct_d` are the counts with identical rollouts of a group taken once, and
    not at all where their verdicts differ."""
    groups: list[Group]
    """In the record's order."""


def score(
    rollouts: Any,
    tokenizer: Any = None,
    estimator: AnEstimator = "paper",
    *,
    max_positions: int = MAX_POSITIONS,
    words: Mapping[int, str | None] | None = None,
    texts: Vocabulary | None = None,
) -> Scores:
    """The credit of all rollouts' tokens, and their credit table.

    Groups are independent of each other, so they are taken some at a time: the result is exact and
    the memory does not depend on the longest rollout of the file.

    Args:
        rollouts: a record (`ktae.rollouts.record`, `ktae.rollouts.readers.read`).
        tokenizer: a `tokenizers.Tokenizer`, or a fast one of transformers. Needed where a rollout
            has no token ids, and for units that are made of text; otherwise it only serves to
            write the tokens' texts into the table.
        estimator: one of `ktae.estimators`, the name of a preset, or a function. One that decays
            is taken at its full weight. The credit table of one that rests on none is the paper's.
        max_positions: see `ktae.rollouts.groups`.
        words: the texts of the token ids, where these number words (`ktae.report.inputs`).
        texts: the vocabulary, for units that are made of text; the tokenizer's by default.

    Raises:
        InputError: `rollouts` is not a record, every group has one rollout, a rollout has no token
            ids and there is no tokenizer.
    """
    estimator = as_estimator(estimator)
    rollouts = record.conform(rollouts)
    codes_b, first_rows = group_codes(rollouts)
    require_comparable(codes_b)
    rollouts = tokenized(rollouts, tokenizer)
    if texts is None and estimator.needs_vocabulary and tokenizer:
        texts = vocabulary(tokenizer)
    ends_b = np.cumsum([len(x) for x in arrays_of(rollouts["token_ids"])])
    credit_n = np.zeros(ends_b[-1], dtype=np.float32)
    counts, parts = np.zeros((2, len(first_rows)), dtype=np.int64), []
    for part in chunks(rollouts, codes_b, estimator, credit_n, max_positions, texts):
        counts += classes(part, len(first_rows))
        # Counts and ids in 32 bits: there are hundreds of rows for each rollout.
        narrow = {x: y.astype(np.int32) for x, y in part.items() if y.dtype.kind == "i"}
        parts.append(pa.table(part | narrow))
    numbers = pa.concat_tables(parts)
    group_n = numbers["group"].to_numpy()
    labels = take_rows(rollouts.select(["group", "step"]), first_rows).combine_chunks()
    columns = {
        "group": labels["group"].combine_chunks().dictionary_encode().take(pa.array(group_n)),
        "step": labels["step"].combine_chunks().take(pa.array(group_n)),
        "token_id": numbers["token_id"],
        "token": _spelled(numbers["token_id"].to_numpy(), tokenizer, words),
        **{name: numbers[name] for name in (*"abcd", *DISTINCT, *CreditTable._fields[6:])},
    }
    # The table names the estimator that it is of, and the record the one of its credit.
    written = estimator if in_tables(estimator) else table_estimator(estimator)
    of_tokens = {TOKENS_VERSION_KEY: TOKENS_VERSION, record.CREDIT_KEY: _as_json(written)}
    metadata = record.SCHEMA.metadata | {record.CREDIT_KEY: _as_json(estimator)}
    if words is not None:
        metadata[record.UNIT_KEY] = record.WORDS
    field, place = record.SCHEMA.field("credit"), rollouts.column_names.index("credit")
    lists = list_column(np.split(credit_n, ends_b[:-1]), field.type)
    rollouts = rollouts.set_column(place, field, lists).replace_schema_metadata(metadata)
    sizes = np.bincount(codes_b).tolist()
    bounds = np.searchsorted(group_n, np.arange(len(first_rows) + 1)).tolist()
    rows = itertools.starmap(slice, itertools.pairwise(bounds))
    named = (labels[name].to_pylist() for name in ("group", "step"))
    groups = list(map(Group, *named, sizes, *counts.tolist(), rows))
    return Scores(rollouts, pa.table(columns, metadata=of_tokens), groups)


def _as_json(estimator: Estimator) -> bytes:
    return json.dumps(described(estimator)).encode()


def _spelled(ids: np.ndarray, tokenizer: Any, words: Mapping[int, str | None] | None) -> Any:
    """The texts of token ids; null where there is neither a tokenizer nor words."""
    distinct = np.unique(ids)
    if words is not None:
        texts = [words[x] for x in distinct.tolist()]
    else:
        texts = token_texts(tokenizer, distinct) if tokenizer else [None] * len(distinct)
    places = pa.array(np.searchsorted(distinct, ids))
    return pa.array(texts, pa.string()).dictionary_encode().take(places)


def chunks(
    rollouts: Any,
    codes_b: np.ndarray,
    estimator: Estimator,
    credit_n: np.ndarray,
    max_positions: int = MAX_POSITIONS,
    texts: Vocabulary | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """The credit tables of single tokens of some groups at a time, in the order of their numbers.

    Columns are those of `CreditTable`, and `DISTINCT`. `credit_n` takes the credit of the
    rollouts' tokens, one rollout after the other.
    """
    of_tokens, correct_b = table_estimator(estimator), rollouts["correct"].to_numpy()
    parts = credited(rollouts, codes_b, estimator, credit_n, max_positions, texts)
    for rows, ids_bt, mask_bt in parts:
        groups, correct = codes_b[rows], correct_b[rows]
        table = credit_table(ids_bt, mask_bt, correct, groups, of_tokens)
        # The same counts, of rollouts that are evidence: no repeated ones, and none that have
        # another verdict than the same rollout elsewhere in the group.
        distinct = np.array([table.a, table.b, table.c, table.d])
        counted = [ids_t[mask_t] for ids_t, mask_t in zip(ids_bt, mask_bt, strict=True)]
        repeated_b = repeats.repeated(groups, counted, correct)
        if repeated_b.any():
            evidence_alone = np.where(repeated_b, np.nan, correct)
            alone = credit_table(ids_bt, mask_bt, evidence_alone, groups, of_tokens)
            keys = [
                x.group.astype(np.int64) * (MAX_TOKEN_ID + 1) + x.token_id for x in (table, alone)
            ]
            distinct[:] = 0
            distinct[:, np.searchsorted(*keys)] = [alone.a, alone.b, alone.c, alone.d]
        yield table._asdict() | dict(zip(DISTINCT, distinct, strict=True))


def credited(
    rollouts: Any,
    codes_b: np.ndarray,
    estimator: Estimator,
    credit_n: np.ndarray,
    max_positions: int = MAX_POSITIONS,
    texts: Vocabulary | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Write the credit of some groups at a time to `credit_n`, as `chunks` has it.

    Yields the rows of these groups, and their padded token ids and masks.
    """
    ids = arrays_of(rollouts["token_ids"])
    lengths_b = np.array([len(x) for x in ids], dtype=np.int64)
    starts_b = np.cumsum(lengths_b) - lengths_b
    evidence_b, masks = evidence(rollouts, estimator), rollouts.select(["mask"])
    for rows in chunks_of(codes_b, lengths_b, max_positions) if len(ids) else ():
        ids_bt, mask_bt = record.pad([ids[row] for row in rows], masks_of(take_rows(masks, rows)))
        credit_bt = token_credit(
            ids_bt, mask_bt, evidence_b[rows], codes_b[rows], estimator, vocabulary=texts, step=0
        )
        for start, length, credit_t in zip(starts_b[rows], lengths_b[rows], credit_bt, strict=True):
            credit_n[start : start + length] = credit_t[:length]
        yield rows, ids_bt, mask_bt


def write(scores: Scores, record_path: Path, tokens_path: Path) -> None:
    """Write both tables as Parquet; neither file is touched unless both could be written.

    Raises:
        InputError: a file cannot be written.
    """
    with atomic_write(tokens_path) as tokens_part, atomic_write(record_path) as record_part:
        record.write_parquet(scores.record, record_part)
        record.write_parquet(scores.tokens.drop_columns(DISTINCT), tokens_part)


def list_column(rows: Sequence[np.ndarray], kind: Any) -> Any:
    """Arrays of different lengths as a column of lists, in chunks whose offsets fit in int32."""
    lists = []
    for start in range(0, len(rows), ROWS_PER_BATCH):
        part = rows[start : start + ROWS_PER_BATCH]
        offsets = np.cumsum([0, *map(len, part)], dtype=np.int32)
        values = pa.array(np.concatenate(part), type=kind.value_type)
        lists.append(pa.ListArray.from_arrays(offsets, values))
    return pa.chunked_array(lists, type=kind)


def classes(columns: Mapping[str, np.ndarray], n_groups: int) -> np.ndarray:
    """(2, n_groups) int64: each group's correct and incorrect rollouts with a token that counts."""
    counts = np.zeros((2, n_groups), dtype=np.int64)
    codes, first = np.unique(columns["group"], return_index=True)
    a, b, c, d = (columns[name][first] for name in "abcd")
    counts[:, codes] = a + c, b + d
    return counts


def described(estimator: Estimator) -> Any:
    """The section of a recipe that makes the estimator; for one without a name, what it prints."""
    try:
        return to_section(estimator)
    except InputError:
        return repr(estimator)
