"""Token credit for rollouts that lie in a record, and the tokens that stand out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from ktae.backends.table import CreditTable
from ktae.credit import AnEstimator, credit_table, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, table_estimator, to_section
from ktae.files.atomic import atomic_write
from ktae.inference import stratified_p_value
from ktae.rollouts import record
from ktae.rollouts.groups import (
    MAX_POSITIONS,
    ROWS_PER_BATCH,
    chunks_of,
    evidence,
    group_codes,
    ids_of,
    masks_of,
)
from ktae.rollouts.tokens import token_texts, vocabulary

CREDIT_KEY = b"ktae.credit"
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
    is of single tokens and verdicts, also where the credit is of other units or graded scores."""
    groups: list[Group]
    """In the record's order."""


class KeyToken(NamedTuple):
    """What one token does, over the mixed groups that contain it."""

    token_id: int
    token: str | None
    impact: float
    """Σ over groups of credit * |a - E[a]|, E[a] = n_true (a + b) / (n_true + n_false): the credit
    times the distance between the correct rollouts with the token and those that would have it by
    chance. Its sign is the credit's."""
    credit: float
    """The mean over `groups`, weighted by that |a - E[a]|."""
    a: int
    """Correct rollouts that contain the token, out of `n_true` in the mixed groups where any
    rollout does."""
    n_true: int
    b: int
    """Incorrect rollouts that contain it, out of `n_false`."""
    n_false: int
    groups: int
    """Mixed groups in which a is not E[a]: in the others presence tells nothing."""
    p_value: float
    """See `stratified_p_value`. The tokens were picked from many for being strong, and this does
    not correct for that."""


class Strongest(NamedTuple):
    """Tokens by falling |impact|; none of impact 0."""

    supporting: list[KeyToken]
    opposing: list[KeyToken]


