"""Run the cells that are not done, each as a process of `ktae train`, some at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from ktae.runs import write_json
from ktae_lab.provenance import commit, machine
from ktae_lab.study.cells import Cell
from ktae_lab.study.folder import State, StudyFolder

LAST_LINES = 15
POLL_SECONDS = 0.2
OVER = (State.FINISHED, State.FAILED)
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
"""For glibc's malloc, in bytes: the system would clear memory anew at each step, a tenth or more of
a tiny model's time."""

Progress = Callable[[Cell, State, float], None]
"""Told of each run that begins (UNFINISHED, 0 seconds) and that ends, with its seconds."""


class _Running(NamedTuple):
    cell: Cell
    process: subprocess.Popen[bytes]
    began: float
    facts: dict[str, Any]
    """Of its record. In an editable checkout a later run may import other code."""


def run(
    cells: Sequence[Cell],
    folder: StudyFolder,
    lock: IO[str],
    *,
    jobs: int,
    progress: Progress,
    retry_failed: bool = False,
    command: Sequence[str] = (sys.executable, "-m", "ktae", "train"),
) -> int | None:
    """Bring every cell to an end, `jobs` at a time, in their order; finished ones are left alone.

    An interrupted run is resumed from its last checkpoint. A failed one is run again only with
    `retry_failed`: from its beginning, or if it was killed from its last checkpoint.

    Returns:
        The first signal (SIGINT, SIGTERM) that came before the end: the runs under way have then
        saved a checkpoint and stopped. None where all are over.
    """
    open_states = (State.NEW, State.UNFINISHED, *([State.FAILED] if retry_failed else []))
    waiting = [cell for cell in cells if folder.state(cell) in open_states]
    # Two runs on all cores would only wait for each other; what the user has set stays.
    share = str(max(1, len(os.sched_getaffinity(0)) // jobs))
    environment = {"OMP_NUM_THREADS": share, "NUMBA_NUM_THREADS": share} | KEEP_MEMORY | os.environ
    running: list[_Running] = []
    passed_on = 0
    with _interrupts(running) as came:
        while running or (waiting and not came):
            while len(running) < jobs and not came:
                cell = _next(waiting, running, folder)
                if cell is None:
                    break
                waiting.remove(cell)
                running.append(_start(cell, folder, lock, command, environment))
                progress(cell, State.UNFINISHED, 0.0)
            time.sleep(POLL_SECONDS)
            if len(came) > passed_on:  # the first as one Ctrl-C; the second kills
                passed_on = len(came)
                _stop(running, kill=passed_on > 1)
            for ended in [run for run in running if run.process.poll() is not None]:
                running.remove(ended)
                seconds = time.monotonic() - ended.began
                _close(ended, folder, seconds, interrupted=bool(came))
                progress(ended.cell, folder.state(ended.cell), seconds)
    is_over = all(folder.state(cell) in OVER for cell in cells)
    return came[0] if came and not is_over else None


def _next(waiting: Sequence[Cell], running: Sequence[_Running], folder: StudyFolder) -> Cell | None:
    """The first cell that may start now. While a run loads its model, which may have to be made or
    downloaded, others of that model wait: until its recipe is in its folder."""
    loading = {
        run.cell.model_key for run in running if not folder.run_folder(run.cell).recipe.exists()
    }
    return next((cell for cell in waiting if cell.model_key not in loading), None)


def _start(
    cell: Cell,
    folder: StudyFolder,
    lock: IO[str],
    command: Sequence[str],
    environment: dict[str, str],
) -> _Running:
    run = folder.run_folder(cell)
    goes_on = folder.state(cell) is State.UNFINISHED or folder.record(cell).get("killed", False)
    resume = run.recipe.exists() and goes_on
    if not resume:
        shutil.rmtree(run.path, ignore_errors=True)
    arguments = [str(cell.recipe_file), *cell.overrides, "--output", str(run.path)]
    run.path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"commit": commit(), "machine": machine()}
    with folder.beside(cell, ".log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *arguments, *(["--resume"] if resume else [])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=[lock.fileno()],
            start_new_session=True,  # Ctrl-C reaches us alone, and we pass it on once
        )
    return _Running(cell, process, time.monotonic(), facts)


def _close(ended: _Running, folder: StudyFolder, seconds: float, *, interrupted: bool) -> None:
    """Record how it ended: what it wrote last tells most."""
    cell, status = ended.cell, ended.process.returncode
    total = folder.record(cell).get("seconds", 0.0) + seconds
    record = ended.facts | {"seconds": round(total, 1), "error": "", "killed": False}
    if not folder.run_folder(cell).summary.exists() and not interrupted:
        text = folder.beside(cell, ".log").read_text(encoding="utf-8", errors="replace")
        how = f"stopped by signal {-status}" if status < 0 else f"exit status {status}"
        last = text.splitlines()[-LAST_LINES:]
        record |= {"error": "\n".join([how, *last]), "killed": status < 0}
    write_json(folder.beside(cell, ".json"), record)


@contextlib.contextmanager
def _interrupts(running: list[_Running]) -> Iterator[list[int]]:
    """The signals (Ctrl-C, termination) that came; the usual handlers are back afterwards.

    Where we fail ourselves (a full disk, a closed stdout), the runs save and stop, too.
    """
    came: list[int] = []

    def on_signal(number: int, _: object) -> None:
        came.append(number)
        what = "stopping the runs after their step; once more stops them at once"
        sys.stderr.write(f"\n{what}\n" if len(came) == 1 else "\nstopping the runs at once\n")

    usual = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    except BaseException:
        _stop(running, kill=False)
        raise
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _stop(running: list[_Running], *, kill: bool) -> None:
    """With one Ctrl-C, after which a run saves and stops; or at once."""
    for run in running:
        with contextlib.suppress(ProcessLookupError):
            if kill:
                os.killpg(run.process.pid, signal.SIGKILL)
            else:
                run.process.send_signal(signal.SIGINT)
