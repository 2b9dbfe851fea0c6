"""Measure the alignment of the real model's arms along one run of GRPO again.

    python -m ktae_lab.align.campaign FOLDER          # of lab/results/real-alignment

It takes one training run and four measurements, some hours of a core. A run that is there is
continued, and a measurement that is there is kept. FOLDER then has the three tables of
`ktae_lab.align.summary`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from ktae import recipe as recipes
from ktae.estimators import from_section
from ktae_lab.align.summary import Measured, read
from ktae_lab.study import matrix

LAB = Path(__file__).resolve().parents[3]
RECIPE = LAB.parent / "recipes/smollm2/grpo.yaml"
ARMS = LAB / "matrices/real-model.yaml"
"""What is compared: those of its methods that have token credit."""
STEPS = (0, 10, 20, 40)
SEED = 4100
"""Of the run: none of the study's."""
SAVING = ("steps=40", "logging.save_every=10", "logging.keep_checkpoints=4")
BATCHES, REFERENCE_PROMPTS = 20, 256


def train(folder: Path) -> None:
    """The run of GRPO, from its beginning or from where it stopped."""
    if not (folder / "summary.json").exists():
        command = [sys.executable, "-m", "ktae", "train", str(RECIPE), f"seed={SEED}", *SAVING]
        resume = ["--resume"] if (folder / "recipe.yaml").exists() else []
        subprocess.run([*command, "--output", str(folder), *resume], check=True)


def measure_step(step: int, run: Path) -> Measured:
    """The alignment at the run's checkpoint after a step; 0 is the base model."""
    from ktae.trainers.trl.run import load_policy
    from ktae_lab.align.measure import Plan, measure

    keys = [f"seed={SEED + 1 + step}"]
    if step:
        keys.append(f"model.path={run}/checkpoints/checkpoint-{step}")
    recipe = recipes.load(RECIPE, keys)
    credits = {name: arm.overrides.get("credit") for name, arm in matrix.load(ARMS).methods.items()}
    estimators = {
        name: from_section(credit if isinstance(credit, dict) else {"estimator": credit})
        for name, credit in credits.items()
        if credit
    }
    plan = Plan(batches=BATCHES, reference_prompts=REFERENCE_PROMPTS)
    name = f"smollm2-step{step}"
    return measure(*load_policy(recipe), recipe, estimators, plan, _say, name)


def _say(what: str, done: int, of: int) -> None:
    print(f"{what}: {done} of {of}", flush=True)


def collect(
    folder: Path, steps: Sequence[int], measured_at: Callable[[int, Path], Measured]
) -> Measured:
    """Measure what is not there yet, and join all of it."""
    every = []
    for step in steps:
        at_step = folder / f"step{step}"
        if not (at_step / "products.csv.gz").exists():
            at_step.mkdir(parents=True, exist_ok=True)
            measured_at(step, folder / "run").write(at_step)
        every.append(read(at_step))
    return Measured(*(pd.concat(tables) for tables in zip(*every, strict=True)))


def main() -> None:
    """Train, measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="for the run, the measurements and the tables")
    folder = parser.parse_args().folder
    train(folder / "run")
    collect(folder, STEPS, measure_step).write(folder)


if __name__ == "__main__":
    main()
