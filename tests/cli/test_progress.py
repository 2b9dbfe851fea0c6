"""Progress: lines where the output is no terminal, and a bar that knows its end where it is."""

import io

from rich.console import Console
from saved_outputs import write_lines

from ktae.cli import progress
from ktae.cli.progress import Bars, working
from ktae.files.inputs import read_input


def test_lines():
    out = io.StringIO()
    with Bars(Console(file=out), lines=2) as bars:
        for done in range(1, 9):
            bars.show("training", done, 8, "reward 0.5")
    assert out.getvalue().splitlines() == [
        "training 1/8  reward 0.5",
        "training 4/8  reward 0.5",
        "training 8/8  reward 0.5",
    ]


def test_reading_is_shown_in_percent_of_the_bytes(tmp_path, monkeypatch):
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    files = [write_lines(tmp_path / f"{i}.jsonl", [{"row": i}] * 10) for i in range(4)]
    read_input(files[0])  # what was read before does not count
    with working("reading", [tmp_path]) as tell:
        for file in files[:3]:
            read_input(file)
        tell.__self__.refresh()
    assert "75/100" in out.getvalue()
