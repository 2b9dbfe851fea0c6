"""Key-token terms for rollouts that lie in a record, and the tokens that stand out."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.atomic import atomic_write
from ktae.batch import out_of_range, score_bounds
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.estimator import key_token_table, key_token_values
from ktae.rollouts import record
from ktae.rollouts.tokens import token_texts, tokenize
from ktae.table import KeyTokenTable

MAX_POSITIONS = 1 << 22
"""Padded positions (rollouts x longest length) that are in memory at a time, about 40 MB. A single
group above that is still taken whole."""

ROWS_PER_BATCH = 1024
"""Rollouts that a tokenizer gets, or an Arrow list array holds, at a time."""

P_VALUE_FLOOR = 1e-12
"""`stratified_p_value` is exact to about this; it never returns less."""

CONFIG_KEY = b"ktae.config"
TOKENS_VERSION_KEY = b"ktae.tokens.version"
TOKENS_VERSION = b"1"


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
    """Where the group is in the key-token table."""

    @property
    def mixed(self) -> bool:
        """Whether there is anything to compare; in any other group every term is 0."""
        return self.n_true > 0 and self.n_false > 0


class Scores(NamedTuple):
    """What `score` returns."""

    record: Any
    """The record with `token_ids` and `terms` filled; its metadata holds the config as JSON."""
    tokens: Any
    """The key-token table: the columns of `ktae.KeyTokenTable`, with `step` and, where there is a
    tokenizer, the text of each token in `token`. Groups in the record's order, then token ids. It
    is of single tokens and verdicts, also where the terms are of other units or graded scores."""
    groups: list[Group]
    """In the record's order."""


