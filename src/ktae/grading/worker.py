"""The worker process of `ktae.grading.pool`: one line of JSON in, one verdict out.

It limits itself, so that no orphan lives on: each task starts a timer on the processor time it
uses, and one on the wall clock for whatever uses none; either ends the process by a signal. (One
that is stopped gets no signal: there the parent's clock ends it.) Memory is limited as an address
space; a process that has used it up ends as well.
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
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
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

    from ktae.grading.graders import GRADERS

    # What the first task would otherwise pay for is imported and compiled here.
    sys.setrecursionlimit(10_000)
    GRADERS["ktae"](r"\boxed{\frac{1}{2} x}", [r"x / 2"])
    os.dup2(nothing, 2)  # the parent reads of a failing start alone
    replies.write(b'"ready"\n')
    for line in requests:
        grader, response, answers, seconds = json.loads(line)
        _start_clocks(seconds)
        try:
            verdict: tuple[Any, ...] = GRADERS[grader](response, answers)
        except MemoryError:
            os._exit(1)
        except Exception as error:
            reason = f"internal error: {type(error).__name__}: {error}"
            verdict = ("undecided", None, reason[:200])
        _start_clocks(0)  # none while it waits for the next task
        replies.write(json.dumps(verdict).encode() + b"\n")


def _start_clocks(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * WALL_CLOCK)
