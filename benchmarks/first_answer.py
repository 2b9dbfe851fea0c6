"""How long the first answer takes, in a process of its own: commands, and calls of `token_credit`.

    python benchmarks/first_answer.py [--before OTHER_CHECKOUT/src] [--repeats 5]

`--before` names the sources of another commit, which take turns with this one's in every round.
Cold is an empty cache of compiled kernels. The dump has 64 rollouts of 700 tokens. One row a
command, cache and commit goes to results/first_answer.csv: wall time, and the processor's time of
the process and its children (user and system), which depends less on neighbours.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from estimator import append_rows, machine, random_batch

import ktae

HERE = Path(__file__).parent

CALL = """
import sys, numpy as np, ktae
from estimator import random_batch
ktae.token_credit(*random_batch(groups=int(sys.argv[1])), sys.argv[2], backend=sys.argv[3])
"""


def commands(dump: Path, folder: Path) -> dict[str, list[str]]:
    cli = ["-m", "ktae"]
    scores = str(folder / "scores.parquet")
    return {
        "import numpy": ["-c", "import numpy"],
        "ktae --help": [*cli, "--help"],
        "ktae show": [*cli, "show", str(dump)],
        "ktae show -e calibrated": [*cli, "show", str(dump), "-e", "calibrated"],
        "ktae score": [*cli, "score", str(dump), "-o", scores],
        "token_credit of 64 rollouts": ["-c", CALL, "4", "paper", "auto"],
        "token_credit of 64, compiled": ["-c", CALL, "4", "paper", "cpu"],
        "token_credit of 64, naive": ["-c", CALL, "4", "paper", "naive"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="a folder that holds the package ktae")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of commands")
    parser.add_argument("--csv", type=Path, default=HERE / "results/first_answer.csv")
    arguments = parser.parse_args()
    sources = {"this": Path(ktae.__file__).parents[1]}
    if arguments.before:
        sources = {"before": arguments.before, **sources}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = commands(write_dump(folder / "rollouts.jsonl"), folder)
        for command in arguments.only or chosen:
            taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
            for number in range(arguments.repeats):
                for commit, source in sources.items():
                    cache = folder / f"{commit}-{number}"
                    for state in ("cold", "warm"):
                        seconds = timed(chosen[command], source, cache)
                        taken.setdefault((commit, state), []).append(seconds)
            rows = [summarise(command, *which, found) for which, found in taken.items()]
            append_rows(arguments.csv, rows)
            for row in rows:
                print(*list(row.values())[:7], sep="  ", flush=True)


def write_dump(path: Path) -> Path:
    """64 rollouts of about 700 tokens, in four groups."""
    batch = random_batch(groups=4)
    with path.open("w", encoding="utf-8") as file:
        for ids, mask, correct, group in zip(*batch, strict=True):
            own = ids[mask].tolist()
            row: dict[str, object] = {
                "prompt": f"problem {group}",
                "response": " ".join(f"w{i}" for i in own),
            }
            row |= {"token_ids": own, "group": str(group), "correct": bool(correct)}
            file.write(json.dumps(row) + "\n")
    return path


def timed(command: list[str], source: Path, cache: Path) -> tuple[float, float]:
    """Wall and processor's seconds."""
    environment = os.environ | {"PYTHONPATH": f"{source}:{HERE}", "NUMBA_CACHE_DIR": str(cache)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *command], env=environment, check=True, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def summarise(
    command: str, commit: str, state: str, taken: list[tuple[float, float]]
) -> dict[str, str]:
    wall, cpu = ([round(x, 2) for x in sorted(column)] for column in zip(*taken, strict=True))
    return {
        "command": command,
        "commit": commit,
        "cache": state,
        "wall_s": f"{statistics.median(wall):.2f}",
        "cpu_s": f"{statistics.median(cpu):.2f}",
        "cpu_s_least": f"{cpu[0]:.2f}",
        "cpu_s_most": f"{cpu[-1]:.2f}",
        "repeats": str(len(taken)),
        "load_average": f"{os.getloadavg()[0]:.1f}",
        **machine(),
    }


if __name__ == "__main__":
    main()
