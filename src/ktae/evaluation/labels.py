"""Which problem of which benchmark a row of saved outputs is about, and which sample of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from ktae.errors import InputError
from ktae.evaluation.benchmarks import BENCHMARKS, canonical
from ktae.files.text import require_text
from ktae.rollouts.rows import as_label, is_null


class Label(NamedTuple):
    """What a row says of its problem."""

    benchmark: str | None
    """None: nothing."""
    problem: str | None
    """None: nothing; it is to be numbered by its prompt."""
    named: bool
    """Whether the benchmark is one that the outputs' own file named."""


class Place(NamedTuple):
    """Where a row belongs."""

    benchmark: str
    problem: str
    sample: int
    """From 0."""
    named: bool
    """Whether the problem's label needs the benchmark: it is named, or another file has others."""
    numbered: bool
    """Whether the problem has no label, and got the number of its prompt's first appearance."""


class Default(NamedTuple):
    """What a file's problems are of where its rows do not say."""

    benchmark: str
    named: bool
    """Whether it tells problems apart that other files label alike."""


class Numbering:
    """The places of rows of all files; problems and samples without a number get one."""

    def __init__(self) -> None:
        self.samples: Counter[tuple[str | None, str | None, str, str]] = Counter()
        self.prompts: dict[tuple[str | None, str], dict[str, int]] = defaultdict(dict)

    def place(
        self,
        label: Label,
        default: Default,
        step: str | None,
        prompt: str | None,
        where: str,
        model: str | None = None,
    ) -> Place:
        """The next row's; problems without a label are numbered by first appearance.

        Samples are numbered for each model by itself.

        Raises:
            InputError: neither label nor prompt tells the problem; `where` begins the message.
        """
        benchmark = label.benchmark or canonical(default.benchmark)
        problem = label.problem
        if problem is None:
            if prompt is None:
                raise InputError(f"{where}: neither group nor prompt: which problem is it?")
            numbers = self.prompts[step, benchmark]
            problem = str(numbers.setdefault(prompt, len(numbers)))
        key = (model, step, benchmark, problem)
        self.samples[key] += 1
        named = label.named or default.named
        return Place(benchmark, problem, self.samples[key] - 1, named, label.problem is None)


def label_of(benchmark: object, group: object, recorded: str | None, where: str) -> Label:
    """Benchmark and problem of one row.

    Args:
        benchmark: the row's field, or None.
        group: the row's field, or None: whatever tells problems apart. Of `aime24/7` the first part
            is the benchmark, because that is the name of one.
        recorded: the benchmark in a record of ours. Its labels begin with the benchmark where the
            outputs' file named it; else it is that file's name, and no part of them.
        where: the beginning of errors.

    Raises:
        InputError: one of them is no text that can be written.
    """
    name = require_text("" if benchmark is None else str(benchmark), f"{where}: benchmark")
    if is_null(group):
        return Label(canonical(name) if name else None, None, bool(name))
    label = require_text(str(as_label(group)), f"{where}: group")
    if name:
        return Label(canonical(name), _within(name, label), True)
    if recorded is not None:
        problem = _within(recorded, label)
        return Label(canonical(recorded), problem, problem != label)
    before, _, problem = label.partition("/")
    # `test/algebra/1.json` is one problem: only the name of a benchmark tells a benchmark.
    if canonical(before) in BENCHMARKS and problem and "/" not in problem:
        return Label(canonical(before), problem, True)
    return Label(None, label, False)


def step_of(step: object, where: str) -> str | None:
    """A row's training step as text, None where it has none.

    Raises:
        InputError: it is no text that can be written.
    """
    if step is None or step != step:  # NaN is how pandas writes null
        return None
    return require_text(str(as_label(step)), f"{where}: step")


def _within(benchmark: str, label: str) -> str:
    """A label without the benchmark where it begins with it, by any of its names; else all of it.

    All of it: `algebra/0` and `geometry/0` of one benchmark are two problems.
    """
    name = canonical(benchmark)
    names = (benchmark, name, *(BENCHMARKS[name].files if name in BENCHMARKS else ()))
    found = next((x for x in names if label.startswith(f"{x}/")), None)
    return label if found is None else label.removeprefix(f"{found}/")
