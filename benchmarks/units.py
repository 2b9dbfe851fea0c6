"""How long larger units take, as a multiple of the tokens' time.

    python benchmarks/units.py [--tokenizer FOLDER]

On the paper's batch and the CPU backend, by the call that users make: KTAE over that unit, and the
preset `calibrated`. Appends one row an estimator to results/units.csv; words, lines and steps need
a tokenizer, whose tables are made before the clock starts.
"""

import argparse
import os
import time
from pathlib import Path

import numba
import numpy as np
from estimator import Rollouts, append_rows, machine, random_batch

from ktae import Estimator, preset, token_credit
from ktae.batch import Vocabulary
from ktae.estimators import KTAE, UNITS, OverUnits
from ktae.rollouts.tokens import load_tokenizer, vocabulary

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", help="folder or hub name")
    parser.add_argument("--groups", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--csv", type=Path, default=HERE / "results/units.csv")
    arguments = parser.parse_args()
    texts = vocabulary(load_tokenizer(arguments.tokenizer)) if arguments.tokenizer else None
    batch = random_batch(groups=arguments.groups)
    estimators: dict[str, Estimator] = {
        name: OverUnits(KTAE(), (name,))
        for name, unit in UNITS.items()
        if texts or not unit.needs_vocabulary
    }
    estimators["calibrated"] = preset("calibrated")
    measured = measure(batch, estimators, texts, arguments.repeats)
    rows = [
        {
            "config": name,
            "rollouts": batch.token_ids.shape[0],
            "width": batch.token_ids.shape[1],
            "tokens": int(batch.mask.sum()),
            "threads": numba.config.NUMBA_NUM_THREADS,
            "p20_s": f"{np.quantile(seconds, 0.2):.4f}",
            "median_s": f"{np.median(seconds):.4f}",
            "p80_s": f"{np.quantile(seconds, 0.8):.4f}",
            "multiple": f"{np.median(seconds) / np.median(measured['token']):.2f}",
            "repeats": arguments.repeats,
            "load_average": f"{os.getloadavg()[0]:.1f}",
        }
        for name, seconds in measured.items()
    ]
    for row in rows:
        print(row, flush=True)
    append_rows(arguments.csv, [row | machine() for row in rows])


def measure(
    batch: Rollouts, estimators: dict[str, Estimator], texts: Vocabulary | None, repeats: int
) -> dict[str, list[float]]:
    """Seconds of each round; all estimators in every round, so all see one machine."""
    seconds: dict[str, list[float]] = {name: [] for name in estimators}
    for round_number in range(repeats + 1):
        for name, estimator in estimators.items():
            started = time.perf_counter()
            token_credit(*batch, estimator, vocabulary=texts)
            if round_number > 0:  # the first compiles
                seconds[name].append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    main()
