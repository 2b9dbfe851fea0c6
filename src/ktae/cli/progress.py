"""How far a command is: bars where the output is a terminal, lines where it is not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ktae.files.inputs import Opened
from ktae.files.text import on_one_line


class Bars(Progress):
    """A bar with the time left for each phase of a command; all go when it is done.

    Args:
        console: where to.
        lines: how many a phase has where `console` is no terminal, after one at once; 0: none.
    """

    def __init__(self, console: Console, *, lines: int) -> None:
        texts = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
        columns = (texts[0], BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), texts[1])
        hidden = not console.is_terminal
        super().__init__(
            *columns, console=console, disable=hidden, transient=True, speed_estimate_period=3600
        )
        self.lines = lines
        self.phases: dict[str, Any] = {}
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


class ReadingBars(Bars):
    """Bars of which the first follows the bytes that are read, where their number is known."""

    phase, begin, size = "", 0, 0

    def get_renderables(self) -> Any:
        """Called by rich ten times a second."""
        percent = 100 * (Opened.bytes_read - self.begin) // max(1, self.size)
        if self.size and percent < 100:
            self.show(self.phase, percent, 100, "%")
        elif self.size:  # groups and words are made when all is read
            self.show(self.phase, 0, None)
        return super().get_renderables()


@contextlib.contextmanager
def working(phase: str, paths: Sequence[Path] = ()) -> Iterator[Callable[..., None]]:
    """On a terminal: what a command does, and the time left where that is known.

    Yields a function of the phase, how much of it is done, and of how much (None: not known). With
    `paths` the first phase reads these files and folders, and its bar says how much is read.
    """
    with ReadingBars(Console(stderr=True), lines=0) as bars:
        bars.show(phase, 0, None)
        if paths and not bars.disable:
            from ktae.rollouts.folders import choose_files

            files = [file for path in paths if path.exists() for file in choose_files(path)[0]]
            bars.phase, bars.begin = phase, Opened.bytes_read
            bars.size = sum(file.stat().st_size for file in files)
        yield bars.show


@contextlib.contextmanager
def stepping(console: Console, phase: str, total: int, lines: int) -> Iterator[Callable[..., None]]:
    """A bar of `total` steps: yields a function of what is done next, which moves it by one."""
    with Bars(console, lines=lines) as bars:
        steps = iter(range(1, total + 1))
        yield lambda *what: bars.show(phase, next(steps), total, ", ".join(what))
