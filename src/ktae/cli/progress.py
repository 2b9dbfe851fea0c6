"""How far a command is: bars on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TaskID, TextColumn

from ktae.files.inputs import Opened
from ktae.files.text import on_one_line

SECONDS = 10.0  # between two lines where the output is no terminal


class Bars(Progress):
    """A bar with the time left for each phase of a command; all go when it is done."""

    def __init__(self, console: Console) -> None:
        columns = (*Progress.get_default_columns(), TextColumn("{task.fields[text]}"))
        super().__init__(*columns, console=console, disable=not console.is_terminal, transient=True)
        self.phases: dict[str, TaskID] = {}
        self.printed = time.monotonic()

    def show(self, phase: str, done: int, total: int | None, text: str = "") -> None:
        """`done` of `total` (None: not known) of the phase, and a text behind it."""
        phase, text = on_one_line(phase), on_one_line(text)
        if phase not in self.phases:
            self.phases[phase] = self.add_task(phase, total=None, text="")
        self.update(self.phases[phase], completed=done, total=total, text=text)
        if self.disable and total and time.monotonic() >= self.printed + SECONDS:
            self.printed = time.monotonic()
            self.console.print(f"{phase} {done}/{total}  {text}".rstrip(), soft_wrap=True)

    def stepwise(self, phase: str, total: int) -> Callable[..., None]:
        """A function that moves the phase on by one of `total` steps; it takes what is done now."""
        steps = itertools.count(1)
        return lambda *what: self.show(phase, next(steps), total, ", ".join(what))


@contextlib.contextmanager
def working(phase: str, paths: Sequence[Path] = ()) -> Iterator[Callable[..., None]]:
    """Show on stderr what a command does: yields `Bars.show`.

    The first phase reads the files in `paths`, if any: its bar counts their bytes.
    """
    with Bars(Console(stderr=True)) as bars:
        bars.show(phase, 0, None)
        if paths and not bars.disable:
            from ktae.rollouts.files import choose_files

            files = [file for path in paths if path.exists() for file in choose_files(path)[0]]
            task = bars.phases[phase]
            bars.update(task, total=sum(file.stat().st_size for file in files))
            Opened.tell = lambda n: bars.advance(task, n)
        try:
            yield bars.show
        finally:
            Opened.tell = None
