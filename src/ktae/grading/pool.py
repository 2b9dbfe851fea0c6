"""A pool of grading processes that can be killed.

A worker is a fresh interpreter, and no child of `multiprocessing`: it needs no `if __name__ ==
"__main__"` in the caller's script, copies no locks and no CUDA context, and a daemon process (a
data loader, a Ray actor) may start it. It imports nothing from the folder in which its parent
works: a `sympy.py` beside somebody's rollouts is as good as a program.

It grades one response at a time, with a limit of processor time, so that neither another response
nor a busy machine changes a verdict. A second clock, on the wall and generous, is for a worker that
is stopped or blocked. What runs out of time or memory is `undecided`; its process is replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

from ktae.errors import InputError
from ktae.grading.verdict import Outcome, Verdict

MEMORY = 4 << 30
"""Bytes of a worker's address space."""
WALL_CLOCK, WALL_FLOOR = 10, 30.0
"""Wall-clock seconds for each second of the time limit, and those that are added: a busy machine
must change no verdict."""
STARTS, START_LIMIT = 3, 120.0
"""Times that a worker is started before its failure is an error; wall-clock seconds for each."""
BOOTSTRAP = "import sys; sys.path[:] = sys.argv[1:]; import ktae.grading.pool as p; p.serve()"
"""The worker's program: its arguments are the path that it may import from."""
WARM_UP = ["ktae", r"\boxed{\frac{1}{2} x}", [r"x / 2"], START_LIMIT]
"""The first request: it says that the worker works, and compiles what the first task would."""


class Task(NamedTuple):
    """One response to grade."""

    response: str
    answers: str | Sequence[str]
    """The accepted answer, or several of which one is enough."""


class GradingPool(contextlib.AbstractContextManager["GradingPool"]):
    """Worker processes that grade; usable from any number of threads, and as a context manager.

    Workers are started as they are needed (about a second each) and live until `close`, or until
    the parent does no longer.
    """

    def __init__(
        self, workers: int | None = None, *, time_limit: float = 5.0, grader: str = "ktae"
    ) -> None:
        """Nothing is started yet.

        Args:
            workers: processes at most; by default the number of processors that this one may use.
            time_limit: processor seconds for one response, above 0.
            grader: a name in `ktae.grading.graders.GRADERS`.

        Raises:
            InputError: a setting is out of range, or math-verify is not installed.
        """
        from ktae.grading.graders import GRADERS

        if workers is not None and workers < 1:
            raise InputError(f"workers is {workers}; expected at least 1")
        if not 0 < time_limit < 1e6:
            raise InputError(f"time_limit is {time_limit}; expected seconds, above 0")
        if grader not in GRADERS:
            raise InputError(f"no grader {grader!r}; expected one of {', '.join(GRADERS)}")
        if importlib.util.find_spec("math_verify") is None:
            raise InputError(
                "grading needs math_verify, which is not installed; pip install 'ktae[eval]'"
            )
        self.size = workers or len(os.sched_getaffinity(0))
        self.time_limit, self.grader = time_limit, grader
        self.wall_limit = time_limit * WALL_CLOCK + WALL_FLOOR
        self._reset()

    def grade(self, response: str, answer: str | Sequence[str]) -> Verdict:
        """Grade one response; waits for a free worker first.

        Args:
            response: whatever a model wrote.
            answer: the accepted answer, or several of which one is enough.
        """
        request = [self.grader, *_checked(response, answer), self.time_limit]
        if self._process != os.getpid():  # we are a fork; the workers are our parent's
            self._reset()
        idle, worker = self._idle, self._idle.get()
        try:
            while True:
                # One that has graded before may have used up its memory on others: then a new one.
                is_fresh = worker is None
                worker = worker or _started()
                if reply := worker.ask(request, self.wall_limit):
                    outcome, extracted, reason = reply
                    return Verdict(Outcome(outcome), extracted, reason)
                status, worker = worker.end(), None
                if reply is None:
                    reason = f"no answer within {self.wall_limit:g} s on the wall clock"
                elif status == -signal.SIGPROF:
                    reason = f"time limit of {self.time_limit:g} s"
                elif is_fresh:
                    reason = f"out of memory, or the worker died: exit status {status}"
                else:
                    continue
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
        for worker in list(self._idle.queue) if self._process == os.getpid() else []:
            if worker is not None:
                worker.end()
        self._reset()

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(self.size):
            self._idle.put(None)  # one that is not started


