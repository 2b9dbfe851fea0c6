"""Grades in worker processes that can be killed: limits of processor time, memory and the clock.

A worker is a fresh interpreter and no child of `multiprocessing` or pebble: it needs no
`if __name__ == "__main__"` in the caller's script, copies no locks and no CUDA context, and a
daemon process may start it. It imports nothing from its parent's folder: a `sympy.py` beside
somebody's rollouts is data. What runs out of time or memory is `undecided`, its process replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.grading.verdict import TIME_LIMIT, Outcome, Verdict

WALL_CLOCK, WALL_FLOOR = 10, 30.0
"""Wall-clock seconds for each second of the time limit, and those that are added: for a worker that
is stopped. A busy machine must change no outcome."""
STARTS, START_LIMIT = 3, 120.0
"""Times that a worker is started before its failure is an error; wall-clock seconds for each."""
BOOTSTRAP = "import sys; sys.path[:] = sys.argv[1:]; import ktae.grading.graders as g; g.serve()"
WARM_UP = ["ktae", r"\boxed{\frac{1}{2} x}", [r"x / 2"], START_LIMIT]
"""The first request: it compiles what the first task would."""


class Task(NamedTuple):
    """One response to grade."""

    response: str
    answers: str | Sequence[str]
    """The accepted answer, or several of which one is enough."""


class GradingPool(contextlib.AbstractContextManager["GradingPool"]):
    """Worker processes that grade, for any number of threads.

    They are started as they are needed, about a second each, and live until `close` or until their
    parent ends. A fork of it starts its own.
    """

    def __init__(
        self, workers: int | None = None, *, time_limit: float = 5.0, grader: str = "ktae"
    ) -> None:
        """Start nothing yet.

        Args:
            workers: processes at most; by default the number of processors that this one may use.
            time_limit: processor seconds for one response, above 0.
            grader: a name in `ktae.grading.graders.GRADERS`.

        Raises:
            InputError: a setting is out of range, or what the grader needs is not installed.
        """
        from ktae.grading.graders import GRADERS, needed_by

        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}; expected at least 1")
        if not 0 < time_limit < 1e6:
            raise InputError(f"time_limit is {time_limit}; expected seconds, above 0")
        if grader not in GRADERS:
            raise InputError(f"no grader {grader!r}; expected one of {', '.join(GRADERS)}")
        if importlib.util.find_spec(needed_by(grader)) is None:
            raise InputError(
                f"grading needs {needed_by(grader)}, which is not installed; "
                "pip install 'ktae[eval]'"
            )
        self.size = workers or len(os.sched_getaffinity(0))
        self.time_limit, self.grader = time_limit, grader
        self.wall_limit = time_limit * WALL_CLOCK + WALL_FLOOR
        self._forget()

    def grade(self, response: str, answer: str | Sequence[str]) -> Verdict:
        """Grade one response as `ktae.grading.grade` does; waits for a free worker first."""
        request = [self.grader, *_checked(response, answer), self.time_limit]
        if self._process != os.getpid():
            self._forget()  # the workers are the parent's
        idle = self._idle
        worker = idle.get()
        try:
            while True:
                # One that has graded before may have used up its memory on others: then a new one.
                is_fresh = worker is None
                worker = worker or _started()
                if reply := worker.ask(request, self.wall_limit):
                    return Verdict(Outcome(reply[0]), *reply[1:])
                (status, _), worker = worker.end(), None
                if reply is None:
                    reason = f"no answer within {self.wall_limit:g} s on the wall clock"
                    return Verdict(Outcome.UNDECIDED, None, reason)
                if status == -signal.SIGPROF:
                    reason = f"{TIME_LIMIT} of {self.time_limit:g} s"
                    return Verdict(Outcome.UNDECIDED, None, reason, TIME_LIMIT)
                if is_fresh:
                    reason = f"out of memory, or the worker died: exit status {status}"
                    return Verdict(Outcome.UNDECIDED, None, reason)
        except BaseException:  # an interrupted conversation cannot be resumed
            if worker:
                worker.end()
            worker = None
            raise
        finally:
            idle.put(worker)

    def grade_all(self, tasks: Iterable[Task]) -> Iterator[Verdict]:
        """Grade many responses on all workers; verdicts come in the order of the tasks."""
        # All of them first: a wrong one must not be found halfway.
        checked = [_checked(*task) for task in tasks]
        with ThreadPoolExecutor(self.size, thread_name_prefix="ktae-grading") as threads:
            try:
                yield from threads.map(lambda task: self.grade(*task), checked)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def close(self) -> None:
        """End all workers. The pool can be used again: it starts new ones."""
        for worker in list(self._idle.queue):
            if worker is not None and self._process == os.getpid():
                worker.end()
        self._forget()

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(self.size):
            self._idle.put(None)  # one that is not started


class _Worker:
    """A process, and the socket over which it is asked: its standard input."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        environment.pop("PYTHONPATH", None)  # all of it that is needed is in the arguments
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", BOOTSTRAP, *_import_path()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,  # of its start alone
                cwd="/",
                env=environment,
                process_group=0,
            )
        self.replies = self.socket.makefile("rb")

    def ask(self, request: list[Any], seconds: float) -> Any:
        """The reply; an empty list if the worker ended instead; None if there was none in time."""
        self.socket.settimeout(seconds)
        line = b""
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.socket.sendall(json.dumps(request).encode() + b"\n")
                line = self.replies.readline()
        except TimeoutError:
            return None
        # What ends without a newline is of a worker that died while it wrote.
        return json.loads(line) if line.endswith(b"\n") else []

    def end(self) -> tuple[int, str]:
        """Kill it where it lives, and return its exit status and what it wrote as errors."""
        self.process.kill()
        _, errors = self.process.communicate()
        self.replies.close()
        self.socket.close()
        return self.process.returncode, errors.decode(errors="replace").strip()[-2000:]


