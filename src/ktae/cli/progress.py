"""How far a command is: bars where the output is a terminal, lines where it is not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextlib.contextmanager
def working(first: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """One line on stderr: what a command does, and the time left where that is known.

    Yields a function of the phase, how much of it is done, and of how much (None: not known).
    """
    from rich.progress import SpinnerColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24))
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bars:
        task = bars.add_task(first, total=None)

        def tell(phase: str, done: int, total: int | None) -> None:
            if done == 0:
                bars.reset(task, total=total, description=phase)
                bars.update(task, total=total)
            bars.update(task, completed=done)

        yield tell


class Bars:
    """A bar with the time left for each phase of a command.

    Args:
        console: where to.
        lines: how many a phase has where `console` is no terminal, after one at once; 0: none.
        transient: the bars go when the command is done.
    """

    def __init__(self, console: Console, *, lines: int, transient: bool = False) -> None:
        self.console = console
        self.lines = lines
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
            disable=not console.is_terminal,
            transient=transient,
        )
        self.tasks: dict[str, Any] = {}
        self.printed: dict[str, int] = {}
        self.began: dict[str, tuple[float, int]] = {}

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, phase: str, done: int, total: int, text: str = "") -> None:
        """`done` of `total` of the phase, and a text behind it."""
        self.bars.start()  # not before: loading a model has displays of its own
        if phase not in self.tasks:
            self.tasks[phase] = self.bars.add_task(phase, text="")
            self.began[phase] = time.monotonic(), done
        self.bars.update(self.tasks[phase], completed=done, total=total, text=text)
        part = self.lines * done // max(1, total)
        if self.console.is_terminal or not self.lines or part <= self.printed.get(phase, -1):
            return
        self.printed[phase] = part
        began, first = self.began[phase]
        left = ""
        if done > first:  # at the pace since the phase was first shown
            minutes = (time.monotonic() - began) / (done - first) * (total - done) / 60
            left = f", {minutes:.0f} min left" if minutes >= 1 else ""
        line = f"{phase} {done}/{total}{left}  {text}"
        self.console.print(line.rstrip(), highlight=False, soft_wrap=True)
