"""Token credit for rollouts that lie in a record, and the tokens that stand out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends.table import CreditTable
from ktae.credit import AnEstimator, credit_table, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, to_section
from ktae.files.atomic import atomic_write
from ktae.inference import stratified_p_value
from ktae.report.credit_columns import DISTINCT, InOrder, Tables, list_column
from ktae.rollouts import record
from ktae.rollouts.groups import (
    MAX_POSITIONS,
    chunks_of,
    distinct_ids,
    evidence,
    group_codes,
    ids_of,
    masks_of,
    require_comparable,
    take_rows,
)
from ktae.rollouts.spool import Spool
from ktae.rollouts.tokens import token_texts, vocabulary
from ktae.tables import in_tables, table_estimator
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
    """See `stratified_p_value`; identical rollouts of a group count once. The tokens were picked
    from many for being strong, and this does not correct for that."""


class Strongest(NamedTuple):
    """Tokens by falling |impact|; none of impact 0."""

    supporting: list[KeyToken]
    opposing: list[KeyToken]


def score(
    rollouts: Any,
    tokenizer: Any = None,
    estimator: AnEstimator = "paper",
    *,
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
        max_positions: see `ktae.rollouts.groups`.
        words: the texts of the token ids, where these number words (`ktae.report.inputs`).

    Raises:
        InputError: `rollouts` is not a record, every group has one rollout, a rollout has no token
            ids and there is no tokenizer.
    """
    estimator = as_estimator(estimator)
    rollouts = record.conform(rollouts)
    codes_b, first_rows = group_codes(rollouts)
    sizes = np.bincount(codes_b, minlength=len(first_rows))
    require_comparable(codes_b)
    ids = ids_of(rollouts, tokenizer)
    texts = vocabulary(tokenizer) if estimator.needs_vocabulary and tokenizer else None
    labels = take_rows(rollouts.select(["group", "step"]), first_rows)
    to_table = Tables(labels, *_texts(ids, tokenizer, words))
    credit, tokens, groups = InOrder("credit"), Spool(to_table.schema), list[Group]()
    for rows, credit_bt, table, distinct in chunks(
        rollouts, ids, codes_b, estimator, max_positions=max_positions,
        texts=texts,
    ):  # fmt: skip
        credit.put(rows, [x[: len(ids[row])] for row, x in zip(rows, credit_bt, strict=True)])
        groups += _groups(table, labels, sizes, np.unique(codes_b[rows]), tokens.rows)
        tokens.add(to_table(table, distinct))
    written = estimator if in_tables(estimator) else table_estimator(estimator)
    metadata = {TOKENS_VERSION_KEY: TOKENS_VERSION, record.CREDIT_KEY: _as_json(written)}
    return Scores(
        _scored(rollouts, ids, credit.column(), estimator, of_words=words is not None),
        tokens.table().replace_schema_metadata(metadata),
        groups,
    )


def chunks(
    rollouts: Any,
    ids: Sequence[np.ndarray],
    codes_b: np.ndarray,
    estimator: Estimator,
    *,
    max_positions: int = MAX_POSITIONS,
    texts: Any = None,
) -> Iterator[tuple[np.ndarray, np.ndarray, CreditTable, np.ndarray]]:
    """Some groups at a time: their rows in the record, their credit, their credit table, and its
    counts (4, rows) with identical rollouts of a group taken once.

    Args:
        rollouts: a record.
        ids: its B rollouts' token ids.
        codes_b: (B,) int64 the group of each.
        estimator: as in `score`.
        max_positions: as in `score`.
        texts: the vocabulary, for units that are made of text.
    """
    of_tokens = table_estimator(estimator)
    correct_b, evidence_b = rollouts["correct"].to_numpy(), evidence(rollouts, estimator)
    masks = rollouts.select(["mask"])
    for rows in chunks_of(codes_b, np.array([len(x) for x in ids]), max_positions):
        batch = record.pad([ids[row] for row in rows], masks_of(take_rows(masks, rows)))
        groups, correct = codes_b[rows], correct_b[rows]
        credit_bt = token_credit(
            *batch, evidence_b[rows], groups, estimator, vocabulary=texts, step=0
        )
        table = credit_table(*batch, correct, groups, of_tokens)
        yield rows, credit_bt, table, _distinct_counts(table, of_tokens, *batch, correct, groups)


