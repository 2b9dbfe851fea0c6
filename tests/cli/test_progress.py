"""Progress where the output is no terminal: lines, with the minutes that are left."""

import io
from types import SimpleNamespace

from rich.console import Console

from ktae.cli import progress


def test_lines_and_the_time_left(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    out = io.StringIO()
    with progress.Bars(Console(file=out), lines=20) as bars:
        for done in (1, 2, 3, 4):
            bars.show("training", done, 4, "reward 0.5")
            clock[0] += 60
    assert out.getvalue().splitlines() == [
        "training 1/4  reward 0.5",
        "training 2/4, 2 min left  reward 0.5",
        "training 3/4, 1 min left  reward 0.5",
        "training 4/4  reward 0.5",
    ]