class KeyToken(NamedTuple):
    """What one token does, over the mixed groups that contain it."""

    token_id: int
    token: str | None
    impact: float
    """Σ over groups of term * |a - E[a]|, E[a] = n_true (a + b) / (n_true + n_false): the term
    times the correct rollouts beyond (or short of) those that would contain the token by chance."""
    term: float
    """The mean over groups, weighted by that |a - E[a]|."""
    a: int
    """Correct rollouts that contain the token, out of `n_true`."""
    n_true: int
    b: int
    """Incorrect rollouts that contain it, out of `n_false`."""
    n_false: int
    groups: int
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
    config: KTAEConfig | None = None,
    *,
    backend: Literal["auto", "cpu", "naive"] = "auto",
    max_positions: int = MAX_POSITIONS,
) -> Scores:
    """The terms of all rollouts, and their key-token table.

    Groups are independent of each other, so they are taken some at a time: the result is exact and
    the memory does not depend on the longest rollout of the file.

    Args:
        rollouts: a record (`ktae.rollouts.record`, `ktae.rollouts.readers.read`).
        tokenizer: a `tokenizers.Tokenizer`, or a fast one of transformers. Needed where a rollout
            has no token ids; otherwise it only serves to write the tokens' texts into the table.
        config: `KTAEConfig.paper()` by default.
        backend: as in `ktae.key_token_table`.
        max_positions: see `MAX_POSITIONS`.

    Raises:
        InputError: `rollouts` is not a record, every group has one rollout, or a rollout has no
            token ids and there is no tokenizer.
    """
    config = config or KTAEConfig.paper()
    rollouts = record.conform(rollouts)
    codes_b, first_rows = group_codes(rollouts)
    sizes = np.bincount(codes_b, minlength=len(first_rows))
    if sizes.max(initial=0) < 2:
        raise InputError(
            f"every group has one rollout ({len(sizes)} groups): there is nothing to compare; "
            "rollouts of the same prompt need the same group"
        )
    ids = ids_of(rollouts, tokenizer)
    masks = masks_of(rollouts)
    correct_b, evidence_b = rollouts["correct"].to_numpy(), evidence(rollouts, config)
    of_verdicts = dataclasses.replace(config, graded=False)
    terms: list[Any] = [None] * len(ids)
    tables = []
    for rows in chunks_of(codes_b, np.array([len(x) for x in ids]), max_positions):
        ids_bt, mask_bt = record.pad([ids[row] for row in rows], [masks[row] for row in rows])
        codes = codes_b[rows]
        terms_bt = key_token_values(
            ids_bt, mask_bt, evidence_b[rows], codes, config, backend=backend, tokenizer=tokenizer
        )
        tables.append(
            key_token_table(ids_bt, mask_bt, correct_b[rows], codes, of_verdicts, backend=backend)
        )
        for row, terms_t in zip(rows, terms_bt, strict=True):
            terms[row] = terms_t[: len(ids[row])].copy()
    table = KeyTokenTable(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))
    labels = rollouts.select(["group", "step"]).take(first_rows)
    return Scores(
        _scored(rollouts, ids, terms, config),
        _tokens(table, labels, tokenizer, config),
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
        tokens: the key-token table of `score`, or some groups of it (`tokens[group.rows]`).
        top: how many for, and how many against.
    """
    a, b, c, d = (tokens[name].to_numpy().astype(np.int64) for name in ("a", "b", "c", "d"))
    mixed = np.flatnonzero((a + c > 0) & (b + d > 0))
    a, b, c, d = a[mixed], b[mixed], c[mixed], d[mixed]
    ids, first, which = np.unique(
        tokens["token_id"].to_numpy()[mixed], return_index=True, return_inverse=True
    )
    impacts, weights = impact(tokens["term"].to_numpy()[mixed], a, b, c, d)
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
            term=float(total[index] / weight[index]),
            a=total_a,
            n_true=total_a + total_c,
            b=total_b,
            n_false=total_b + total_d,
            groups=len(rows),
            p_value=stratified_p_value(*cells),
        )

    rising, falling = (np.argsort(x, kind="stable")[:top] for x in (total, -total))
    return Strongest(
        [describe(i) for i in falling if total[i] > 0],
        [describe(i) for i in rising if total[i] < 0],
    )


def impact(
    term: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`KeyToken.impact` of tables in mixed groups: term * |a - E[a]|, and the weight |a - E[a]|.

    Args:
        term: (n_tables,) key-token terms.
        a, b, c, d: (n_tables,) int64 counts.
    """
    weight = np.abs((a * d - b * c) / (a + b + c + d))  # exactly 0 where a = E[a]
    return term * weight, weight


def stratified_p_value(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Two-sided exact test of several 2x2 tables [[a, b], [c, d]] that share one hypothesis.

    With every table's margins given, Σa is a sum of independent hypergeometric numbers; p is the
    probability of all values of the sum that are no more probable than the one seen. For one table
    that is Fisher's exact test, for many the exact form of the Mantel-Haenszel test: groups are
    never pooled, so hard and easy prompts cannot fake an association.

    Args:
        a, b, c, d: (n_tables,) counts.

    Source: C. R. Mehta, N. R. Patel, R. Gray, "Computing an exact confidence interval for the
    common odds ratio in several 2x2 contingency tables", JASA 80 (1985).
    """
    margins, repeats = np.unique(
        np.stack([a + b, a + c, b + d], axis=1), axis=0, return_counts=True
    )
    width = int(np.minimum(a + b, a + c).sum()) + 1
    size = 1 << math.ceil(math.log2(max(width, 2)))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for (m, n_true, n_false), repeat in zip(margins.tolist(), repeats.tolist(), strict=True):
        tables = math.comb(n_true + n_false, m)
        pmf_of_table = [
            math.comb(n_true, k) * math.comb(n_false, m - k) / tables
            for k in range(min(m, n_true) + 1)
        ]
        spectrum *= np.fft.rfft(pmf_of_table, size) ** repeat
    pmf = np.maximum(np.fft.irfft(spectrum, size)[:width], 0.0)
    no_more_probable = pmf <= pmf[int(a.sum())] * (1 + 1e-7) + P_VALUE_FLOOR / width
    return float(np.clip(pmf[no_more_probable].sum(), P_VALUE_FLOOR, 1.0))


def group_codes(rollouts: Any) -> tuple[np.ndarray, np.ndarray]:
    """(B,) group numbers by first appearance of (group, step), and each group's first row."""
    keys = [
        pc.dictionary_encode(rollouts[name].combine_chunks(), null_encoding="encode").indices
        for name in ("group", "step")
    ]
    group_b, step_b = (key.to_numpy().astype(np.int64) for key in keys)
    key_b = group_b * (step_b.max(initial=0) + 1) + step_b
    _, first, code_b = np.unique(key_b, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(rank))
    return rank[code_b], first[by_appearance]


def evidence(rollouts: Any, config: KTAEConfig) -> np.ndarray:
    """(B,) what the estimator gets for `correct`: the verdicts, or the rewards of those rollouts
    that have one if the config is graded. NaN is unknown.

    Raises:
        InputError: a reward is out of the config's range.
    """
    verdicts_b: np.ndarray = rollouts["correct"].to_numpy()
    if not config.graded:
        return verdicts_b
    rewards_b = np.where(np.isnan(verdicts_b), np.nan, rollouts["reward"].to_numpy())
    bad = out_of_range(rewards_b, config)
    if bad.size:
        raise InputError(
            f"the reward of rollout {bad[0]} is {rewards_b[bad[0]]:g}; graded scores of statistic "
            f"{config.statistic!r} are {score_bounds(config)}"
        )
    return rewards_b


def ids_of(rollouts: Any, tokenizer: Any) -> list[np.ndarray]:
    """Each rollout's token ids, those of the record where it has them."""
    missing = rollouts["token_ids"].null_count
    if missing and tokenizer is None:
        raise InputError(
            f"{missing} of {len(rollouts)} rollouts have no token_ids; a tokenizer is needed to "
            "make them from the response"
        )
    ids: list[np.ndarray] = []
    for batch in rollouts.select(["token_ids", "response"]).to_batches(ROWS_PER_BATCH):
        given = batch.column("token_ids")
        texts = batch.column("response").filter(pc.is_null(given)).to_pylist()
        made = iter(tokenize(tokenizer, texts))
        ids += [x.values.to_numpy() if x.is_valid else next(made) for x in given]
    return ids


def masks_of(rollouts: Any) -> list[np.ndarray | None]:
    """Each rollout's mask; None where every token counts."""
    masks = rollouts["mask"]
    return [x.values.to_numpy(zero_copy_only=False) if x.is_valid else None for x in masks]


def chunks_of(
    codes_b: np.ndarray, lengths_b: np.ndarray, max_positions: int
) -> Iterator[np.ndarray]:
    """Row numbers of consecutive groups, at least one, padded at most `max_positions`."""
    order = np.argsort(codes_b, kind="stable")
    starts = np.flatnonzero(np.diff(codes_b[order], prepend=-1))
    longest = np.maximum.reduceat(lengths_b[order], starts).tolist()
    bounds = [*starts.tolist(), len(order)]
    start, width = 0, 0
    for group, (begin, end) in enumerate(itertools.pairwise(bounds)):
        width = max(width, longest[group])
        if begin > start and (end - start) * width > max_positions:
            yield order[start:begin]
            start, width = begin, longest[group]
    yield order[start:]


def _scored(rollouts: Any, ids: Sequence[Any], terms: Sequence[Any], config: KTAEConfig) -> Any:
    for name, values in (("token_ids", ids), ("terms", terms)):
        field = record.SCHEMA.field(name)
        column = _list_column(values, field.type)
        rollouts = rollouts.set_column(rollouts.column_names.index(name), field, column)
    metadata = record.SCHEMA.metadata | {CONFIG_KEY: _as_json(config)}
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


def _tokens(table: KeyTokenTable, labels: Any, tokenizer: Any, config: KTAEConfig) -> Any:
    ids, which = np.unique(table.token_id, return_inverse=True)
    texts = [None] * len(ids) if tokenizer is None else token_texts(tokenizer, ids)
    columns = {
        "group": labels["group"].combine_chunks().dictionary_encode().take(table.group),
        "step": labels["step"].combine_chunks().take(table.group),
        "token_id": table.token_id.astype(np.int32),
        "token": pa.array(texts, pa.string()).dictionary_encode().take(which),
    }
    counts = {name: getattr(table, name).astype(np.int32) for name in ("a", "b", "c", "d")}
    statistics = {name: getattr(table, name) for name in KeyTokenTable._fields[6:]}
    metadata = {TOKENS_VERSION_KEY: TOKENS_VERSION, CONFIG_KEY: _as_json(config)}
    return pa.table(columns | counts | statistics).replace_schema_metadata(metadata)


def _groups(table: KeyTokenTable, labels: Any, sizes: np.ndarray) -> list[Group]:
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


def _as_json(config: KTAEConfig) -> bytes:
    return json.dumps(dataclasses.asdict(config)).encode()