def _distinct_counts(
    table: CreditTable,
    estimator: Estimator,
    ids_bt: np.ndarray,
    mask_bt: np.ndarray,
    correct_b: np.ndarray,
    group_b: np.ndarray,
) -> np.ndarray:
    """(4, rows) int64: a, b, c and d of the table with identical rollouts of a group taken once.

    0 where no rollout that is evidence has the token.
    """
    counts = np.array([table.a, table.b, table.c, table.d])
    counted = [ids_t[mask_t] for ids_t, mask_t in zip(ids_bt, mask_bt, strict=True)]
    repeated_b = repeats.repeated(group_b, counted, correct_b)
    if repeated_b.any():
        some = np.isin(group_b, group_b[repeated_b])
        correct_b = np.where(repeated_b, np.nan, correct_b)
        own = credit_table(ids_bt[some], mask_bt[some], correct_b[some], group_b[some], estimator)
        counts[:, np.isin(table.group, group_b[repeated_b])] = 0
        rows = np.searchsorted(_keys(table), _keys(own))
        counts[:, rows] = [own.a, own.b, own.c, own.d]
    return counts


def _keys(table: CreditTable) -> np.ndarray:
    """(rows,) int64, ascending: one number for each group and token."""
    keys: np.ndarray = table.group.astype(np.int64) * (MAX_TOKEN_ID + 1) + table.token_id
    return keys


def write(scores: Scores, record_path: Path, tokens_path: Path) -> None:
    """Write both tables as Parquet; neither file is touched unless both could be written.

    Raises:
        InputError: a file cannot be written.
    """
    with atomic_write(tokens_path) as tokens_part, atomic_write(record_path) as record_part:
        record.write_parquet(scores.record, record_part)
        record.write_parquet(scores.tokens.drop_columns(DISTINCT), tokens_part)


def strongest(tokens: Any, top: int = 10) -> Strongest:
    """The tokens of greatest impact for and against, over all mixed groups in `tokens`.

    Args:
        tokens: the credit table of `score`, or some groups of it (`tokens[group.rows]`). One that
            was read from a file of `write` gives the same, but p counts identical rollouts each.
        top: how many for, and how many against.
    """
    parts = [_Part(batch) for batch in tokens.to_batches()]
    ids = np.unique(np.concatenate([np.zeros(0, dtype=int), *(part.distinct() for part in parts)]))
    total = np.zeros(len(ids))
    for part in parts:
        of_mixed = part.read()
        np.add.at(total, np.searchsorted(ids, of_mixed.token_id), of_mixed.found.impact)
    rising, falling = (np.argsort(x, kind="stable")[:top] for x in (total, -total))
    supporting = [i for i in falling.tolist() if total[i] > 0]
    opposing = [i for i in rising.tolist() if total[i] < 0]
    chosen = ids[[*supporting, *opposing]]
    rows = [part.read(chosen) for part in parts]
    return Strongest(
        [_described(int(ids[i]), float(total[i]), rows) for i in supporting],
        [_described(int(ids[i]), float(total[i]), rows) for i in opposing],
    )


class MixedRows(NamedTuple):
    """Rows of a credit table that are in mixed groups."""

    rows: np.ndarray
    """Where they are in the table."""
    cells: np.ndarray
    """(4, n) int64: a, b, c, d."""
    impact: np.ndarray
    weight: np.ndarray
    distinct: np.ndarray
    """(4, n) int64: the cells with identical rollouts of a group taken once."""


def mixed_rows(table: Any, wanted: np.ndarray | bool = True) -> MixedRows:
    """Select the rows in mixed groups, of those `wanted`, of a credit table or a batch of one.

    A file of `write` has no counts of distinct rollouts: there `distinct` is the cells themselves.
    """
    a, b, c, d = (table[name].to_numpy() for name in "abcd")
    rows = np.flatnonzero((a + c > 0) & (b + d > 0) & wanted)
    cells = np.array([x[rows] for x in (a, b, c, d)], dtype=np.int64)
    names = DISTINCT if DISTINCT[0] in table.schema.names else "abcd"
    distinct = np.array([table[name].to_numpy()[rows] for name in names], dtype=np.int64)
    return MixedRows(rows, cells, *impact(table["credit"].to_numpy()[rows], *cells), distinct)


class _Rows(NamedTuple):
    """Rows of a credit table, in mixed groups."""

    token_id: np.ndarray
    found: MixedRows
    text: Any
    """Arrow, (n,)."""


