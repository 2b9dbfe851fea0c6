"""Grades in worker processes that can be killed: limits of processor time, memory and the clock.

A worker is a fresh interpreter and no child of `multiprocessing`: it needs no `__main__` guard in
the caller's script, copies no locks and no CUDA context, and a daemon process may start it. It
imports nothing from its parent's folder: a `sympy.py` beside somebody's rollouts is data.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, Timer
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.grading.verdict import TIME_LIMIT, Outcome, Verdict

WALL_CLOCK, WALL_FLOOR, START_LIMIT = 10, 30.0, 120.0
"""Wall-clock seconds for each second of the time limit, those that are added, and for a start."""
BOOTSTRAP = "import sys; sys.path[:] = sys.argv[1:]; import ktae.grading.graders as g; g.serve()"


class Task(NamedTuple):
    """One response to grade."""

    response: str
    answers: str | Sequence[str]
    """One or several, of which one is enough."""


class GradingPool(contextlib.AbstractContextManager["GradingPool"]):
    """Worker processes that grade, for any number of threads.

    They start when needed, in about a second, and live until `close` or their parent's end.
    """

    def __init__(
        self, workers: int | None = None, *, time_limit: float = 5.0, grader: str = "ktae"
    ) -> None:
        """Start nothing yet.

        Args:
            workers: processes at most; by default one for each processor of this process.
            time_limit: processor seconds for one response.
            grader: a name in `ktae.grading.graders.GRADERS`.
        """
        from ktae.grading.graders import GRADERS

        self.size = len(os.sched_getaffinity(0)) if workers is None else workers
        if self.size < 1 or not 0 < time_limit < 1e6 or grader not in GRADERS:
            raise InputError(
                f"workers, time_limit, grader are {workers}, {time_limit}, {grader!r}; expected at "
                f"least 1, seconds above 0, and one of {', '.join(GRADERS)}"
            )
        needed = "math_verify" if grader == "math-verify" else "latex2sympy2_extended"
        if importlib.util.find_spec(needed) is None:
            raise InputError(f"{needed} is not installed; pip install 'ktae[report]'")
        self.time_limit, self.grader = time_limit, grader
        self.wall_limit = time_limit * WALL_CLOCK + WALL_FLOOR
        self._forget()

    def grade(self, response: str, answer: str | Sequence[str]) -> Verdict:
        """Grade one response as `ktae.grading.grade` does; waits for a free worker first."""
        answers = list(answer) if isinstance(answer, list | tuple) else [answer]
        if not answers or not all(isinstance(text, str) for text in (response, *answers)):
            raise InputError(
                f"response, answer are {response!r:.99}, {answer!r:.99}; expected text, texts"
            )
        request = [self.grader, response, answers, self.time_limit]
        if self._process != os.getpid():
            self._forget()  # the workers are the parent's
        idle = self._idle
        worker, kept = idle.get(), None
        try:
            while True:
                is_fresh = worker is None  # others may have used up its memory on their tasks
                worker = worker or _Worker()
                if reply := worker.ask(request, self.wall_limit):
                    kept = worker
                    return Verdict(Outcome(reply[0]), *reply[1:])
                status, _ = worker.end()
                worker = None
                rule = TIME_LIMIT if status == -signal.SIGPROF else ""
                if rule or is_fresh:
                    reason = rule or f"out of memory, or wall-clock limit: exit status {status}"
                    return Verdict(Outcome.UNDECIDED, None, reason, rule)
        finally:
            if worker and not kept:  # an interrupted conversation cannot be resumed
                worker.end()
            idle.put(kept)

    def grade_all(self, tasks: Iterable[Task]) -> Iterator[Verdict]:
        """Grade many responses on all workers; verdicts come in the order of the tasks."""
        with ThreadPoolExecutor(self.size, thread_name_prefix="ktae-grading") as threads:
            try:
                yield from threads.map(lambda task: self.grade(*task), tasks)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def close(self) -> None:
        """End all workers; if used again, the pool starts new ones."""
        if self._process == os.getpid():
            for worker in filter(None, list(self._idle.queue)):
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
    """A process that is asked over its standard streams."""

    def __init__(self) -> None:
        # The parent's path, without the current folder and that of its script; with ktae's own.
        script = getattr(sys.modules.get("__main__"), "__file__", None) or "/"
        data_folders = {os.path.dirname(os.path.realpath(script))}
        with contextlib.suppress(FileNotFoundError):  # somebody has removed the current folder
            data_folders.add(os.getcwd())
        paths = [path for path in sys.path if os.path.isabs(path)]
        paths = [path for path in paths if os.path.realpath(path) not in data_folders]
        paths.append(str(Path(__file__).resolve().parents[2]))
        command = [sys.executable, "-P", "-c", BOOTSTRAP, *paths]
        environment = os.environ | {"PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        environment.pop("PYTHONPATH", None)  # what is needed of it is in the arguments
        settings: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        settings |= {"cwd": "/", "env": environment, "process_group": 0}
        self.process: Any = subprocess.Popen(command, **settings)
        warm_up = ["ktae", r"\boxed{\frac{1}{2} x}", ["x / 2"], START_LIMIT]  # compiles much
        if not self.ask(warm_up, START_LIMIT):
            status, errors = self.end()
            raise RuntimeError(f"a grading worker did not start (exit {status}): {errors}")

    def ask(self, request: list[Any], seconds: float) -> Any:
        """The reply; None if the worker ended instead, or was killed after so long on the clock."""
        limit, line = Timer(seconds, self.process.kill), b""
        limit.daemon = True
        limit.start()
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:  # it has ended, as the empty line says
            pass
        finally:
            limit.cancel()
        return json.loads(line) if line.endswith(b"\n") else None  # else it died while it wrote

    def end(self) -> tuple[int, str]:
        """Kill it where it lives, and return its exit status and what it wrote as errors."""
        self.process.kill()
        _, errors = self.process.communicate()
        return self.process.returncode, errors.decode(errors="replace").strip()[-2000:]


_lock, _default = Lock(), list[GradingPool]()


def default_pool() -> GradingPool:
    """The pool that `grade` and `accuracy` share, ended with this process."""
    with _lock:
        if not _default:
            _default.append(GradingPool())
            atexit.register(_default[0].close)
    return _default[0]


def grade(response: str, answer: str | Sequence[str]) -> Verdict:
    r"""Is the response right? `grade(r"... \boxed{\frac12}", "0.5").outcome == "correct"`.

    One of several answers is enough. For many responses use `default_pool().grade_all`. Raises
    InputError where an argument is no text, or the parser is not installed.
    """
    return default_pool().grade(response, answer)
