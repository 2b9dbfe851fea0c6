"""TRL's steps that repeat the rollouts of the step before, left out.

TRL logs its last generation batch at every step, and one batch may serve several steps:
`num_iterations` above 1, or `steps_per_generation` above the accumulation of gradients.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktae.rollouts.files import iterate_rows
from ktae.rollouts.notes import Notes
from ktae.rollouts.rows import is_null
from ktae.rollouts.schemas import TRL
from ktae.rollouts.schemas.base import is_number
from ktae.rollouts.schemas.trainers import VERL_FIELDS, VERL_KEY, VERL_PADDING


class Steps:
    """Knows the step that was read last, whose rollouts may come again in the next file."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.last: tuple[float, tuple[Path, Counter[str]]] | None = None
        """The step, and its folder and rollouts."""

    def rows_once(self, path: Path) -> Iterator[tuple[Any, str]]:
        """The rows of a file, each with its place, without the steps that repeat the one before.

        A step repeats another if all of its prompts, completions and advantages are the same.
        """
        rows = iterate_rows(path, self.notes.reject)
        first = next(rows, None)
        if first is None or trl_step(first[0]) is None:
            yield from rows if first is None else itertools.chain([first], rows)
            return
        of_trl: list[tuple[Any, str]] = [first, *rows]
        steps: dict[float, Counter[str]] = defaultdict(Counter)
        for row, _ in of_trl:
            if (step := trl_step(row)) is not None:
                content = [row["prompt"], row["completion"], row["advantage"]]
                steps[step][json.dumps(content, sort_keys=True, default=str)] += 1
        repeated = set()
        for step in sorted(steps):
            rollouts = path.parent, steps[step]
            if self.last is not None and self.last[1] == rollouts and self.last[0] != step:
                self.notes.add("steps", f"step {step:g} repeats step {self.last[0]:g}")
                repeated.add(step)
            self.last = step, rollouts
        yield from (x for x in of_trl if trl_step(x[0]) not in repeated)


def trl_step(row: Any) -> float | None:
    """The step of a row of TRL's; None where it is none, or its step is no number."""
    if not (isinstance(row, dict) and TRL.detects(row)):
        return None
    step = row["step"]
    return float(step) if is_number(step) and not is_null(step) else None


def without_filling(rows: Iterator[tuple[Any, str]], notes: Notes) -> Iterator[tuple[Any, str]]:
    """The rows without verl's padding, and without those outputs that a session went on after.

    Of several outputs of a session, which verl numbers from 0 on, only the last is a rollout.
    """
    # A row waits until it is known that the next one does not go on with it.
    held: tuple[Any, str] | None = None
    output: tuple[Any, str] | None = None
    number = -1
    for row, where in rows:
        before, output = (output, number + 1), None
        if isinstance(row, dict) and "uid" in row and row.keys() >= set(VERL_FIELDS):
            if VERL_PADDING.fullmatch(str(row["uid"])) and not row["input"] and not row["output"]:
                notes.add("padding")
                output = before[0]
                continue
            if key := VERL_KEY.fullmatch(str(row["uid"])):
                output, number = (row["step"], key[1]), int(key[3])
        if held is not None and output is not None and (output, number) == before:
            notes.add("intermediate")
        elif held is not None:
            yield held
        held = row, where
    if held is not None:
        yield held
