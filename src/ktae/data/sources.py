"""Where problems come from: data sets of the Hugging Face hub by name, or a file."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.files.hub import rows_of_hub
from ktae.files.text import require_text
from ktae.rollouts.rows import is_null

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TaskProblem:
    """One problem."""

    text: str
    answer: str


class Split(NamedTuple):
    """The problems of a training or validation set."""

    problems: list[TaskProblem]
    without_answer: int
    """Rows left out because their answer is empty (MATH has some) or null: nothing could be
    graded."""


class Source(NamedTuple):
    """A data set of the hub."""

    hub_name: str
    config: str | None
    data_source: str
    """verl's name for it, by which it groups its validation metrics."""
    read: Callable[[Row], TaskProblem | None]
    """From a row to its problem; None: the row is not part of the set. KeyError: a column is
    missing."""


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
        splits[split] = _problems(rows, source.read, f"{source.hub_name}, split {split}")
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
    return _problems(iterate_rows(path), _any_row, str(path))


def _problems(
    rows: Iterable[tuple[object, str]], read: Callable[[Row], TaskProblem | None], where: str
) -> Split:
    """The problems of rows, each with the place for errors; `where` is that of all."""
    problems, without_answer = [], 0
    for row, place in rows:
        if not isinstance(row, dict):
            raise InputError(f"{place}: expected an object, found {row!r:.50}")
        try:
            problem = read(row)
        except KeyError as error:
            raise InputError(f"{place}: no {error.args[0]}; its fields are {quoted(row)}") from None
        except ValueError as error:
            raise InputError(f"{place}: {error}") from None
        # Not every row of a data set is part of the set, as with "level 3 to 5".
        if problem is None:
            continue
        require_text(problem.text, f"{place}: problem")
        require_text(problem.answer, f"{place}: answer")
        if not problem.text.strip():
            raise InputError(f"{place}: the problem is empty")
        # Without an answer nothing could be graded; how many there are is told to the user.
        if problem.answer.strip():
            problems.append(problem)
        else:
            without_answer += 1
    if not problems:
        raise InputError(f"{where} holds no problem with an answer")
    return Split(problems, without_answer)


def _any_row(row: Row) -> TaskProblem:
    name = next((x for x in ("problem", "question", "prompt") if isinstance(row.get(x), str)), None)
    if name is None or "answer" not in row:
        raise ValueError(
            f"no {'answer' if name else 'problem'}; its fields are {quoted(row)}; expected problem "
            "(or question, or prompt) as text, and answer"
        )
    # GSM8K ends its worked answers so; other answers have no ####.
    return TaskProblem(row[name], _answer(row).rsplit("####", 1)[-1].strip())


def _answer(row: Row) -> str:
    """The answer as it is; empty where it is null."""
    answer = row["answer"]
    if is_null(answer):
        return ""
    # To Python, True is the number 1.
    is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
    is_finite = is_number and (isinstance(answer, int) or math.isfinite(answer))
    if not isinstance(answer, str) and not is_finite:
        raise ValueError(f"answer is {answer!r:.60}; expected one text or finite number")
    return str(answer)


def _math(row: Row) -> TaskProblem:
    return TaskProblem(row["problem"], _answer(row))


def _math_level_3_to_5(row: Row) -> TaskProblem | None:
    return _math(row) if str(row["level"]).removeprefix("Level ") in ("3", "4", "5") else None


MATH = "nlile/hendrycks-MATH-benchmark"
SOURCES = {
    "math12k": Source(MATH, None, "math12k", _math),
    "math-l3-5": Source(MATH, None, "math-l3-5", _math_level_3_to_5),
    "gsm8k": Source("openai/gsm8k", "main", "gsm8k", _any_row),
}
"""By name: MATH without the 500 problems of MATH-500 (12,000), those of level 3 to 5 among them
(8,888), and grade-school sums (7,473)."""
