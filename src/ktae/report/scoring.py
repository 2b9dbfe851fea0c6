"""The credit of a dump, its strongest tokens, and the files of `ktae score`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktae.credit import AnEstimator, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator, to_section
from ktae.estimators.transforms import ignored_by
from ktae.files.atomic import atomic_write
from ktae.report.frame import Frame
from ktae.report.units import Units, find_units
from ktae.rollouts import record
from ktae.rollouts.groups import group_codes
from ktae.tables import ngrams_of

ROUNDING = 1e-9  # credit below is the rounding of a sum that is 0, and gets no colour


class Scored(NamedTuple):
    """The credit of all groups by one estimator, and the units of their responses."""

    estimator: Estimator
    credit_n: np.ndarray  # (N,) float32 token credit, 0 where masked
    units: Units
    credit_r: np.ndarray  # (R,) for each row of `units.tokens`: the token's mean credit there


class Tokens(NamedTuple):
    """Each of V distinct tokens over all mixed groups that contain it: (V,) columns."""

    a: np.ndarray  # correct responses with it, out of `n_correct`
    n_correct: np.ndarray
    b: np.ndarray  # incorrect responses with it, out of `n_incorrect`
    n_incorrect: np.ndarray
    groups: np.ndarray  # those in which a is not E[a] = n_correct (a + b) / n: others tell nothing
    impact: np.ndarray  # Σ over groups of credit * |a - E[a]|
    credit: np.ndarray  # the mean over `groups`, weighted by that |a - E[a]|


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


def credit_of(frame: Frame, estimator: AnEstimator) -> np.ndarray:
    """(N,) float32: the estimator's credit of every token, some groups at a time."""
    estimator = as_estimator(estimator)
    credit_n = np.zeros(len(frame.which_n), dtype=np.float32)
    if frame.sizes_g.max() < 2:
        return credit_n
    texts = frame.dump.vocabulary if estimator.needs_vocabulary else None
    # A graded score counts only where there is a verdict at all.
    scores_b = np.where(frame.known_b, frame.reward_b, np.nan)
    evidence_b = scores_b if estimator.takes_scores else frame.correct_b
    for rows, span, which_bt, mask_bt, inside_bt in frame.batches(frame.mask_n):
        arrays = frame.dump.token_ids[which_bt], mask_bt, evidence_b[rows], frame.group_b[rows]
        credit_n[span] = token_credit(*arrays, estimator, vocabulary=texts)[inside_bt]
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
    return Scored(estimator, credit_n, units, credit_r)


def token_totals(frame: Frame, scored: Scored) -> Tokens:
    """Each distinct token over all mixed groups."""
    rows = scored.units.tokens
    a, b, c, d = rows.table
    weight = np.abs((a * d - b * c) / np.maximum(a + b + c + d, 1))
    columns = (a, a + c, b, b + d, weight > 0, scored.credit_r * weight, weight)
    n = len(frame.dump.token_ids)
    *totals, weight = (np.bincount(rows.key, x, n) for x in columns)
    return Tokens(*[*totals, totals[-1] / np.where(weight > 0, weight, 1.0)])


def strongest(frame: Frame, scored: Scored, top: int = 10) -> tuple[list[KeyToken], list[KeyToken]]:
    """The tokens of greatest impact for a correct answer, and against it; none of impact 0."""
    tokens, sides = token_totals(frame, scored), list[list[KeyToken]]()
    for impact in (tokens.impact, -tokens.impact):
        greatest = np.argsort(-impact, kind="stable")[:top]
        side = [
            KeyToken(
                int(frame.dump.token_ids[i]),
                frame.dump.text(i),
                float(tokens.impact[i]),
                float(tokens.credit[i]),
                *(int(column[i]) for column in tokens[:5]),
            )
            for i in greatest[impact[greatest] > 0].tolist()
        ]
        sides.append(side)
    return sides[0], sides[1]


def credit_column(frame: Frame, credit_n: np.ndarray) -> Any:
    """The credit as a column of lists beside `frame.dump.rollouts`."""
    kind = record.SCHEMA.field("credit").type
    order_b = np.argsort(np.argsort(group_codes(frame.dump.rollouts)[0], kind="stable"))
    parts = np.split(credit_n, frame.offsets_b[1:-1])
    batches = np.array_split(order_b, len(order_b) // record.ROWS_PER_BATCH + 1)
    return pa.chunked_array([pa.array([parts[i] for i in x], kind) for x in batches], kind)


def write(frame: Frame, scored: Scored, path: Path) -> None:
    """Write the record with its credit as Parquet; its metadata names the estimator.

    Raises:
        InputError: the file cannot be written.
    """
    rollouts, metadata = frame.dump.rollouts, dict(record.SCHEMA.metadata)
    metadata[record.CREDIT_KEY] = json.dumps(described(scored.estimator)).encode()
    if frame.dump.unit == "words":
        metadata[record.UNIT_KEY] = record.WORDS
    field, place = record.SCHEMA.field("credit"), rollouts.column_names.index("credit")
    rollouts = rollouts.set_column(place, field, credit_column(frame, scored.credit_n))
    with atomic_write(path) as temporary:
        record.write_parquet(rollouts.replace_schema_metadata(metadata), temporary)


def described(estimator: Estimator) -> Any:
    """The section of a recipe that makes the estimator; for one without a name, what it prints."""
    try:
        return to_section(estimator)
    except InputError:
        return repr(estimator)
