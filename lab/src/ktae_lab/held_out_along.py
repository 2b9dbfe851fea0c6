"""Held-out pairs of the rollouts that a method was trained on, some steps at a time.

    python -m ktae_lab.held_out_along STUDY/runs/TASK/grpo --csv FILE

Takes all run folders under the given one and writes a row for every ten steps and estimator, with
95 % intervals over groups, as if those of one run were independent. A few short responses are
often equal, and then a group cannot be looked at (`ktae.validity.held_out`), so groups of all runs
and of ten steps count together. For *majority* a response's answer is the stated one or else its
last number, as the tasks of a real model take it."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from ktae.errors import InputError
from ktae.estimators import PRESETS, preset
from ktae.report import inputs
from ktae.runs import RunFolder
from ktae.validity import held_out, prefixes
from ktae_lab.csv_files import write_table
from ktae_lab.provenance import machine

STEPS = 10


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--csv", type=Path, required=True)
    arguments = parser.parse_args()
    finished = sorted(path.parent for path in arguments.folder.glob("**/summary.json"))
    runs = [run for run in finished if any(RunFolder(run).rollouts.glob("*.parquet"))]
    if not runs:
        raise SystemExit(
            f"held_out_along: no finished run with rollouts under {arguments.folder}; there are "
            f"{len(finished)} without"
        )
    print(f"{len(runs)} runs; {len(finished) - len(runs)} more have no rollouts", flush=True)
    rows = []
    for row in along(runs, list(PRESETS)):
        print(list(row.values()), flush=True)
        rows.append(row | machine())
    write_table(arguments.csv, pd.DataFrame(rows))


def along(runs: Sequence[Path], presets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for every `STEPS` training steps and each estimator or baseline.

    Steps of which no group can be looked at have none.

    Raises:
        InputError: a run has no rollouts.
    """
    rollouts = inputs.load(runs).rollouts
    estimators = {name: preset(name) for name in presets}
    last = pc.max(rollouts["step"]).as_py()
    for first in range(1, last + 1, STEPS):
        steps = f"{first} to {min(first + STEPS - 1, last)}"
        of_steps = rollouts.filter((pc.field("step") >= first) & (pc.field("step") < first + STEPS))
        try:
            pairs = held_out.held_out_pairs(
                of_steps, estimators, answers=prefixes.AskedAnswers(of_steps, "last")
            )
        except InputError as error:
            print(f"steps {steps}: {error}", flush=True)
            continue
        for score in (*pairs.estimators, *pairs.baselines):
            values = (*score.auc, score.permuted.value)
            numbers = zip(("auc", "low", "high", "permuted"), values, strict=True)
            yield {
                "steps": steps, "estimator": score.name, "groups": pairs.groups,
                "pairs": pairs.pairs,
            } | {name: f"{value:.4f}" for name, value in numbers}  # fmt: skip


if __name__ == "__main__":
    main()
