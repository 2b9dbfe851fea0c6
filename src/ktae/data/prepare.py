"""One set of problems as the files that verl and TRL train from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

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
        # verl takes the answer from `ground_truth`, and the reward function by `data_source`.
        for_verl = [
            {
                "data_source": data_source,
                "prompt": prompt,
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": answer},
                "extra_info": {"split": split, "index": index},
            }
            for index, (prompt, answer) in enumerate(rows)
        ]
        for_trl = [{"prompt": prompt, "answer": answer} for prompt, answer in rows]
        for engine, table in (("verl", for_verl), ("trl", for_trl)):
            make_folder(folder / engine)
            # A reader never sees half a file: verl may be waiting for it.
            with atomic_write(folder / engine / f"{split}.parquet") as temporary:
                pq.write_table(pa.Table.from_pylist(table), temporary)
    return {split: len(rows) for split, rows in splits.items()}
