"""Which problem of which benchmark a row of saved outputs is about."""

from __future__ import annotations

from typing import NamedTuple

from ktae.evaluation.benchmarks import BENCHMARKS, canonical
from ktae.files.text import require_text
from ktae.rollouts.rows import as_label, is_null


class Label(NamedTuple):
    """What a row says of its problem; None where it says nothing."""

    benchmark: str | None
    problem: str | None
    named: bool
    """Whether the benchmark is one that the outputs' own file named."""


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


def _within(benchmark: str, label: str) -> str:
    """A label without the benchmark where it begins with it, by any of its names; else all of it.

    All of it: `algebra/0` and `geometry/0` of one benchmark are two problems.
    """
    name = canonical(benchmark)
    names = (benchmark, name, *(BENCHMARKS[name].files if name in BENCHMARKS else ()))
    prefix = next((f"{x}/" for x in names if label.startswith(f"{x}/")), "")
    return label.removeprefix(prefix)
