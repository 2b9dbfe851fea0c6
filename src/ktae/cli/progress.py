"""How far a command is: bars where the output is a terminal, lines where it is not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from ktae.files.text import on_one_line


class Bars(Progress):
    """A bar with the time left for each phase of a command; all go when it is done.

    Args:
        console: where to.
        lines: how many a phase has where `console` is no terminal, after one at once; 0: none.
    """

    def __init__(self, console: Console, *, lines: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(
            TextColumn("{task.description}"),
            *columns,
            TextColumn("{task.fields[text]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
            speed_estimate_period=3600,
        )
        self.lines = lines
        self.phases: dict[str, TaskID] = {}
        self.printed: dict[str, int] = {}

    def show(self, phase: str, done: int, total: int | None, text: str = "") -> None:
        """`done` of `total` (None: not known) of the phase, and a text behind it."""
        phase, text = on_one_line(phase), on_one_line(text)
        if phase not in self.phases:
            self.phases[phase] = self.add_task(phase, total=None, text="")
        self.update(self.phases[phase], completed=done, total=total, text=text)
        if not self.disable or not self.lines or total is None:
            return
        part = self.lines * done // max(1, total)
        if part <= self.printed.get(phase, -1):
            return
        self.printed[phase] = part
        left = self.tasks[self.phases[phase]].time_remaining or 0
        time_left = f", {left / 60:.0f} min left" if left >= 60 else ""
        line = f"{phase} {done}/{total}{time_left}  {text}"
        self.console.print(line.rstrip(), highlight=False, soft_wrap=True)


@contextlib.contextmanager
def working(phase: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """On a terminal: what a command does, and the time left where that is known.

    Yields a function of the phase, how much of it is done, and of how much (None: not known).
    """
    with Bars(Console(stderr=True), lines=0) as bars:
        bars.show(phase, 0, None)
        yield bars.show
