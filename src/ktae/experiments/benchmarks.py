"""Benchmarks by name: from the Hugging Face hub, or from a folder.

In a folder each benchmark is one file, such as `NAME.jsonl`, `.json` or `.parquet` (or that and
`.gz`). NAME is the benchmark's name or one of its `files`. A row has `problem` or `question`, and
`answer` or `final_answer`: a text, a number, or a list of accepted answers.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

from ktae.errors import InputError, quoted
from ktae.experiments.tasks.sources import rows_of_hub
from ktae.experiments.templates import Messages
from ktae.files.text import require_text
from ktae.rollouts.answers import parse_answers
from ktae.rollouts.files import SUFFIXES, iterate_rows, without_format
from ktae.rollouts.values import any_text


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Where a benchmark comes from, and how many problems it must have."""

    size: int
    hub: tuple[str, str | None, str]
    """Data set, configuration and split on the hub."""
    files: tuple[str, ...] = ()
    """Other names of its file, without the ending."""
    title: str = ""
    """As the paper's tables print it."""


SUITE = "lkevinzc/math-eval"
"""The suite of the paper, as the authors of "Understanding R1-Zero-like training" published it."""

BENCHMARKS = {
    "aime24": Benchmark(30, (SUITE, None, "aime"), ("aime",), "AIME24"),
    "aime25": Benchmark(30, ("math-ai/aime25", None, "test"), (), "AIME25"),
    "math500": Benchmark(500, (SUITE, None, "math"), ("math",), "MATH-500"),
    "amc": Benchmark(83, (SUITE, None, "amc"), (), "AMC"),
    "amc23": Benchmark(40, ("math-ai/amc23", None, "test"), (), "AMC23"),
    "minerva": Benchmark(272, (SUITE, None, "minerva"), (), "Minerva"),
    "olympiadbench": Benchmark(
        675, (SUITE, None, "olympiad_bench"), ("olympiad_bench",), "Olympiad"
    ),
    "gsm8k": Benchmark(1319, ("openai/gsm8k", "main", "test"), ("gsm8k_test",), "GSM8K"),
}
"""`amc` is the paper's 83 problems of AMC 2022 and 2023, `amc23` the 40 that others report."""

NAMES = {x: name for name, b in BENCHMARKS.items() for x in (name, *b.files)}
"""A benchmark's name by any of its names."""

PAPER = ("aime24", "math500", "amc", "minerva", "olympiadbench")
"""The paper's five, in the order of its tables."""
UNNAMED = "all"
"""In the place of a benchmark that no file names."""


class BenchmarkProblem(NamedTuple):
    """One problem of a benchmark."""

    benchmark: str
    number: int
    """From 0, in the benchmark's own order."""
    text: str
    answers: tuple[str, ...]
    """The accepted answers."""
    messages: Messages | None = None
    """The prompt, where it is not a template's."""

    @property
    def group(self) -> str:
        """`aime24/7`: the same in every file."""
        return f"{self.benchmark}/{self.number}"


def title(name: str) -> str:
    """A benchmark as the paper's tables print it."""
    return BENCHMARKS[name].title if name in BENCHMARKS else name


def label_of(benchmark: object, label: str) -> tuple[str, str]:
    """Benchmark and problem of one row, by its field, if there is one, and its label.

    Of a label such as `aime24/7` the first part is the benchmark, because that is the name of one.
    """
    name = any_text(benchmark or "")
    if name in ("", UNNAMED):
        before, _, problem = label.partition("/")
        # `test/algebra/1.json` is one problem: only the name of a benchmark tells a benchmark.
        if before in NAMES and problem and "/" not in problem:
            return NAMES[before], problem
        return UNNAMED, label
    # `algebra/0` and `geometry/0` of one benchmark are two problems.
    key = NAMES.get(name, name)
    names = (name, *(x for x in NAMES if NAMES[x] == key))
    prefix = next((f"{x}/" for x in names if label.startswith(f"{x}/")), "")
    return key, label.removeprefix(prefix)


def load(name: str, data: Path | None = None) -> list[BenchmarkProblem]:
    """All problems of a benchmark.

    Args:
        name: a key of `BENCHMARKS`.
        data: a folder with files as above; None loads from the hub.

    Raises:
        InputError: there is no such benchmark or file, it cannot be loaded, a row lacks a problem
            or an answer, or the number of problems is not the known one.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}; expected one of {', '.join(BENCHMARKS)}")
    if data is None:
        rows = rows_of_hub(*BENCHMARKS[name].hub, instead="give a folder with the files: --data")
    elif not data.is_dir():
        raise InputError(f"--data {data} is not a folder")
    else:
        there = [x for x in sorted(data.iterdir()) if x.name.endswith(SUFFIXES)]
        files = [x for x in there if NAMES.get(without_format(x.name)) == name]
        if len(files) != 1:
            names = f" ({', '.join(x.name for x in files)})" if files else ""
            raise InputError(
                f"{data} has {len(files)} files of {name}{names}; expected one, such as "
                f"{name}.jsonl, {name}.json or {name}.parquet, or that and .gz"
            )
        rows = iterate_rows(files[0])
    problems: list[BenchmarkProblem] = []
    for row, where in rows:
        fields = row if isinstance(row, dict) else {}
        text = fields.get("problem") or fields.get("question")
        answer = next(
            (fields[x] for x in ("answer", "final_answer") if fields.get(x) is not None), None
        )
        if not isinstance(text, str) or answer is None:
            raise InputError(f"{where}: no problem or no answer; its fields are {quoted(fields)}")
        require_text(text, f"{where}: problem")
        problems.append(BenchmarkProblem(name, len(problems), text, parse_answers(answer, where)))
    expected = BENCHMARKS[name].size
    # Half a benchmark has another difficulty; its figure would look like the whole one's.
    if len(problems) != expected:
        raise InputError(f"{name}: {len(problems)} problems; expected {expected}")
    return problems
