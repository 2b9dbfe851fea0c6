"""One set of problems as the files that verl and TRL train from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktae.data.sources import TaskProblem
from ktae.errors import InputError
from ktae.evaluation.templates import INSTRUCTION
from ktae.files.atomic import atomic_write, make_folder

Messages = list[dict[str, str]]


def qwen_math(problem: str) -> Messages:
    """The Qwen-Math template, which the paper trains and validates with, as messages; the model's
    chat template writes them out."""
    return [
        {"role": "system", "content": INSTRUCTION},
        {"role": "user", "content": problem},
    ]


def plain(problem: str) -> Messages:
    """The problem alone."""
    return [{"role": "user", "content": problem}]


TEMPLATES: dict[str, Callable[[str], Messages]] = {"qwen-math": qwen_math, "plain": plain}


def write(
    splits: Mapping[str, Sequence[TaskProblem]],
    folder: Path,
    *,
    data_source: str,
    template: str | Callable[[str], Messages],
) -> dict[str, int]:
    """Write `folder/verl/SPLIT.parquet` and `folder/trl/SPLIT.parquet`; rows for each split.

    verl's files have the columns `data_source`, `prompt` (messages), `ability`, `reward_model`
    (with the answer as `ground_truth`) and `extra_info`; TRL's have `prompt` (messages) and
    `answer`. Both hold the same problems in the same order.

    Raises:
        InputError: no such template, or the folder cannot be written to.
    """
    if isinstance(template, str):
        if template not in TEMPLATES:
            raise InputError(f"no template {template!r}; expected {', '.join(TEMPLATES)}")
        template = TEMPLATES[template]
    for split, problems in splits.items():
        messages = [template(problem.text) for problem in problems]
        for engine, table in (
            ("verl", _verl_table(problems, messages, split, data_source)),
            ("trl", _trl_table(problems, messages)),
        ):
            make_folder(folder / engine)
            with atomic_write(folder / engine / f"{split}.parquet") as temporary:
                pq.write_table(table, temporary)
    return {split: len(problems) for split, problems in splits.items()}


def _verl_table(
    problems: Sequence[TaskProblem], messages: list[Messages], split: str, data_source: str
) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {
            "data_source": data_source,
            "prompt": prompt,
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"split": split, "index": index},
        }
        for index, (problem, prompt) in enumerate(zip(problems, messages, strict=True))
    ]
    return pa.Table.from_pylist(rows)


def _trl_table(problems: Sequence[TaskProblem], messages: list[Messages]) -> pa.Table:
    return pa.table({"prompt": messages, "answer": [problem.answer for problem in problems]})
