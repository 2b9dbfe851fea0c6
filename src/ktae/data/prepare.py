"""One set of problems as the files that verl and TRL train from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktae.data.sources import TaskProblem
from ktae.evaluation.templates import INSTRUCTION, Messages, as_messages
from ktae.files.atomic import atomic_write, make_folder

INSTRUCTIONS = {"qwen-math": INSTRUCTION, "plain": None}
"""By template: what stands before the problem. The Qwen-Math one is the paper's; the model's chat
template writes it out."""


def write(
    splits: Mapping[str, Sequence[TaskProblem]],
    folder: Path,
    *,
    data_source: str,
    template: str,
) -> dict[str, int]:
    """Write `folder/verl/SPLIT.parquet` and `folder/trl/SPLIT.parquet`; rows for each split.

    Raises:
        InputError: the folder cannot be written to.
    """
    instruction = INSTRUCTIONS[template]
    rows = {
        split: [(as_messages(problem.text, instruction), problem.answer) for problem in problems]
        for split, problems in splits.items()
    }
    return write_rows(rows, folder, data_source=data_source)


def write_rows(
    splits: Mapping[str, Sequence[tuple[Messages, str]]], folder: Path, *, data_source: str
) -> dict[str, int]:
    """The same for prompts, each with its answer.

    verl's files have the columns `data_source`, `prompt` (messages), `ability`, `reward_model`
    (with the answer as `ground_truth`) and `extra_info`; TRL's have `prompt` (messages) and
    `answer`. Both hold the same problems in the same order.

    Raises:
        InputError: the folder cannot be written to.
    """
    for split, rows in splits.items():
        prompts, answers = [prompt for prompt, _ in rows], [answer for _, answer in rows]
        for engine, table in (
            ("verl", _verl_table(rows, split, data_source)),
            ("trl", pa.table({"prompt": prompts, "answer": answers})),
        ):
            make_folder(folder / engine)
            # A reader never sees half a file: verl may be waiting for it.
            with atomic_write(folder / engine / f"{split}.parquet") as temporary:
                pq.write_table(table, temporary)
    return {split: len(rows) for split, rows in splits.items()}


def _verl_table(rows: Sequence[tuple[Messages, str]], split: str, data_source: str) -> pa.Table:
    table: list[dict[str, Any]] = [
        {
            "data_source": data_source,
            "prompt": prompt,
            "ability": "math",
            # verl takes the answer from here, and the reward function by `data_source`.
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"split": split, "index": index},
        }
        for index, (prompt, answer) in enumerate(rows)
    ]
    return pa.Table.from_pylist(table)
