"""Kill `ktae train`, `ktae eval` and the lab's study at random instants, resume, and compare.

    python tools/kills.py --kills 20 --csv benchmarks/results/kills.csv

Each command runs once undisturbed. Then it is started again and again, each time killed with
SIGKILL at another instant between the first file in its folder and its end, resumed, and its folder
compared with the undisturbed one, file by file and byte for byte. Times, memory, and the counts of
attempts are left out of that (`kills_compare.py`). One row a kill goes to the CSV. A run that was
over before its kill shows nothing: it is done again with an earlier instant.

`ktae train` and `ktae eval` are killed with their process group; no process may be left then. Of
the study every second kill is of all processes, as when a machine goes down; the others are of the
study alone, whose run goes on, and the resumed study waits for it.

Exits with 1 where anything differs, is left over, or lives on.
"""

import argparse
import contextlib
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kills_commands import COMMANDS, Command
from kills_compare import differing, leftovers

MARK = "KTAE_KILLS"
"""Environment: set in every process of a run, by which those that it leaves behind are found."""

PATIENCE = 10.0
"""Seconds that a killed run's other processes have to end."""

TIME_LIMIT = 900.0

TICKS = os.sysconf("SC_CLK_TCK")
"""Of processor time in a second, as Linux counts it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each command [20]")
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    parser.add_argument("--only", type=int, nargs="+", help="the numbers of some of the kills")
    parser.add_argument("--csv", type=Path, help="append the rows to this file")
    parser.add_argument("--keep", type=Path, help="an empty folder, kept with all runs in it")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in arguments.commands:
            trial = Trial(COMMANDS[name], root.absolute() / name)
            rng = random.Random(f"{arguments.seed} {name}")
            shares = [rng.random() for _ in range(arguments.kills)]
            for number in arguments.only or range(1, arguments.kills + 1):
                row = trial.kill(number, shares[number - 1])
                print(row, flush=True)
                rows.append(row)
                if arguments.csv:
                    from estimator import append_rows, machine

                    append_rows(arguments.csv, [row | {"seed": arguments.seed} | machine()])
    bad = [row for row in rows if row["identical"] != "yes" or row["orphans"] or row["left_after"]]
    print(f"{len(rows)} kills, {len(bad)} of them with something wrong")
    sys.exit(bool(bad))


class Trial:
    """One command: its undisturbed run, and runs that are killed. All are made at one path and then
    moved, since some files hold the path."""

    def __init__(self, command: Command, root: Path) -> None:
        self.command, self.root = command, root
        root.mkdir()
        command.prepare(root)
        self.folder, self.undisturbed = root / "run", root / "undisturbed"
        process = self.start("undisturbed.log")
        process.wait_for_first_file()
        self.seconds = process.until(math.inf, last=self.folder / command.last)
        if status := process.wait():
            sys.exit(f"the undisturbed {command.name} ended with {status}: {process.log}")
        self.folder.rename(self.undisturbed)

    def start(self, log: str, *more: str) -> "Started":
        """The command, with more arguments."""
        arguments = [*self.command.arguments(), *more]
        first = self.folder / self.command.first
        return Started([sys.executable, "-m", *arguments], first=first, log=self.root / log)

    def kill(self, number: int, share: float) -> dict[str, Any]:
        """Start, kill after a share of the undisturbed one's work, resume; what came of it."""
        alone = self.command.goes_on and number % 2 == 0
        process = self.start(f"{number}-killed.log")
        began = process.wait_for_first_file()
        instant = process.until(share * self.seconds)
        waited = time.monotonic() - began
        process.kill(everything=self.command.goes_on and not alone)
        orphans = [] if alone else process.left_behind()
        before = self.command.look(self.folder)
        if before.over:
            shutil.rmtree(self.folder)
            return self.kill(number, share * 0.8)
        row = {
            "command": self.command.name,
            "kill": number,
            "instant_s": f"{waited:.2f}",
            "instant_cpu_s": f"{instant:.2f}",
            "undisturbed_cpu_s": f"{self.seconds:.2f}",
            "killed": "the study alone" if alone else "all",
            "doing": before.doing,
            "done": before.done,
            "unit": self.command.unit,
        }
        unfinished = leftovers(self.folder)
        resumed = self.start(f"{number}-resumed.log", *self.command.resume)
        status = resumed.wait()
        orphans += resumed.left_behind()
        after = self.command.resumed(self.folder, before, self.root / f"{number}-resumed.log")
        different = differing(self.undisturbed, self.folder)
        row |= {
            "resumed_from": after.resumed_from,
            "lost": after.lost,
            "exit_status": status,
            "orphans": len(orphans),
            "left_by_kill": len(unfinished),
            "left_after": len(leftovers(self.folder)),
            "identical": "no" if different or status else "yes",
            "different": " ".join(different[:5]),
        }
        kept = self.root / f"{number}-run"
        self.folder.rename(kept)
        if row["identical"] == "yes":
            shutil.rmtree(kept)
        return row


class Started:
    """A process in a group of its own."""

    def __init__(self, command: Sequence[str], *, first: Path, log: Path) -> None:
        """
        Args:
            command: what to start, in the folder of `log`.
            first: the file by which it shows that something has begun.
            log: what it prints.
        """
        self.mark = uuid.uuid4().hex
        self.first, self.log = first, log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                cwd=log.parent,
                env=os.environ | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for_first_file(self) -> float:
        """When it was seen, by `time.monotonic`."""
        while not self.first.exists():
            if self.process.poll() is not None:
                sys.exit(f"it ended with {self.process.returncode} too early: {self.log}")
            time.sleep(0.005)
        return time.monotonic()

    def until(self, seconds: float, last: Path | None = None) -> float:
        """When it and what it started have used so many seconds of processor time since this call,
        or when it has ended or written its last file: how many they are. That is the same however
        busy the machine is."""
        began = latest = cpu_seconds(self.process.pid)
        while latest - began < seconds and self.process.poll() is None:
            if last is not None and last.exists():
                break
            time.sleep(0.01)
            latest = max(latest, cpu_seconds(self.process.pid))
        return latest - began

    def wait(self) -> int:
        return self.process.wait(TIME_LIMIT)

    def kill(self, *, everything: bool) -> None:
        """Its process group; or all that it has started, too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        while everything and (left := self._alive()):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def left_behind(self) -> list[int]:
        """Processes that are still there after some seconds; they are killed then."""
        deadline = time.monotonic() + PATIENCE
        while (left := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def _alive(self) -> list[int]:
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it is over, or somebody else's
                if wanted in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found


def cpu_seconds(pid: int) -> float:
    """Of a process, and of all that it started: those that are over, and those that are not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        tasks = list(Path(f"/proc/{pid}/task").glob("*/children"))
        children = [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return 0.0
    return sum(map(int, stat[11:15])) / TICKS + sum(map(cpu_seconds, children))


if __name__ == "__main__":
    main()
