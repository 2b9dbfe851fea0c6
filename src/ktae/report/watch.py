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


def look_at(paths: Sequence[Path]) -> Look:
    """The files that hold rollouts, and a run's metrics beside them; none where nothing is yet."""
    now = Look()
    for path in paths:
        # A folder may hold nothing yet, and a file may go away between two calls.
        with contextlib.suppress(InputError, OSError):
            for file in [*choose_files(path)[0], *RunFolder(path).metrics_files()]:
                stat = file.stat()
                now[file] = stat.st_size, stat.st_mtime_ns
    return now


def watch(paths: Sequence[Path], write: Callable[[], Dump]) -> Iterator[Dump | InputError]:
    """Write the page whenever the files have changed, and never end.

    A file may be half written when it is seen. So after a change the page waits until two looks in
    turn find the same, but not longer than one look more: a run may write all the time.

    Args:
        paths: files and folders, which need not be there yet.
        write: reads them and writes the page.

    Yields:
        What was read, or why it could not be; at first that there is nothing to read yet.
    """
    if not look_at(paths):
        yield InputError(f"nothing to read yet at {', '.join(map(str, paths))}")
    # The files at the last look, those that the page shows, and whether a change has been waited
    # for already.
    before, written, waited = Look(), Look(), False
    while True:
        now = look_at(paths)
        if now == written:
            waited = False
        elif now == before or waited:
            written, waited = now, False
            try:
                yield write()
            except InputError as error:
                yield error
        else:
            waited = True
        before = now
        time.sleep(LOOK_SECONDS)
