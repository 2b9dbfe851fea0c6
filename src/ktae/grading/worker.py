"""The worker process of `ktae.grading.pool`: one line of JSON in, one verdict out.

Before the verdict comes a line with the answer that was found, if one was: where the comparison
runs out of time, the parent knows it and need not look for it again.

It limits itself, so that no orphan lives on: each task starts a timer on the processor time it
uses, and one on the wall clock for whatever uses none; either ends the process by a signal. (One
that is stopped gets no signal: there the parent's clock ends it.) Memory is limited as an address
space.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

MEMORY = 4 << 30
"""Bytes of address space."""
WALL_CLOCK = 10
"""Wall-clock seconds for each second of the time limit: a busy machine must change no verdict."""


def main() -> None:
    """Serve until the parent closes the pipe."""
    # The pipes to the parent are out of reach for libraries that read stdin or print.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    # The parent may have ignored or blocked the timers' signals; Ctrl-C is left to the parent.
    timers = (signal.SIGPROF, signal.SIGALRM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, timers)
    for timer in timers:
        signal.signal(timer, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    from ktae.grading.graders import grade_in_steps
    from ktae.grading.verify import verify

    def tell(text: str) -> None:
        _reply(replies, {"extracted": text})

    # What the first task would otherwise pay for is imported and compiled here.
    sys.setrecursionlimit(10_000)
    verify(r"\boxed{\frac{1}{2} x}", [r"x / 2"])
    os.dup2(nothing, 2)  # the parent reads of a failing start alone
    _reply(replies, {"ready": True})
    for line in requests:
        task = json.loads(line)
        _start_clock(task["time_limit"])
        try:
            verdict = grade_in_steps(task["grader"], task["response"], task["answers"], tell)
            reply: dict[str, Any] = {"verdict": list(verdict)}
        except MemoryError:
            reply = {"memory": True}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"[:200]}
        # No clock while it waits for the next task.
        _start_clock(0)
        _reply(replies, reply)


def _start_clock(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * WALL_CLOCK)


def _reply(replies: Any, content: dict[str, Any]) -> None:
    replies.write(json.dumps(content).encode() + b"\n")
    replies.flush()
