"""The credit of a dump, its strongest tokens, and the files of `ktae score`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktae.credit import AnEstimator, credit_table, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, to_section
from ktae.estimators.transforms import ignored_by
from ktae.files.atomic import atomic_write
from ktae.report.frame import Frame
from ktae.report.units import Rows, Units, find_units, p_over_groups
from ktae.rollouts import record
from ktae.rollouts.groups import ROWS_PER_BATCH, evidence, group_codes, require_comparable
from ktae.tables import CreditTable, in_tables, ngrams_of, table_estimator

TOKENS_METADATA = {b"ktae.tokens.version": b"2"}

ROUNDING = 1e-9
"""Credit below this is the rounding of a sum that is 0, and gets no colour."""


class Scored(NamedTuple):
    """The credit of all groups by one estimator, and the units of their responses."""

    estimator: Estimator
    credit_n: np.ndarray
    """(N,) float32 token credit, 0 where masked."""
    units: Units
    credit_r: np.ndarray
    """(R,) for each row of `units.tokens`: the mean credit of the token in that group."""
    compared_b: np.ndarray
    """(B,) int64: the tokens of each response that a mean of |credit| is over, see
    `ktae.validity.permutation`."""


class Tokens(NamedTuple):
    """Each of V distinct tokens over all mixed groups that contain it: (V,) columns."""

    a: np.ndarray
    """Correct responses with it, out of `n_correct`."""
    n_correct: np.ndarray
    b: np.ndarray
    """Incorrect responses with it, out of `n_incorrect`."""
    n_incorrect: np.ndarray
    groups: np.ndarray
    """Those in which a is not E[a] = n_correct (a + b) / n: in the others presence tells nothing.
    """
    impact: np.ndarray
    """Σ over groups of credit * |a - E[a]|."""
    credit: np.ndarray
    """The mean over `groups`, weighted by that |a - E[a]|."""


class KeyToken(NamedTuple):
    """What one token does, over the mixed groups that contain it: see `Tokens`."""

    token_id: int
    token: str | None
    impact: float
    credit: float
    a: int
    n_correct: int
    b: int
    n_incorrect: int
    groups: int
    p_value: float
    """Within groups (`ktae.report.units.p_of_strata`); identical responses count once. The tokens
    were picked from many for being strong, and this does not correct for that."""


class Strongest(NamedTuple):
    """Tokens by falling |impact|; none of impact 0."""

    supporting: list[KeyToken]
    opposing: list[KeyToken]


def credit_of(frame: Frame, estimator: AnEstimator) -> np.ndarray:
    """(N,) float32: the estimator's credit of every token, some groups at a time.

    One that decays is taken at its full weight.
    """
    estimator = as_estimator(estimator)
    credit_n = np.zeros(len(frame.which_n), dtype=np.float32)
    if frame.sizes_g.max() < 2:
        return credit_n
    texts = frame.dump.vocabulary if estimator.needs_vocabulary else None
    evidence_b = evidence(frame.rollouts, estimator)
    for rows in frame.batches():
        which_bt, inside_bt = frame.padded(rows, frame.which_n)
        mask_bt, _ = frame.padded(rows, frame.mask_n)
        arrays = frame.dump.token_ids[which_bt], mask_bt, evidence_b[rows], frame.group_b[rows]
        credit_bt = token_credit(*arrays, estimator, vocabulary=texts)
        begin, end = frame.offsets_b[rows[0]], frame.offsets_b[rows[-1] + 1]
        credit_n[begin:end] = credit_bt[inside_bt]
    credit_n[np.abs(credit_n) < ROUNDING] = 0
    return credit_n


def score(frame: Frame, estimator: AnEstimator) -> Scored:
    """Score all groups with the estimator, and count the units that it compares."""
    estimator = as_estimator(estimator)
    credit_n = credit_of(frame, estimator)
    units = find_units(frame, ngrams_of(estimator) or ("token",), ignored_by(estimator))
    row_n = units.tokens.row_n
    counted_n, n_rows = row_n >= 0, len(units.tokens.key)
    row = row_n[counted_n]
    times_r = np.bincount(row, minlength=n_rows)
    credit_r = np.bincount(row, credit_n[counted_n], n_rows) / np.maximum(times_r, 1)
    compared_b = frame.sum_tokens(counted_n).astype(np.int64)
    return Scored(estimator, credit_n, units, credit_r, compared_b)


def token_totals(frame: Frame, scored: Scored) -> Tokens:
    """Each distinct token over all mixed groups."""
    rows = scored.units.tokens
    a, b, c, d = rows.table
    weight = np.abs((a * d - b * c) / np.maximum(a + b + c + d, 1))
    columns = (a, a + c, b, b + d, weight > 0, scored.credit_r * weight, weight)
    n = len(frame.dump.token_ids)
    *totals, weight = (np.bincount(rows.key, x, n) for x in columns)
    return Tokens(*[*totals, totals[-1] / np.where(weight > 0, weight, 1.0)])


def mixed_responses(frame: Frame, units: Units) -> tuple[int, int]:
    """Correct and incorrect responses of mixed groups; at least 1, for what is divided by them."""
    mixed_b = units.mixed_g[frame.group_b]
    correct, incorrect = (int((mixed_b & (frame.correct_b == x)).sum()) for x in (1, 0))
    return max(1, correct), max(1, incorrect)


def strongest(frame: Frame, scored: Scored, top: int = 10) -> Strongest:
    """The tokens of greatest impact for a correct answer, and against it."""
    tokens, rows = token_totals(frame, scored), scored.units.tokens
    sides = []
    for side in (tokens.impact, -tokens.impact):
        greatest = np.argsort(-side, kind="stable")[:top]
        sides.append(greatest[side[greatest] > 0].tolist())
    # p-values take their time, so only these tokens get one.
    chosen = np.isin(rows.key, [*sides[0], *sides[1]])
    listed = Rows(*[*(x[..., chosen] for x in rows[:-1]), rows.row_n])
    p_v = p_over_groups(listed, len(tokens.a))

    def key_token(i: int) -> KeyToken:
        token_id, text = int(frame.dump.token_ids[i]), frame.dump.text(i)
        impact, credit = float(tokens.impact[i]), float(tokens.credit[i])
        a, n_correct, b, n_incorrect, groups = (int(x[i]) for x in tokens[:5])
        counts = (a, n_correct, b, n_incorrect, groups)
        return KeyToken(token_id, text, impact, credit, *counts, float(p_v[i]))

    return Strongest(*([key_token(i) for i in side] for side in sides))


def credit_column(frame: Frame, credit_n: np.ndarray) -> Any:
    """The credit as a column of lists beside `frame.dump.rollouts`."""
    kind = record.SCHEMA.field("credit").type
    order_b = np.argsort(np.argsort(group_codes(frame.dump.rollouts)[0], kind="stable"))
    parts = np.split(credit_n, frame.offsets_b[1:-1])
    lists = []
    for rows in np.array_split(order_b, len(order_b) // ROWS_PER_BATCH + 1):
        some = [parts[row] for row in rows]
        offsets = np.cumsum([0, *map(len, some)], dtype=np.int32)
        values = pa.array(np.concatenate(some), type=kind.value_type)
        lists.append(pa.ListArray.from_arrays(offsets, values))
    return pa.chunked_array(lists, type=kind)


def scored_record(frame: Frame, scored: Scored) -> Any:
    """The dump's record with `credit` filled; its metadata holds the estimator."""
    rollouts = frame.dump.rollouts
    metadata = record.SCHEMA.metadata | {record.CREDIT_KEY: _as_json(scored.estimator)}
    if frame.dump.unit == "words":
        metadata[record.UNIT_KEY] = record.WORDS
    field, place = record.SCHEMA.field("credit"), rollouts.column_names.index("credit")
    rollouts = rollouts.set_column(place, field, credit_column(frame, scored.credit_n))
    return rollouts.replace_schema_metadata(metadata)


