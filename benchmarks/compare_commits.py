"""Whether two commits differ in speed: `make bench-compare A=main B=HEAD`.

    python benchmarks/compare_commits.py A B [--estimators paper calibrated] [--groups 256]

A and B are commits, or `.` for the working tree as it lies. Each is checked out in a temporary
folder and runs in a process of its own, with a cache of compiled kernels of its own. The two take
turns, one call each a round, in an order drawn anew for every round. For each estimator it prints
the ratio of medians B / A with a 95 % bootstrap interval over the rounds: below 1, B is faster. The
same commit twice tells how much this machine's noise moves the ratio.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[1]

CHILD = """
import sys, time
import numba
from ktae import preset, token_credit
from estimator import random_batch
groups, group_size, threads = map(int, sys.argv[1:4])
batch = random_batch(groups=groups, group_size=group_size, dtype=sys.argv[4])
numba.config.NUMBA_NUM_THREADS = threads
for name in sys.stdin:
    estimator = preset(name.strip())
    worked, started = time.process_time(), time.perf_counter()
    token_credit(*batch, estimator, backend="cpu")
    print(time.perf_counter() - started, time.process_time() - worked, flush=True)
"""

Child = subprocess.Popen[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs=2, metavar="COMMIT")
    parser.add_argument("--estimators", nargs="*", default=["paper", "calibrated", "trigrams"])
    parser.add_argument("--groups", type=int, default=256)
    parser.add_argument("--group-size", type=int, default=16)
    parser.add_argument("--dtype", default="int32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the order and the bootstrap")
    parser.add_argument("--processor", action="store_true", help="processor time, not wall time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(child(commit, Path(folder) / str(number), arguments))
            for number, commit in enumerate(arguments.commits)
        ]
        for name in arguments.estimators:
            report(name, measure(children, name, arguments), arguments.seed)


@contextlib.contextmanager
def child(commit: str, folder: Path, arguments: argparse.Namespace) -> Iterator[Child]:
    """A process that times one call of the estimator that each line of its input names."""
    sources = ROOT
    if commit != ".":
        sources = folder / "tree"
        git("worktree", "add", "--quiet", "--detach", str(sources), commit)
    environment = os.environ | {
        "PYTHONPATH": f"{sources / 'src'}:{ROOT / 'benchmarks'}",
        "NUMBA_CACHE_DIR": str(folder / "kernels"),
    }
    numbers = (arguments.groups, arguments.group_size, arguments.threads)
    settings = [*map(str, numbers), arguments.dtype]
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, *settings], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if commit != ".":
            git("worktree", "remove", "--force", str(sources))


def git(*command: str) -> None:
    subprocess.run(["git", *command], cwd=ROOT, check=True)


def call(process: Child, name: str) -> list[float]:
    """Seconds of one call: by the clock, and the processor's."""
    assert process.stdin and process.stdout
    process.stdin.write(name + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise SystemExit(f"{name}: the process ended with status {process.wait()}; see above")
    return [float(number) for number in answer.split()]


def measure(children: list[Child], name: str, arguments: argparse.Namespace) -> np.ndarray:
    """(2, rounds) seconds of the commits."""
    rng = np.random.default_rng(arguments.seed)
    seconds = np.empty((2, arguments.repeats))
    for which in (0, 1):
        call(children[which], name)  # compiles
    for number in range(arguments.repeats):
        for which in rng.permutation(2):
            seconds[which, number] = call(children[which], name)[arguments.processor]
    return seconds


def ratio(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
    """Of medians, b / a."""
    of_medians: np.ndarray = np.median(b, axis=axis) / np.median(a, axis=axis)
    return of_medians


def interval(seconds: np.ndarray, seed: int) -> tuple[float, float]:
    """95 % of the ratio, from resampled rounds: the two calls of a round stay together."""
    found = stats.bootstrap(
        seconds, ratio, paired=True, vectorized=True, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    low, high = found.confidence_interval
    return float(low), float(high)


def report(name: str, seconds: np.ndarray, seed: int) -> None:
    low, high = interval(seconds, seed)
    verdict = "they do not differ" if low <= 1 <= high else "B is " + (
        "faster" if high < 1 else "slower"
    )  # fmt: skip
    a, b = 1000 * np.median(seconds, axis=1)
    print(f"{name}: A {a:.1f} ms, B {b:.1f} ms, B / A {ratio(*seconds):.3f} "
          f"({low:.3f} to {high:.3f}): {verdict}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
