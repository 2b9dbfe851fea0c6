"""Run the cells that are not done, each as a process of `ktae train`, some at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol

from ktae_lab.study.cells import Cell
from ktae_lab.study.folder import State, StudyFolder, failures_before, try_lock
from ktae_lab.study.provenance import commit, machine

LAST_LINES = 15
POLL_SECONDS = 0.2
OVER = (State.FINISHED, State.FAILED)
MOST_KILLS = 3
"""A run that was stopped from outside so often, such as for want of memory, has failed."""
STOPPED = (130, 143)
"""Exit statuses of a run that saved and stopped after a Ctrl-C or a SIGTERM of its own."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
"""For glibc's malloc, in bytes; it takes no larger first one."""


class Progress(Protocol):
    """Who is told how it goes."""

    def started(self, cell: Cell) -> None:
        """A process of it was started."""

    def steps(self, done: Mapping[str, int]) -> None:
        """Training steps that each running cell has done."""

    def ended(self, cell: Cell, state: State, seconds: float) -> None:
        """Its process is over."""


class _Running(NamedTuple):
    cell: Cell
    process: subprocess.Popen[bytes] | None
    """None: not ours. An earlier study left it behind, and it goes on (then `lock` is None) or has
    finished a moment ago (then we hold the lock)."""
    lock: IO[str] | None
    began: float


def run(
    cells: Sequence[Cell],
    folder: StudyFolder,
    *,
    jobs: int,
    progress: Progress,
    retry_failed: bool = False,
    command: Sequence[str] = (sys.executable, "-m", "ktae", "train"),
) -> int | None:
    """Bring every cell to an end, `jobs` at a time, in their order; finished ones are left alone.

    An interrupted or killed run is resumed from its last checkpoint, unless it was killed
    MOST_KILLS times: then it has failed. A run that an earlier, killed study left running is waited
    for. A failed one is run again only with `retry_failed`: from its beginning, or if it was
    killed from its last checkpoint.

    Args:
        cells: whose folders hold no run with another recipe (`StudyFolder.open` has checked).
        folder: the study's.
        jobs: processes at a time.
        progress: is told how it goes.
        retry_failed: run failed cells again.
        command: what trains, before the recipe and its overrides.

    Returns:
        The first signal (SIGINT, SIGTERM) that came before the end: the runs under way have then
        saved a checkpoint and stopped. None where all are over.
    """
    waiting = [cell for cell in cells if _is_due(folder, cell, retry_failed)]
    environment = _environment(jobs)
    running: list[_Running] = []
    loaded: set[str] = set()
    n_passed_on = 0
    with _interrupts() as interrupts, _none_left_behind(running):
        while running or (waiting and not interrupts):
            while len(running) < jobs and not interrupts:
                cell = _next(waiting, running, loaded, folder)
                if cell is None:
                    break
                waiting.remove(cell)
                running.append(_start(cell, folder, command, environment))
                progress.started(cell)
            time.sleep(POLL_SECONDS)
            _stop(running, since=n_passed_on, now=len(interrupts))
            n_passed_on = len(interrupts)
            progress.steps({one.cell.name: _steps_done(folder, one.cell) for one in running})
            for one in [one for one in running if _is_over(one, folder)]:
                running.remove(one)
                state = _close(one, folder, interrupted=bool(interrupts))
                progress.ended(one.cell, state, time.monotonic() - one.began)
                if state not in OVER and not interrupts:
                    waiting.insert(0, one.cell)  # it was killed
    is_over = all(folder.state(cell) in OVER for cell in cells)
    return interrupts[0] if interrupts and not is_over else None


def _is_due(folder: StudyFolder, cell: Cell, retry_failed: bool) -> bool:
    state = folder.state(cell)
    return state is not State.FINISHED and (state is not State.FAILED or retry_failed)