def score(
    rollouts: Any,
    tokenizer: Any = None,
    estimator: AnEstimator = "paper",
    *,
    backend: Literal["auto", "cpu", "naive"] = "auto",
    max_positions: int = MAX_POSITIONS,
    words: Mapping[int, str] | None = None,
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
        backend: as in `ktae.credit_table`.
        max_positions: see `ktae.rollouts.groups`.
        words: the texts of the token ids, where these number words (`ktae.report.inputs`).

    Raises:
        InputError: `rollouts` is not a record, every group has one rollout, a rollout has no token
            ids and there is no tokenizer.
    """
    estimator = as_estimator(estimator)
    of_tokens = table_estimator(estimator)
    rollouts = record.conform(rollouts)
    codes_b, first_rows = group_codes(rollouts)
    sizes = np.bincount(codes_b, minlength=len(first_rows))
    if sizes.max(initial=0) < 2:
        raise InputError(
            f"every group has one rollout ({len(sizes)} groups): there is nothing to compare; "
            "rollouts of the same prompt need the same group"
        )
    ids, masks = ids_of(rollouts, tokenizer), masks_of(rollouts)
    correct_b, evidence_b = rollouts["correct"].to_numpy(), evidence(rollouts, estimator)
    texts = vocabulary(tokenizer) if estimator.needs_vocabulary and tokenizer else None
    credit: list[Any] = [None] * len(ids)
    tables = []
    for rows in chunks_of(codes_b, np.array([len(x) for x in ids]), max_positions):
        batch = record.pad([ids[row] for row in rows], [masks[row] for row in rows])
        groups = codes_b[rows]
        credit_bt = token_credit(
            *batch, evidence_b[rows], groups, estimator, backend=backend, vocabulary=texts, step=0
        )
        tables.append(credit_table(*batch, correct_b[rows], groups, of_tokens, backend=backend))
        for row, credit_t in zip(rows, credit_bt, strict=True):
            credit[row] = credit_t[: len(ids[row])].copy()
    table = CreditTable(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))
    labels = rollouts.select(["group", "step"]).take(first_rows)
    return Scores(
        _scored(rollouts, ids, credit, estimator, of_words=words is not None),
        _tokens(
            table,
            labels,
            tokenizer,
            words,
            estimator if estimator.in_tables() else of_tokens,
        ),
        _groups(table, labels, sizes),
    )


def write(scores: Scores, record_path: Path, tokens_path: Path) -> None:
    """Write both tables as Parquet; neither file is touched unless both could be written.

    Raises:
        InputError: a file cannot be written.
    """
    with atomic_write(tokens_path) as tokens_part, atomic_write(record_path) as record_part:
        record.write_parquet(scores.record, record_part)
        record.write_parquet(scores.tokens, tokens_part)


def strongest(tokens: Any, top: int = 10) -> Strongest:
    """The tokens of greatest impact for and against, over all mixed groups in `tokens`.

    Args:
        tokens: the credit table of `score`, or some groups of it (`tokens[group.rows]`).
        top: how many for, and how many against.
    """
    a, b, c, d = (tokens[name].to_numpy().astype(np.int64) for name in ("a", "b", "c", "d"))
    mixed = np.flatnonzero((a + c > 0) & (b + d > 0))
    a, b, c, d = a[mixed], b[mixed], c[mixed], d[mixed]
    ids, first, which = np.unique(
        tokens["token_id"].to_numpy()[mixed], return_index=True, return_inverse=True
    )
    impacts, weights = impact(tokens["credit"].to_numpy()[mixed], a, b, c, d)
    weight = np.bincount(which, weights)
    total = np.bincount(which, impacts)

    def describe(index: int) -> KeyToken:
        rows = np.flatnonzero(which == index)
        cells = (a[rows], b[rows], c[rows], d[rows])
        total_a, total_b, total_c, total_d = (int(cell.sum()) for cell in cells)
        return KeyToken(
            token_id=int(ids[index]),
            token=tokens["token"][int(mixed[first[index]])].as_py(),
            impact=float(total[index]),
            credit=float(total[index] / weight[index]),
            a=total_a,
            n_true=total_a + total_c,
            b=total_b,
            n_false=total_b + total_d,
            groups=int((weights[rows] > 0).sum()),
            p_value=stratified_p_value(*cells),
        )

    rising, falling = (np.argsort(x, kind="stable")[:top] for x in (total, -total))
    return Strongest(
        [describe(i) for i in falling if total[i] > 0],
        [describe(i) for i in rising if total[i] < 0],
    )


def impact(
    credit: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`KeyToken.impact` of tables in mixed groups: credit * |a - E[a]|, and the weight |a - E[a]|.

    Args:
        credit: (n_tables,) token credit.
        a, b, c, d: (n_tables,) int64 counts.
    """
    weight = np.abs((a * d - b * c) / (a + b + c + d))  # exactly 0 where a = E[a]
    return credit * weight, weight


def _scored(
    rollouts: Any,
    ids: Sequence[Any],
    credit: Sequence[Any],
    estimator: Estimator,
    *,
    of_words: bool,
) -> Any:
    for name, values in (("token_ids", ids), ("credit", credit)):
        field = record.SCHEMA.field(name)
        column = _list_column(values, field.type)
        rollouts = rollouts.set_column(rollouts.column_names.index(name), field, column)
    metadata = record.SCHEMA.metadata | {CREDIT_KEY: _as_json(estimator)}
    if of_words:
        metadata[record.UNIT_KEY] = record.WORDS
    return rollouts.replace_schema_metadata(metadata)


def _list_column(rows: Sequence[np.ndarray], kind: Any) -> Any:
    """Arrays of different lengths as a column of lists, in chunks whose offsets fit in int32."""
    chunks = []
    for start in range(0, len(rows), ROWS_PER_BATCH):
        part = rows[start : start + ROWS_PER_BATCH]
        offsets = np.cumsum([0, *map(len, part)], dtype=np.int32)
        values = pa.array(np.concatenate(part), type=kind.value_type)
        chunks.append(pa.ListArray.from_arrays(offsets, values))
    return pa.chunked_array(chunks, type=kind)


def _tokens(
    table: CreditTable,
    labels: Any,
    tokenizer: Any,
    words: Mapping[int, str] | None,
    estimator: Estimator,
) -> Any:
    ids, which = np.unique(table.token_id, return_inverse=True)
    texts: list[str | None] = [None] * len(ids)
    if words is not None:
        texts = [words[token_id] for token_id in ids.tolist()]
    elif tokenizer is not None:
        texts = token_texts(tokenizer, ids)
    columns = {
        "group": labels["group"].combine_chunks().dictionary_encode().take(table.group),
        "step": labels["step"].combine_chunks().take(table.group),
        "token_id": table.token_id.astype(np.int32),
        "token": pa.array(texts, pa.string()).dictionary_encode().take(which),
    }
    counts = {name: getattr(table, name).astype(np.int32) for name in ("a", "b", "c", "d")}
    statistics = {name: getattr(table, name) for name in CreditTable._fields[6:]}
    metadata = {TOKENS_VERSION_KEY: TOKENS_VERSION, CREDIT_KEY: _as_json(estimator)}
    return pa.table(columns | counts | statistics).replace_schema_metadata(metadata)


def _groups(table: CreditTable, labels: Any, sizes: np.ndarray) -> list[Group]:
    numbers = np.arange(len(sizes))
    begins = np.searchsorted(table.group, numbers)
    ends = np.searchsorted(table.group, numbers, side="right")
    groups = []
    for label, step, size, begin, end in zip(
        labels["group"].to_pylist(), labels["step"].to_pylist(), sizes, begins, ends, strict=True
    ):
        n_true, n_false = 0, 0
        if end > begin:
            n_true = int(table.a[begin] + table.c[begin])
            n_false = int(table.b[begin] + table.d[begin])
        groups.append(Group(label, step, int(size), n_true, n_false, slice(int(begin), int(end))))
    return groups


def described(estimator: Estimator) -> Any:
    """The section of a recipe that makes the estimator; for one without a name, what it prints."""
    try:
        return to_section(estimator)
    except InputError:
        return repr(estimator)


def _as_json(estimator: Estimator) -> bytes:
    return json.dumps(described(estimator)).encode()
