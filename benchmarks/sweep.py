"""How time grows: with tokens, group size, vocabulary, the share of mixed groups, and threads.

    python benchmarks/sweep.py [--only tokens threads] [--repeats 20]

Each axis changes one thing of the usual batch: 256 groups of 16 rollouts of 700 tokens on average,
padded to 3,072, 151,643 token ids, every group mixed. At each group size there are as many
rollouts. Estimators, a copy of inputs and output, and verl's GRPO take turns in every round. One
row a contender and setting goes to results/sweep.csv.
"""

import argparse
from pathlib import Path
from typing import Any

import numba
from estimator import compare, random_batch, write_csv

HERE = Path(__file__).parent
CONTENDERS = (
    "paper", "calibrated", "trigrams", "sharp-trigrams", "tempo", "conflict-tokens", "copy",
    "verl grpo", "verl grpo_vectorized",
)  # fmt: skip
ROLLOUTS = 4096
USUAL: dict[str, Any] = {
    "groups": 256, "group_size": 16, "vocabulary": 151_643, "mixed": 1.0, "dtype": "int32",
}  # fmt: skip
AXES: dict[str, list[dict[str, Any]]] = {
    "tokens": [{"groups": n} for n in (16, 64, 256, 1024)],
    "group size": [{"group_size": n, "groups": ROLLOUTS // n} for n in (4, 16, 64, 256, 1024)],
    "vocabulary": [{"vocabulary": n} for n in (1_000, 32_000, 151_643, 1_000_000)],
    "mixed": [{"mixed": share} for share in (0.0, 0.25, 0.5, 1.0)],
    "threads": [{"groups": 1024, "threads": n} for n in (1, 2)],
    "dtype": [{"groups": 1024, "dtype": name} for name in ("int32", "int64")],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(AXES), default=list(AXES))
    parser.add_argument("--contenders", nargs="*", default=CONTENDERS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--csv", type=Path, default=HERE / "results/sweep.csv")
    arguments = parser.parse_args()
    for axis in arguments.only:
        for change in AXES[axis]:
            measure(axis, USUAL | {"threads": arguments.threads} | change, arguments)


def measure(axis: str, setting: dict[str, Any], arguments: argparse.Namespace) -> None:
    of_batch = {name: value for name, value in setting.items() if name != "threads"}
    batch = random_batch(**of_batch)
    numba.config.NUMBA_NUM_THREADS = setting["threads"]  # what the CPU backend goes by
    timings = compare(batch, list(arguments.contenders), repeats=arguments.repeats)
    of_row = {name: setting[name] for name in ("groups", "group_size", "mixed")}
    write_csv(arguments.csv, batch, timings, vocabulary=setting["vocabulary"], axis=axis, **of_row)
    copy = next((timing.quantiles[1] for timing in timings if timing.name == "copy"), None)
    for timing in timings:
        low, median, high = (1000 * x for x in timing.quantiles)
        of_copy = f"  {median / 1000 / copy:.2f} copies" if copy else ""
        print(
            f"{axis} {setting}  {timing.name}: {median:.1f} ms ({low:.1f} to {high:.1f}){of_copy}"
        )


if __name__ == "__main__":
    main()
