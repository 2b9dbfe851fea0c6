"""How long larger units take: keys and estimator, as a multiple of the tokens' time.

    python benchmarks/units.py [--tokenizer FOLDER]

On the paper's batch and the CPU backend. Appends one row a unit to results/units.csv; words, lines
and steps need a tokenizer, whose tables are made before the clock starts.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numba

from ktae import key_token_values
from ktae.bench import Rollouts, append_rows, machine, random_batch
from ktae.rollouts.tokens import load_tokenizer
from ktae.units import UNITS, unit_keys

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", help="folder or hub name")
    parser.add_argument("--groups", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--csv", type=Path, default=HERE / "results/units.csv")
    arguments = parser.parse_args()
    tokenizer = load_tokenizer(arguments.tokenizer) if arguments.tokenizer else None
    batch = random_batch(groups=arguments.groups)
    names = [name for name, unit in UNITS.items() if tokenizer or not unit.needs_tokenizer]
    measured = measure(batch, names, tokenizer, arguments.repeats)
    rows = [
        {
            "unit": name,
            "rollouts": batch.token_ids.shape[0],
            "width": batch.token_ids.shape[1],
            "tokens": int(batch.mask.sum()),
            "threads": numba.config.NUMBA_NUM_THREADS,
            "keys_s": f"{keys_s:.4f}",
            "estimator_s": f"{terms_s:.4f}",
            "multiple": f"{(keys_s + terms_s) / sum(measured['token']):.2f}",
            "repeats": arguments.repeats,
            "load_average": f"{os.getloadavg()[0]:.1f}",
        }
        for name, (keys_s, terms_s) in measured.items()
    ]
    for row in rows:
        print(row, flush=True)
    append_rows(arguments.csv, [row | machine() for row in rows])


def measure(
    batch: Rollouts, names: list[str], tokenizer: object, repeats: int
) -> dict[str, tuple[float, float]]:
    """Median seconds of keys and of terms; all units in every round, so all see one machine."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for round_number in range(repeats + 1):
        for name in names:
            started = time.perf_counter()
            keys = unit_keys(name, batch.token_ids, batch.mask, tokenizer=tokenizer)
            between = time.perf_counter()
            key_token_values(keys, batch.mask, batch.correct, batch.groups)
            if round_number > 0:  # the first compiles
                seconds[name].append((between - started, time.perf_counter() - between))
    return {
        name: (statistics.median(x for x, _ in both), statistics.median(x for _, x in both))
        for name, both in seconds.items()
    }


if __name__ == "__main__":
    main()
