"""Measure all alignment of the pages again, each at base models and along runs of GRPO.

    python -m ktae_lab.align.campaign demo runs/alignment --jobs 2          # lab/results/align
    python -m ktae_lab.align.campaign real-model runs/real --jobs 2         # results/real-alignment

The demo takes six training runs and thirty-three measurements, each by `ktae train` and `ktae-lab
align` in a folder of its own: about an hour on two cores. The real model takes one run and four
measurements: some hours. What is there already is kept, so that a second call goes on. At the end
FOLDER has the three tables of `ktae_lab.align.stored`; with `--results lab/results/align` they are
where the pages' tables are made of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ktae.errors import InputError
from ktae_lab.align import stored
from ktae_lab.align.summary import read
from ktae_lab.study import matrix
from ktae_lab.study.runner import KEEP_MEMORY
from ktae_lab.tables.page import LAB

AT_START = LAB.parent / "recipes/demo/grpo.yaml"
ALONG = LAB / "recipes/hard/grpo.yaml"
STEPS = (0, 5, 10, 20, 40)
REAL = LAB.parent / "recipes/smollm2/grpo.yaml"
ARMS = LAB / "matrices/real-model.yaml"
"""What is compared on the real model: those of its methods that have token credit."""
REAL_STEPS = (0, 10, 20, 40)
REAL_SEED = 4100
"""Of the run: none of the study's."""


def _spec(label: str, estimator: str, *transforms: str) -> tuple[str, str]:
    """An option of `ktae-lab align`; labels are those that the committed tables have."""
    section = f"{{estimator: {estimator}, transforms: [{', '.join(transforms)}]}}"
    return "--estimator", f"{label}={section}" if transforms else label


DOUBLE = "calibrated:units=[trigram]:term_scale=0.6"
"""Trigrams at the weight that matrices/explore.yaml trained with."""
PARTS = ("rollout-mean", "within-rollout")
WHOLE_AND_PARTS = (
    *_spec("paper", "paper"),
    *_spec("calibrated", "calibrated"),
    *(x for part in PARTS for x in _spec(f"calibrated:control={part}", "calibrated", part)),
    *_spec(DOUBLE, "trigrams", "{scaled: 2}"),
    *(x for p in PARTS for x in _spec(f"{DOUBLE}:control={p}", "trigrams", "{scaled: 2}", p)),
)
AT_BASE = (
    *_spec("paper", "paper"),
    *_spec("no-tf", "no-tf"),
    *_spec("calibrated", "calibrated"),
    *_spec("calibrated:units=[token]", "presence-z", "{scaled: 0.3}"),
    *_spec("calibrated:units=[bigram]", "presence-z", "{over-units: [bigram]}", "{scaled: 0.3}"),
    *_spec("paper:control=permuted-labels", "paper", "permuted-labels"),
    *_spec("calibrated:control=permuted-labels", "calibrated", "permuted-labels"),
)

Run = Callable[[Sequence[str]], None]
"""Runs a command to its end, and raises where it fails."""


class Measurement(NamedTuple):
    """What `ktae-lab align` is given."""

    name: str
    arguments: tuple[str, ...]
    training: tuple[str, ...] = ()
    """What `ktae train` is given before it; empty: a base model is measured."""


def at_base_models() -> list[Measurement]:
    """The measurements on sums, before training, with more prompts than along runs."""
    no_std, second = "algorithm.scale_by_std=false", "model.demo_seed=1"
    few = ("--batches", "30", "--reference-prompts", "384")
    return [
        Measurement("sums-base0", (str(AT_START), *AT_BASE)),
        Measurement("sums-base0-no-std", (str(AT_START), "--estimator", "paper", no_std)),
        Measurement("sums-base1", (str(AT_START), "--estimator", "paper", second, *few)),
    ]


def along_runs(folder: Path) -> list[list[Measurement]]:
    """Of each language and base model, one after the other: the first one trains."""
    return [
        [_along(folder, language, base, step) for step in STEPS]
        for language in ("lists", "sums")
        for base in range(3)
    ]


