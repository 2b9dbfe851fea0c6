"""Rows that repeat rollouts, left out: TRL's steps of one batch, and what verl's dumps repeat.

TRL logs its last generation batch at every step, and one batch may serve several steps:
`num_iterations` above 1, or `steps_per_generation` above the accumulation of gradients.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktae.rollouts.files import iterate_rows
from ktae.rollouts.notes import Notes
from ktae.rollouts.rows import as_label
from ktae.rollouts.schemas import TRL
from ktae.rollouts.schemas.trainers import VERL_KEY

VERL_PADDING = re.compile(r"pad[0-9a-f]{32}_\d+_\d+")
"""The `uid` of the rows with which verl's default trainer fills up a batch."""


class Steps:
    """Knows the step that was read last, whose rollouts may come again in the next file."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.last: tuple[Any, ...] = (None, None, None)
        """The step, its folder and its rollouts."""

    def rows_once(self, path: Path) -> Iterator[tuple[Any, str]]:
        """The rows of a file, each with its place, without those that repeat rollouts.

        A step of TRL repeats another if all of its prompts, completions and advantages are the
        same.
        """
        rows = without_filling(iterate_rows(path, self.notes.reject), self.notes)
        first = next(rows, None)
        if first is None or trl_step(first[0]) is None:
            yield from rows if first is None else itertools.chain([first], rows)
            return
        of_trl = [(trl_step(row), row, where) for row, where in itertools.chain([first], rows)]
        steps: dict[float, Counter[str]] = defaultdict(Counter)
        for step, row, _ in of_trl:
            if step is not None:
                steps[step][repr([row["prompt"], row["completion"], row["advantage"]])] += 1
        repeated = set()
        for step in sorted(steps):
            before, *rollouts = self.last
            if before != step and rollouts == [path.parent, steps[step]]:
                self.notes.add("steps", f"step {step:g} repeats step {before:g}")
                repeated.add(step)
            self.last = step, path.parent, steps[step]
        yield from ((row, where) for step, row, where in of_trl if step not in repeated)


def trl_step(row: Any) -> float | None:
    """The step of a row of TRL's; None where it is none, or its step is no number."""
    if not (isinstance(row, dict) and TRL.detects(row)):
        return None
    step = str(as_label(row["step"]))
    return float(step) if step.isdecimal() else None


def without_filling(rows: Iterator[tuple[Any, str]], notes: Notes) -> Iterator[tuple[Any, str]]:
    """The rows without verl's padding, and without those outputs that a session went on after.

    Of several outputs of a session, which verl numbers from 0 on, only the last is a rollout.
    """
    # A row waits until it is known that the next one does not go on with it.
    held: tuple[Any, str] | None = None
    output: tuple[Any, ...] | None = None
    for row, where in rows:
        key = None
        if isinstance(row, dict) and "uid" in row and {"step", "input", "output"} <= row.keys():
            uid = str(row["uid"])
            if VERL_PADDING.fullmatch(uid) and not row["input"] and not row["output"]:
                notes.add("padding")
                continue
            key = VERL_KEY.fullmatch(uid)
        if held is not None:
            if key and output == (row["step"], key[1], int(key[3])):
                notes.add("intermediate")
            else:
                yield held
        held, output = (row, where), (row["step"], key[1], int(key[3]) + 1) if key else None
    if held is not None:
        yield held
