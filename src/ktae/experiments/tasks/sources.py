"""Mathematics with reference answers: data sets of the Hugging Face hub, or files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from ktae.errors import InputError, passed_on, quoted
from ktae.experiments.recipe import Problems, Recipe
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.templates import as_messages
from ktae.files.text import require_text
from ktae.rollouts.values import is_null, parse_answers

TEXT_FIELDS = ("problem", "question", "prompt")
ANSWER_FIELDS = ("answer", "final_answer")


class Problem(NamedTuple):
    """A problem and its accepted answers."""

    text: str
    answers: tuple[str, ...]


class Split(NamedTuple):
    """The problems of a training set, a validation set or a benchmark."""

    problems: list[Problem]
    without_answer: int
    """Rows left out because their answer is empty (as in MATH) or null: no response to them could
    be graded."""


MATH = "nlile/hendrycks-MATH-benchmark"
SOURCES: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "math12k": (MATH, None, ()),
    "math-l3-5": (MATH, None, ("3", "4", "5")),
    "gsm8k": ("openai/gsm8k", "main", ()),
}
"""Training data by name (also verl's `data_source`): the hub's name, its configuration, and the
levels whose problems are taken, where not all are. They are MATH without the 500 problems of
MATH-500 (12,000), its problems of levels 3 to 5 (8,888), and GSM8K (7,473)."""


def load(name: str) -> dict[str, Split]:
    """The splits `train` and `test` of a named source, from the hub."""
    (hub_name, config, levels), splits = SOURCES[name], {}
    for split in ("train", "test"):
        instead = f"give a file of problems instead of {name}"
        rows = rows_of_hub(hub_name, config, split, instead)
        if levels:
            rows = (x for x in rows if str(x[0].get("level")).removeprefix("Level ") in levels)
        splits[split] = read_problems(rows, f"{hub_name}, split {split}")
    return splits


def load_file(file: str | Path) -> Split:
    """The problems of a file: JSON lines (`.jsonl`) or Parquet (`.parquet`), also with `.gz`."""
    from ktae.rollouts.files import iterate_rows  # pyarrow takes half a second

    path = Path(file).expanduser()
    if not path.is_file():
        known = ", ".join(SOURCES)
        raise InputError(f"no file {path} and no data set of that name; expected {known} or a file")
    return read_problems(iterate_rows(path), str(path))


def read_problems(
    rows: Iterable[tuple[Any, str]], where: str, *, alternatives: bool = False
) -> Split:
    """The problems of rows.

    A row has `problem` (or `question`, `prompt`) and `answer` (or `final_answer`): a text, a
    number, worked text that ends with `#### answer` as in GSM8K, a list of texts, or null. Where
    `alternatives`, a problem may have several accepted answers. Rows come with their places, for
    error messages; `where` is the place of all.

    Raises:
        InputError: a row is no object, lacks a field or has too many answers, or no row has any.
    """
    problems, without_answer = [], 0
    for row, place in rows:
        fields = row if isinstance(row, dict) else {}
        text = next((fields[x] for x in TEXT_FIELDS if isinstance(fields.get(x), str)), "")
        answers = [fields[x] for x in ANSWER_FIELDS if x in fields]
        require_text(text, f"{place}: problem")
        accepted = next((x for x in answers if not is_null(x)), "")
        parsed = tuple(filter(None, parse_answers(accepted, place)))
        if not text.strip() or not answers or (len(parsed) > 1 and not alternatives):
            raise InputError(
                f"{place}: answer is {accepted!r:.60}, and its fields are {quoted(fields)}; "
                "expected problem (or question, or prompt) as text, and a single answer"
            )
        if parsed:
            problems.append(Problem(text, parsed))
        else:
            without_answer += 1
    if not problems:
        raise InputError(f"{where} holds no problem with an answer")
    return Split(problems, without_answer)


def rows_of_hub(
    name: str, config: str | None, split: str, instead: str
) -> Iterator[tuple[Any, str]]:
    """The rows of a data set of the hub, each with its place for error messages; `instead` tells
    users without a network what else they can do."""
    hints = {"install": "pip install 'ktae[eval]'", "hint": f"without a network, {instead}"}
    with passed_on(f"{name} of the hub", Exception, **hints):
        from datasets import load_dataset

        rows = load_dataset(name, config, split=split)
    return ((row, f"{name}, split {split}, row {i}") for i, row in enumerate(rows, start=1))


def as_row(problem: Problem, instruction: str | None) -> TaskRow:
    """The problem as messages, after the instruction if there is one."""
    (answer,) = problem.answers
    return TaskRow(as_messages(problem.text, instruction), answer, answer)


class ProblemsTask(Task):
    """`task: {source: ...}`: a data set of the hub, or files."""

    def __init__(self, recipe: Recipe, task: Problems) -> None:
        super().__init__(recipe)
        self.task = task
        if task.source in SOURCES:
            self.data_source = task.source

    @override
    def train_rows(self) -> list[TaskRow]:
        return self._rows("train", self.task.train)

    @override
    def held_out_rows(self) -> list[TaskRow]:
        return self._rows("test", self.task.test)[: self.recipe.logging.eval_problems]

    def _rows(self, split: str, file: str | None) -> list[TaskRow]:
        read = load_file(file) if file else load(self.task.source)[split]
        return [as_row(problem, self.task.instruction) for problem in read.problems]
