"""How often does each 95 % interval of `ktae-lab study`'s kind hold the true mean?

    python -m ktae_lab.study_intervals --csv FILE

Few independent differences (10 or 20 seeds) are drawn from a distribution whose mean is known, many
times; the interval should hold that mean 95 times of 100. Appends to FILE, by default to
lab/results/study_intervals.csv.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from ktae.inference import mean_interval
from ktae_lab.csv_files import read_csv, write_csv
from ktae_lab.study.provenance import machine
from ktae_lab.tables.page import RESULTS

Draw = Callable[[np.random.Generator, int], np.ndarray]
Bounds = tuple[float, float]
SOURCES: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed (exponential)": lambda rng, n: rng.exponential(size=n) - 1,
    "heavy tails (Student's t, 3)": lambda rng, n: rng.standard_t(3, size=n),
}
RESAMPLES = 2000


def _scipys(method: str, values: np.ndarray, seed: int) -> tuple[float, float]:
    found = stats.bootstrap(
        (values,), np.mean, method=method, n_resamples=RESAMPLES, vectorized=True, rng=seed
    )
    return found.confidence_interval.low, found.confidence_interval.high


METHODS: dict[str, Callable[[np.ndarray, int], Bounds]] = {
    "studentised (ktae-lab study)": lambda values, seed: mean_interval(values, seed=seed)[1:],
    "BCa": lambda values, seed: _scipys("BCa", values, seed),
    "percentile": lambda values, seed: _scipys("percentile", values, seed),
    "Student's t": lambda values, _: stats.t.interval(
        0.95, len(values) - 1, values.mean(), stats.sem(values)
    ),
}


def main() -> None:
    """Measure every interval on every distribution."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--csv", type=Path, default=RESULTS / "study_intervals.csv")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=stats.DegenerateDataWarning)
    for source, draw in SOURCES.items():
        for n in (10, 20):
            for method, interval in METHODS.items():
                row = measure(draw, n, interval, arguments.trials)
                row = {"differences": source, "seeds": str(n), "interval": method} | row
                print(row, flush=True)
                kept = read_csv(arguments.csv) if arguments.csv.exists() else []
                write_csv(arguments.csv, [*kept, row | machine()])


def measure(
    draw: Draw, n: int, interval: Callable[[np.ndarray, int], Bounds], trials: int
) -> dict[str, str]:
    """The same data for every method: the generator starts afresh."""
    rng = np.random.default_rng(0)
    bounds = np.array([interval(draw(rng, n), trial) for trial in range(trials)])
    held = np.mean((bounds[:, 0] <= 0) & (bounds[:, 1] >= 0))
    width = np.median(bounds[:, 1] - bounds[:, 0])
    return {"trials": str(trials), "holds_the_mean": f"{held:.4f}", "median_width": f"{width:.3f}"}


if __name__ == "__main__":
    main()
