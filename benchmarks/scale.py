"""What commands cost on dumps of 1,000 to 100,000 rollouts: time, processor, memory, file.

    python benchmarks/scale.py [--rollouts 992 10000 100000] [--only report score]

Writes each dump (`benchmarks/random_dump.py`) into a temporary folder, runs each command in a
process of its own, and appends one row a command and size to results/scale.csv. Beside the commands
stand what reading takes at least: every line through Python's JSON, and pyarrow's reader.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import random_dump
from estimator import append_rows, machine

HERE = Path(__file__).parent

JSON = "import json, sys; [None for line in open(sys.argv[1], 'rb') if json.loads(line) is None]"
ARROW = """
import pyarrow.json, sys
for batch in pyarrow.json.open_json(sys.argv[1]):
    pass
"""
READ = "import sys; from ktae.rollouts import readers; readers.read([sys.argv[1]])"


def commands(dump: Path, folder: Path) -> dict[str, list[str]]:
    cli, given = ["-m", "ktae"], [str(dump), "--tokenizer", str(dump.parent / "tokenizer")]
    return {
        "json.loads": ["-c", JSON, str(dump)],
        "pyarrow": ["-c", ARROW, str(dump)],
        "readers.read": ["-c", READ, str(dump)],
        "show": [*cli, "show", *given],
        "validate": [*cli, "validate", *given],
        "validate paper": [*cli, "validate", *given, "-e", "paper"],
        "score": [*cli, "score", *given, "-o", str(folder / "scores.parquet")],
        "report": [*cli, "report", *given, "-o", str(folder / "report.html")],
        "report --no-regrade": [
            *cli, "report", *given, "-o", str(folder / "report.html"), "--no-regrade",
        ],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, nargs="*", default=[992, 10_000, 100_000])
    parser.add_argument("--only", nargs="*", help="names of commands")
    parser.add_argument("--dumps", type=Path, help="a folder that keeps the dumps")
    parser.add_argument("--note", default="", help="what the rows say of this run")
    parser.add_argument("--csv", type=Path, default=HERE / "results/scale.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in arguments.rollouts:
            dump = (arguments.dumps or folder) / f"rollouts-{n}.jsonl"
            if not dump.exists():
                random_dump.write(dump.parent, n)
            for what, command in commands(dump, folder).items():
                if not arguments.only or what in arguments.only:
                    row = measured(what, command, dump, folder) | {"note": arguments.note}
                    print(*row.values(), sep="  ", flush=True)
                    append_rows(arguments.csv, [row | machine()])


def measured(what: str, command: list[str], dump: Path, folder: Path) -> dict[str, str]:
    """The row of one command; the processor's time is that of all its processes."""
    for old in folder.glob("*.[hp]*"):
        old.unlink()
    started, load = time.perf_counter(), os.getloadavg()[0]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds, cpu = time.perf_counter() - started, used.ru_utime + used.ru_stime
    if status:
        raise SystemExit(f"{what} ended with {os.waitstatus_to_exitcode(status)}")
    size = dump.stat().st_size / 1e6
    pages = [page.stat().st_size / 1e6 for page in folder.glob("*.html")]
    return {
        "command": what,
        "rollouts": dump.stem.rpartition("-")[2],
        "dump_mb": f"{size:.0f}",
        "wall_s": f"{seconds:.1f}",
        "cpu_s": f"{cpu:.1f}",
        "mb_per_cpu_s": f"{size / cpu:.0f}",
        "peak_mb": f"{used.ru_maxrss / 1024:.0f}",
        "page_mb": f"{pages[0]:.1f}" if pages else "",
        "load_average": f"{load:.1f}",
    }


if __name__ == "__main__":
    main()