class _Worker:
    """A process, and the socket over which it is asked: its standard input."""

    def __init__(self, errors: IO[bytes]) -> None:
        environment = os.environ | {
            "PYTHONHASHSEED": "0",  # the order of a set must not change a verdict
            "CUDA_VISIBLE_DEVICES": "",
        }
        environment.pop("PYTHONPATH", None)  # all of it that is needed is in the arguments
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", BOOTSTRAP, *_import_path()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
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

    def end(self) -> int:
        """Kill it where it lives, and return its exit status."""
        self.process.kill()
        self.replies.close()
        self.socket.close()
        return self.process.wait()


def _started() -> _Worker:
    """A worker that has imported what it needs; where it ends at once, it is started again."""
    for _ in range(STARTS):
        with tempfile.TemporaryFile() as errors:
            worker = _Worker(errors)
            if worker.ask(WARM_UP, START_LIMIT):
                return worker
            status = worker.end()
            errors.seek(0)
            stderr = errors.read().decode(errors="replace").strip()[-2000:]
    raise RuntimeError(
        f"a grading worker did not start, {STARTS} times (exit status {status}): {stderr}"
    )


def _import_path() -> list[str]:
    """The parent's path without the current folder and that of its script; with ktae's own."""
    where_data_may_lie = set()
    with contextlib.suppress(FileNotFoundError):  # somebody has removed the current folder
        where_data_may_lie.add(os.getcwd())
    if script := getattr(sys.modules.get("__main__"), "__file__", None):
        where_data_may_lie.add(os.path.dirname(os.path.realpath(script)))
    ours = str(Path(__file__).resolve().parents[2])
    real = {path: os.path.realpath(path) for path in sys.path if os.path.isabs(path)}
    paths = [path for path in real if real[path] not in where_data_may_lie]
    return paths if ours in map(real.get, paths) else [*paths, ours]


def serve() -> None:
    """A worker: one line of JSON in, one verdict out, until the parent closes the socket.

    It limits itself. The timer of processor time ends it by a signal. Memory is limited as an
    address space, and one that has used it up ends as well.
    """
    # The socket is out of reach for libraries that read stdin.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(0), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    # The parent may have ignored or blocked the timer's signal.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    from ktae.grading.expressions import parsed
    from ktae.grading.graders import GRADERS

    sys.setrecursionlimit(10_000)
    parsed("x / 2")  # imports for a second, which is no part of any task's time
    os.dup2(nothing, 2)  # the parent reads of a failing start alone
    for line in requests:
        grader, response, answers, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            verdict: tuple[Any, ...] = GRADERS[grader](response, answers)
        except MemoryError:
            os._exit(1)
        except Exception as error:
            reason = f"internal error: {type(error).__name__}: {error}"
            verdict = ("undecided", None, reason[:200])
        signal.setitimer(signal.ITIMER_PROF, 0)  # none while it waits for the next task
        replies.write(json.dumps(verdict).encode() + b"\n")


def _checked(response: str, answer: str | Sequence[str]) -> Task:
    answers = [answer] if isinstance(answer, str) else answer
    are_texts = isinstance(answers, Sequence) and all(isinstance(text, str) for text in answers)
    if not isinstance(response, str) or not are_texts or not answers:
        raise InputError(
            f"response is {response!r:.100}, answer is {answer!r:.100}; expected text, and text or "
            "texts of which one is enough"
        )
    return Task(response, list(answers))


@functools.cache
def default_pool() -> GradingPool:
    """The pool that `grade` and `accuracy` share in this process; ended with it."""
    pool = GradingPool()
    atexit.register(pool.close)
    return pool


def grade(response: str, answer: str | Sequence[str]) -> Verdict:
    r"""Is the response right? `grade(r"... \boxed{\frac12}", "0.5").outcome == "correct"`.

    Runs in a worker process under a time limit, so it is safe in any thread, under Ray and in a
    trainer. For many responses at once use `default_pool().grade_all`.

    Args:
        response: whatever a model wrote.
        answer: the accepted answer, or several of which one is enough.

    Raises:
        InputError: an argument is no text, there is no answer, or math-verify is not installed.
    """
    return default_pool().grade(response, answer)
