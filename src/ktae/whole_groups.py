"""Credit of rollouts in a table, whole or some groups of it: what any data engine can map over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktae.arrays import is_above
from ktae.credit import AnEstimator, token_credit
from ktae.errors import InputError


def score(
    table: Any,
    estimator: AnEstimator = "paper",
    *,
    tokenizer: Any = None,
    threshold: float = 0.0,
) -> Any:
    """The table with the columns `token_ids`, `mask` and `credit`, one list a rollout each.

    Groups are independent of each other, so a table may be scored in parts that hold whole groups.

    Args:
        table: a `pyarrow.Table` of B rollouts with the columns `group`, `response` (text) or
            `token_ids` (lists of integers), `reward` (numbers) or `correct` (1, 0, null); perhaps
            `step` and `mask`. Other columns stay as they are.
        estimator: the name of a preset, one of `ktae.estimators`, or a function.
        tokenizer: a fast one, a folder or a hub name; needed where there are no `token_ids`.
        threshold: where there is no `correct`, a reward above it is correct.

    Returns:
        The same rows in the same order; `credit` is float32, 0 where masked.

    Raises:
        InputError: a column is missing or is not what it should be, or a tokenizer is.
    """
    import numpy as np
    import pyarrow as pa

    from ktae.estimators import as_estimator
    from ktae.rollouts import groups, record
    from ktae.rollouts.tokens import kept_tokenizer, vocabulary

    if not isinstance(table, pa.Table):
        raise InputError(f"a {type(table).__name__}; expected a pyarrow.Table")
    names = {"group", "step", "response", "segments", "token_ids", "mask", "reward", "correct"}
    known = table.select([name for name in table.column_names if name in names])
    if "correct" not in known.column_names and "reward" in known.column_names:
        rewards = known["reward"].cast(pa.float64()).to_pylist()
        correct = [None if x is None else float(is_above(x, threshold)) for x in rewards]
        known = known.append_column("correct", pa.array(correct, pa.float64()))
    elif "reward" not in known.column_names and "correct" in known.column_names:
        known = known.append_column("reward", known["correct"].cast(pa.float64()))
    if isinstance(tokenizer, str | Path):
        tokenizer = kept_tokenizer(str(tokenizer))
    estimator = as_estimator(estimator)
    rollouts = groups.tokenized(record.conform(known, "table"), tokenizer)
    texts = vocabulary(tokenizer) if estimator.needs_vocabulary and tokenizer else None
    ids, masks = groups.arrays_of(rollouts["token_ids"]), groups.masks_of(rollouts)
    codes_b, _ = groups.group_codes(rollouts)
    evidence_b = groups.evidence(rollouts, estimator)
    credit = [np.zeros(0, np.float32)] * len(ids)
    lengths_b = np.array([len(x) for x in ids], dtype=np.int64)
    for rows in groups.chunks_of(codes_b, lengths_b, groups.MAX_POSITIONS) if len(ids) else ():
        ids_bt, mask_bt = record.pad([ids[row] for row in rows], [masks[row] for row in rows])
        credit_bt = token_credit(
            ids_bt, mask_bt, evidence_b[rows], codes_b[rows], estimator, vocabulary=texts, step=0
        )
        for row, credit_t in zip(rows.tolist(), credit_bt, strict=True):
            credit[row] = credit_t[: len(ids[row])]
    columns = {"token_ids": rollouts["token_ids"], "mask": rollouts["mask"], "credit": credit}
    table = table.drop_columns([name for name in columns if name in table.column_names])
    for name, column in columns.items():
        field = record.SCHEMA.field(name)
        values = pa.array(column, field.type) if name == "credit" else column
        table = table.append_column(field.remove_metadata(), values)
    return table
