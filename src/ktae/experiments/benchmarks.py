"""Benchmarks by name, from the Hugging Face hub or from a folder.

A folder holds one file for each benchmark, called by its name or one of its `files`, with one of
the endings `.jsonl`, `.json` or `.parquet` (also with `.gz`). The fields of a row are those that
`ktae.experiments.tasks.sources.read_problems` reads.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

from ktae.errors import InputError, quoted
from ktae.experiments.tasks.sources import read_problems, rows_of_hub
from ktae.experiments.templates import TEMPLATES, Messages, prompt_of
from ktae.rollouts.files import SUFFIXES, iterate_rows, without_format
from ktae.rollouts.values import any_text


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Where a benchmark comes from, and how many problems it has."""

    size: int
    hub: tuple[str, str | None, str]  # data set, configuration and split on the hub
    files: tuple[str, ...] = ()  # other names of its file, without the ending
    title: str = ""  # its name in the paper's tables


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
"""From any name of a benchmark to its usual one."""

PAPER = ("aime24", "math500", "amc", "minerva", "olympiadbench")
"""The paper's five, in the order of its tables."""
UNNAMED = "all"
"""Stands for the benchmark where no file names one."""


class BenchmarkProblem(NamedTuple):
    """One problem of a benchmark."""

    benchmark: str
    number: int  # from 0, in the benchmark's own order
    prompt: str | Messages
    answers: tuple[str, ...]  # the accepted ones

    @property
    def group(self) -> str:
        """The problem's name, such as `aime24/7`: the same in every file."""
        return f"{self.benchmark}/{self.number}"


def title(name: str) -> str:
    """A benchmark's name in the paper's tables."""
    return BENCHMARKS[name].title if name in BENCHMARKS else name


def label_of(benchmark: object, label: str) -> tuple[str, str]:
    """The benchmark and the problem of a row, from its benchmark field, if any, and its label.

    Without that field, the first part of a label such as `aime24/7` is the benchmark if it is the
    name of one.
    """
    name = any_text(benchmark or "")
    if name in ("", UNNAMED):
        before, _, problem = label.partition("/")
        # `test/algebra/1.json` is one problem.
        if before in NAMES and problem and "/" not in problem:
            return NAMES[before], problem
        return UNNAMED, label
    # `algebra/0` and `geometry/0` of one benchmark are two problems.
    key = NAMES.get(name, name)
    names = (name, *(x for x in NAMES if NAMES[x] == key))
    prefix = next((f"{x}/" for x in names if label.startswith(f"{x}/")), "")
    return key, label.removeprefix(prefix)


def load(name: str, data: Path | None = None, template: str = "plain") -> list[BenchmarkProblem]:
    """All problems of a benchmark, as prompts of a template.

    Args:
        name: a key of `BENCHMARKS`.
        data: a folder with files as above; None loads from the hub.
        template: a key of `TEMPLATES`.
    """
    for kind, key, known in (("benchmark", name, BENCHMARKS), ("template", template, TEMPLATES)):
        if key not in known:
            raise InputError(f"no {kind} {key!r}; expected one of {quoted(known)}")
    if data is None:
        rows = rows_of_hub(*BENCHMARKS[name].hub, instead="give a folder with the files: --data")
    else:
        files = [x for x in sorted(data.glob("*")) if x.name.endswith(SUFFIXES)]
        files = [x for x in files if NAMES.get(without_format(x.name)) == name]
        if len(files) != 1:
            raise InputError(
                f"{data} has {len(files)} files of {name} ({', '.join(x.name for x in files)}); "
                f"expected one, such as {name}.jsonl, {name}.json or {name}.parquet, or with .gz"
            )
        rows = iterate_rows(files[0])
    problems, without_answer = read_problems(rows, name, alternatives=True)
    expected = BENCHMARKS[name].size
    # A part of a benchmark has another difficulty, and its figure would pass for that of all.
    if len(problems) != expected or without_answer:
        raise InputError(f"{name}: {len(problems)} problems with an answer; expected {expected}")
    return [
        BenchmarkProblem(name, i, prompt_of(template, text), answers)
        for i, (text, answers) in enumerate(problems)
    ]