class _Part(NamedTuple):
    """A batch of a credit table; its columns are arrays only while they are read."""

    batch: Any

    def distinct(self) -> np.ndarray:
        return np.unique(self.read().token_id)

    def read(self, of: np.ndarray | None = None) -> _Rows:
        """The rows in mixed groups; `of`: of these tokens."""
        token_id = self.batch["token_id"].to_numpy()
        found = mixed_rows(self.batch, True if of is None else np.isin(token_id, of))
        text = self.batch["token"].take(pa.array(found.rows)) if of is not None else None
        return _Rows(token_id[found.rows].astype(np.int64), found, text)


def _described(token_id: int, total: float, parts: Sequence[_Rows]) -> KeyToken:
    own = [np.flatnonzero(part.token_id == token_id) for part in parts]
    cells, distinct = (
        np.concatenate(
            [getattr(p.found, name)[:, rows] for p, rows in zip(parts, own, strict=True)], axis=1
        )
        for name in ("cells", "distinct")
    )
    weights = np.concatenate([p.found.weight[rows] for p, rows in zip(parts, own, strict=True)])
    text = next(p.text[int(rows[0])] for p, rows in zip(parts, own, strict=True) if len(rows))
    total_a, total_b, total_c, total_d = (int(cell.sum()) for cell in cells)
    return KeyToken(
        token_id=token_id,
        token=text.as_py(),
        impact=total,
        credit=float(total / np.bincount(np.zeros(len(weights), dtype=int), weights)[0]),
        a=total_a,
        n_true=total_a + total_c,
        b=total_b,
        n_false=total_b + total_d,
        groups=int((weights > 0).sum()),
        p_value=stratified_p_value(*distinct),
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
    rollouts: Any, ids: Sequence[Any], credit: Any, estimator: Estimator, *, of_words: bool
) -> Any:
    field = record.SCHEMA.field("token_ids")
    if rollouts["token_ids"].null_count:
        column = list_column(ids, field.type)
        rollouts = rollouts.set_column(rollouts.column_names.index("token_ids"), field, column)
    field = record.SCHEMA.field("credit")
    rollouts = rollouts.set_column(rollouts.column_names.index("credit"), field, credit)
    metadata = record.SCHEMA.metadata | {record.CREDIT_KEY: _as_json(estimator)}
    if of_words:
        metadata[record.UNIT_KEY] = record.WORDS
    return rollouts.replace_schema_metadata(metadata)


def _texts(
    ids: Sequence[np.ndarray], tokenizer: Any, words: Mapping[int, str] | None
) -> tuple[np.ndarray | None, list[str | None]]:
    """The distinct token ids, ascending, and the text of each; none where no text is known."""
    if words is not None:
        known = np.array(sorted(words), dtype=np.int64)
        return known, [words[token_id] for token_id in known.tolist()]
    if tokenizer is None:
        return None, []
    distinct = distinct_ids(ids)
    return distinct, token_texts(tokenizer, distinct)


def _groups(
    table: CreditTable, labels: Any, sizes: np.ndarray, codes: np.ndarray, offset: int
) -> Iterator[Group]:
    """The groups `codes`, whose rows of the whole table begin at `offset`."""
    n_true, n_false = (x.tolist() for x in classes(table, codes))
    begins = (offset + np.searchsorted(table.group, codes)).tolist()
    ends = (offset + np.searchsorted(table.group, codes, side="right")).tolist()
    of_codes = labels.take(pa.array(codes)).to_pydict()
    for i, size in enumerate(sizes[codes].tolist()):
        label, step = of_codes["group"][i], of_codes["step"][i]
        yield Group(label, step, size, n_true[i], n_false[i], slice(begins[i], ends[i]))


def classes(table: CreditTable, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correct and incorrect rollouts with a token that counts, of the groups `codes`: int64."""
    begins = np.searchsorted(table.group, codes)
    has_rows = np.searchsorted(table.group, codes, side="right") > begins
    counts = np.zeros((2, len(codes)), dtype=np.int64)
    first = begins[has_rows]
    counts[0, has_rows] = table.a[first] + table.c[first]
    counts[1, has_rows] = table.b[first] + table.d[first]
    return counts[0], counts[1]


def described(estimator: Estimator) -> Any:
    """The section of a recipe that makes the estimator; for one without a name, what it prints."""
    try:
        return to_section(estimator)
    except InputError:
        return repr(estimator)


def _as_json(estimator: Estimator) -> bytes:
    return json.dumps(described(estimator)).encode()
