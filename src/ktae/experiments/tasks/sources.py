"""Where problems come from: data sets of the Hugging Face hub by name, or a file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import require_text
from ktae.rollouts.values import is_null


class TaskProblem(NamedTuple):
    """One problem."""

    text: str
    answer: str
    reference: str = ""
    """What the grader gets, if it is not the answer."""


class Split(NamedTuple):
    """The problems of a training or validation set."""

    problems: list[TaskProblem]
    without_answer: int
    """Rows left out because their answer is empty (MATH has some) or null: nothing could be
    graded."""


class Source(NamedTuple):
    """A data set of the hub."""

    hub_name: str
    config: str | None = None
    levels: tuple[str, ...] = ()
    """Those of its rows that are part of the set; none: all rows are."""


MATH = "nlile/hendrycks-MATH-benchmark"
SOURCES = {
    "math12k": Source(MATH),
    "math-l3-5": Source(MATH, levels=("3", "4", "5")),
    "gsm8k": Source("openai/gsm8k", "main"),
}
"""By name, also verl's for the data: MATH without the 500 problems of MATH-500 (12,000), those of
level 3 to 5 among them (8,888), and grade-school sums (7,473)."""


def load(name: str) -> dict[str, Split]:
    """The problems of a named source, `train` and `test`, from the hub.

    Raises:
        InputError: the hub cannot be reached, or the data set is not what it was.
    """
    source = SOURCES[name]
    splits = {}
    for split in ("train", "test"):
        instead = f"give a file of problems instead of {name}"
        rows = rows_of_hub(source.hub_name, source.config, split, instead)
        where = f"{source.hub_name}, split {split}"
        splits[split] = _problems(rows, where, source.levels)
    return splits


def load_file(path: Path) -> Split:
    """The problems of a file: JSON lines (`.jsonl`) or Parquet (`.parquet`), or that and `.gz`.

    Each row has `problem` (or `question`, `prompt`) and `answer`: a string, a number, worked text
    that ends with `#### answer` as GSM8K's, or null for none.

    Raises:
        InputError: no such file or of another kind, broken JSON (with its line), a row without
            problem or answer.
    """
    from ktae.rollouts.files import iterate_rows  # pyarrow takes half a second

    if not path.is_file():
        known = ", ".join(SOURCES)
        raise InputError(f"no file {path} and no data set of that name; expected {known} or a file")
    return _problems(iterate_rows(path), str(path))


def _problems(
    rows: Iterable[tuple[object, str]], where: str, levels: tuple[str, ...] = ()
) -> Split:
    """The problems of rows, each with the place for errors; `where` is that of all."""
    problems, without_answer = [], 0
    for row, place in rows:
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object, found {row!r:.50}")
        if levels and str(row.get("level")).removeprefix("Level ") not in levels:
            continue
        names = [x for x in ("problem", "question", "prompt") if isinstance(row.get(x), str)]
        if not names or "answer" not in row:
            raise InputError(
                f"{place}: no {'answer' if names else 'problem'}; its fields are {quoted(row)}; "
                "expected problem (or question, or prompt) as text, and answer"
            )
        # GSM8K ends its worked answers so; other answers have no ####.
        answer = _text(row["answer"], place).rsplit("####", 1)[-1].strip()
        text = row[names[0]]
        require_text(text, f"{place}: problem")
        require_text(answer, f"{place}: answer")
        if not text.strip():
            raise InputError(f"{place}: the problem is empty")
        # Without an answer nothing could be graded; how many there are is told to the user.
        if answer:
            problems.append(TaskProblem(text, answer))
        else:
            without_answer += 1
    if not problems:
        raise InputError(f"{where} holds no problem with an answer")
    return Split(problems, without_answer)


def _text(answer: Any, place: str) -> str:
    """The answer as it is; empty where it is null."""
    if is_null(answer):
        return ""
    # To Python, True is the number 1.
    is_usual = isinstance(answer, str | int | float) and not isinstance(answer, bool)
    if not is_usual or answer in (math.inf, -math.inf):
        raise InputError(f"{place}: answer is {answer!r:.60}; expected one text or finite number")
    return str(answer)


def rows_of_hub(
    name: str, config: str | None, split: str, instead: str
) -> Iterator[tuple[object, str]]:
    """The rows of a data set of the hub, each with its place for errors; `instead` is what the
    user may do without it."""
    try:
        from datasets import load_dataset
    except ModuleNotFoundError:
        raise InputError(
            "data from the hub needs datasets, which is not installed; pip install 'ktae[eval]', "
            f"or {instead}"
        ) from None
    try:
        rows = load_dataset(name, config, split=split)
    except Exception as error:  # whatever the network or the hub's client comes up with
        raise InputError(
            f"cannot load {name} from the hub ({type(error).__name__}: {one_line(error, 200)}); "
            f"where there is no network, {instead}"
        ) from None
    return ((row, f"{name}, split {split}, row {i}") for i, row in enumerate(rows, start=1))