def _environment(jobs: int) -> dict[str, str]:
    """Of the runs, unless the user said otherwise.

    The cores are shared evenly: two runs on all of them would only wait for each other. Memory is
    kept: the system would clear it anew at each step, a tenth or more of a tiny model's time.
    """
    share = str(max(1, len(os.sched_getaffinity(0)) // jobs))
    threads = {"OMP_NUM_THREADS": share, "NUMBA_NUM_THREADS": share}
    return threads | KEEP_MEMORY | os.environ


def _next(
    waiting: Sequence[Cell], running: Sequence[_Running], loaded: set[str], folder: StudyFolder
) -> Cell | None:
    """The first cell that may start now.

    A model that no run has loaded yet is loaded by one run alone: it may have to be downloaded, or
    pretrained, and that once. A run has loaded its model when its recipe is in its folder.
    """
    loading = set()
    for one in running:
        if folder.run_folder(one.cell).recipe.exists():
            loaded.add(one.cell.model_key)
        else:
            loading.add(one.cell.model_key)
    return next((c for c in waiting if c.model_key in loaded or c.model_key not in loading), None)


def _start(
    cell: Cell,
    folder: StudyFolder,
    command: Sequence[str],
    environment: dict[str, str],
) -> _Running:
    """Its process, or the wait for one that is still there.

    The lock is inherited: as long as a process of the run lives, whoever started it, no one else
    starts one in its folder.
    """
    began = time.monotonic()
    lock = try_lock(folder.beside(cell, ".lock"))
    if lock is None:
        return _Running(cell, None, None, began)
    state, run, record = folder.state(cell), folder.run_folder(cell), folder.record(cell)
    if state is State.FINISHED:  # by a process that was left behind, a moment ago
        return _Running(cell, None, lock, began)
    kills, failures = record.get("kills", 0), failures_before(record)
    resume = run.recipe.exists() and (state is State.UNFINISHED or kills > 0)
    if not resume:
        folder.start_afresh(cell)
    folder.add_to_record(
        cell,
        attempts=record.get("attempts", 0) + 1,
        failures=None if failures is None else failures + (state is State.FAILED),
        kills=0 if state is State.FAILED else kills,
        error=None,
        # Of now, not of the study: in an editable checkout a later run may import other code.
        machine=machine(),
        commit=commit(),
    )
    arguments = [str(cell.recipe_file), *cell.overrides, "--output", str(run.path)]
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
    return _Running(cell, process, lock, began)


def _is_over(one: _Running, folder: StudyFolder) -> bool:
    if one.process is not None:
        return one.process.poll() is not None
    lock = try_lock(folder.beside(one.cell, ".lock"))
    if lock is not None:
        lock.close()
    return lock is not None or one.lock is not None


def _close(one: _Running, folder: StudyFolder, *, interrupted: bool) -> State:
    """Record how it ended."""
    if one.lock is not None:
        one.lock.close()
    seconds = time.monotonic() - one.began
    if one.process is None:
        return folder.state(one.cell)
    status = one.process.returncode
    record = folder.record(one.cell)
    folder.add_to_record(one.cell, seconds=round(record.get("seconds", 0.0) + seconds, 1))
    if not folder.run_folder(one.cell).summary.exists() and not interrupted:
        killed = status < 0 or status in STOPPED
        kills = record.get("kills", 0) + 1 if killed else 0
        goes_on = killed and kills < MOST_KILLS
        error = None if goes_on else _error(one.cell, folder, status, kills)
        folder.add_to_record(one.cell, kills=kills, error=error)
    return folder.state(one.cell)


def _error(cell: Cell, folder: StudyFolder, status: int, kills: int) -> str:
    """How the process ended and the last lines it wrote, with what tells most as the last line."""
    text = folder.beside(cell, ".log").read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines()[-LAST_LINES:]
    if not kills:
        return "\n".join([f"exit status {status}", *lines])
    how = f"signal {-status}" if status < 0 else "an interrupt"
    return "\n".join([*lines, f"stopped {kills} times from outside, at last by {how}"])


def _steps_done(folder: StudyFolder, cell: Cell) -> int:
    path = folder.run_folder(cell).metrics
    return path.read_bytes().count(b"\n") if path.exists() else 0


@contextlib.contextmanager
def _none_left_behind(running: list[_Running]) -> Iterator[None]:
    """Where we fail ourselves (a full disk, a closed stdout), the runs under way save and stop:
    a Ctrl-C would not reach them, and they would go on unseen."""
    try:
        yield
    except BaseException:
        _stop(running, since=0, now=1)
        raise


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The signals (Ctrl-C, termination) that came; the usual handlers are back afterwards."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    usual: dict[signal.Signals, Any] = {}

    def on_signal(number: int, _: object) -> None:
        came.append(number)
        what = "stopping the runs after their step; once more stops them at once"
        sys.stderr.write(f"\n{what}\n" if len(came) == 1 else "\nstopping the runs at once\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        usual[number] = signal.signal(number, on_signal)
    try:
        yield came
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _stop(running: list[_Running], *, since: int, now: int) -> None:
    """Pass interrupts on: the first as one Ctrl-C, after which a run saves and stops; the second
    kills. Processes that an earlier study left behind are not ours: they go on."""
    if now == since:
        return
    running[:] = [one for one in running if one.process is not None]
    for one in running:
        assert one.process is not None
        if one.process.poll() is None and now == 1:
            one.process.send_signal(signal.SIGINT)
        elif one.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
