"""What training does in the embedded demo: held-out scores before and after, seed by seed.

    python benchmarks/demo.py --seeds 3

Each seed is a base model of its own and an RL run of its own. Appends one row a run to
results/demo.csv; every run is a process of `ktae train`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from estimator import append_rows, machine

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipes", nargs="+", default=["grpo", "grpo-ktae"])
    parser.add_argument("--csv", type=Path, default=HERE / "results/demo.csv")
    arguments = parser.parse_args()
    for seed in range(arguments.seeds):
        for recipe in arguments.recipes:
            row = run(HERE.parent / f"recipes/demo/{recipe}.yaml", seed)
            print(row, flush=True)
            append_rows(arguments.csv, [row | machine()])


def run(recipe: Path, seed: int) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ktae", "train", str(recipe), "--output", f"{folder}/run"]
        overrides = [f"seed={seed}", f"model.demo_seed={seed}"]
        subprocess.run([*command, *overrides], check=True, stdout=subprocess.DEVNULL)
        summary = json.loads(Path(folder, "run/summary.json").read_text())
    row = {"recipe": summary["recipe"], "seed": str(seed), "steps": str(summary["steps"])}
    for when in ("before", "after"):
        row |= {f"{when}_{name}": f"{value:.4f}" for name, value in summary[when].items()}
    own_seconds = summary["credit_seconds_per_step"]
    return row | {
        "seconds_per_step": f"{summary['seconds_per_step']:.3f}",
        "credit_seconds_per_step": "" if own_seconds is None else f"{own_seconds:.5f}",
    }


if __name__ == "__main__":
    main()
