"""`ktae report --watch`: the page is written anew when the files of a run have changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ktae.errors import InputError
from ktae.report.inputs import Dump
from ktae.rollouts.folders import choose_files
from ktae.runs import RunFolder

LOOK_SECONDS = 5.0
"""Between two looks at the files."""

Look = dict[Path, tuple[int, int]]
"""Each file's size in bytes, and when it was changed, in nanoseconds."""


def watch(paths: Sequence[Path], write: Callable[[], Dump]) -> Iterator[Dump | InputError]:
    """Write the page whenever the files have changed, and never end.

    A file may be half written when it is seen. So two looks in turn must find the same before the
    page is written, and a file that goes on growing is read again.

    Args:
        paths: files and folders, which need not be there yet.
        write: reads them and writes the page.

    Yields:
        What was read, or why it could not be.
    """
    # The files at the last look, and those that the page shows.
    before, written = Look(), Look()
    while True:
        # The files that hold rollouts, and a run's metrics beside them. A folder may hold nothing
        # yet, and a file may go away between two calls.
        now = Look()
        for path in paths:
            with contextlib.suppress(InputError, OSError):
                for file in [*choose_files(path)[0], *RunFolder(path).metrics_files()]:
                    stat = file.stat()
                    now[file] = stat.st_size, stat.st_mtime_ns
        # The same in two looks, so that nobody is writing it, and not what the page shows.
        if now == before != written:
            written = now
            try:
                yield write()
            except InputError as error:
                yield error
        before = now
        time.sleep(LOOK_SECONDS)