def _started() -> _Worker:
    """A worker that has imported what it needs; where it ends at once, it is started again."""
    for _ in range(STARTS):
        worker = _Worker()
        if worker.ask(WARM_UP, START_LIMIT):
            return worker
        status, errors = worker.end()
    raise RuntimeError(f"a grading worker did not start, {STARTS} times (exit {status}): {errors}")


def _import_path() -> list[str]:
    """The parent's path without the current folder and that of its script; with ktae's own."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    data_folders = {os.path.dirname(os.path.realpath(script))} if script else set()
    with contextlib.suppress(FileNotFoundError):  # somebody has removed the current folder
        data_folders.add(os.getcwd())
    paths = (path for path in sys.path if os.path.isabs(path))
    kept = [path for path in paths if os.path.realpath(path) not in data_folders]
    return [*kept, str(Path(__file__).resolve().parents[2])]


def _checked(response: str, answer: str | Sequence[str]) -> Task:
    answers = [answer] if isinstance(answer, str) else answer
    are_texts = isinstance(answers, Sequence) and all(isinstance(text, str) for text in answers)
    if not isinstance(response, str) or not are_texts or not answers:
        raise InputError(
            f"response is {response!r:.100}, answer is {answer!r:.100}; expected text, and text or "
            "texts of which one is enough"
        )
    return Task(response, list(answers))


_default: dict[str, GradingPool] = {}


def default_pool() -> GradingPool:
    """The pool that `grade` and `accuracy` share in this process; ended with it."""
    # A pool that is made has started nothing: of threads that come at once, the first one's stays.
    return _default.get("pool") or _default.setdefault("pool", GradingPool())


@atexit.register
def _close_default() -> None:
    for pool in _default.values():
        pool.close()


def grade(response: str, answer: str | Sequence[str]) -> Verdict:
    r"""Is the response right? `grade(r"... \boxed{\frac12}", "0.5").outcome == "correct"`.

    Runs in a worker process under a time limit, so it is safe in any thread, under Ray and in a
    trainer. `answer` is the accepted one, or several of which one is enough. For many responses at
    once use `default_pool().grade_all`.

    Raises:
        InputError: an argument is no text, there is no answer, or the parser is not installed.
    """
    return default_pool().grade(response, answer)