def tokens_table(frame: Frame, estimator: AnEstimator) -> Any:
    """The credit table: the columns of `ktae.CreditTable`, with `step` and each token's text.

    Groups in the record's order, then token ids. It is of single tokens and verdicts, also where
    the credit is of other units or graded scores; of an estimator that rests on no tables it is the
    paper's. The table names the estimator that it is of.
    """
    estimator = as_estimator(estimator)
    require_comparable(frame.group_b)
    shown, token_ids, parts = table_estimator(estimator), frame.dump.token_ids, []
    for rows in frame.batches():
        which_bt, _ = frame.padded(rows, frame.which_n)
        mask_bt, _ = frame.padded(rows, frame.mask_n)
        correct, groups = frame.correct_b[rows], frame.group_b[rows]
        part = credit_table(token_ids[which_bt], mask_bt, correct, groups, shown)
        # Counts and ids in 32 bits: there are hundreds of rows for each rollout.
        narrow = [x.astype(np.int32) if x.dtype.kind == "i" else x for x in part]
        parts.append(pa.table(narrow, names=part._fields))
    numbers = pa.concat_tables(parts)
    texts = pa.array([frame.dump.text(i) for i in range(len(token_ids))], pa.string())
    places = pc.index_in(numbers["token_id"], pa.array(token_ids, pa.int32()))
    columns = {
        "group": pa.array(frame.names).dictionary_encode().take(numbers["group"]),
        "step": pa.array(frame.steps, pa.int32()).take(numbers["group"]),
        "token_id": numbers["token_id"],
        "token": texts.dictionary_encode().take(places),
        **{name: numbers[name] for name in CreditTable._fields[2:]},
    }
    written = estimator if in_tables(estimator) else shown
    return pa.table(columns, metadata=TOKENS_METADATA | {record.CREDIT_KEY: _as_json(written)})


def write(frame: Frame, scored: Scored, record_path: Path, tokens_path: Path) -> None:
    """Write the record with credit and the credit table as Parquet, both or none.

    Raises:
        InputError: a file cannot be written.
    """
    tokens = tokens_table(frame, scored.estimator)
    with atomic_write(tokens_path) as tokens_part, atomic_write(record_path) as record_part:
        record.write_parquet(scored_record(frame, scored), record_part)
        record.write_parquet(tokens, tokens_part)


def described(estimator: Estimator) -> Any:
    """The section of a recipe that makes the estimator; for one without a name, what it prints."""
    try:
        return to_section(estimator)
    except InputError:
        return repr(estimator)


def _as_json(estimator: Estimator) -> bytes:
    return json.dumps(described(estimator)).encode()