def _along(folder: Path, language: str, base: int, step: int) -> Measurement:
    demo = (f"demo.language={language}", f"model.demo_seed={base}")
    run = folder / f"{language}-base{base}"
    saving = ("steps=40", "logging.save_every=5", "logging.keep_checkpoints=8")
    # Eight optimizer steps a training step.
    model = run / f"checkpoints/checkpoint-{8 * step}" if step else "demo"
    sizes = ("--batches", "20", "--reference-prompts", "512", "--weights", "1,2")
    options = (*sizes, *WHOLE_AND_PARTS)
    return Measurement(
        f"{language}-base{base}-step{step}",
        (str(ALONG), *demo, f"model.path={model}", f"seed={1000 + step}", *options),
        (str(ALONG), *demo, *saving, "--output", str(run)),
    )


def along_a_real_run(folder: Path) -> list[Measurement]:
    """The measurements of the real model, all along one run."""
    run = folder / "smollm2"
    options: list[str] = []
    for name, arm in matrix.load(ARMS).methods.items():
        if credit := arm.overrides.get("credit"):
            section = credit if isinstance(credit, dict) else {"estimator": credit}
            options += ["--estimator", f"{name}={json.dumps(section)}"]
    sizes = ("--batches", "20", "--reference-prompts", "256", "--weights", "1")
    saving = ("steps=40", "logging.save_every=10", "logging.keep_checkpoints=4")
    training = (str(REAL), f"seed={REAL_SEED}", *saving, "--output", str(run))
    found = []
    for step in REAL_STEPS:
        model = (f"model.path={run}/checkpoints/checkpoint-{step}",) if step else ()
        arguments = (str(REAL), *model, f"seed={REAL_SEED + 1 + step}", *sizes, *options)
        # The base model's measurement need not wait for the run.
        found.append(Measurement(f"smollm2-step{step}", arguments, training if step else ()))
    return found


def measure(folder: Path, chains: Iterable[Sequence[Measurement]], *, jobs: int, run: Run) -> None:
    """Make what is not there yet, `jobs` chains at a time; a failure ends what has not begun.

    A run that several chains measure is trained by the first of them, and the others wait.
    """
    every = [list(chain) for chain in chains]
    trained = {one.training[-1] for chain in every for one in chain if one.training}
    training = {name: threading.Lock() for name in trained}
    with ThreadPoolExecutor(jobs) as pool:
        started = [pool.submit(_chain, folder, chain, run, training) for chain in every]
        try:
            for one in started:
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _chain(
    folder: Path, chain: Sequence[Measurement], run: Run, training: dict[str, threading.Lock]
) -> None:
    for one in chain:
        if one.training:
            trained = Path(one.training[-1])
            with training[one.training[-1]]:
                if not (trained / "summary.json").exists():
                    resume = ["--resume"] if (trained / "recipe.yaml").exists() else []
                    run([sys.executable, "-m", "ktae", "train", *one.training, *resume])
        out = folder / one.name
        if not (out / "align.json").exists():
            command = [sys.executable, "-m", "ktae_lab", "align", *one.arguments]
            run([*command, "--output", str(out)])


def collect(folder: Path, measurements: Iterable[Measurement]) -> dict[str, stored.Measured]:
    """What was measured, by name."""
    found = {}
    for one in measurements:
        path = folder / one.name / "align.json"
        alignment = read(path)
        report = json.loads(path.read_text(encoding="utf-8"))
        plan = report["plan"]
        found[one.name] = stored.Measured(
            alignment, plan["reference_prompts"], plan["batches"], report["machine"]
        )
    return found


def main() -> None:
    """Measure everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("demo", "real-model"))
    parser.add_argument("folder", type=Path, help="for the runs and measurements")
    parser.add_argument("--jobs", type=int, default=1, help="at a time")
    parser.add_argument("--results", type=Path, help="where the tables go; by default FOLDER")
    arguments = parser.parse_args()
    if arguments.what == "demo":
        chains = [[one] for one in at_base_models()] + along_runs(arguments.folder)
    else:
        chains = [[one] for one in along_a_real_run(arguments.folder)]

    def run(command: Sequence[str]) -> None:
        subprocess.run(command, check=True, env=KEEP_MEMORY | os.environ)

    measure(arguments.folder, chains, jobs=arguments.jobs, run=run)
    measured = collect(arguments.folder, [one for chain in chains for one in chain])
    stored.write(arguments.results or arguments.folder, measured)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"campaign: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
