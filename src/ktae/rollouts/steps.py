"""The rows of a trainer's dump that are no rollouts of their own, left out.

TRL logs its last generation batch at every step, and one batch may serve several steps:
`num_iterations` above 1, or `steps_per_generation` above the accumulation of gradients. verl fills
up its batches with rows, and writes the outputs in the middle of an agent's session.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktae.rollouts.files import Reject, iterate_rows
from ktae.rollouts.schemas.training import TRL, goes_on, is_padding, trl_step
from ktae.rollouts.tolerance import Tolerance


def rows_once(path: Path, reject: Reject, tolerance: Tolerance) -> Iterator[tuple[Any, str]]:
    """The rows of a file, each with its place, without TRL's steps that repeat the one before.

    A step repeats another if all of its prompts, completions and advantages are the same. The step
    before may be in the file that was read before, if both lie in one folder. The file is read
    twice if it is TRL's.

    Args:
        path: the file.
        reject: see `iterate_rows`.
        tolerance: notes which steps were left out.
    """
    # The first row tells whether the file is TRL's; all others are read once.
    rows = iterate_rows(path, reject)
    first = next(rows, None)
    if first is None:
        return
    rows = itertools.chain([first], rows)
    if not (isinstance(first[0], dict) and TRL.detects(first[0])):
        yield from rows
        return
    counts: Counter[float] = Counter()
    sums: Counter[float] = Counter()
    # What is wrong with a line is said when it is read again.
    for row, _ in iterate_rows(path, lambda error: None):
        step = trl_step(row)
        if isinstance(row, dict) and step is not None:
            # What TRL knows of a rollout, without its step; a sum of many forgets their order.
            content = [row["prompt"], row["completion"], row["advantage"]]
            text = json.dumps(content, sort_keys=True, default=str)
            digest = hashlib.blake2s(text.encode(), digest_size=16).digest()
            counts[step] += 1
            sums[step] += int.from_bytes(digest)
    repeated = set()
    for step in sorted(counts):
        rollouts = path.parent, counts[step], sums[step]
        # The step before may be the last one of the file that was read before, in the same folder.
        before = tolerance.last_step
        if before is not None and before[1] == rollouts and before[0] != step:
            tolerance.repeated_steps.append((before[0], step))
            repeated.add(step)
        tolerance.last_step = step, rollouts
    yield from (x for x in rows if trl_step(x[0]) not in repeated)


def without_filling(rows: Iterator[tuple[Any, str]], tolerance: Tolerance) -> Iterator[Any]:
    """The rows without verl's padding, and without those outputs that a session went on after."""
    # A row waits until it is known that the next one does not go on with it.
    held = None
    for row, where in rows:
        if is_padding(row):
            tolerance.padding += 1
            continue
        if held is not None and goes_on(held[0], row):
            tolerance.intermediate += 1
        elif held is not None:
            yield held
        held = row, where
    # The last row has no successor that could go on with it.
    if held is not None:
        yield held
