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

READERS = {
    "json.loads": "import json, sys; [json.loads(line) for line in open(sys.argv[1], 'rb')] and 0",
    "pyarrow": "import pyarrow.json as j, sys; [0 for _ in j.open_json(sys.argv[1])]",
    "readers.read": "import sys; from ktae.rollouts import readers; readers.read([sys.argv[1]])",
}
COMMANDS = {
    "show": ["show"],
    "validate": ["validate"],
    "validate paper": ["validate", "-e", "paper"],
    "score": ["score", "-o", "scores.parquet"],
    "report": ["report", "-o", "report.html"],
    "report --no-regrade": ["report", "-o", "report.html", "--no-regrade"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, nargs="*", default=[992, 10_000, 100_000])
    parser.add_argument("--only", nargs="*", default=[*READERS, *COMMANDS], help="of the commands")
    parser.add_argument("--note", default="", help="what the rows say of this run")
    path = Path(__file__).parent / "results/scale.csv"
    parser.add_argument("--csv", type=Path, default=path)
    arguments = parser.parse_args()
    for n in arguments.rollouts:
        with tempfile.TemporaryDirectory() as folder:
            dump = random_dump.write(Path(folder), n)
            for name in arguments.only:
                row = measured(name, dump) | {"note": arguments.note}
                print(*row.values(), sep="  ", flush=True)
                append_rows(arguments.csv, [row | machine()])


def measured(name: str, dump: Path) -> dict[str, str]:
    """The row of one command; the processor's time is that of all its processes."""
    if name in READERS:
        command = ["-c", READERS[name], str(dump)]
    else:
        command = ["-m", "ktae", *COMMANDS[name], str(dump), "--tokenizer", "tokenizer"]
    started, load = time.perf_counter(), os.getloadavg()[0]
    process = subprocess.Popen(
        [sys.executable, *command], cwd=dump.parent, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    seconds, cpu = time.perf_counter() - started, used.ru_utime + used.ru_stime
    if status:
        raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")
    size = dump.stat().st_size / 1e6
    page = dump.with_name("report.html")
    return {
        "command": name,
        "rollouts": dump.stem.rpartition("-")[2],
        "dump_mb": f"{size:.0f}",
        "wall_s": f"{seconds:.1f}",
        "cpu_s": f"{cpu:.1f}",
        "mb_per_cpu_s": f"{size / cpu:.0f}",
        "peak_mb": f"{used.ru_maxrss / 1024:.0f}",
        "page_mb": f"{page.stat().st_size / 1e6:.1f}" if name.startswith("report") else "",
        "load_average": f"{load:.1f}",
    }


if __name__ == "__main__":
    main()
